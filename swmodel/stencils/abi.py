"""The interface between Python, the runtime (*.cpp) and the loops that source.py writes, described once.

Python passes lists of integers to C++: the plan of a loop, or the blocks of an array that are moved. Each kind of
record in these lists is a class below. The runtime calls a loop once for each row of its results, with a `RowCall`.
`header()` returns the C++ declarations of all of them. The runtime and every generated loop begin with this text, so
that each layout and each constant is written in one place.
"""

import dataclasses
import enum
from typing import Any

VECTOR = 16  # [elements] rows of arrays begin at multiples of it, and vectors are not longer
AXES = 4  # of a block that is moved


class When(enum.IntEnum):
    """When a row of results may overwrite the row of an operand.

    AT_ONCE: the operand is read only at the cell of the result.
    UNLESS_SHARED: the operand is read in other rows, too. Rows that the chunk of another thread reads are written after
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
    """The head of a loop's plan. After it come `sources` SourcePlans, a ResultPlan for each result, and the indices of
    the sources that are copied into a slot."""

    rows: int = _integer("rows of the tile")
    columns: int = _integer("columns of the tile")
    ghosts: int = _integer("ghost rows of each result, at each end")
    west: int = _integer("elements of a result's row before the tile's first column")
    margin: int = _integer("cells around the tile that are computed, too")
    early: int = _integer("number of rows before the first row of results at which the passes begin")
    sharers: int = _integer("devices that share the threads of this process")
    sources: int = _integer("number of arrays that are read")
    scalars: int = _integer("number of scalars that are read")
    pushed: int = _integer("number of sources that are copied into a slot before they are overwritten")


@dataclasses.dataclass(frozen=True)
class SourcePlan:
    """One array that a loop reads."""

    slot: int = _integer("index of the operand that holds the slot to read, or -1 if the array has no slots")
    row: int = _integer("row of the array that holds the tile's cell (0, 0)")
    column: int = _integer("column of the array that holds the tile's cell (0, 0)")
    is_column: int = _integer("1 if the array has one column, because its values do not vary along x")
    ahead: int = _integer("first row that one round of all passes reads, relative to the row of results")
    below: int = _integer("first row that a row of results depends on, relative to it, early rounds included")
    above: int = _integer("last row that a row of results depends on, relative to it")


@dataclasses.dataclass(frozen=True)
class ResultPlan:
    """One array that a loop writes."""

    over: int = _integer("index of the operand that it overwrites, or -1")
    when: int = _integer("a When")


@dataclasses.dataclass(frozen=True)
class MovedBlock:
    """A block of one array and its place in another one, with `sizes` elements along four axes."""

    source: int = _integer("index of its first element in the source, or -1 for zeros")
    target: int = _integer("index of its first element in the target")
    sizes: tuple = _integer("elements along each axis", AXES)
    source_strides: tuple = _integer("elements between neighbours along each axis of the source", AXES)
    target_strides: tuple = _integer("elements between neighbours along each axis of the target", AXES)


RECORDS = LoopPlan, SourcePlan, ResultPlan, MovedBlock

ROW_CALL = """// The arguments of a loop for one row of its results.
struct RowCall {
  const void* const* in;       // of each source: address of the element at the row's first cell
  const int64_t* stride;       // of each source: elements from one row to the next
  const int64_t* limits;       // of each source: first and last row and column, relative to the region's first cell
  const void* const* scalars;  // addresses of the scalars
  void* const* out;            // of each result: address of the element at the row's first cell; null in early rounds
  int64_t lead;                // elements between the start of the first vector and the row's first cell
  int64_t cells;               // number of cells of a row that are computed
  int64_t rows;                // number of rows that are computed in all
  int64_t j;                   // this row, counted from the first computed row
  int64_t since;               // this row, counted from the first row of the chunk; negative in early rounds
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
