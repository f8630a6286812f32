"""Break the model on purpose, one small change at a time, and check whether a test fails.

    python scripts/mutate.py --list                                  the modules, how many mutants each has, their tests
    python scripts/mutate.py --module swmodel/fields/field.py           every mutant of a module
    python scripts/mutate.py --sample 20 --seed 1 --timeout 120      20 mutants drawn from each module

Each mutant is one changed place of one module: a sign, a constant, a comparison, a product made a quotient, x exchanged
with y, u with v, a summand dropped, an index off by one, and the like. It is written into a copy of the project in a
temporary folder, never into the checkout, and pytest runs there on the tests that TESTS maps the module to, quickest
first, until one fails. Where none does the mutant survives, and is printed with its line.
docs/developers/mutation_testing.md says of every survivor so far which test kills it now, or why none can.

The exit status is 0 where the tests pass on the unchanged copy, whatever survives.
"""

import argparse
import ast
import dataclasses
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_VERIFICATION = "tests/verification/test_"
SHORT = tuple(
    f"{_VERIFICATION}{name}.py" for name in ("wall_stress", "dissipation", "conservation", "walls", "convergence")
)
STEPPERS = (
    "tests/unit/test_stage_times.py",
    "tests/unit/test_time_steppers.py",
    "tests/unit/test_stability.py",
    f"{_VERIFICATION}open_sides.py",
)
# The tests that should kill every mutant of a module, the fastest first.
TESTS = {
    "swmodel/fields/linear.py": ("tests/unit/test_linear.py",),
    "swmodel/fields/field.py": (
        "tests/unit/test_fields.py",
        "tests/unit/test_operators.py",
        "tests/unit/test_netcdf.py",
    ),
    "swmodel/grids/geometry.py": (
        "tests/unit/test_poles.py",
        *SHORT,
        f"{_VERIFICATION}sphere.py",
        f"{_VERIFICATION}open_sides.py",
        "tests/parallel/test_engines.py",
    ),
    "swmodel/dynamics/boundaries.py": (
        "tests/unit/test_terms.py",
        "tests/unit/test_records.py",
        f"{_VERIFICATION}open_sides.py",
        "tests/unit/test_inflow.py",
        "tests/parallel/test_engines.py",
    ),
    "swmodel/dynamics/dissipation.py": (*SHORT, "tests/unit/test_stability.py"),
    "swmodel/dynamics/forcing.py": ("tests/unit/test_waters.py", "tests/unit/test_exchanges.py"),
    "swmodel/dynamics/layer.py": (
        f"{_VERIFICATION}conservation.py",
        *SHORT,
        f"{_VERIFICATION}dispersion.py",
        f"{_VERIFICATION}convergence.py",
    ),
    "swmodel/dynamics/system.py": (
        "tests/unit/test_terms.py",
        "tests/unit/test_records.py",
        "tests/unit/test_poles.py",
        "tests/unit/test_time_steppers.py",
        *SHORT,
    ),
    "swmodel/dynamics/conserving.py": (f"{_VERIFICATION}one_stage.py", f"{_VERIFICATION}coast.py"),
    "swmodel/dynamics/tracers.py": (
        "tests/unit/test_tracers.py",
        f"{_VERIFICATION}tracers.py",
        "tests/adjoint/test_tracers.py",
    ),
    "swmodel/dynamics/limiters.py": ("tests/unit/test_tracers.py", f"{_VERIFICATION}tracers.py"),
    "swmodel/dynamics/half_step.py": (f"{_VERIFICATION}one_stage.py", f"{_VERIFICATION}coast.py"),
    "swmodel/dynamics/terms.py": ("tests/unit/test_terms.py", "tests/unit/test_records.py"),
    "swmodel/forcing/atmosphere.py": ("tests/unit/test_terms.py", "tests/unit/test_barometer.py", *SHORT),
    "swmodel/stepping/explicit.py": STEPPERS,
    "swmodel/stepping/forward_backward.py": STEPPERS,
    "swmodel/stepping/semi_implicit.py": ("tests/unit/test_stage_times.py", "tests/unit/test_semi_implicit.py"),
    "swmodel/stepping/surface.py": ("tests/unit/test_semi_implicit.py", f"{_VERIFICATION}stratified.py"),
    "swmodel/stepping/split_explicit.py": ("tests/unit/test_transported.py", f"{_VERIFICATION}stratified.py"),
    "swmodel/nests/border.py": ("tests/unit/test_nests.py", f"{_VERIFICATION}nests.py"),
    "swmodel/nests/steps.py": ("tests/unit/test_nests.py", f"{_VERIFICATION}nests.py"),
    "swmodel/nests/edges.py": ("tests/unit/test_nests.py", f"{_VERIFICATION}nests.py"),
    "swmodel/stepping/integrating_factor.py": (
        "tests/unit/test_stage_times.py",
        "tests/unit/test_pseudo_spectral.py",
        f"{_VERIFICATION}pseudo_spectral.py",
    ),
    "swmodel/parallel/halo.py": (
        "tests/unit/test_sharded.py::test_the_halo_lies_behind_the_padding_and_its_transpose_gives_back",
        "tests/parallel/test_communicator.py",
        "tests/parallel/test_engines.py",
        "tests/unit/test_sharded.py",
    ),
    "swmodel/parallel/decomposition.py": ("tests/unit/test_decomposition.py", "tests/unit/test_sharded.py"),
    "swmodel/adjoint/controls/controls.py": (
        "tests/adjoint/test_controls.py",
        "tests/adjoint/test_problem.py",
        "tests/parallel/test_adjoint.py",
    ),
    "swmodel/adjoint/core/leaves.py": ("tests/adjoint/test_checkpointing.py",),
    "swmodel/adjoint/controls/transforms.py": ("tests/adjoint/test_transforms.py",),
    "swmodel/adjoint/costs/costs.py": ("tests/adjoint/test_costs.py",),
    "swmodel/adjoint/costs/readers.py": ("tests/adjoint/test_costs.py", "tests/adjoint/test_observations.py"),
    "swmodel/adjoint/costs/records.py": ("tests/adjoint/test_costs.py", "tests/adjoint/test_observations.py"),
    "swmodel/adjoint/costs/tile_costs.py": ("tests/adjoint/test_costs.py", "tests/adjoint/test_observations.py"),
    "swmodel/output/definitions.py": ("tests/unit/test_output_metadata.py", "tests/unit/test_netcdf.py"),
    "swmodel/output/netcdf.py": ("tests/unit/test_grid_part.py", "tests/unit/test_netcdf.py"),
    "swmodel/output/records.py": ("tests/unit/test_netcdf.py",),
    "swmodel/output/metadata.py": ("tests/unit/test_output_metadata.py", "tests/unit/test_netcdf.py"),
    "swmodel/output/restart.py": ("tests/unit/test_restart_file.py",),
    "swmodel/output/products/gauges.py": ("tests/unit/test_monitors.py",),
    "swmodel/elliptic/krylov.py": ("tests/unit/test_elliptic.py",),
    "swmodel/elliptic/multigrid.py": ("tests/unit/test_elliptic.py",),
    "swmodel/elliptic/operator.py": ("tests/unit/test_elliptic.py",),
    "swmodel/elliptic/spectral.py": ("tests/unit/test_elliptic.py",),
}
# Names that are exchanged for one another.
PAIRS = (
    ("ddx", "ddy"), ("difference_x", "difference_y"), ("mean_x", "mean_y"), ("u", "v"), ("U", "V"), ("dx", "dy"),
    ("x", "y"), ("per_dx", "per_dy"), ("wet_u", "wet_v"), ("per_h_u", "per_h_v"), ("area_u", "area_v"),
    ("along_x", "along_y"), ("to_u", "to_v"), ("west", "east"), ("south", "north"), ("WEST", "EAST"),
    ("SOUTH", "NORTH"), ("low", "high"), ("before", "after"), ("first", "last"), ("nx", "ny"), ("minimum", "maximum"),
    ("min", "max"), ("any", "all"), ("zeros", "ones"), ("zeros_like", "ones_like"), ("periodic_x", "periodic_y"),
    ("rows", "columns"), ("floor", "ceil"), ("sin", "cos"), ("xh", "yh"), ("xq", "yq"),
)  # fmt: skip
EXCHANGED = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Pow: "*", ast.Mod: "//",
             ast.BitAnd: "|", ast.BitOr: "&"}  # fmt: skip
NOT_ENTERED = ("decorator_list", "annotation", "returns", "bases", "keywords")
NOT_MUTATED = (ast.Import, ast.ImportFrom, ast.Raise, ast.Assert, ast.JoinedStr, ast.arg)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One changed place: the bytes from `start` to `end` of a module become `new`."""

    module: str
    line: int
    start: int
    end: int
    new: str
    kind: str

    def apply(self, source):
        """The whole module with this change; `source` and the result are bytes."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def diff(self, source):
        """The line before and after the change [text]."""
        begin = source.rfind(b"\n", 0, self.start) + 1
        stop = source.find(b"\n", self.end)
        old, changed = source[begin:stop], source[begin : self.start] + self.new.encode() + source[self.end : stop]
        return f"- {' '.join(old.decode().split())}\n    + {' '.join(changed.decode().split())}"


class Finder(ast.NodeVisitor):
    """Collects the Mutants of one module."""

    def __init__(self, module, source):
        self.module, self.source, self.mutants = module, source, []
        self.offsets = [0]
        for line in source.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line))
        self.visit(ast.parse(source))

    def _span(self, node):
        at = self.offsets
        return at[node.lineno - 1] + node.col_offset, at[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node):
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _add(self, node, new, kind, span=None):
        start, end = span or self._span(node)
        self.mutants.append(Mutant(self.module, node.lineno, start, end, new, kind))

    def _operator(self, left, right, old, new, node, kind):
        """Replace the operator between two operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        place = self.source.find(old.encode(), start, end)
        if place >= 0:
            self._add(node, new, kind, (place, place + len(old)))

    def visit(self, node):
        if isinstance(node, NOT_MUTATED) or _is_text_alone(node) or _is_list_of_names(node):
            return
        getattr(self, f"of_{type(node).__name__.lower()}", lambda node: None)(node)
        for name, value in ast.iter_fields(node):
            if name in NOT_ENTERED and not isinstance(node, ast.Call):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child)

    def of_binop(self, node):
        old, new = _SYMBOLS[type(node.op)], OPERATORS.get(type(node.op))
        text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if new and not text:
            self._operator(node.left, node.right, old, new, node, "operator")
        if isinstance(node.op, (ast.Add, ast.Sub)) and not text:
            self._add(node, f"({self._text(node.left)})", "dropped")
            self._add(node, f"({'-' * isinstance(node.op, ast.Sub)}({self._text(node.right)}))", "dropped")
        if isinstance(node.op, ast.Mult):
            self._add(node, f"({self._text(node.left)})", "factor")

    def of_unaryop(self, node):
        if isinstance(node.op, (ast.USub, ast.Not, ast.Invert)) and not isinstance(node.operand, ast.Constant):
            self._add(node, f"({self._text(node.operand)})", "sign")

    def of_compare(self, node):
        kind = type(node.ops[0])
        self._operator(node.left, node.comparators[0], _SYMBOLS[kind], COMPARISONS[kind], node, "comparison")

    def of_boolop(self, node):
        new = {"and": "or", "or": "and"}[old := _SYMBOLS[type(node.op)]]
        self._operator(node.values[0], node.values[1], old, new, node, "logic")

    def of_ifexp(self, node):
        self._add(node.test, f"(not ({self._text(node.test)}))", "condition")

    def of_if(self, node):
        self._add(node.test, f"(not ({self._text(node.test)}))", "condition")

    def of_constant(self, node):
        value = node.value
        if isinstance(value, bool):
            self._add(node, str(not value), "constant")
        elif isinstance(value, int):
            self._add(node, str(value + 1), "constant")
        elif isinstance(value, float):
            self._add(node, repr(2.0 * value if value else 1.0), "constant")
        elif isinstance(value, str) and value in EXCHANGED:
            self._add(node, repr(EXCHANGED[value]), "exchange")

    def of_name(self, node):
        if node.id in EXCHANGED and isinstance(node.ctx, ast.Load):
            self._add(node, EXCHANGED[node.id], "exchange")

    def of_attribute(self, node):
        if node.attr in EXCHANGED and isinstance(node.ctx, ast.Load):
            end = self._span(node)[1]
            self._add(node, EXCHANGED[node.attr], "exchange", (end - len(node.attr.encode()), end))


_SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Pow: "**", ast.Mod: "%",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.And: "and", ast.Or: "or", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==",
    ast.NotEq: "!=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def _is_text_alone(node):
    """A docstring, or a string where a statement may stand."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_list_of_names(node):
    return isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets)


def mutants_of(module, source):
    """Every Mutant of a module, whose text is the bytes `source`, that compiles, in the order of its lines."""
    found = []
    for mutant in sorted(set(Finder(module, source).mutants), key=lambda m: (m.start, m.end, m.new)):
        try:
            with warnings.catch_warnings(action="ignore"):
                compile(mutant.apply(source), module, "exec")
        except SyntaxError:
            continue
        found.append(mutant)
    return found


def pytest(folder, tests, timeout):
    """(the exit status of pytest in a copy of the project, None if its time was over; its last lines; seconds)."""
    begin = time.monotonic()
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", *tests]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return None, "it ran out of time", time.monotonic() - begin
    return process.returncode, output[-2000:], time.monotonic() - begin


def killer(output):
    """The test that failed, of pytest's summary."""
    failed = [line.split()[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else "an error at the start"


def left_out(folder, names):
    """Files and folders that a copy of the project leaves out."""
    top = {".git", ".venv", "venv", "output", "build", "dist"} if Path(folder) == ROOT else set()
    return {name for name in names if name in top or name == "__pycache__" or name.endswith("_cache")}


def run(modules, arguments):
    """Test mutants of these modules; returns (killed, [(mutant, diff) of the survivors])."""
    killed, survivors, passing = 0, [], set()
    with tempfile.TemporaryDirectory(prefix="swmodel-mutants-") as name:
        folder = Path(name) / "project"
        shutil.copytree(ROOT, folder, ignore=left_out)
        for module in modules:
            tests, source = TESTS[module], (folder / module).read_bytes()
            found = chosen(module, source, arguments)
            if found and tests not in passing:
                status, output, seconds = pytest(folder, tests, 10 * arguments.timeout)
                if status != 0:
                    sys.exit(f"mutate: {', '.join(tests)} do not pass as they are:\n{output}")
                passing.add(tests)
                print(f"{module}: {len(found)} mutants; its tests take {seconds:.0f} s", flush=True)
            for mutant in found:
                (folder / module).write_bytes(mutant.apply(source))
                status, output, seconds = pytest(folder, tests, arguments.timeout)
                (folder / module).write_bytes(source)
                by = "time" if status is None else killer(output)
                word = "survived" if status == 0 else f"killed by {by}"
                print(f"{module}:{mutant.line} {mutant.kind} {word} ({seconds:.0f} s)", flush=True)
                print(f"    {mutant.diff(source)}", flush=True)
                killed += status != 0
                survivors += [(mutant, mutant.diff(source))] if status == 0 else []
    return killed, survivors


def chosen(module, source, arguments):
    """The mutants of a module to be tested: all, those of `--lines`, or a sample."""
    found = mutants_of(module, source)
    if arguments.lines:
        low, high = (int(x) for x in arguments.lines.split("-"))
        found = [m for m in found if low <= m.line <= high]
    if arguments.sample is None or arguments.sample >= len(found):
        return found
    picked = random.Random(f"{arguments.seed} {module}").sample(range(len(found)), arguments.sample)
    return [found[k] for k in sorted(picked)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--list", action="store_true", help="print the modules, their mutants and tests")
    parser.add_argument("--module", action="append", help="one of those listed, or a part of its path; may be repeated")
    parser.add_argument("--sample", type=int, help="how many mutants of each module, drawn at random; all unless given")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--lines", help="mutants of these lines alone, such as 20-40")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for the tests of one mutant")
    arguments = parser.parse_args()
    modules = [m for m in TESTS if not arguments.module or any(part in m for part in arguments.module)]
    if not modules:
        sys.exit(f"mutate: no module has {' or '.join(arguments.module)} in its path; see --list")
    if arguments.list:
        for module in modules:
            count = len(mutants_of(module, (ROOT / module).read_bytes()))
            print(f"{count:5d}  {module}  {' '.join(TESTS[module])}")
        return
    killed, survivors = run(modules, arguments)
    print("\nsurvivors:" if survivors else "\nno survivors")
    for mutant, diff in survivors:
        print(f"{mutant.module}:{mutant.line} {mutant.kind}\n    {diff}")
    total = killed + len(survivors)
    print(f"mutants={total}\nmutants_killed={killed}\nmutants_survived={len(survivors)}")
    print(f"mutants_killed_share={killed / max(total, 1):.3f}")


if __name__ == "__main__":
    main()
