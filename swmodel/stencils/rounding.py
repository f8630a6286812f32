"""Properties of a Graph that decide which reorderings of its operations are safe: rounded comparisons, and NaN."""

import functools

from .graph import At, Constant, Graph

__all__ = ["compares_rounded", "is_nan_with"]

COMPARISONS = ("gt", "lt", "ge", "le", "eq", "ne", "sign", "floor")
EXACT = ("load", "scalar", "constant", "convert_element_type", "stop_gradient", "inside", "neg", "abs", "max", "min",
         "select_n")  # fmt: skip
WHOLE = ("constant", "convert_element_type", "stop_gradient", "inside", "neg", "abs", "max", "min", "select_n", "add",
         "sub", "mul")  # fmt: skip
CARRIES_NAN = ("add", "sub", "mul", "neg", "max", "min")
DEEPEST = 6  # the number of operations through which NaN is followed


@functools.lru_cache(maxsize=256)
def compares_rounded(graph: Graph) -> bool:
    """Whether a comparison, on which results depend, has an argument that was rounded.

    An order of operations other than the written one may then change which branch is taken: (a - b) + b > a.
    """
    whole, exact = set(), set()  # nodes whose values are small integers; nodes whose values were never rounded
    for number, node in enumerate(graph.nodes):
        arguments = node.arguments
        if node.name in COMPARISONS and not all(_is_in(exact, a) for a in arguments):
            return True
        is_float = node.dtype.startswith("float")
        if not is_float or (node.name in WHOLE and all(_is_in(whole, a) and _is_whole(a) for a in arguments)):
            whole.add(number)
        if number in whole or (node.name in EXACT and all(_is_in(exact, a) for a in arguments)):
            exact.add(number)
    return False


def _is_in(nodes, argument):
    """Whether an argument is a constant or one of some nodes."""
    return isinstance(argument, Constant) or argument.node in nodes


def _is_whole(argument):
    return not isinstance(argument, Constant) or float(argument.value).is_integer()


def is_nan_with(graph: Graph, ref: At, other: At) -> bool:
    """Whether `ref` is always NaN where `other` is; False where that does not follow from sums and products."""
    return _unscaled(graph, other) in _nan_if(graph, ref, DEEPEST)


def _unscaled(graph, ref):
    """The value that is NaN if `ref` is: `ref` without the constants that multiply it."""
    node = graph.nodes[ref.node]
    while node.name in ("mul", "neg"):
        inner = [a for a in node.arguments if isinstance(a, At)]
        if len(inner) != 1 or not all(a.value for a in node.arguments if isinstance(a, Constant)):
            break
        ref = _moved(inner[0], ref)
        node = graph.nodes[ref.node]
    return ref


def _nan_if(graph, ref, depth):
    """Values that make `ref` NaN if one of them is NaN, at most `depth` operations away."""
    found = {ref}
    if depth and graph.nodes[ref.node].name in CARRIES_NAN:
        for a in graph.arguments(ref.node):
            found |= _nan_if(graph, _moved(a, ref), depth - 1)
    return found


def _moved(argument, ref):
    """An argument of the node of `ref`, counted from where `ref` is."""
    return At(argument.node, argument.row + ref.row, argument.column + ref.column)
