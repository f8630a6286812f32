"""The interface between Python, the runtime (*.cpp) and the loops that source.py writes, described once.

Calls pass integers from Python to C++: the plan of a loop, blocks of an array that move. Each record of them is a class
below, and the runtime calls a loop row by row with a `RowCall`. `header()` is all of it as C++. The runtime and every
generated loop begin with that text, so that no layout and no constant is written by hand on two sides.
"""

import dataclasses
import enum
from typing import Any

__all__ = ["AXES", "VECTOR", "LoopPlan", "MovedBlock", "ResultPlan", "SourcePlan", "When", "header", "numbers"]

VECTOR = 16  # elements: rows of arrays begin at multiples of it, and vectors have so many elements at most
AXES = 4  # of a block that moves


class When(enum.IntEnum):
    """When a row of results may overwrite the row of an operand.

    AT_ONCE: the operand is read at the result's own cell alone.
    UNLESS_SHARED: the operand is read in other rows, which may belong to another thread's chunk: such rows wait until
        all chunks are done.
    LATER: a later cell or row of the same chunk reads the old value, too.
    """

    AT_ONCE = 0
    UNLESS_SHARED = 1
    LATER = 2


def _integer(doc, count=1):
    """A field of a record: one int64, or an array of `count` of them."""
    return dataclasses.field(metadata={"doc": doc, "count": count})


@dataclasses.dataclass(frozen=True)
class LoopPlan:
    """The head of a loop's plan. `sources` SourcePlans follow, a ResultPlan for each result, and the numbers of the
    sources that are pushed into a slot."""

    rows: int = _integer("rows of the tile")
    columns: int = _integer("columns of the tile")
    ghosts: int = _integer("rows of ghosts in each result, on either side")
    west: int = _integer("elements of a result's row before the tile's first column")
    margin: int = _integer("cells around the tile that are computed, too")
    early: int = _integer("rows before the first one of the results at which passes begin")
    sharers: int = _integer("devices that share the threads of this process")
    sources: int = _integer("arrays that are read")
    scalars: int = _integer("numbers that are read")
    pushed: int = _integer("sources that are copied into a slot before they are overwritten")


@dataclasses.dataclass(frozen=True)
class SourcePlan:
    """One array that a loop reads."""

    slot: int = _integer("the operand that holds the number of the slot to read, or -1 where there are no slots")
    row: int = _integer("row of the tile's cell (0, 0)")
    column: int = _integer("column of the tile's cell (0, 0)")
    is_column: int = _integer("1 where values do not vary along x, and the array has one column")
    ahead: int = _integer("first row that is read in one round of all passes, from the results' row")
    below: int = _integer("first row that is read for one row of results, early rounds included")
    above: int = _integer("last row that is read for one row of results")


@dataclasses.dataclass(frozen=True)
class ResultPlan:
    """One array that a loop writes."""

    over: int = _integer("the operand that it overwrites, or -1")
    when: int = _integer("a When")


@dataclasses.dataclass(frozen=True)
class MovedBlock:
    """A block of an array and its place in another one: `sizes` elements along four axes, counted in elements."""

    source: int = _integer("place of its first element in the source, or -1 for zeros")
    target: int = _integer("place of its first element in the target")
    sizes: tuple = _integer("elements along each axis", AXES)
    source_strides: tuple = _integer("elements from one to the next along each axis in the source", AXES)
    target_strides: tuple = _integer("elements from one to the next along each axis in the target", AXES)


RECORDS = LoopPlan, SourcePlan, ResultPlan, MovedBlock

ROW_CALL = """// What a loop needs for one row of its results.
struct RowCall {
  const void* const* in;       // of each source, the element of the row's first cell
  const int64_t* stride;       // of each source, elements from one row to the next
  const int64_t* limits;       // of each source: first and last row and column, from the region's first cell
  const void* const* scalars;  // the numbers from outside
  void* const* out;            // of each result, the element of the row's first cell; null in early rounds
  int64_t lead;                // elements from where a vector begins to the row's first cell
  int64_t cells;               // cells of a row that are computed
  int64_t rows;                // rows that are computed in all
  int64_t j;                   // this row, from the first one that is computed
  int64_t since;               // this row, from the first one of the chunk; negative in early rounds
  char* kept;                  // memory for the rolling rows of intermediate values
};
"""


def numbers(record: Any) -> list[int]:
    """The integers of a record, in the order in which C++ reads them."""
    values = (getattr(record, field.name) for field in dataclasses.fields(record))
    return [int(n) for value in values for n in (value if isinstance(value, (tuple, list)) else [value])]


def _struct(record):
    lines, size = [], 0
    for field in dataclasses.fields(record):
        count = field.metadata["count"]
        lines.append(f"  int64_t {field.name}{'' if count == 1 else f'[{count}]'};  // {field.metadata['doc']}\n")
        size += count
    doc = "\n".join(f"// {line.strip()}" for line in record.__doc__.splitlines())
    return (
        f"{doc}\nstruct {record.__name__} {{\n{''.join(lines)}}};\n"
        f'static_assert(sizeof({record.__name__}) == {size} * sizeof(int64_t), "{record.__name__} has no gaps");\n'
    )


def header() -> str:
    """The C++ text with which the runtime and every loop begin."""
    whens = ", ".join(f"{when.name} = {when.value}" for when in When)
    constants = f"constexpr int64_t kVector = {VECTOR}, kAxes = {AXES};\nenum When : int64_t {{ {whens} }};\n"
    structs = "\n".join(map(_struct, RECORDS))
    return f"// Written by swmodel/stencils/abi.py.\n#include <stdint.h>\n\n{constants}\n{ROW_CALL}\n{structs}\n"
