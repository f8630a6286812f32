"""Restart files of inversions, from which an inversion continues on any number of ranks.

The file holds the parameters and the pairs of L-BFGS as global arrays and numbers, the history, and costly results
such as Green's functions. It is complete or absent, like all restarts (output/restart.py).

The file also holds the Identity of the inversion: the fingerprint of the model (output/fingerprint.py), the other
settings on which J depends, and the observations that count. An inversion continues only if all of these are the same,
or if `force` names what differs. In the latter case it starts from the stored parameters. All that depends on J (its
history, the pairs of L-BFGS and Green's functions) is computed again.
"""

import dataclasses
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from ...errors import DataError
from ...models.shallow_water import ShallowWater
from ...output.fingerprint import ROUNDING, Difference, differences, explained
from ...output.restart import write_restart_together
from ...output.resuming import opened_together

GROUPS = ("initial", "stepper", "length", "method", "controls", "observations")  # in addition to those of fingerprints
TOLERANCE = 1e-3  # of an observation's standard deviation: the rounding of a twin's run on another number of ranks
SHOWN = 4  # differences that a message names; the others are counted


@dataclasses.dataclass(frozen=True)
class Identity:
    """The model, settings and observations of an inversion.

    Attributes:
        entries: {name: entry of a fingerprint}: the model's fingerprint and other settings.
        records: {name: Record} of the observations.
        withheld: names of the records that are compared with the model, but not used.
    """

    entries: dict
    records: dict
    withheld: tuple = ()

    def observations(self) -> list:
        """[[name, x, y, whether it is used, number of observations that count]], for JSON."""
        return [
            [name, *(float(x) for x in record.place), name not in self.withheld, record.counted()[0].size]
            for name, record in self.records.items()
        ]

    def numbers(self) -> np.ndarray:
        """(3, n): time [s], value and standard deviation, in the units of each, of all observations that count."""
        rows = [(*record.counted()[:2], record.error) for record in self.records.values()]
        return np.concatenate([np.array(row, float) for row in rows], axis=1) if rows else np.zeros((3, 0))


def write_inversion_restart(
    path: str | Path, model: ShallowWater, vectors: dict, arrays: dict, identity: Identity
) -> None:
    """Write control dicts and arrays; collective.

    Args:
        path: the path of the file.
        model: a ShallowWater.
        vectors: {name: control dict}.
        arrays: {name: array that every rank holds}.
        identity: the Identity of the inversion.
    """
    named = {f"{key}@{name}": value for key, vector in vectors.items() for name, value in vector.items()}
    fields = {name: value for name, value in named.items() if np.ndim(value) >= 2}
    held = {name: value for name, value in named.items() if name not in fields} | arrays
    held |= {"observed": identity.numbers()}
    about = {"fingerprint": json.dumps(identity.entries), "observations": json.dumps(identity.observations())}
    write_restart_together(path, model, fields, held, {"swmodel_inversion": True}, about)


def read_inversion_restart(
    path: str | Path, model: ShallowWater, like: dict, identity: Identity, force: tuple = ()
) -> tuple[dict, dict, list]:
    """({name: control dict}, {name: array}, the Differences that `force` allows) of a file; collective.

    Args:
        path: the path of the file.
        model: the ShallowWater.
        like: a control dict with the names and shapes that the inversion has.
        identity: the Identity of the inversion.
        force: names of what may differ: "all", groups, entries, or the part of an entry's name before a dot.

    Raises:
        DataError: if the file is not a restart of an inversion, if it belongs to another inversion and `force` does not
            name all differences, or if it holds other unknowns.
    """
    tile, restart = opened_together(model.domain, path, _read)
    if not restart.scalars.get("swmodel_inversion"):
        raise DataError(f"{path} is not a restart of an inversion; give the one that `swmodel invert` has written.")
    if "fingerprint" not in restart.attributes:
        raise DataError(
            f"{path} is of an older swmodel, which did not record model and observations of the inversion; start the "
            "inversion anew, without --resume."
        )
    found = differences(json.loads(restart.attributes["fingerprint"]), identity.entries)
    found += _of_observations(restart, identity)
    refused = [difference for difference in found if not _explained(difference, force)]
    if refused:
        raise DataError(_refusal(path, refused))
    shapes, arrays = {}, {}
    for name, shape in restart.shapes.items():
        key, at, part = name.partition("@")
        if at:
            shapes.setdefault(key, {})[part] = shape[-2:]
        elif name != "observed":
            arrays[name] = restart.arrays[name]
    for was in shapes.values():
        _check_unknowns(path, was, like, model)

    def value(name, as_one):
        if np.ndim(as_one) < 2:
            return np.asarray(restart.arrays[name], np.asarray(as_one).dtype)
        return jnp.asarray(tile(name)).astype(as_one.dtype)

    vectors = {key: {part: value(f"{key}@{part}", like[part]) for part in like} for key in shapes}
    return vectors, arrays, found


@dataclasses.dataclass(frozen=True)
class _Read:
    """What every rank needs of a restart: all but its fields, which are read by windows."""

    scalars: dict
    attributes: dict
    shapes: dict
    arrays: dict


def _read(restart):
    shapes = {name: tuple(array.shape) for name, array in restart.arrays.items()}
    held = {n: np.asarray(x) for n, x in restart.arrays.items() if "@" not in n or len(shapes[n]) < 2}
    return _Read(restart.scalars, restart.attributes, shapes, held)


def _check_unknowns(path, was, like, model):
    """Raise DataError if {name: shape} of a vector in the restart is not that of this inversion's unknowns."""
    shapes = {name: model.grid.shape if np.ndim(x) >= 2 else np.shape(x) for name, x in like.items()}
    if was != shapes:
        unknowns = [", ".join(f"{name} {shape}" for name, shape in one.items()) for one in (was, shapes)]
        raise DataError(
            f"{path} holds other unknowns ({unknowns[0]}) than the inversion has ({unknowns[1]}), from which it cannot "
            "continue; start it anew, without --resume."
        )


# -- comparison with the inversion that wrote the restart -------------------------------------------------------------


def _of_observations(restart, identity):
    """The Differences between the observations, matched by name."""
    was = _by_name(json.loads(restart.attributes["observations"]), restart.arrays["observed"])
    now = _by_name(identity.observations(), identity.numbers())
    found = []
    for name in {**was, **now}:
        if name not in was or name not in now:
            there, missing = ("restart", "experiment") if name in was else ("experiment", "restart")
            text = f"is in the {there} and not in the {missing}"
        else:
            text = _of_record(*was[name], *now[name], units=identity.records[name].units)
        if text:
            found.append(Difference(f"observations.{name}", f"the record of {name} {text}"))
    return found


def _by_name(rows, numbers):
    """{name: ((x, y, whether it is used), (3, n) numbers)}."""
    ends = np.cumsum([row[-1] for row in rows], dtype=int)
    parts = np.split(numbers, ends[:-1], axis=1) if rows else []
    return {name: ((x, y, used), part) for (name, x, y, used, _), part in zip(rows, parts)}


def _of_record(was, old, now, new, units):
    """How two records of one name differ, a clause; None where they do not."""
    if not np.allclose(was[:2], now[:2], rtol=ROUNDING, atol=0.0):
        return f"is at ({was[0]:g}, {was[1]:g}) in the restart and at ({now[0]:g}, {now[1]:g}) in the experiment"
    if was[2] != now[2]:
        words = {True: "used", False: "withheld"}
        return f"is {words[was[2]]} in the restart and {words[now[2]]} in the experiment"
    if old.shape != new.shape:
        return f"has {old.shape[1]} observations in the restart and {new.shape[1]} in the experiment"
    if not np.allclose(old[0], new[0], rtol=ROUNDING, atol=0.0, equal_nan=True):  # marks have no time
        return "has its observations at other times in the restart"
    off = np.abs(old[1] - new[1])
    changed = off > TOLERANCE * old[2] + ROUNDING * np.abs(old[1])
    if changed.any():
        return f"differs in {np.count_nonzero(changed)} of {changed.size} values, by up to {off.max():.4g} {units}"
    if not np.allclose(old[2], new[2], rtol=TOLERANCE, atol=0.0):
        means = old[2].mean(), new[2].mean()
        return f"has errors of {means[0]:.4g} {units} in the restart and {means[1]:.4g} {units} in the experiment"
    return None


def _group(difference):
    head = difference.name.partition(".")[0]
    return head if head in GROUPS else difference.group


def _explained(difference, names):
    """Whether one of `names` names a Difference; see output.fingerprint.explained."""
    if "physics" in names and _group(difference) != "physics":
        names = [name for name in names if name != "physics"]
    return explained(difference, names)


def _refusal(path, refused):
    listed = "; ".join(difference.text for difference in refused[:SHOWN])
    listed += f"; and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
    names = ",".join(dict.fromkeys(map(_group, refused)))
    return (
        f"{path} belongs to another inversion: {listed}. Resume it with the experiment and the observations with "
        f"which it began, start anew without --resume or, if the change is meant, add --force {names}."
    )
