"""A Program in C++: the function that computes one row of all outputs.

    void row(const void* const* in, const int64_t* stride, const void* const* scalars, void* const* out, int64_t cells)

`in[k]` is the element that belongs to the row's first cell, of source k; rows are `stride[k]` elements apart. What does not
vary along the row is computed before the loop. No output may lie where a neighbouring cell's source does; runtime.cpp sees
to that. The compiler may put factors together that do not vary along the row, and contract products and sums: faster, at
the price that a cell's last bits depend on its place in the row. They do not depend on the number of threads.
"""
import functools
import math

from .program import Constant, Unsupported

__all__ = ["c_source", "TYPES"]

TYPES = {"float32": "float", "float64": "double", "uint8": "uint8_t", "bool": "int32_t", "int32": "int32_t", "int64": "int64_t"}
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!=",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
CALLS = {"sqrt": "sqrt", "exp": "exp", "log": "log", "tanh": "tanh", "sin": "sin", "cos": "cos", "floor": "floor",
         "cbrt": "sw_cbrt", "abs": "fabs", "pow": "pow"}  # fmt: skip

# Cube roots without a call, so that the loop is vectorised: a guess from the exponent, and Newton's iteration, which
# settles within a unit or two of the last place.
PRELUDE = """#include <math.h>
#include <stdint.h>
#include <string.h>

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
def c_source(program, dtypes, aliases=()):
    """The C++ text of a Program.

    Args:
        program: a Program.
        dtypes: element types, (of sources, of outputs).
        aliases: for each output the number of the source that it overwrites, or None. One that is read at the output's
            own cell alone is overwritten at once, through the pointer by which it is read; others are copied later.
    """
    writer = _Writer(program)
    lines = [writer.line(k) for k in range(len(program.operations))]
    fixed = _constant_along_rows(program)
    rows = sorted({op.parameters[:2] for op in program.operations if op.name == "load"})
    pointers = [
        f"const {TYPES[dtypes[0][k]]}* __restrict__ {_row(k, j)} = (const {TYPES[dtypes[0][k]]}*)in[{k}] + ({j}) * stride[{k}];"
        for k, j in rows
    ]
    results = [
        f"{TYPES[t]}* {f'out{n} = ({TYPES[t]}*){_row(source, 0)}' if at_once else f'__restrict__ out{n} = ({TYPES[t]}*)out[{n}]'};"
        for n, (t, source) in enumerate(zip(dtypes[1], aliases or [None] * len(dtypes[1])))
        for at_once in [source is not None and program.loads(source) == [(0, 0)]]
    ]
    stores = [f"out{n}[i] = {writer.names[line]};" for n, line in enumerate(program.outputs)]
    before = [text for text, is_fixed in zip(lines, fixed) if text and is_fixed]
    inside = [text for text, is_fixed in zip(lines, fixed) if text and not is_fixed]
    signature = (
        'extern "C" void row(const void* const* in, const int64_t* stride, const void* const* scalars, void* const* out, '
        "int64_t cells)"
    )
    body = "\n".join(f"  {text}" for text in (*pointers, *results, *before))
    loop = "\n".join(f"    {text}" for text in (*inside, *stores))
    return f"{PRELUDE}\n{signature} {{\n{body}\n#pragma GCC ivdep\n  for (int64_t i = 0; i < cells; ++i) {{\n{loop}\n  }}\n}}\n"


def _row(source, row):
    return f"in{source}_{'m' if row < 0 else ''}{abs(row)}"


def _constant_along_rows(program):
    fixed = []
    for op in program.operations:
        if op.name == "load":
            fixed.append(program.columns[op.parameters[0]])
        else:
            fixed.append(all(isinstance(a, Constant) or fixed[a] for a in op.arguments))
    return fixed


class _Writer:
    """Writes lines one after the other; conditions are no variables, but written where they are used."""

    def __init__(self, program):
        self.program, self.names = program, []

    def line(self, number):
        """The text of a line of the Program, empty for a condition."""
        op = self.program.operations[number]
        value = self._value(op, [self._argument(a) for a in op.arguments])
        if op.dtype == "bool":
            self.names.append(f"({value})")
            return ""
        self.names.append(f"t{number}")
        return f"const {_type(op.dtype)} t{number} = {value};"

    def _argument(self, argument):
        return _literal(argument) if isinstance(argument, Constant) else self.names[argument]

    def _is_condition(self, argument):
        return not isinstance(argument, Constant) and self.program.operations[argument].dtype == "bool"

    def _value(self, op, arguments):
        if op.name == "load":
            source, row, column = op.parameters
            return f"{_row(source, row)}[{0 if self.program.columns[source] else f'i + ({column})'}]"
        if op.name == "scalar":
            return f"*(const {_type(op.dtype)}*)scalars[{op.parameters[0]}]"
        if op.name in BINARY:
            return f"{arguments[0]} {BINARY[op.name]} {arguments[1]}"
        if op.name in CALLS:
            return f"{CALLS[op.name]}{'f' if op.dtype == 'float32' else ''}({', '.join(arguments)})"
        if op.name in ("max", "min"):
            a, b = arguments
            return f"{a} {'>' if op.name == 'max' else '<'} {b} ? {a} : {b}"
        if op.name == "select_n" and len(arguments) == 3:
            return f"{arguments[0]} ? {arguments[2]} : {arguments[1]}"
        if op.name == "integer_pow" and op.parameters[0] in (2, 3, 4):
            return " * ".join(arguments * op.parameters[0])
        if op.name == "convert_element_type":
            kind, (value,) = _type(op.dtype), arguments
            return f"{value} ? ({kind})1 : ({kind})0" if self._is_condition(op.arguments[0]) else f"({kind}){value}"
        simple = {"neg": "-{}", "constant": "{}", "square": "{0} * {0}", "not": "!{}", "rsqrt": "1 / sqrt({})"}
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
