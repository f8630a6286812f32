"""What a run writes and when: snapshots, gauges, maxima, restarts. The root writes; all ranks gather."""

import json
import math
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from ..diagnostics import derived as diagnostics
from ..dynamics.clock import Time
from ..errors import ConfigError
from ..fields.variables import named_for
from ..runtime.compilation import jit
from ..runtime.version import VERSION
from ..stepping.members import per_member
from . import Footprint
from .collisions import same_file
from .fingerprint import describe, fingerprint
from .metadata import Varied, references
from .netcdf import FieldFile, GaugeFile, write_fields
from .restart import write_restart
from .resuming import content

__all__ = [
    "FieldOutput", "GaugeOutput", "MaximaOutput", "RestartOutput", "SnapshotOutput", "members_of", "run_attributes",
]  # fmt: skip


class Output:
    """One file of a run; the root alone holds a writer."""

    every = None
    file = None
    begun = False  # whether `run` has opened it before

    def continues(self, simulation):
        """Whether the file is gone on with: that of a resumed run, or of an earlier call of `run`."""
        return self.begun or simulation.resumed_at is not None

    def open(self, simulation, attributes, claim):
        """Prepare the file, on the root; `claim` is the Claim of it."""

    def of_another_run(self, simulation):
        """Whether what stands at its path is the file of an earlier run."""
        return not self.continues(simulation)

    def check(self):
        """Raise SwmodelError if the file is no longer there as it was written; on the root."""
        if self.file is not None:
            self.file.check()

    def next_step(self, simulation):
        """The next step after this one at which it is due, or None."""
        if self.every is None:
            return None
        number = math.floor(simulation.step * simulation.dt / self.every + 1e-9)
        step = simulation.step
        while step <= simulation.step:
            number += 1
            step = round(number * self.every / simulation.dt)
        return step

    def is_due(self, simulation):
        if self.every is None:
            return False
        nearest = round(simulation.time / self.every)
        return simulation.step == round(nearest * self.every / simulation.dt)

    def write(self, simulation):
        """Write what is due now; collective."""

    def chunk(self, simulation, series, count):
        """Take what was recorded at the last `count` steps; collective."""

    def finish(self, simulation):
        """Write what the end of a run asks for; collective."""

    def flush(self):
        """Bring to disk what was recorded."""

    def close(self):
        """Close or release the file, whatever happened."""
        file, self.file = self.file, None
        if file is not None:
            file.close()


class SnapshotOutput(Output):
    """What is written now, every so often, and at the end."""

    def found(self, simulation):
        """What a record of the file is made of, on the root; collective."""
        raise NotImplementedError

    def is_due(self, simulation):
        return super().is_due(simulation) or (self.every is None and simulation.step == 0)

    def write(self, simulation):
        found = self.found(simulation)
        if self.file is not None:
            self.file.append(simulation.time, found)

    def finish(self, simulation):
        if not self.is_due(simulation):
            self.write(simulation)


class FieldOutput(SnapshotOutput):
    """Snapshots of fields."""

    def __init__(self, path, variables, every, model):
        known = diagnostics.names_of(model)
        unknown = [name for name in variables if name not in known]
        if unknown:
            raise ConfigError(
                f"{path}: there is no variable {', '.join(map(repr, unknown))}; choose from {', '.join(known)}."
            )
        self.path, self.variables, self.every, self.file = Path(path), variables, every, None

    def open(self, simulation, attributes, claim):
        self.file = FieldFile(
            claim, simulation.model.grid, _rows(simulation, self.variables), start=simulation.start,
            attributes=attributes,
            static=_static(simulation), members=members_of(simulation),
            append=self.continues(simulation), resume_time=simulation.time,
            overwrite=simulation.overwrite,
        )  # fmt: skip

    def found(self, simulation):
        return collect(simulation, self.variables)


class GaugeOutput(Output):
    """Variables at points, of every step; the file's attributes say how the series are to be scored."""

    def __init__(self, path, points, gauges, windows, threshold, arrival_fraction):
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

    def open(self, simulation, attributes, claim):
        self.file = GaugeFile(
            claim, self.points, simulation.model.grid, start=simulation.start, attributes=attributes | self.rules,
            members=members_of(simulation), append=self.continues(simulation), resume_time=simulation.time,
            overwrite=simulation.overwrite, variables=_rows(simulation, self.gauges.variables),
        )  # fmt: skip

    def begin(self, simulation):
        read = simulation.communicator.spmd(lambda gauges, state: gauges.rows(state))
        self._append(simulation, read(self.gauges, simulation.shown()), np.array([simulation.step]))

    def chunk(self, simulation, series, count):
        self._append(simulation, series, simulation.step - count + 1 + np.arange(count))

    def _append(self, simulation, series, steps):
        shares = simulation.communicator.tiles(series).values()
        names, used = self.gauges.variables, slice(len(steps))
        mine = [sum(np.asarray(tile[name][..., used, :], np.float64) for tile in shares) for name in names]
        values = dict(zip(names, simulation.communicator.host_sum(np.stack(mine))))
        if self.file is not None:
            self.file.append(steps * simulation.dt, values)

    def flush(self):
        if self.file is not None:
            self.file.flush()


class Whole:
    """A file that is replaced whole, kept from other runs while this one lasts."""

    def __init__(self, claim):
        self._claim, self._written = claim, None

    def written(self):
        """Remember the file that has just been written."""
        self._written = Footprint.of(self._claim.path)

    def check(self):
        """Raise SwmodelError if the file that was written last is no longer there."""
        if self._written is not None:
            self._written.check()

    def close(self):
        self._claim.release()


class MaximaOutput(Output):
    """Maximum elevation and arrival time, written at the end and beside every restart."""

    def __init__(self, path, threshold):
        self.path, self.threshold = Path(path), threshold

    def open(self, simulation, attributes, claim):
        meaning = "arrival_time: the first step at which |eta| exceeds arrival_threshold"
        self.attributes = {**attributes, "arrival_threshold": f"{self.threshold:g} m", "arrival_comment": meaning}
        self.file = Whole(claim)

    def finish(self, simulation):
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
    """All that a run needs to go on."""

    def __init__(self, path, every):
        self.path, self.every, self.fingerprint = Path(path), every, None
        self.tried = self.written = None  # the newest step of which a restart was asked for, and was written

    def of_another_run(self, simulation):
        """The one that a run was resumed from is its own; another one at this path is not."""
        resumed = simulation.resumed_from
        return not self.begun and (resumed is None or not same_file(resumed, self.path))

    def open(self, simulation, attributes, claim):
        self.attributes = attributes
        self.file = Whole(claim)

    def write(self, simulation):
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


def members_of(simulation):
    """{name: values} of an ensemble's members, as files want it; None without one."""
    model = simulation.model
    if model.members is None:
        return None
    return {name: Varied(values, model.units_of(name)) for name, values in model.varied.items()} or {
        "": range(model.members)
    }


def _rows(simulation, names):
    """Names of variables, or rows of what they are in this run instead."""
    own = {row.name: row for row in simulation.model.variables}
    instead = own | named_for(_gravity(simulation.model), simulation.scheme.lid)
    return [instead.get(name, name) for name in names]


def _gravity(model):
    """[m s-2], the smallest of an ensemble's members."""
    return min(one.gravity for one in getattr(model, "models", [model]))


def _static(simulation):
    """Depth and land mask, as files take them."""
    return {_rows(simulation, ["depth"])[0]: simulation.model.depth, "wet": simulation.model.wet}


LID = "the surface is a rigid lid: eta is the pressure on it over density and gravity, and no part of the thickness"


def run_attributes(simulation):
    """Global attributes that reproduce the run."""
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
        "comment": LID if simulation.scheme.lid else None,
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
    """A Field's interior, with the faces on its west and south side in directions that the domain has edges in."""
    west, south = edges
    x, y = field.position in "uq", field.position in "vq"
    return field.crop((int(west and x), 0, int(south and y), 0)).data


def collect(simulation, names):
    """{name: global array} on the root, None in its place elsewhere;
    n + 1 faces in directions that are not periodic."""
    model = simulation.model
    edges = not model.grid.periodic_x, not model.grid.periodic_y
    dynamics, step = model.interval(simulation.halo, simulation.step, simulation.dt), jnp.int32(simulation.step)
    tiles = _diagnose(dynamics, simulation.state, step, tuple(names), edges, simulation.scheme.lid)
    return {name: model.gather(tiles[name]) for name in names}
