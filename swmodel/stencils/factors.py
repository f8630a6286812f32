"""Algebraic simplification of a Graph: common factors are taken out, and two halves of a choice become one."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .nodes import At, Constant

__all__ = ["Factors"]


class Factors:
    """Takes out factors that do not vary along a row: a x - a y becomes a (x - y), and (a x) (b y) becomes (a b) (x y).

    Products of such factors are computed once in a row, or once in a loop, and a difference of neighbours has one
    product in place of two.

    Args:
        builder: a Builder.
        dtype: the type of all values.
    """

    def __init__(self, builder: Any, dtype: str):
        self.builder, self.dtype = builder, dtype

    def of(self, name: str, arguments: Iterable) -> Any:
        """The At (or Constant) of an operation where there are factors, else None."""
        rules = {
            "neg": self._negative,
            "mul": self._product,
            "div": self._quotient,
            "add": self._sum,
            "sub": self._difference,
        }
        try:
            return rules[name](*arguments) if name in rules else None
        except ArithmeticError:  # the product of constants would overflow or underflow
            return None

    def split(self, ref: Any) -> tuple[Any, Any]:
        """(the factor of a product that does not vary along a row, the other factor); (None, ref) if there is none."""
        if isinstance(ref, Constant) or self.builder.nodes[ref.node].name != "mul":
            return None, ref
        arguments = [self.builder.shifted(a, ref.row, ref.column) for a in self.builder.nodes[ref.node].arguments]
        for factor, rest in (arguments, arguments[::-1]):
            if not self._varies(factor) and self._varies(rest):
                return factor, rest
        return None, ref

    def scaled(self, factor: Any, ref: Any) -> Any:
        """factor * ref."""
        inner, ref = self.split(ref)
        factor = self._times(factor, inner)
        return (
            ref if factor is None or factor == self._number(1.0) else self.builder.put("mul", [factor, ref], self.dtype)
        )

    def _varies(self, a):
        return isinstance(a, At) and self.builder.nodes[a.node].axes == 2

    def _number(self, value):
        limits = np.finfo(self.dtype)
        if value and not limits.tiny <= abs(value) <= limits.max:
            raise ArithmeticError(value)
        return Constant(float(value), self.dtype)

    def _times(self, a, b):
        """The product of two factors, either of which may be None."""
        if a is None or b is None:
            return b if a is None else a
        if isinstance(a, Constant) and isinstance(b, Constant):
            return self._number(a.value * b.value)
        one = self._number(1.0)
        return b if a == one else a if b == one else self.builder.put("mul", [a, b], self.dtype)

    def _over(self, a, b):
        if b is None:
            return a
        a = self._number(1.0) if a is None else a
        if isinstance(a, Constant) and isinstance(b, Constant) and b.value:
            return self._number(a.value / b.value)
        return self.builder.put("div", [a, b], self.dtype)

    def _negative(self, x):
        return self.scaled(self._number(-1.0), x) if self._varies(x) else None

    def _product(self, x, y):
        if not self._varies(x) or not self._varies(y):
            factor, x = (x, y) if self._varies(y) else (y, x)
            return self.scaled(factor, x) if self._varies(x) else None
        (a, x), (b, y) = self.split(x), self.split(y)
        return self.scaled(self._times(a, b), self.builder.put("mul", [x, y], self.dtype))

    def _quotient(self, x, y):
        if not self._varies(y):
            return self.scaled(self._over(None, y), x) if self._varies(x) else None
        b, y = self.split(y)
        a, x = self.split(x) if self._varies(x) else (x, self._number(1.0))
        return self.scaled(self._over(a, b), self.builder.put("div", [x, y], self.dtype))

    def _sum(self, x, y):
        for zero, other in ((x, y), (y, x)):
            if zero == self._number(0.0):
                return other
        for one, other in ((x, y), (y, x)):
            chosen = self._chosen(one, other)
            if chosen is not None:
                return chosen
        return self._combined(x, y, "add", "sub")

    def _chosen(self, x, y):
        """(a where p, else 0) + (b where not p, else 0) as a where p, else b; None where x + y is no such sum."""
        if not self._varies(x) or not self._varies(y):
            return None
        nodes = [self.builder.nodes[ref.node] for ref in (x, y)]
        if any(node.name != "select_n" or len(node.arguments) != 3 for node in nodes):
            return None
        first, second = (
            [self.builder.shifted(a, ref.row, ref.column) for a in node.arguments] for node, ref in zip(nodes, (x, y))
        )
        zero = self._number(0.0)
        if first[0] != second[0] or self._value(first[1]) != zero or self._value(second[2]) != zero:
            return None
        return self.builder.put("select_n", [first[0], second[1], first[2]], self.dtype)

    def _value(self, ref):
        """The Constant that a reference is, or the reference."""
        if isinstance(ref, At) and self.builder.nodes[ref.node].name in ("constant", "convert_element_type"):
            (argument,) = self.builder.nodes[ref.node].arguments
            if isinstance(argument, Constant):
                return self._number(argument.value)
        return ref

    def _difference(self, x, y):
        return x if y == self._number(0.0) else self._combined(x, y, "sub", "add")

    def _combined(self, x, y, name, opposite):
        """x + y or x - y with the factor that both have taken out; None where they have none in common."""
        if not self._varies(x) or not self._varies(y):
            return None
        (a, x), (b, y) = self.split(x), self.split(y)
        a, b = (self._number(1.0) if factor is None else factor for factor in (a, b))
        if a == b:
            return self.scaled(a, self.builder.put(name, [x, y], self.dtype))
        if isinstance(a, Constant) and isinstance(b, Constant) and a.value == -b.value:
            if b.value == 1.0:  # -x + y is y - x, and -x - y is -(x + y)
                a, x, y = (b, y, x) if name == "add" else (a, x, y)
            return self.scaled(a, self.builder.put(opposite, [x, y], self.dtype))
        return None
