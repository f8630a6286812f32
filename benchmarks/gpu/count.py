"""What a program that XLA has compiled for a GPU launches and moves, read from its optimised HLO.

Bytes are counted as if each kernel read each of its operands once and wrote its results: what caches save between
kernels, and what stencils read twice, is left out. Of an operand that is only sliced, the slices count, and of one that
is updated in place, the update.
"""

import dataclasses
import math
import re

__all__ = ["Counts", "count"]

CHECKED_EVERY = 24  # steps between two checks of the state, and fewer than those between two records of output

BYTES = {"pred": 1, "s8": 1, "u8": 1, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16}
FREE = {
    "parameter", "tuple", "get-tuple-element", "bitcast", "reshape", "constant", "after-all", "partition-id",
    "replica-id", "opt-barrier", "optimization-barrier",
}  # fmt: skip
CALLED = {"fusion": "calls", "call": "to_apply", "while": "body"}  # the attribute with the computation


@dataclasses.dataclass
class Counts:
    """Sums over the operations that run once.

    Attributes:
        launches: kernels and copies.
        bytes: read and written.
        conditions: those of branches, and of loops whose number of iterations is not known.
        loops: [(number of iterations, or None where it is not known, Counts of one)].
    """

    launches: int = 0
    bytes: float = 0.0
    conditions: int = 0
    loops: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Operation:
    """One line of HLO."""

    name: str
    kind: str
    size: int  # of its result, in bytes
    operands: tuple
    attributes: str

    def called(self):
        """The name of the computation that it runs, or None."""
        match = re.search(rf"\b{CALLED.get(self.kind, 'calls')}=%?([\w.\-]+)", self.attributes)
        return match and match[1]

    def branches(self):
        """The names of the computations of a conditional."""
        inside = re.search(r"branch_computations=\{([^}]*)\}", self.attributes)
        if inside:
            return [name.strip().lstrip("%") for name in inside[1].split(",")]
        return re.findall(r"(?:true|false)_computation=%?([\w.\-]+)", self.attributes)


def count(text: str) -> Counts:
    """The Counts of a module's entry; of branches the shortest, and the longest in one of CHECKED_EVERY steps."""
    computations, entry = _parsed(text)
    return _counted(computations, entry)


def _counted(computations, name):
    counts = Counts()
    sizes = {operation.name: operation.size for operation in computations[name]}
    for operation in computations[name]:
        kind = operation.kind
        if kind in FREE or kind.endswith("-done"):
            continue
        if kind == "while":
            trips = re.search(r"known_trip_count\D*(\d+)", operation.attributes)
            within = _counted(computations, operation.called())
            counts.loops.append((int(trips[1]) if trips else None, within))
            counts.conditions += within.conditions + (not trips)
        elif kind == "conditional":
            counts.conditions += 1
            each = [_counted(computations, branch) for branch in operation.branches()]
            _add(counts, min(each, key=lambda branch: branch.bytes))
            counts.bytes += max(branch.bytes for branch in each) / CHECKED_EVERY
        elif kind == "call":
            _add(counts, _counted(computations, operation.called()))
        else:
            counts.launches += 1
            counts.bytes += _moved(computations, operation, sizes)
    return counts


def _add(counts, more):
    counts.launches += more.launches
    counts.bytes += more.bytes
    counts.conditions += more.conditions
    counts.loops += more.loops


def _moved(computations, operation, sizes):
    """Bytes that a kernel reads and writes."""
    inner = computations.get(operation.called()) if operation.kind.startswith("fusion") else None
    if inner is None:
        return sum(sizes.get(name, 0) for name in dict.fromkeys(operation.operands)) + operation.size
    by_name = {one.name: one for one in inner}
    users = {}
    for one in inner:
        for name in one.operands:
            users.setdefault(name, []).append(one)
    read = sum(_read(one, users) for one in inner if one.kind == "parameter")
    return read + _written(inner[-1], by_name)


def _read(parameter, users):
    """Bytes of a parameter of a fusion that are read: all of it, or its slices, or nothing of what is updated."""
    total = 0
    for user in users.get(parameter.name, ()):
        if user.kind in ("bitcast", "reshape"):
            total += _read(dataclasses.replace(user, size=parameter.size), users)
        elif user.kind in ("dynamic-slice", "slice"):
            total += user.size
        elif not (user.kind == "dynamic-update-slice" and user.operands[0] == parameter.name):
            return parameter.size
    return min(total, parameter.size)


def _written(root, by_name):
    if root.kind == "tuple":
        return sum(_written(by_name[name], by_name) for name in root.operands if name in by_name)
    if root.kind in ("bitcast", "reshape") and root.operands[0] in by_name:
        return _written(by_name[root.operands[0]], by_name)
    if root.kind == "dynamic-update-slice" and root.operands[1] in by_name:
        return by_name[root.operands[1]].size
    return root.size


# -- the text ---------------------------------------------------------------------------------------------------------


def _parsed(text):
    """({computation: its Operations, the root last}, the name of the entry)."""
    computations, current, entry = {}, None, None
    for line in text.splitlines():
        head = re.match(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line)
        if head:
            current = head[2]
            computations[current] = []
            entry = current if head[1] else entry
        elif line.startswith("}"):
            current = None
        elif current is not None and (match := re.match(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$", line)):
            operation = _operation(*match.groups())
            computations[current].append(operation)
    return computations, entry


def _operation(name, rest):
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    shape, rest = rest[:end], rest[end:].strip()
    kind, _, rest = rest.partition("(")
    end = _closing("(" + rest, 0) - 1
    operands = tuple(re.findall(r"%([\w.\-]+)", rest[:end]))
    return Operation(name, kind.strip(), _size(shape), operands, rest[end:])


def _closing(text, start):
    """The place of the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return len(text)


def _size(shape):
    sizes = re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", shape)
    return sum(BYTES.get(kind, 0) * math.prod(int(n) for n in dims.split(",") if n) for kind, dims in sizes)
