"""The fingerprint of a restart: the settings and fields of its run, in a form that a later run compares with its own.

A fingerprint is a dict of entries, {name: value}, named as in an experiment file:

    precision, gravity, linear, momentum, side, core, coriolis, ... what dynamics/system.py declares as recorded
    depth, coast, ...                                               the fields of Floor.maps (dynamics/domain.py)
    forcing.0, forcing.0.x, dissipation.1.viscosity, boundary.0     each term's class and parameters
    tracers.dye, tracers.dye.x                                      each tracer's class and parameters
    dissipation.1.code                                              a digest of the source of a part of one's own
    source, source.uplift                                           the motion of the sea floor

A field is described by its smallest and largest value and by a hash. The hash is the sum, modulo 2^64, of one hash for
each cell, of the cell's number in the whole grid and of its value rounded to 20 significant bits. Every rank adds up
the cells of its own tiles. No rank therefore needs the whole field, and the sum does not depend on how the grid is cut.
For a field that changes in time, the two records that bracket the time of the restart are described. The same holds for
the `lines` of a part, such as the points of a track. A function is described by its values where its rule has
`samples`.

Where the members of an ensemble differ, a value is {"members": [one value for each]}.
"""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from ..dynamics.clock import Moments
from ..dynamics.domain import Model
from ..dynamics.system import declared_fields
from ..fields.parts import Named, code_of, name_of

GROUPS = ("coast", "depth", "precision", "physics")  # "physics" holds all entries outside the other groups
ROUNDING = 4e-6  # relative; closer values count as equal: 20 bits, and the rounding of float64 to float32
BLOCK = 1 << 18  # cells in one pass of the hash
GOLDEN, FIRST, SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclasses.dataclass(frozen=True)
class Difference:
    """One entry that differs: its name, and a clause that describes the difference."""

    name: str
    text: str

    @property
    def group(self) -> str:
        """The group, one of GROUPS, to which the entry belongs."""
        return self.name if self.name in GROUPS else "physics"


def explained(difference: Difference, names: Iterable[str]) -> bool:
    """Whether one of `names` covers this difference: "all", its group, its name, or its name up to a dot."""
    name = difference.name
    return any(n in ("all", difference.group, name) or name.startswith(f"{n}.") for n in names)


def describe(part: Any) -> str:
    """A part of a model as text, from the fields of its class: "SemiImplicit(dt=600, theta=0.6, epsilon=0.1)".

    Fields that are None and fields that hold arrays are left out.
    """
    if isinstance(part, bool | str) or part is None:
        return str(part)
    if np.ndim(part) == 0 and np.asarray(part).dtype.kind in "iuf":
        return f"{float(part):.7g}"
    if isinstance(part, tuple | list):
        return f"({', '.join(map(describe, part))})"
    if not dataclasses.is_dataclass(part):
        code = code_of(type(part)) if isinstance(part, Named) else ""
        return f"{type(part).__name__}(code={code})" if code else type(part).__name__
    values = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    texts = [f"{name}={describe(x)}" for name, x in values.items() if x is not None and np.ndim(x) == 0]
    texts += [f"code={code}"] if (code := code_of(type(part))) else []
    return f"{type(part).__name__}({', '.join(texts)})"


# -- making a fingerprint ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Tiles:
    """A field of the grid: {rank: array (..., my, mx) of the rank's box}."""

    parts: dict[int, np.ndarray]


def fingerprint(
    model: Model, step: int, dt: float, like: dict | None = None, known: dict | None = None, steps: int = 0
) -> dict:
    """The fingerprint of a ShallowWater or an Ensemble; collective.

    Args:
        model: the model.
        step, dt: the number of steps so far and their length [s]; they give the time whose records are described.
        like: another fingerprint, whose records are described here too, if they exist.
        known: the fingerprint of this model at another time, whose fields are not hashed again.
        steps: the number of further steps whose records are described too, for results that depend on a whole run.
    """
    members = getattr(model, "models", [model])
    found = {
        id(one): _entries(one, (step, step + steps), dt, _of_member(like or {}, k)) for k, one in enumerate(members)
    }
    if known is None:
        known = {}
    else:
        found = {key: {n: x for n, x in one.items() if not isinstance(x, _Tiles)} for key, one in found.items()}
    _hashed(model, list(found.values()))
    entries = [found[id(one)] for one in members]
    names = dict.fromkeys(name for one in entries for name in one)
    return {**known, **{name: _together([one.get(name) for one in entries]) for name in names}}


def _of_member(entries, k):
    """The entries of member k; an entry that all members share is taken as it is."""
    return {
        name: value["members"][k] if _is(value, "members") and k < len(value["members"]) else value
        for name, value in entries.items()
    }


def _together(values):
    return values[0] if all(value == values[0] for value in values) else {"members": values}


def _entries(model, span, dt, like):
    """{name: value} of a model, in which fields are still _Tiles."""
    found: dict[str, Any] = {"precision": str(model.dtype)}
    for name, declaration in declared_fields("recorded"):
        value = getattr(model, name)
        if value is None and name != "coriolis":  # an entry that older restarts have
            continue
        if declaration["recorded"] == "part":
            found |= _part(name, value, model, None)
        elif declaration["recorded"] != "parts":
            found[name] = value if declaration["recorded"] == "value" else describe(value)
    cut = model.decomposition.cut
    for name, values in model.sea_floor.maps.items():
        found[name] = _Tiles({rank: cut(values, rank) for rank in model.communicator.ranks})

    def records(name, series):
        known = like.get(name, {})
        times = [time for time, _ in known.get("records", [])] if isinstance(known, dict) else []
        return _within(series, span, dt) if not times else _at(series, times)

    for name, term in model.named_parts("terms", "open_boundaries"):
        found |= _part(name, term, model, records)
    for tracer in model.tracers:
        found |= _part(f"tracers.{tracer.name}", tracer, model, records)
    found["source"] = "none" if model.uplift is None else "BottomMotion"
    if model.uplift is not None:
        found["source.uplift"] = _records(model.uplift, records("source.uplift", model.uplift))
    return found


def _part(name, part, model, records):
    """The entries of a part of the model: its class, and its parameters by the fields of the class."""
    if part is None:
        return {name: "none"}
    found: dict[str, Any] = {}
    if isinstance(part, dict):  # by constituent of a tide
        values: dict[str, Any] = part
    else:
        found[name] = name_of(part)
        if code := code_of(type(part)):
            found[f"{name}.code"] = code
        fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
        own = [field for field in fields if not field.metadata.get("of_grid")]
        values = {field.name: _sampled(field, getattr(part, field.name)) for field in own}
        moments_of_lines: Any = getattr(part, "moments_of_lines", ())
        for line in getattr(part, "lines", ()):
            series = _Line(_seconds(values[moments_of_lines[0]], model), _whole(values.pop(line), model))
            found[f"{name}.{line}"] = _records(series, records(f"{name}.{line}", series))
        values = {field: value for field, value in values.items() if field not in moments_of_lines}
    for field, value in values.items():
        key = f"{name}.{field}"
        if hasattr(value, "times") and hasattr(value, "bracket"):
            found[key] = _records(value, records(key, value))
        elif isinstance(value, tuple) and all(isinstance(x, bool | str | int | float | tuple) for x in value):
            found[key] = [list(x) if isinstance(x, tuple) else x for x in value]
        elif np.ndim(value) >= 2:
            tiles = model.communicator.tiles([value])
            found[key] = _Tiles({rank: np.asarray(tiles[rank][0]) for rank in model.communicator.ranks})
        elif value is None:
            continue
        elif isinstance(value, bool | str | int | float):
            found[key] = value
        elif np.ndim(value) == 0 and getattr(value, "dtype", np.dtype("O")).kind in "biuf":
            found[key] = np.asarray(value).item()
        elif np.ndim(value) == 1 and getattr(value, "dtype", np.dtype("O")).kind == "f":
            found[key] = _whole(value, model).tolist()
        elif isinstance(value, dict) or (
            dataclasses.is_dataclass(value) and not hasattr(value, "communicator")
        ):  # modes depend on the grid alone
            found |= _part(key, value, model, records)
    return found


def _seconds(moments, model):
    """Moments, or a tuple of times, in seconds."""
    return moments.seconds(functools.partial(_whole, model=model)) if isinstance(moments, Moments) else moments


def _whole(values, model):
    """An array (n,) that every rank holds."""
    if not isinstance(values, jax.Array):
        return np.asarray(values)
    return np.asarray(model.communicator.tiles([values])[model.communicator.ranks[0]][0])


def _sampled(field, value):
    """The value of a field of a part; a function is replaced by its values at the samples of the field's rule."""
    rule = field.metadata.get("rule")
    return rule.samples(value) if callable(value) and hasattr(rule, "samples") else value


class _Line:
    """Numbers (n,) at times (n,) [s], as series of records."""

    cycle = None

    def __init__(self, times, values):
        self.times, self.values = np.asarray(times, float), {0: values}

    def bracket(self, step, dt):
        last = max(len(self.times) - 2, 0)
        k = int(np.clip(np.searchsorted(self.times, step * dt, side="right") - 1, 0, last))
        return k, min(k + 1, len(self.times) - 1)


def _records(series, numbers):
    times = np.asarray(series.times, float)

    def value(k):
        whole = {rank: np.asarray(values[k]) for rank, values in series.values.items()}
        first = next(iter(whole.values()))
        return first.item() if first.ndim < 2 else _Tiles(whole)

    return {"cycle": series.cycle, "records": [[times[k].item(), value(k)] for k in numbers]}


def _within(series, span, dt):
    """The indices of the records between which a run interpolates from the first to the last step of `span`."""
    first, last = ([int(k) for k in series.bracket(step, dt)[:2]] for step in span)
    if span[0] == span[1]:
        return list(dict.fromkeys(first))
    return list(range(len(series.times))) if series.cycle else list(range(min(first), max(last) + 1))


def _at(series, times):
    known = np.asarray(series.times, float)
    return [int(k) for time in times for k in np.flatnonzero(np.isclose(known, time, rtol=1e-9, atol=1e-6))]


def _hashed(model, entries):
    """Replace each _Tiles by its hash and range, with one reduction for all of them; collective."""
    places = []
    for one in entries:
        places += [(one, name) for name, value in one.items() if isinstance(value, _Tiles)]
        for value in one.values():
            pairs = value["records"] if isinstance(value, dict) else []
            places += [(pair, 1) for pair in pairs if isinstance(pair[1], _Tiles)]
    if not places:
        return
    sums, ranges = zip(*(_summed(where[key], model) for where, key in places))
    limbs = np.array([[(total >> shift) & 0xFFFF for shift in (0, 16, 32, 48)] for total in sums], float)
    limbs, ranges = model.communicator.host_sum(limbs), model.communicator.host_maximum(np.array(ranges))
    for (where, key), limb, (low, high) in zip(places, limbs, ranges):
        total = sum(int(part) << shift for part, shift in zip(limb, (0, 16, 32, 48))) % (1 << 64)
        where[key] = {"hash": f"{total:016x}", "low": float(-low), "high": float(high)}


def _summed(tiles, model):
    """(the sum of the hashes of this process's cells, (-smallest, largest value))."""
    total, ranges = 0, [-np.inf, -np.inf]
    ny, nx = model.decomposition.shape
    for rank, values in tiles.parts.items():
        (rows, columns), tile = model.decomposition.padding(rank), model.decomposition.tile(rank)
        values = np.asarray(values)[..., rows:, columns:] + np.float32(0.0)
        values = values.reshape(-1, *values.shape[-2:])
        for layer, plane in enumerate(values):
            numbers = np.arange(tile.j0, tile.j1)[:, None] * nx + np.arange(tile.i0, tile.i1) + layer * ny * nx
            total += hash_of_cells(plane, numbers)
        ranges = np.fmax(ranges, [np.fmax.reduce(-values, axis=None), np.fmax.reduce(values, axis=None)])
    return total % (1 << 64), np.nan_to_num(ranges, nan=-np.inf)


def hash_of_cells(values: np.ndarray, numbers: np.ndarray) -> int:
    """The sum of one hash for each cell, of its number in the grid and its value rounded to 20 significant bits.

    The mixing function is that of SplitMix64 (Steele et al. 2014, doi:10.1145/2660193.2660195).
    """
    total, values, numbers = 0, np.ravel(values), np.ravel(numbers)
    for begin in range(0, values.size, BLOCK):
        part = slice(begin, begin + BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            single = values[part].astype(np.float32) + np.float32(0.0)  # -0 is 0
        single[np.isnan(single)] = np.nan  # one bit pattern for all NaNs
        bits = ((single.view(np.uint32).astype(np.uint64) + np.uint64(8)) >> np.uint64(4)) + np.uint64(1)
        mixed = (numbers[part].astype(np.uint64) + np.uint64(1)) * GOLDEN + bits * FIRST
        mixed = (mixed ^ (mixed >> np.uint64(30))) * FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * SECOND
        total += int((mixed ^ (mixed >> np.uint64(31))).sum(dtype=np.uint64))
    return total % (1 << 64)


# -- comparing two fingerprints ---------------------------------------------------------------------------------------


def differences(was: dict, now: dict) -> list[Difference]:
    """The Differences between the fingerprint of a restart and that of the run that continues from it."""
    found, reported = [], []
    for name in sorted({**was, **now}, key=lambda name: name.count(".")):
        if any(name.startswith(f"{parent}.") for parent in reported):
            continue  # the difference of the whole part is already in the list
        if name not in was or name not in now:
            there, missing = ("restart", "experiment") if name in was else ("experiment", "restart")
            value = _as_text(was.get(name, now.get(name)))
            found.append(Difference(name, f"{name} ({value}) is in the {there} and not in the {missing}"))
            reported.append(name)
        elif text := _difference(name, was[name], now[name]):
            found.append(Difference(name, text))
            reported.append(name)
    return sorted(found, key=lambda difference: (GROUPS.index(difference.group), difference.name))


def _difference(name, was, now):
    """A clause that describes how two values differ, or None."""
    if _is(was, "members") or _is(now, "members"):
        return _of_members(name, was, now)
    if _is(was, "records") and _is(now, "records"):
        return _of_records(name, was, now)
    if _same(was, now):
        return None
    if _is(was, "hash") and _is(now, "hash") and _same((was["low"], was["high"]), (now["low"], now["high"])):
        return f"{name} is another field in the restart, of the same range ({_as_text(was)})"
    return f"{name} is {_as_text(was)} in the restart and {_as_text(now)} in the experiment"


def _of_members(name, was, now):
    if not (_is(was, "members") and _is(now, "members") and len(was["members"]) == len(now["members"])):
        return f"{name} differs from member to member in one of restart and experiment only"
    texts = [_difference(f"{name} of member {k}", a, b) for k, (a, b) in enumerate(zip(was["members"], now["members"]))]
    return next((text for text in texts if text), None)


def _of_records(name, was, now):
    if not _same(was["cycle"], now["cycle"]):
        return f"{name} repeats every {was['cycle']} s in the restart and every {now['cycle']} s in the experiment"
    for time, value in was["records"]:
        there = [other for at, other in now["records"] if abs(at - time) <= 1e-6 + 1e-9 * abs(time)]
        if not there:
            return f"{name} has a record at {time:g} s in the restart and none in the experiment"
        if not any(_same(value, other) for other in there):
            text = _difference(f"{name} at {time:g} s", value, there[-1])
            return text or f"{name} differs at {time:g} s"
    return None


def _is(value, kind):
    return isinstance(value, dict) and kind in value


def _same(a: Any, b: Any) -> bool:
    if _is(a, "hash") and _is(b, "hash"):
        return a["hash"] == b["hash"]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a == b
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return a == b
    return a == b or abs(a - b) <= ROUNDING * max(abs(a), abs(b)) or (a != a and b != b)


def _as_text(value):
    if _is(value, "hash"):
        return f"a field of {value['low']:.6g} to {value['high']:.6g}"
    if _is(value, "records"):
        return "records in time"
    if _is(value, "members"):
        return "different for each member"
    if isinstance(value, list):
        return ", ".join(map(_as_text, value)) or "empty"
    return f"{value:.7g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
