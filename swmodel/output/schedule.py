"""What a run writes and when: snapshots, gauges, maxima, restarts. All ranks gather, and the root writes."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..diagnostics import derived as diagnostics
from ..dynamics.clock import Time
from ..errors import ConfigError
from ..fields.variables import Variable, named_for
from ..runtime.compilation import jit
from ..runtime.version import VERSION
from ..stepping.members import per_member
from . import Claim, Footprint
from .collisions import same_file
from .fingerprint import describe, fingerprint
from .metadata import MemberValues, Varied, references
from .netcdf import FieldFile, GaugeFile, write_fields
from .restart import write_restart
from .resuming import content

__all__ = [
    "FieldOutput", "GaugeOutput", "MaximaOutput", "RestartOutput", "SnapshotOutput", "members_of", "run_attributes",
]  # fmt: skip


class Output:
    """One file of a run; only the root has a writer.

    The methods take the Simulation whose file this is.

    Attributes:
        path: the path of the file.
        every: the interval of model time between two records [s], or None.
        file: the writer, on the root while the file is open.
        begun: whether `run` has opened the file before.
    """

    path: Path
    every: float | None = None
    file: Any = None
    begun = False

    def continues(self, simulation: Any) -> bool:
        """Whether records are appended to the file of a resumed run, or of an earlier call of `run`."""
        return self.begun or simulation.resumed_at is not None

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        """Open the file of which `claim` is the Claim, with these global attributes; on the root."""

    def of_another_run(self, simulation: Any) -> bool:
        """Whether an existing file at the path belongs to an earlier run."""
        return not self.continues(simulation)

    def check(self) -> None:
        """Raise SwmodelError if the file was removed, replaced or cut short; on the root."""
        if self.file is not None:
            self.file.check()

    def next_step(self, simulation: Any) -> int | None:
        """The next step after the present one at which a record is due, or None."""
        if self.every is None:
            return None
        number = math.floor(simulation.step * simulation.dt / self.every + 1e-9)
        step = simulation.step
        while step <= simulation.step:
            number += 1
            step = round(number * self.every / simulation.dt)
        return step

    def is_due(self, simulation: Any) -> bool:
        """Whether a record is due at the present step."""
        if self.every is None:
            return False
        nearest = round(simulation.time / self.every)
        return simulation.step == round(nearest * self.every / simulation.dt)

    def write(self, simulation: Any) -> None:
        """Write a record of the present step; collective."""

    def chunk(self, simulation: Any, series: Any, count: int) -> None:
        """Take the gauges' series of the last `count` steps; collective."""

    def finish(self, simulation: Any) -> None:
        """Write what is due at the end of a run; collective."""

    def flush(self) -> None:
        """Write the records that are still in memory."""

    def close(self) -> None:
        """Close the file and release its claim, also after an error."""
        file, self.file = self.file, None
        if file is not None:
            file.close()


class SnapshotOutput(Output):
    """A file of snapshots: at the start, at regular intervals, and at the end."""

    def found(self, simulation: Any) -> Mapping[str, np.ndarray | None]:
        """{name: array} of a record of the present step, on the root; collective."""
        raise NotImplementedError

    def is_due(self, simulation: Any) -> bool:
        return super().is_due(simulation) or (self.every is None and simulation.step == 0)

    def write(self, simulation: Any) -> None:
        found = self.found(simulation)
        if self.file is not None:
            self.file.append(simulation.time, found)

    def finish(self, simulation: Any) -> None:
        if not self.is_due(simulation):
            self.write(simulation)


class FieldOutput(SnapshotOutput):
    """Snapshots of fields.

    Raises:
        ConfigError: for the name of a variable that the model's runs do not have.
    """

    def __init__(self, path: str | Path, variables: Sequence[str], every: float | None, model: Any) -> None:
        known = diagnostics.names_of(model)
        unknown = [name for name in variables if name not in known]
        if unknown:
            raise ConfigError(
                f"{path}: there is no variable {', '.join(map(repr, unknown))}; choose from {', '.join(known)}."
            )
        self.path, self.variables, self.every, self.file = Path(path), variables, every, None

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        self.file = FieldFile(
            claim, simulation.model.grid, _rows(simulation, self.variables), start=simulation.start,
            attributes=attributes,
            static=_static(simulation), members=members_of(simulation),
            append=self.continues(simulation), resume_time=simulation.time,
            overwrite=simulation.overwrite,
        )  # fmt: skip

    def found(self, simulation: Any) -> dict[str, np.ndarray | None]:
        return collect(simulation, self.variables)


class GaugeOutput(Output):
    """Variables at points, of every step; the file's attributes say how the series are to be scored.

    Args:
        path: the path of the file.
        points: {name: (x, y)} of the gauges.
        gauges: the monitor that records them (simulation/monitors.py).
        windows, threshold, arrival_fraction: as of Simulation.gauges.

    Raises:
        ConfigError: for a window of a gauge that is not among the points.
    """

    def __init__(
        self, path: str | Path, points: Mapping[str, tuple[float, float]], gauges: Any,
        windows: Mapping[str, tuple[float, float]], threshold: float, arrival_fraction: float,
    ) -> None:  # fmt: skip
        self.path, self.points, self.gauges, self.file = Path(path), points, gauges, None
        unknown = [name for name in windows if name not in points]
        if unknown:
            raise ConfigError(f"{path}: there is no gauge {unknown[0]!r}, which has a window; name one of the points.")
        spans = {name: [float(t) for t in window] for name, window in windows.items()}
        self.rules = {
            "gauge_windows": json.dumps(spans), "gauge_threshold": np.float64(threshold),
            "gauge_arrival_fraction": np.float64(arrival_fraction),
            "gauge_comment": "gauge_windows: {name: [first, last] in s since the start}, the times by which a gauge is "
            "scored, else the whole run; arrival: the first time in the window at which eta exceeds "
            "gauge_arrival_fraction of its maximum there, if that is at least gauge_threshold (in m)",
        }  # fmt: skip

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        self.file = GaugeFile(
            claim, self.points, simulation.model.grid, start=simulation.start, attributes={**attributes, **self.rules},
            members=members_of(simulation), append=self.continues(simulation), resume_time=simulation.time,
            overwrite=simulation.overwrite, variables=_rows(simulation, self.gauges.variables),
        )  # fmt: skip

    def begin(self, simulation: Any) -> None:
        """Record the state before the first step; collective."""
        read = simulation.communicator.spmd(lambda gauges, state: gauges.rows(state))
        self._append(simulation, read(self.gauges, simulation.shown()), np.array([simulation.step]))

    def chunk(self, simulation: Any, series: Any, count: int) -> None:
        self._append(simulation, series, simulation.step - count + 1 + np.arange(count))

    def _append(self, simulation, series, steps):
        shares = simulation.communicator.tiles(series).values()
        names, used = self.gauges.variables, slice(len(steps))
        mine = [sum(np.asarray(tile[name][..., used, :], np.float64) for tile in shares) for name in names]
        values = dict(zip(names, simulation.communicator.host_sum(np.stack(mine))))
        if self.file is not None:
            self.file.append(steps * simulation.dt, values)

    def flush(self) -> None:
        if self.file is not None:
            self.file.flush()


class WholeFile:
    """A file that each write replaces as a whole, claimed until the run ends."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._written: Footprint | None = None

    def written(self) -> None:
        """Record the footprint of the file that has just been written."""
        self._written = Footprint.of(self._claim.path)

    def check(self) -> None:
        """Raise SwmodelError if the file that was last written was removed, replaced or cut short."""
        if self._written is not None:
            self._written.check()

    def close(self) -> None:
        """Release the claim."""
        self._claim.release()


class MaximaOutput(Output):
    """Maximum elevation [m] and arrival time [s], written at the end of a run.

    Args:
        path: the path of the file.
        threshold: the elevation |eta| that counts as arrival [m].
    """

    def __init__(self, path: str | Path, threshold: float) -> None:
        self.path, self.threshold = Path(path), threshold

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        meaning = "arrival_time: the first step at which |eta| exceeds arrival_threshold"
        self.attributes = {**attributes, "arrival_threshold": f"{self.threshold:g} m", "arrival_comment": meaning}
        self.file = WholeFile(claim)

    def finish(self, simulation: Any) -> None:
        model = simulation.model
        maximum, arrival = (model.gather(simulation._maxima_carry[name]) for name in ("maximum", "arrival"))
        if maximum is None:
            return
        fields = {
            "maximum_elevation": np.where(model.wet & np.isfinite(maximum), maximum, np.nan),
            "arrival_time": np.where(model.wet & (arrival >= 0), arrival * simulation.dt, np.nan),
        }
        fields = dict(zip(_rows(simulation, list(fields)), fields.values()))
        write_fields(
            self.path, model.grid, fields, seconds=simulation.time, start=simulation.start,
            attributes=self.attributes, static=_static(simulation), members=members_of(simulation),
        )  # fmt: skip
        self.file.written()


class RestartOutput(Output):
    """All that a run needs to continue, in a file that each write replaces.

    Attributes:
        tried, written: the newest step at which a write of the restart was tried, and at which it succeeded.
    """

    def __init__(self, path: str | Path, every: float | None) -> None:
        self.path, self.every, self.fingerprint = Path(path), every, None
        self.tried = self.written = None

    def of_another_run(self, simulation: Any) -> bool:
        """Whether an existing restart at the path is not the one from which this run was resumed."""
        resumed = simulation.resumed_from
        return not self.begun and (resumed is None or not same_file(resumed, self.path))

    def open(self, simulation: Any, attributes: Mapping[str, Any], claim: Claim) -> None:
        self.attributes = attributes
        self.file = WholeFile(claim)

    def write(self, simulation: Any) -> None:
        if simulation.step == 0 or self.tried == simulation.step:
            return
        self.tried = simulation.step
        arrays, scalars = content(simulation)
        self.fingerprint = fingerprint(simulation.model, simulation.step, simulation.dt, known=self.fingerprint)
        if simulation.communicator.is_root and self.file is not None:
            about = {**self.attributes, "fingerprint": json.dumps(self.fingerprint)}
            about["stored_as"] = about["computed_in"]
            write_restart(self.path, simulation.model.grid, arrays, scalars, about)
            self.file.written()
            self.written = simulation.step

    finish = write


def members_of(simulation: Any) -> MemberValues | None:
    """{name: values, one a member} of an ensemble, as the files take it; None for a single model."""
    model = simulation.model
    if model.members is None:
        return None
    varied = {name: Varied(values, model.units_of(name)) for name, values in model.varied.items()}
    return varied or {"": range(model.members)}


def _rows(simulation: Any, names: Iterable[str]) -> list[str | Variable]:
    """Names of variables, or their rows where the table's row does not describe them in this run."""
    own: dict[str, Variable] = {row.name: row for row in simulation.model.variables}
    instead = own | named_for(_gravity(simulation.model), simulation.scheme.rigid_lid)
    return [instead.get(name, name) for name in names]


def _gravity(model):
    """[m s-2], the smallest of an ensemble's members."""
    return min(one.gravity for one in getattr(model, "models", [model]))


def _static(simulation):
    """{name or row: (ny, nx) array} of depth and land mask, as the files take them."""
    return {_rows(simulation, ["depth"])[0]: simulation.model.depth, "wet": simulation.model.wet}


RIGID_LID = (
    "the surface is a rigid lid: eta is the pressure on it over density and gravity, and no part of the thickness"
)


def run_attributes(simulation: Any) -> dict[str, Any]:
    """The global attributes that describe a run so that it can be repeated."""
    model = simulation.model
    py, px = model.communicator.layout
    return {
        "title": simulation.title,
        "source": f"swmodel {VERSION}",
        "config": simulation.config,
        "ranks": np.int32(model.communicator.size),
        "layout": f"{py} x {px} tiles (y x x)",
        "communicator": model.communicator.name,
        "computed_in": str(model.dtype),
        "time_stepper": describe(simulation.scheme),
        "time_step_seconds": np.float64(simulation.dt),
        "gravity": None if model.gravity is None else np.float64(model.gravity),
        "comment": RIGID_LID if simulation.scheme.rigid_lid else None,
        "references": references(model, simulation.scheme),
    }


# -- collecting tiles -----------------------------------------------------------------------------------------------


@jit(static_argnames=("names", "edges", "lid"))
def _diagnose(dynamics, state, step, names, edges, lid):
    def fields(dynamics, state, step):
        thickens = 0.0 * state.eta if lid else state.eta
        flow = dynamics.prepare().flow(state.replace(eta=thickens), Time(step))
        found = {name: _with_edges(diagnostics.field(name, flow), edges) for name in names}
        return {**found, "eta": state.eta} if lid and "eta" in names else found

    return dynamics.communicator.spmd(per_member(fields, at=0))(dynamics, state, step)


def _with_edges(field, edges):
    """A Field's interior, with the faces on its west and south side in directions that are not periodic."""
    west, south = edges
    x, y = field.position in "uq", field.position in "vq"
    return field.crop((int(west and x), 0, int(south and y), 0)).data


def collect(simulation: Any, names: Sequence[str]) -> dict[str, np.ndarray | None]:
    """{name: global array (ny, nx)} of the present state on the root, {name: None} elsewhere; collective.

    Arrays on faces have n + 1 entries in directions that are not periodic.
    """
    model = simulation.model
    edges = not model.grid.periodic_x, not model.grid.periodic_y
    dynamics, step = model.interval(simulation.halo, simulation.step, simulation.dt), jnp.int32(simulation.step)
    tiles = _diagnose(dynamics, simulation.state, step, tuple(names), edges, simulation.scheme.rigid_lid)
    return {name: model.gather(tiles[name]) for name in names}
