"""Imports point downwards only: each folder may import those that stand before it in this list, and itself."""

import ast
import functools
import re
from inspect import isabstract
from pathlib import Path

import pytest

import swmodel
from swmodel.elliptic.base import Solver
from swmodel.fields.parts import ModelPart

PACKAGE = Path(swmodel.__file__).parent
LAYERS = (
    "errors units defaults runtime fields stencils parallel grids elliptic dynamics forcing observed sources stepping "
    "diagnostics models nests output simulation performance adjoint forecast config verification postprocess cli"
).split()
ADJOINT_LAYERS = ["controls", "costs", "core", "problem", "examination", "verification", "sensitivity", "assimilation"]
MODULES = {
    ".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): file
    for file in PACKAGE.rglob("*.py")
    if "experiments" not in file.parts
}


def test_the_list_of_folders_for_contributors_has_all_of_them_in_this_order():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^  (\w+)/ ", text, re.MULTILINE)
    assert listed == [layer for layer in LAYERS if (PACKAGE / layer).is_dir()]


@functools.cache
def parsed(name):
    """The syntax tree of module `name`."""
    return ast.parse(MODULES[name].read_text())


def imported(name, for_types=True):
    """The modules of this package that module `name` imports anywhere, within functions too.

    Args:
        name: of the module.
        for_types: whether imports count that the type checker alone makes.
    """
    file = MODULES[name]
    is_folder = file.stem == "__init__" and name != "__init__"  # the second is that of the whole package
    package = name.split(".") if is_folder else name.split(".")[:-1]
    tree = parsed(name)
    guarded = [x for x in ast.walk(tree) if isinstance(x, ast.If) and ast.unparse(x.test) == "TYPE_CHECKING"]
    left_out = {id(node) for block in guarded for node in ast.walk(block)} if not for_types else ()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and id(node) not in left_out:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                yield whole if whole in MODULES else ".".join(base)


def upwards(layers, depth):
    """Imports of a layer that stands later in `layers`, by the part number `depth` of the modules' names."""
    order = {layer: k for k, layer in enumerate(layers)}

    def layer(name):
        parts = name.split(".")
        return order.get(parts[depth]) if len(parts) > depth else None

    return [
        f"{name} imports {other}"
        for name in MODULES
        for other in imported(name)
        if name.split(".")[:depth] == other.split(".")[:depth]
        and None not in (layer(name), layer(other))
        and layer(other) > layer(name)
    ]


def concrete_parts():
    """{name: module} of the concrete parts of a model that the package offers."""
    offered = (getattr(swmodel, name) for name in swmodel.__all__)
    parts = (x for x in offered if isinstance(x, type) and issubclass(x, (ModelPart, Solver)) and not isabstract(x))
    return {cls.__name__: cls.__module__ for cls in parts if cls.__name__ != "Tracer"}  # JAX has a class of that name


@pytest.mark.verify
def test_no_module_asks_for_the_class_of_a_part_but_its_own():
    """Neither by isinstance nor by the class's name: a part of a user's own would be treated as another one."""
    parts = concrete_parts()
    assert len(parts) > 15
    tables_of_names = ("__init__", "adjoint")  # in which a package has all names that it offers
    for name, file in ((name, file) for name, file in MODULES.items() if name not in tables_of_names):
        for node in ast.walk(parsed(name)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                named = {x.id for x in ast.walk(node.args[1]) if isinstance(x, ast.Name)} & set(parts)
                assert all(parts[cls] == f"swmodel.{name}" for cls in named), f"{file}:{node.lineno}"
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "hasattr":
                assert getattr(node.args[0], "id", "") not in ("term", "stepper", "cost"), f"{file}:{node.lineno}"
            if isinstance(node, (ast.Compare, ast.Dict)):
                printed = {x.value for x in ast.walk(node) if isinstance(x, ast.Constant) and isinstance(x.value, str)}
                assert not printed & set(parts), f"{file}:{node.lineno}: {printed & set(parts)}"


def cycle_among(edges):
    """The modules in cycles of imports, and those that need them; `edges`: {module: the modules that it imports}."""
    left = dict(edges)
    while free := [name for name, others in left.items() if not others & set(left) - {name}]:
        for name in free:
            del left[name]
    return sorted(left)


def test_every_module_has_a_layer():
    assert {name.split(".")[0] for name in MODULES} - {"__init__", "__main__"} == set(LAYERS)


@pytest.mark.verify
def test_imports_point_downwards():
    assert not upwards(LAYERS, 0)


@pytest.mark.verify
def test_imports_within_the_adjoint_point_downwards():
    assert not upwards(ADJOINT_LAYERS, 1)


@pytest.mark.verify
def test_no_module_imports_itself_by_way_of_others():
    """Python tolerates a cycle of imports within functions; a reader has to understand all of its modules at once."""
    graph = {name: {other for other in imported(name, for_types=False) if other not in ("", name)} for name in MODULES}
    assert not cycle_among(graph)
    assert cycle_among({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["a", "b", "c"]


def test_physics_knows_no_communicator_by_name():
    alone = PACKAGE / "fields" / "field.py", PACKAGE / "stepping" / "explicit.py"
    files = [*PACKAGE.glob("dynamics/**/*.py"), *alone]
    for file in files:
        assert not re.search(r"\b(mpi|mesh)", file.read_text().lower()), file


LONG_MODULES = {  # lines, and what keeps them in one place
    "dynamics.system": 592,  # the declaration of a model, its forms, and the tendencies that a step is made of
    "dynamics.terms": 516,  # the base classes of parts, and the records of their parameters
    "fields.field": 425,  # the arithmetic and the operators of a Field, and the halo that they use up
    "fields.parameters": 561,  # a table of rules, one class for each kind of argument
    "output.products.base": 410,  # a product, its samples during a run, and the file that they become
    "simulation.driver": 408,  # the loop over chunks of a run, and how a run stops
    "models.shallow_water": 412,  # one line for each of its arguments, twice
    "cli.commands": 475,  # the options and the help of all commands
    "stencils.graph": 460,  # the graph of a loop, and the search for common factors in it
}
LONG_FUNCTIONS = {  # lines of code
    "models.shallow_water.ShallowWater.__init__": 72,  # one line for each of its arguments, twice
    "config.assembly.assemble": 50,  # one step after the other, from a file to a run
    "dynamics.domain.floor_of": 50,  # a check for each kind of depth
    "adjoint.controls.seafloor.UnitSources.on": 50,  # closures over the same tile
}


def lines_of_code(function):
    """The lines of a function that are neither its docstring, nor comments, nor empty."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    tree = ast.Module(body=body, type_ignores=[])
    lines = {line for node in ast.walk(tree) if hasattr(node, "lineno") for line in (node.lineno, node.end_lineno)}
    signature = {node.lineno for node in ast.walk(function.args) if hasattr(node, "lineno")}
    return len(lines | signature | {function.lineno})


def functions(tree, prefix):
    """(name, node) of all functions of a module, with the classes and functions that contain them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{prefix}.{node.name}", node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from functions(node, f"{prefix}.{node.name}")


def test_modules_have_at_most_four_hundred_lines():
    long = {name: len(file.read_text().splitlines()) for name, file in MODULES.items()}
    long = {name: n for name, n in long.items() if n > LONG_MODULES.get(name, 400)}
    assert not long


@pytest.mark.verify
def test_functions_have_at_most_forty_lines_of_code():
    found = [pair for name, file in MODULES.items() for pair in functions(ast.parse(file.read_text()), name)]
    assert len(found) > 2000
    long = {name: lines_of_code(node) for name, node in found if lines_of_code(node) > LONG_FUNCTIONS.get(name, 40)}
    assert not long


# -- private names -----------------------------------------------------------------------------------------------------

PRIVATE = re.compile(r"\b(jax|jaxlib|mpi4jax|mpi4py|pydantic|typer|xarray)\._(?!_)\w+|jax\.interpreters\.partial_eval")
HOMES = {"jax": "runtime/packages.py", "mpi4jax": "parallel/mpi.py"}


def test_private_names_of_a_package_are_in_one_file():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for match in PRIVATE.finditer(path.read_text()):
            found.setdefault(match[0].partition(".")[0], set()).add(str(path.relative_to(PACKAGE)))
    assert found == {package: {home} for package, home in HOMES.items()}
