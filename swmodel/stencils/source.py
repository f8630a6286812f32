"""A Graph in C++: the function that executes all passes of its Schedule along one row.

    void row(const RowCall*)             computes row j of the results, and the rows ahead of it of kept values
    int64_t kept_bytes(int64_t cells)    bytes of the rolling rows that are kept

native/library.py describes RowCall. Each pass is written in two variants, of all its loops: "plain", and "edge", at the
ends of arrays, where loads beyond them give 0. The pass that stores the results has a third one, "ends", for vectors
that begin before the first cell or end after the last one. The boxes of `inside` nodes are rows of masks: a loop that
tested them at both ends of a row would start three times. Values that do not vary along the row are computed before the
loop over its cells. All passes are executed for one block of columns before the next one, so that kept rows stay in the
nearest cache.

The compiler may reorder products with factors that do not vary along the row, and contract products and sums. So the
last bits of a cell depend on its place in the row, but not on the number of threads.
"""

import functools
import math
from pathlib import Path

from .expressions import whole_vectors
from .graph import At, Constant, Graph, Node, Unsupported
from .native.library import VECTOR, header
from .schedule import is_nan_with, schedule

BLOCK = 2048  # columns: a smaller one interrupts the prefetching of rows, and starts passes more often
LARGEST_POWER = 16  # the largest integer power that is written as products

TYPES = {
    "float32": "float",
    "float64": "double",
    "uint8": "uint8_t",
    "bool": "int32_t",
    "int32": "int32_t",
    "int64": "int64_t",
}
MEMORY = TYPES | {"bool": "uint8_t"}  # types of the elements of arrays, and of numbers from outside
BITS = {"float": "int32_t", "double": "int64_t"}  # integers of the same size
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
CALLS = {"sqrt": "sqrt", "exp": "exp", "log": "log", "tanh": "tanh", "sin": "sin", "cos": "cos", "floor": "floor",
         "cbrt": "sw_cbrt", "abs": "fabs", "pow": "pow"}  # fmt: skip
FREE = ("load", "scalar", "constant", "inside", "stop_gradient", "convert_element_type")  # no arithmetic


def operations(graph: Graph) -> int:
    """Arithmetic operations for each cell, those that several cells share counted once."""
    plan = schedule(graph)
    writers = [_Writer(graph, plan, loop, "plain") for each in plan.passes for loop in each.loops]
    for writer in writers:
        _stored(graph, ((), ("float32",) * len(graph.outputs)), writer)
    return sum(writer.operations for writer in writers)


@functools.cache
def _preamble():
    return Path(__file__).with_name("native").joinpath("row.h").read_text()


@functools.lru_cache(maxsize=256)
def c_source(graph: Graph, dtypes: tuple, comments: bool = False) -> str:
    """The C++ text of a Graph.

    Args:
        graph: a Graph.
        dtypes: element types, (of sources, of results).
        comments: whether statements end with a comment: their field, or the line of Python that they come from.

    Raises:
        Unsupported: for an operation or a type that loops do not have.
    """
    plan = schedule(graph)
    memory = _Memory(graph, plan)
    passes = "".join(_pass_texts(graph, dtypes, plan, memory, k, comments) for k in range(len(plan.passes)))
    last = len(plan.passes) - 1
    rounds = "\n".join(
        f"    if (c.since >= {-p.early}) run<pass{k}, pass{k}{'_ends' if k == last else ''}, pass{k}_edge>("
        f"c, r, b > -c.lead ? b + {p.ahead} : Before(c, {p.left}), "
        f"end == c.cells ? end + {p.right} : end + {p.ahead}, end == c.cells, columns{k});"
        for k, p in enumerate(plan.passes)
    )
    columns = "".join(f"  const Range columns{k} = columns_of{k}(c);\n" for k in range(len(plan.passes)))
    return (
        f"{header()}\n{memory.constants()}\n{_preamble()}{memory.rows()}{passes}"
        f'\nextern "C" int64_t kept_bytes(int64_t cells) {{ return Width(cells) * (kKept + 8 * (1 + kMasks)); }}\n'
        '\nextern "C" void row(const RowCall* call) {\n  const RowCall& c = *call;\n  const Rows r(c);\n'
        f"  if (c.since == {-plan.early}) {{\n    memset(c.kept + r.width * kKept, 0, r.width * 8);\n"
        f"{memory.fill()}  }}\n{columns}"
        f"  for (int64_t b = -c.lead, end; b < c.cells; b = end) {{\n"
        f"    end = c.cells - b < {2 * BLOCK} ? c.cells : b + {BLOCK};\n"
        f"{rounds}\n  }}\n}}\n"
    )


class _Memory:
    """The memory of a chunk: kept rows, a row of zeros, and rows of masks.

    Nodes with the same number of kept rows share the index of their newest row, which saves pointers.

    Attributes:
        left, right: elements of a row before and after the cells.
        place: {node: (first byte of its group, bytes of the group's row, first byte in such a row)}, for one element.
        bytes: of all kept rows, for one element. bias: makes the index of a row non-negative.
        masks: (type, cells to the west and to the east that are masked) of each row of masks.
    """

    def __init__(self, graph, plan):
        self.plan = plan
        self.left = whole_vectors(max(p.left for p in plan.passes)) + VECTOR
        self.right = 2 * max(p.right for p in plan.passes) + VECTOR
        boxes = ((BITS[_type(x.dtype)], *x.parameters[:2]) for x in graph.nodes if x.name == "inside" and x.axes == 2)
        self.masks = list(dict.fromkeys(boxes))
        self.place, self.bytes, self._addresses = {}, 0, {}
        for rows in sorted({kept.rows for kept in plan.kept.values()}):
            alike = [n for n, kept in plan.kept.items() if kept.rows == rows]
            sizes = [_size(graph.nodes[n].dtype) for n in alike]
            for k, n in enumerate(alike):
                self.place[n] = self.bytes, sum(sizes), sum(sizes[:k])
            self.bytes += rows * sum(sizes)
        leads = [abs(kept.lead) + kept.rows for kept in plan.kept.values()]
        self.bias = plan.early + max(leads, default=0)

    def row(self, node, row):
        """The text of the address of a kept row's first cell."""
        rows, (first, step, within) = self.plan.kept[node].rows, self.place[node]
        index = (row + self.bias) % rows + rows * self.plan.early  # never negative with c.since
        name = f"row{rows}_{index}"
        self._addresses[name] = f"c.kept + width * ({first} + (c.since + {index}) % {rows} * {step})"
        return f"(r.{name} + r.width * {within}) + kLeft + c.lead"

    def constants(self):
        sizes = {"kLeft": self.left, "kRight": self.right, "kKept": self.bytes, "kMasks": len(self.masks)}
        return f"constexpr int64_t {', '.join(f'{name} = {size}' for name, size in sizes.items())};\n"

    def rows(self):
        """The struct of the addresses in all `row`, computed once for each call."""
        members = "".join(f"  char* const {name} = {address};\n" for name, address in self._addresses.items())
        return (
            "\n// Where groups of kept rows begin.\nstruct Rows {\n  const RowCall& c;\n"
            f"  const int64_t width = Width(c);\n{members}  explicit Rows(const RowCall& call) : c(call) {{}}\n}};\n"
        )

    def fill(self):
        """The statements that fill the rows of masks."""
        masks = enumerate(self.masks)
        return "".join(f"    Fill(Masks<{kind}>(c, {k}), c, {west}, {east});\n" for k, (kind, west, east) in masks)


def _size(dtype):
    return {"float32": 4, "float64": 8, "int32": 4, "int64": 8, "uint8": 1}[dtype]


def _pass_texts(graph, dtypes, plan, memory, number, comments):
    """One pass in C++, in its variants, and the function that gives the columns where no load leaves its array."""
    writers = {
        kind: [_Writer(graph, plan, loop, kind, memory, comments) for loop in plan.passes[number].loops]
        for kind in ("edge", "ends", "plain")[:: 1 if number == len(plan.passes) - 1 else 2]
    }
    texts = [_pass_text(graph, dtypes, f"pass{number}", *each) for each in writers.items()]
    return "".join(texts) + _columns_text(set().union(*(writer.loads for writer in writers["plain"])), number)


def _pass_text(graph, dtypes, name, kind, writers):
    """A variant of a pass: a function for each of its loops, and one that calls them all."""
    name += "" if kind == "plain" else f"_{kind}"
    head = "__attribute__((noinline, cold)) static" if kind == "edge" else "static"
    ivdep = "" if kind == "edge" else "#pragma GCC ivdep\n"
    names, bodies = [name], []
    for writer in writers:
        stored = _stored(graph, dtypes, writer)
        loop, before = "\n".join(f"    {x}" for x in (*writer.inside, *stored)), _before(graph, dtypes, writer)
        bodies.append(f"{before}\n{ivdep}  for (int64_t i = from; i < to; ++i) {{\n{loop}\n  }}\n")
    if len(writers) > 1:
        names = [*(f"{name}_loop{k}" for k in range(len(writers))), name]
        bodies.append("".join(f"  {each}(c, r, from, to);\n" for each in names[:-1]))
    arguments = "(const RowCall& c, const Rows& r, int64_t from, int64_t to)"
    return "".join(f"\n{head} void {each}{arguments} {{\n{body}}}\n" for each, body in zip(names, bodies, strict=True))


def _stored(graph, dtypes, writer):
    """The statements that store the values of a loop: rows that are kept, and results."""
    plan, lines = writer.plan, []
    for n in writer.loop.nodes:
        value = writer.value(At(n), plan.kept[n].lead, 0, anew=True)
        target = writer.row_of(n, plan.kept[n].lead)
        lines.append(f"{target}[i] = {value};{writer.comment(graph.nodes[n], 'kept: ')}")
    for k in writer.loop.results:
        kind = MEMORY[dtypes[1][k]]
        value = f"({kind}){writer.value(graph.outputs[k], 0, 0)}"
        name = graph.names[k] if k < len(graph.names) else f"result {k}"
        if writer.kind != "plain":
            value = _select("(uint32_t)i < (uint32_t)c.cells", value, f"out{k}[i]", kind)
        lines.append(f"out{k}[i] = {value};{writer.comment(name)}")
    return lines


def _before(graph, dtypes, writer):
    """The statements before the loop along a row: pointers to all rows, and values that do not vary along them."""
    pointers = [
        f"const {kind}* {_name('in', k, j)} = Has(c, {k}, {j}) ? (const {kind}*)c.in[{k}] + ({j}) * c.stride[{k}] : "
        f"(const {kind}*)Zeros(c);{writer.comment(writer.labels[k], f'row {j:+d} of ')}"
        for k, j in writer.rows
        for kind in [MEMORY[dtypes[0][k]]]
    ]
    for n, j in sorted(writer.kept_rows):
        kind, comment = _type(graph.nodes[n].dtype), writer.comment(graph.nodes[n], f"row {j:+d} of ")
        pointers.append(f"{kind}* {_name('k', n, j)} = ({kind}*){writer.memory.row(n, j)};{comment}")
    for (kind, box, row), name in writer.masks.items():
        masks = f"Masks<{kind}>(c, {writer.memory.masks.index((kind, *box[:2]))})"
        pointers.append(f"const {kind}* {name} = {_rows_of(box, row)} ? {masks} : (const {kind}*)Zeros(c);")
    pointers += [f"{MEMORY[dtypes[1][k]]}* out{k} = ({MEMORY[dtypes[1][k]]}*)c.out[{k}];" for k in writer.loop.results]
    return "\n".join(f"  {text}" for text in (*pointers, *writer.before))


def _columns_text(loads, number):
    """The function that gives the columns of a row where no load leaves its array.

    A load beyond the end of a row reads the next row of the array, which is harmless where its value is not used. Only
    the two ends of the array matter.
    """
    lines, reads = ["  Range found = {INT64_MIN, INT64_MAX};"], {}
    for k, j, i in loads:
        if i is not None:
            reads.setdefault((k, j), []).append(i)
    for (k, j), offsets in sorted(reads.items()):
        row, last = f"(c.limits[{4 * k}] - c.j - ({j}))", f"(c.limits[{4 * k + 1}] - 1 - c.j - ({j}))"
        low = f"c.limits[{4 * k + 2}] + {row} * c.stride[{k}] - ({min(offsets)})"
        high = f"c.limits[{4 * k + 3}] + {last} * c.stride[{k}] - ({max(offsets)})"
        lines.append(f"  if (Has(c, {k}, {j})) found.Meet({low}, {high});")
    body = "\n".join(lines)
    return f"\nstatic inline Range columns_of{number}(const RowCall& c) {{\n{body}\n  return found;\n}}\n"


def _select(condition, x, y, kind):
    """The text of x where the condition holds, else y."""
    return f"Select<{BITS.get(kind, kind)}, {kind}>({condition}, {x}, {y})"


def _rows_of(box, row):
    """The condition that the row is one of a box."""
    return f"c.j + ({row}) >= {box[2]} && c.j + ({row}) < c.rows - ({box[3]})"


def _name(kind, number, row):
    return f"{kind}{number}_{'m' if row < 0 else ''}{abs(row)}"


class _Writer:
    """Writes the statements of a loop of a pass in one of its variants, "plain", "ends" or "edge".

    Each value is computed once, into a variable. A condition has no variable: its text is repeated where it is used.

    Attributes:
        before, inside: statements before the loop along the row, and in it.
        loads: (source, row, column) of all loads; the column is None where a source does not vary along x.
        kept_rows: (node, row) of the kept rows that are read or written.
        masks: {(type, box, row): name} of the rows of masks that are read.
        operations: how many arithmetic operations there are for each cell.
        labels: {source: name of the field}.
    """

    def __init__(self, graph, plan, loop, kind, memory=None, comments=False):
        self.graph, self.plan, self.loop, self.kind, self.memory = graph, plan, loop, kind, memory
        self.comments, self.before, self.inside, self._values, self.operations = comments, [], [], {}, 0
        self.loads, self.kept_rows, self.masks = set(), set(), {}
        self.labels = {node.parameters[0]: node.label for node in graph.nodes if node.name == "load"}

    @property
    def rows(self):
        """(source, row) that are loaded."""
        return sorted({(k, j) for k, j, _ in self.loads})

    def comment(self, about, before=""):
        """The comment at the end of a statement: the name of a field, or the field or line of Python of a node."""
        if not self.comments:
            return ""
        about = (about.label or about.line) if isinstance(about, Node) else about
        text = f"{before}{about}".replace("\\", "/")  # a backslash would continue the comment
        return f"  // {text}" if about else ""

    def row_of(self, node, row):
        self.kept_rows.add((node, row))
        return _name("k", node, row)

    def value(self, ref, row, column, anew=False):
        """The text of `ref` at (row, column). A value that is kept is read, or computed `anew`."""
        if isinstance(ref, Constant):
            return _literal(ref)
        node = self.graph.nodes[ref.node]
        row, column = (row + ref.row) * (node.axes >= 1), (column + ref.column) * (node.axes == 2)
        key = ref.node, row, column
        if key not in self._values:
            kept = ref.node in self.plan.kept and not anew
            text = f"{self.row_of(ref.node, row)}[i + ({column})]" if kept else self._computed(node, row, column)
            if node.dtype == "bool":
                self._values[key] = f"({text})"
            else:
                name = f"t{len(self._values)}"
                line = f"const {_type(node.dtype)} {name} = {text};{self.comment(node)}"
                (self.inside if node.axes == 2 else self.before).append(line)
                self._values[key] = name
        return self._values[key]

    def _computed(self, node, row, column):
        self.operations += node.axes == 2 and node.name not in FREE
        if node.name == "load":
            return self._load(node.parameters[0], row, column, node.axes)
        if node.name == "scalar":
            return f"*(const {MEMORY[node.dtype]}*)c.scalars[{node.parameters[0]}]"
        arguments = [self.value(a, row, column) for a in node.arguments]
        if node.name == "inside":
            return self._inside(node, arguments[0], row, column)
        return self._operation(node, arguments)

    def _load(self, source, row, column, axes):
        self.loads.add((source, row, column if axes == 2 else None))
        place = f"{_name('in', source, row)}[{f'i + ({column})' if axes == 2 else 0}]"
        if axes < 2 or self.kind != "edge":
            return place
        at = f"i + ({column})"
        return f"{at} >= c.limits[{4 * source + 2}] && {at} < c.limits[{4 * source + 3}] ? {place} : 0"

    def _inside(self, node, argument, row, column):
        """The text of a value that is 0 outside a box; a value that varies from row to row alone is tested by rows."""
        if node.axes < 2:
            return f"{_rows_of(node.parameters, row)} ? {argument} : 0"
        kind = _type(node.dtype)
        key = BITS[kind], node.parameters, row
        mask = self.masks.setdefault(key, f"m{len(self.masks)}")
        return f"Masked<{key[0]}, {kind}>({argument}, {mask}[i + ({column})])"

    def _extreme(self, op, arguments):
        """The larger or the smaller of two values; NaN where one of them is NaN.

        A comparison with NaN fails. So one comparison is enough if one value, the one taken where it fails, is NaN
        wherever the other one is.
        """
        kind, (a, b) = _type(op.dtype), arguments
        beyond = ">" if op.name == "max" else "<"
        one, other = op.arguments
        if isinstance(other, Constant) or kind not in BITS or is_nan_with(self.graph, one, other):
            one, other, a, b = other, one, b, a
        if isinstance(one, Constant) or kind not in BITS or is_nan_with(self.graph, other, one):
            return f"{a} {beyond} {b} ? {a} : {b}"
        return _select(f"({a} {beyond} {b}) | ({a} != {a})", a, b, kind)

    def _is_condition(self, argument):
        return isinstance(argument, At) and self.graph.nodes[argument.node].dtype == "bool"

    def _operation(self, op, arguments):
        if op.name in BINARY:
            return f"{arguments[0]} {BINARY[op.name]} {arguments[1]}"
        if op.name in CALLS:
            return f"{CALLS[op.name]}{'f' if op.dtype == 'float32' else ''}({', '.join(arguments)})"
        if op.name in ("max", "min"):
            return self._extreme(op, arguments)
        if op.name == "select_n" and len(arguments) == 3:
            condition, other, chosen = arguments
            pairs = (chosen, other), (other, chosen)
            if condition in (f"({a} {sign} {b})" for a, b in pairs for sign in "<>"):  # the larger or the smaller one
                return f"{condition} ? {chosen} : {other}"
            return _select(condition, chosen, other, _type(op.dtype))
        if op.name == "integer_pow" and 0 < abs(op.parameters[0]) <= LARGEST_POWER:
            product = " * ".join(arguments * abs(op.parameters[0]))
            return product if op.parameters[0] > 0 else f"1 / ({product})"
        if op.dtype == "bool" and op.name == "convert_element_type" and not self._is_condition(op.arguments[0]):
            return f"{arguments[0]} != 0"
        if op.name == "convert_element_type":
            kind, (value,) = _type(op.dtype), arguments
            return f"{value} ? ({kind})1 : ({kind})0" if self._is_condition(op.arguments[0]) else f"({kind}){value}"
        simple = {
            "neg": "-{}",
            "constant": "{}",
            "square": "{0} * {0}",
            "not": "!{}" if op.dtype == "bool" else "~{}",
            "stop_gradient": "{}",
            "one_minus_square": "(1 - {0}) * (1 + {0})",
            "rsqrt": "1 / sqrt({})",
            "sign": "({0} > 0) - ({0} < 0)",
        }
        if op.name in simple:
            return simple[op.name].format(*arguments)
        raise Unsupported(f"the operation {op.name!r}")


def _type(dtype):
    if dtype not in TYPES:
        raise Unsupported(f"values of type {dtype}")
    return TYPES[dtype]


def _literal(argument):
    value = argument.value
    if argument.dtype not in ("float32", "float64"):
        return str(int(value))
    if not math.isfinite(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    return f"{'(' if value < 0 else ''}{value!r}{'f' if argument.dtype == 'float32' else ''}{')' if value < 0 else ''}"
