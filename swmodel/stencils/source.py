"""A Graph in C++: the function that takes all passes of its Schedule along one row.

    void row(const RowCall*)             computes row j of the results, and rows ahead of it of what is kept
    int64_t kept_bytes(int64_t cells)    the room that kept rows need

`in[k]` is the element that belongs to the row's first cell, of source k; rows are `stride[k]` elements apart. Each
pass is there up to three times: in the midst of things; where boxes end and `inside` is looked at; and at the ends of
arrays. What is beyond these counts as 0. What does not vary along the row is computed before the loop. Blocks of
columns go through all passes, so that kept rows stay in the nearest cache. The compiler may put factors together that
do not vary along the row, and contract products and sums: faster, at the price that a cell's last bits depend on its
place in the row. They do not depend on the number of threads.
"""

import functools
import math

from .graph import At, Constant, Unsupported
from .schedule import VECTOR, schedule, whole_vectors

__all__ = ["c_source", "TYPES"]

BLOCK = 512  # columns
LARGEST_POWER = 16  # that is written as products

TYPES = {
    "float32": "float",
    "float64": "double",
    "uint8": "uint8_t",
    "bool": "int32_t",
    "int32": "int32_t",
    "int64": "int64_t",
}
MEMORY = TYPES | {"bool": "uint8_t"}  # as arrays and numbers from outside lie there
BITS = {"float": "int32_t", "double": "int64_t"}  # whole numbers of the same size
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
CALLS = {"sqrt": "sqrt", "exp": "exp", "log": "log", "tanh": "tanh", "sin": "sin", "cos": "cos", "floor": "floor",
         "cbrt": "sw_cbrt", "abs": "fabs", "pow": "pow"}  # fmt: skip

# Either: processors are slow with loads under a mask that leaves out all of a vector; of ? : compilers make such ones.
# Cube roots come without a call, so that the loop is vectorised: a guess from the exponent, and Newton's iteration,
# which settles within a unit or two of the last place.
PRELUDE = """#include <math.h>
#include <stdint.h>
#include <string.h>

struct RowCall {  // as in loops.cpp
  const void* const* in;
  const int64_t* stride;
  const int64_t* limits;  // of each source: first and last row, first and last column, from the region's first cell
  const void* const* scalars;
  void* const* out;
  int64_t lead, cells, rows, j, since;
  char* kept;
};

template <typename Bits, typename T>
static inline T Either(bool is, T x, T y) {
  Bits a, b;
  memcpy(&a, &x, sizeof(T)), memcpy(&b, &y, sizeof(T));
  a = (a & -(Bits)is) | (b & ~-(Bits)is);
  memcpy(&x, &a, sizeof(T));
  return x;
}

static inline float sw_cbrtf(float x) {
  float a = fabsf(x), y;
  int32_t bits;
  memcpy(&bits, &a, 4);
  bits = bits / 3 + 709921077;
  memcpy(&y, &bits, 4);
  for (int k = 0; k < 4; ++k) y = y - (y - a / (y * y)) * (1.0f / 3.0f);
  return x == 0.0f ? 0.0f : copysignf(y, x);
}

static inline double sw_cbrt(double x) {
  double a = fabs(x), y;
  int64_t bits;
  memcpy(&bits, &a, 8);
  bits = bits / 3 + 3071306043645493248LL;
  memcpy(&y, &bits, 8);
  for (int k = 0; k < 5; ++k) y = y - (y - a / (y * y)) * (1.0 / 3.0);
  return x == 0.0 ? 0.0 : copysign(y, x);
}
"""


@functools.lru_cache(maxsize=256)
def c_source(graph, dtypes):
    """The C++ text of a Graph.

    Args:
        graph: a Graph.
        dtypes: element types, (of sources, of results).
    """
    plan = schedule(graph)
    room = _Room(graph, plan)
    passes = "".join(_pass_texts(graph, dtypes, plan, room, k) for k in range(len(plan.passes)))
    rounds = "\n".join(
        f"    if (c.since >= {-p.early}) run<pass{k}, pass{k}_boxed, pass{k}_edge>("
        f"c, b > -c.lead ? b + {p.ahead} : Before(c, {p.left}), end == c.cells ? end + {p.right} : end + {p.ahead}, "
        f"end == c.cells, columns{k});"
        for k, p in enumerate(plan.passes)
    )
    columns = "\n".join(f"  const Columns columns{k} = columns_of{k}(c);" for k in range(len(plan.passes)))
    return (
        f"{PRELUDE}\nconstexpr int64_t kVector = {VECTOR}, kLeft = {room.left}, kRight = {room.right};\n"
        f"constexpr int64_t kKept = {room.bytes};\n{RUN}{passes}"
        f'\nextern "C" int64_t kept_bytes(int64_t cells) {{ return Width(cells) * (kKept + 8); }}\n'
        '\nextern "C" void row(const RowCall* call) {\n  const RowCall& c = *call;\n'
        f"  if (c.since == {-plan.early}) memset(c.kept + Width(c) * kKept, 0, Width(c) * 8);\n"
        f"{columns}\n"
        f"  for (int64_t b = -c.lead, end; b < c.cells; b = end) {{\n"
        f"    end = c.cells - b < {2 * BLOCK} ? c.cells : b + {BLOCK};\n"
        f"{rounds}\n  }}\n}}\n"
    )


RUN = """
static inline int64_t WholeVectors(int64_t cells) { return (cells + kVector - 1) / kVector * kVector; }
static inline int64_t Width(int64_t cells) { return WholeVectors(cells + kLeft + kRight); }
static inline int64_t Width(const RowCall& c) { return Width(c.lead + c.cells); }

// Where a pass begins that goes `left` cells further than the results: where a vector does.
static inline int64_t Before(const RowCall& c, int64_t left) {
  return -c.lead - WholeVectors(left > c.lead ? left - c.lead : 0);
}

// Whether a source has a row, so many rows from the call's; what is read in its place if not.
static inline bool Has(const RowCall& c, int64_t source, int64_t row) {
  return c.j + row >= c.limits[4 * source] && c.j + row < c.limits[4 * source + 1];
}
static inline const void* Zeros(const RowCall& c) { return c.kept + Width(c) * kKept + (kLeft + c.lead) * 8; }

struct Range {
  int64_t low, high;
  bool row;  // whether all rows are there

  void Meet(int64_t first, int64_t end) {
    if (low < first) low = first;
    if (high > end) high = end;
  }
  Range Within(int64_t from, int64_t to) const {
    if (!row || low >= to || high <= from || low >= high) return {to, to, false};
    return {low < from ? from : low, high > to ? to : high, true};
  }
};

struct Columns {
  Range loads, boxes;  // where no load leaves its array; where all boxes hold, too
};

using Pass = void (*)(const RowCall&, int64_t, int64_t);

// Each pass in the variants that it needs from column to column. Columns before the first and behind the last ones may
// be computed, too, so that vectors are whole: of what is kept nobody reads them, and results stay there as they were.
template <Pass kPlain, Pass kBoxed, Pass kEdge>
static inline void run(const RowCall& c, int64_t from, int64_t to, bool more, const Columns& columns) {
  if (more && from + WholeVectors(to - from) <= columns.loads.high) to = from + WholeVectors(to - from);
  const Range loads = columns.loads.Within(from, to), boxes = columns.boxes.Within(loads.low, loads.high);
  if (from < loads.low) kEdge(c, from, loads.low);
  if (loads.low < loads.high) {
    int64_t low = loads.low + WholeVectors(boxes.low - loads.low), high = boxes.high;
    if (high < loads.high) high = low < high ? low + (high - low) / kVector * kVector : low;
    if (low > loads.high) low = high = loads.high;
    if (loads.low < low) kBoxed(c, loads.low, low);
    if (low < high) kPlain(c, low, high);
    if (high < loads.high) kBoxed(c, high, loads.high);
  }
  if (loads.high < to) kEdge(c, loads.high, to);
}
"""


class _Room:
    """Where kept rows lie: `left` and `right` elements beside the cells, and the place of each node's rows: those of
    nodes of which equally many are kept take turns together, so that few pointers lead to all of them."""

    def __init__(self, graph, plan):
        self.left = whole_vectors(max(p.left for p in plan.passes)) + VECTOR
        self.right = 2 * max(p.right for p in plan.passes) + VECTOR
        self.place, self.bytes = {}, 0
        for rows in sorted({kept.rows for kept in plan.kept.values()}):
            alike = [n for n, kept in plan.kept.items() if kept.rows == rows]
            sizes = [_size(graph.nodes[n].dtype) for n in alike]
            for k, n in enumerate(alike):
                self.place[n] = self.bytes, sum(sizes), sum(sizes[:k])
            self.bytes += rows * sum(sizes)
        # so that rows counted from the first one of a chunk are never negative
        leads = [abs(kept.lead) + kept.rows for kept in plan.kept.values()]
        self.bias = plan.early + max(leads, default=0)


def _size(dtype):
    return {"float32": 4, "float64": 8, "int32": 4, "int64": 8, "uint8": 1}[dtype]


def _pass_texts(graph, dtypes, plan, room, number):
    """One pass in C++, in its variants, and the function that tells where each of them is needed."""
    writers = {kind: _Writer(graph, plan, number, kind) for kind in ("edge", "boxed", "plain")}
    texts = [_pass_text(graph, dtypes, room, writer) for writer in writers.values()]
    if not writers["plain"].boxes:
        texts[1] = f"\nconstexpr Pass pass{number}_boxed = pass{number};\n"
        texts.reverse()
    return "".join(texts) + _columns_text(writers["plain"], number)


def _pass_text(graph, dtypes, room, writer):
    stored = _stored(graph, dtypes, writer)
    loop = "\n".join(f"    {text}" for text in (*writer.inside, *stored))
    name = f"pass{writer.number}{'' if writer.kind == 'plain' else f'_{writer.kind}'}"
    head = "__attribute__((noinline, cold)) static" if writer.kind == "edge" else "static"
    ivdep = "" if writer.kind == "edge" else "#pragma GCC ivdep\n"
    return (
        f"\n{head} void {name}(const RowCall& c, int64_t from, int64_t to) {{\n{_before(graph, dtypes, room, writer)}\n"
        f"{ivdep}  for (int64_t i = from; i < to; ++i) {{\n{loop}\n  }}\n}}\n"
    )


def _stored(graph, dtypes, writer):
    """The lines that store what a pass computes."""
    plan, lines = writer.plan, []
    for n in plan.passes[writer.number].nodes:
        value = writer.value(At(n), plan.kept[n].lead, 0, anew=True)
        lines.append(f"{writer.row_of(n, plan.kept[n].lead)}[i] = {value};")
    if writer.is_last:
        there = writer.within((0, 0, 0, 0))
        for k, (o, dtype) in enumerate(zip(graph.outputs, dtypes[1])):
            value = f"({MEMORY[dtype]}){writer.value(o, 0, 0)}"
            lines.append(f"out{k}[i] = {_either(there, value, f'out{k}[i]', MEMORY[dtype])};")
    return lines


def _before(graph, dtypes, room, writer):
    """What a pass does before it goes along a row: pointers to all rows, and what does not vary along them."""
    pointers = [
        f"const {kind}* {_name('in', k, j)} = Has(c, {k}, {j}) ? (const {kind}*)c.in[{k}] + ({j}) * c.stride[{k}] : "
        f"(const {kind}*)Zeros(c);"
        for k, j in writer.rows
        for kind in [MEMORY[dtypes[0][k]]]
    ]
    plan = writer.plan
    for n, j in sorted(writer.kept_rows):
        kind_of, rows = _type(graph.nodes[n].dtype), plan.kept[n].rows
        first, step, within = room.place[n]
        turn = (j + room.bias) % rows + rows * plan.early  # never negative with c.since
        base = f"row{rows}_{turn}"
        line = f"char* const {base} = c.kept + Width(c) * ({first} + (c.since + {turn}) % {rows} * {step});"
        pointers += [line] * (line not in pointers)
        pointers.append(f"{kind_of}* {_name('k', n, j)} = ({kind_of}*)({base} + Width(c) * {within}) + kLeft + c.lead;")
    if writer.is_last:
        pointers += [f"{MEMORY[t]}* out{k} = ({MEMORY[t]}*)c.out[{k}];" for k, t in enumerate(dtypes[1])]
    return "\n".join(f"  {text}" for text in (*pointers, *writer.before))


def _columns_text(writer, number):
    """The function that gives the columns of a row where no load leaves its array, and where all boxes hold.

    A load beyond the end of a row is one from the row beside it: it does no harm where nobody uses what is made of it.
    Only the array's own ends matter.
    """
    lines, reads = ["  Columns found = {{INT64_MIN, INT64_MAX, true}, {INT64_MIN, INT64_MAX, true}};"], {}
    for k, j, i in writer.loads:
        if i is not None:
            reads.setdefault((k, j), []).append(i)
    for (k, j), offsets in sorted(reads.items()):
        row, last = f"(c.limits[{4 * k}] - c.j - ({j}))", f"(c.limits[{4 * k + 1}] - 1 - c.j - ({j}))"
        low = f"c.limits[{4 * k + 2}] + {row} * c.stride[{k}] - ({min(offsets)})"
        high = f"c.limits[{4 * k + 3}] + {last} * c.stride[{k}] - ({max(offsets)})"
        lines.append(f"  if (Has(c, {k}, {j})) found.loads.Meet({low}, {high});")
    for (west, east, south, north), j, i in sorted(writer.boxes):
        lines.append(f"  found.boxes.row &= c.j + ({j}) >= {south} && c.j + ({j}) < c.rows - ({north});")
        lines.append(f"  found.boxes.Meet({west - i}, c.cells - ({east + i}));")
    body = "\n".join(lines)
    return f"\nstatic inline Columns columns_of{number}(const RowCall& c) {{\n{body}\n  return found;\n}}\n"


def _either(there, x, y, kind):
    """The text of x where the condition `there` holds, else y; of x where there is none."""
    return f"Either<{BITS.get(kind, kind)}>({there}, {x}, {y})" if there else x


def _rows_of(box, row):
    """The condition that the row is one of a box."""
    return f"c.j + ({row}) >= {box[2]} && c.j + ({row}) < c.rows - ({box[3]})"


def _name(kind, number, row):
    return f"{kind}{number}_{'m' if row < 0 else ''}{abs(row)}"


class _Writer:
    """Writes the lines of a pass, "plain", "boxed" or "edge", each value once; conditions are no variables, but
    written where they are used.

    Attributes:
        before, inside: lines before the loop along the row, and in it. loads: (source, row, column) that are loaded,
        the column None of what does not vary along x; boxes: (box, row, column) that are asked for. kept_rows: (node,
        row) of what is kept that are read or written.
    """

    def __init__(self, graph, plan, number, kind):
        self.graph, self.plan, self.number, self.kind = graph, plan, number, kind
        self.before, self.inside, self._values, self._ends = [], [], {}, {}
        self.loads, self.boxes, self.kept_rows = set(), set(), set()

    @property
    def is_last(self):
        return self.number == len(self.plan.passes) - 1

    @property
    def rows(self):
        """(source, row) that are loaded."""
        return sorted({(k, j) for k, j, _ in self.loads})

    def row_of(self, node, row):
        self.kept_rows.add((node, row))
        return _name("k", node, row)

    def value(self, ref, row, column, anew=False):
        """The text of `ref` seen from (row, column); of what is kept, computed `anew` or read."""
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
                line = f"const {_type(node.dtype)} {name} = {text};"
                (self.inside if node.axes == 2 else self.before).append(line)
                self._values[key] = name
        return self._values[key]

    def _computed(self, node, row, column):
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
        """The text of what is 0 outside a box; of what varies from row to row alone, only rows matter."""
        if node.axes < 2:
            return f"{_rows_of(node.parameters, row)} ? {argument} : 0"
        there = self.within(node.parameters, row, column)
        kind = _type(node.dtype)
        return _either(there, argument, f"({kind})0", kind)

    def within(self, box, row=0, column=0):
        """The condition that a cell is in a box; empty where all are."""
        self.boxes.add((box, row, column))
        if self.kind == "plain":
            return ""
        west, east, _, _ = box
        ends = west - column, west + east, _rows_of(box, row)
        if ends not in self._ends:
            self._ends[ends] = name = f"box{len(self._ends)}"
            wide = f"c.cells - ({west + east})"
            self.before.append(f"const uint32_t {name} = {ends[2]} && {wide} > 0 ? (uint32_t)({wide}) : 0;")
        return f"(uint32_t)i - ({west - column}) < {self._ends[ends]}"

    def _is_condition(self, argument):
        return isinstance(argument, At) and self.graph.nodes[argument.node].dtype == "bool"

    def _operation(self, op, arguments):
        if op.name in BINARY:
            return f"{arguments[0]} {BINARY[op.name]} {arguments[1]}"
        if op.name in CALLS:
            return f"{CALLS[op.name]}{'f' if op.dtype == 'float32' else ''}({', '.join(arguments)})"
        if op.name in ("max", "min"):
            a, b = arguments
            return f"({a} {'>' if op.name == 'max' else '<'} {b} || {a} != {a}) ? {a} : {b}"  # what is no number stays
        if op.name == "select_n" and len(arguments) == 3:
            return f"{arguments[0]} ? {arguments[2]} : {arguments[1]}"
        if op.name == "integer_pow" and 0 < abs(op.parameters[0]) <= LARGEST_POWER:
            product = " * ".join(arguments * abs(op.parameters[0]))
            return product if op.parameters[0] > 0 else f"1 / ({product})"
        if op.dtype == "bool" and op.name == "convert_element_type" and not self._is_condition(op.arguments[0]):
            return f"{arguments[0]} != 0"
        if op.name == "convert_element_type":
            kind, (value,) = _type(op.dtype), arguments
            return f"{value} ? ({kind})1 : ({kind})0" if self._is_condition(op.arguments[0]) else f"({kind}){value}"
        simple = {
            "neg": "-{}", "constant": "{}", "square": "{0} * {0}", "not": "!{}" if op.dtype == "bool" else "~{}",
            "stop_gradient": "{}",
            "one_minus_square": "(1 - {0}) * (1 + {0})", "rsqrt": "1 / sqrt({})",
            "sign": "({0} > 0) - ({0} < 0)",
        }  # fmt: skip
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
