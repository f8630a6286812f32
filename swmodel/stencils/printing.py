"""Readable forms of a loop: its graph, its cost, and its commented C++ source.

If the environment variable SWMODEL_KEEP_SOURCE names a folder, the C++ source of each loop is written there before it
is compiled. Each statement has a comment, and the graph is at the end.
"""

import dataclasses
import os
import re
import tempfile
from pathlib import Path

import numpy as np

from ..errors import ConfigError
from ..runtime.cache import digest
from .graph import At, Graph
from .schedule import schedule
from .source import c_source, commented_source, operations

KEEP_SOURCE = "SWMODEL_KEEP_SOURCE"
LONGEST_TITLE = 60
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "gt": ">", "lt": "<", "ge": ">=", "le": "<="}


@dataclasses.dataclass(frozen=True)
class Access:
    """An array that a loop reads.

    Attributes:
        name: of the field.
        halo: the number of cells to the (west, east, south, north) of a cell that are read.
        is_column: whether it is uniform along x.
    """

    name: str
    halo: tuple
    is_column: bool


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a loop for each cell: arithmetic operations, and bytes if each array moves once to or from memory."""

    operations: int
    bytes: int


def _names(graph):
    """{source: name of its field}."""
    return {n.parameters[0]: n.label or f"array {n.parameters[0]}" for n in graph.nodes if n.name == "load"}


def _result(graph, number):
    return graph.names[number] if number < len(graph.names) else f"result {number}"


def reads(graph: Graph) -> list[Access]:
    """The arrays that a Graph reads, in the order of their numbers."""
    found = []
    for source, name in sorted(_names(graph).items()):
        rows, columns = zip(*graph.loads(source))
        halo = -min(*columns, 0), max(*columns, 0), -min(*rows, 0), max(*rows, 0)
        found.append(Access(name, halo, graph.columns[source]))
    return found


def cost(graph: Graph, dtypes: tuple) -> Cost:
    """The Cost of a Graph; `dtypes` are element types, (of sources, of results)."""
    read = [np.dtype(t).itemsize for t, is_column in zip(dtypes[0], graph.columns) if not is_column]
    return Cost(operations(graph), sum(read) + sum(np.dtype(t).itemsize for t in dtypes[1]))


def loop_title(graph: Graph) -> str:
    """The names of a Graph's results, in one line."""
    return ", ".join(_result(graph, k) for k in range(len(graph.outputs)))


def graph_text(graph: Graph) -> str:
    """A Graph in lines `number = operation  # line of Python`; x[+1, 0] is x one row north, x[0, -1] one cell west.

    Nodes that are computed once and kept for several cells are marked with *.
    """
    kept, lines = schedule(graph).kept, []
    for number, node in enumerate(graph.nodes):
        about = "" if node.line is None or node.name == "load" else f"  # {node.line}"
        lines.append(f"{'*' if number in kept else ' '}n{number} = {_operation(graph, node)}{about}")
    for k, ref in enumerate(graph.outputs):
        lines.append(f" {_result(graph, k)} = {_at(graph, ref)}")
    return "\n".join(lines)


def _operation(graph, node):
    if node.name == "load":
        return _names(graph)[node.parameters[0]]
    if node.name == "scalar":
        return f"number {node.parameters[0]}"
    arguments = [_at(graph, a) for a in node.arguments]
    if node.name in INFIX:
        return f" {INFIX[node.name]} ".join(arguments)
    if node.name == "inside":
        return f"{arguments[0]} inside {node.parameters}, else 0"
    return f"{node.name}({', '.join([*arguments, *map(str, node.parameters)])})"


def _at(graph, ref):
    if not isinstance(ref, At):
        return f"{ref.value:.10g}"
    node = graph.nodes[ref.node]
    name = _names(graph)[node.parameters[0]] if node.name == "load" else f"n{ref.node}"
    return f"{name}[{ref.row:+d}, {ref.column:+d}]" if ref.row or ref.column else name


def keep_source(graph: Graph, dtypes: tuple) -> None:
    """Write the source of a loop to the folder that SWMODEL_KEEP_SOURCE names, if it is set.

    Raises:
        ConfigError: if the folder cannot be written to.
    """
    folder = os.environ.get(KEEP_SOURCE)
    if not folder:
        return
    try:
        write_source(folder, graph, dtypes)
    except OSError as error:
        raise ConfigError(
            f"{KEEP_SOURCE} = {folder}: the sources of loops cannot be written there ({error.strerror}); "
            "name a folder that can be written, or unset it."
        ) from error


def write_source(folder: str | Path, graph: Graph, dtypes: tuple) -> Path:
    """Write the commented source of a loop and its graph to a file in `folder`, named by the loop's results."""
    title = re.sub(r"[^A-Za-z0-9]+", "_", loop_title(graph)).strip("_")[:LONGEST_TITLE]
    path = Path(folder, f"{title}_{digest(c_source(graph, dtypes))[:8]}.cpp")
    listing = "".join(f"// {line}\n".replace("\\", "/") for line in graph_text(graph).splitlines())
    text = commented_source(graph, dtypes)
    text += f"\n// The graph of this loop; * marks values that are kept for several cells.\n//\n{listing}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".tmp", delete=False) as file:  # ranks share a name
        file.write(text)
    os.replace(file.name, path)
    return path
