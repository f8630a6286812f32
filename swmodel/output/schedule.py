"""What a run writes and when: snapshots, gauges, maxima, restarts. The root writes; all ranks gather."""
import contextlib
import json
import math
import shlex
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from .. import diagnostics
from ..compilation import jit
from ..dynamics.clock import Time
from ..errors import ConfigError, DataError
from ..fields import UNDER_LID
from ..members import per_member
from ..version import VERSION
from . import claim
from .netcdf import FieldFile, GaugeFile, write_fields
from .restart import read_restart, write_restart

__all__ = [
    "FieldOutput", "GaugeOutput", "MaximaOutput", "RestartOutput", "Run", "SnapshotOutput", "members_of", "restored",
]  # fmt: skip


class Output:
    """One file of a run; the root alone holds a writer."""

    every = None
    file = None
    begun = False  # whether `run` has opened it before

    def continues(self, simulation):
        """Whether the file is gone on with: that of a resumed run, or of an earlier call of `run`."""
        return self.begun or simulation.resumed_at is not None

    def open(self, simulation, attributes):
        """Prepare the file, on the root."""

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
        if self.file is not None:
            self.file.close()
            self.file = None


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

    def __init__(self, path, variables, every):
        unknown = [name for name in variables if name not in diagnostics.FIELDS]
        if unknown:
            raise ConfigError(
                f"{path}: there is no variable {', '.join(map(repr, unknown))}; "
                f"choose from {', '.join(diagnostics.FIELDS)}."
            )
        self.path, self.variables, self.every, self.file = Path(path), variables, every, None

    def open(self, simulation, attributes):
        self.file = FieldFile(
            self.path, simulation.model.grid, _rows(simulation, self.variables), start=simulation.start,
            attributes=attributes,
            static={"depth": simulation.model.depth, "wet": simulation.model.wet}, members=members_of(simulation),
            append=self.continues(simulation), resume_time=simulation.time,
            overwrite=simulation.overwrite,
        )  # fmt: skip

    def found(self, simulation):
        return collect(simulation, self.variables)


class GaugeOutput(Output):
    """Elevation at points, of every step; the file's attributes say how the series are to be scored."""

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

    def open(self, simulation, attributes):
        self.file = GaugeFile(
            self.path, self.points, simulation.model.grid, start=simulation.start, attributes=attributes | self.rules,
            members=members_of(simulation), append=self.continues(simulation), resume_time=simulation.time,
            overwrite=simulation.overwrite, variable=_rows(simulation, ["eta"])[0],
        )  # fmt: skip

    def begin(self, simulation):
        read = simulation.communicator.spmd(lambda gauges, eta: gauges.read(eta)[..., None, :])
        self._append(simulation, read(self.gauges, simulation.state.eta), np.array([simulation.step]))

    def chunk(self, simulation, series, count):
        self._append(simulation, series, simulation.step - count + 1 + np.arange(count))

    def _append(self, simulation, series, steps):
        shares = simulation.communicator.tiles(series).values()
        mine = sum(np.asarray(tile[..., : len(steps), :], np.float64) for tile in shares)
        values = simulation.communicator.host_sum(mine)
        if self.file is not None:
            self.file.append(steps * simulation.dt, values)

    def flush(self):
        if self.file is not None:
            self.file.flush()


class Claimed:
    """A file that is replaced whole, kept from other runs while this one lasts."""

    def __init__(self, path, simulation):
        self._claim = claim(path, overwrite=simulation.overwrite, append=simulation.step > 0)

    def close(self):
        self._claim.release()


class MaximaOutput(Output):
    """Maximum elevation and arrival time, written at the end and beside every restart."""

    def __init__(self, path, threshold):
        self.path, self.threshold = Path(path), threshold

    def open(self, simulation, attributes):
        meaning = "arrival_time: the first step at which |eta| exceeds arrival_threshold"
        self.attributes = {**attributes, "arrival_threshold": f"{self.threshold:g} m", "arrival_comment": meaning}
        self.file = Claimed(self.path, simulation)

    def finish(self, simulation):
        model = simulation.model
        maximum, arrival = (model.gather(simulation._maxima_carry[name]) for name in ("maximum", "arrival"))
        if maximum is None:
            return
        fields = {
            "maximum_elevation": np.where(model.wet & np.isfinite(maximum), maximum, np.nan),
            "arrival_time": np.where(model.wet & (arrival >= 0), arrival * simulation.dt, np.nan),
        }
        write_fields(
            self.path, model.grid, fields, seconds=simulation.time, start=simulation.start,
            attributes=self.attributes, static={"depth": model.depth, "wet": model.wet}, members=members_of(simulation),
        )  # fmt: skip


class RestartOutput(Output):
    """All that a run needs to go on."""

    def __init__(self, path, every):
        self.path, self.every, self.written = Path(path), every, None

    def open(self, simulation, attributes):
        self.attributes = attributes
        self.file = Claimed(self.path, simulation)

    def write(self, simulation):
        if simulation.step == 0 or self.written == simulation.step:
            return
        arrays, scalars = _restart_content(simulation)
        if simulation.communicator.is_root:
            write_restart(self.path, simulation.model.grid, arrays, scalars, self.attributes)
        self.written = simulation.step

    finish = write


class Run:
    """The outputs of one run, opened together and closed whatever happens."""

    def __init__(self, outputs):
        self.outputs = outputs

    @classmethod
    @contextlib.contextmanager
    def opened(cls, simulation, outputs):
        """A Run with its files open on the root; an error there is raised on every rank."""
        attributes = run_attributes(simulation)
        run = cls(outputs)
        try:
            simulation.communicator.from_root(lambda: [o.open(simulation, attributes) for o in outputs] and None)
            for output in outputs:
                if isinstance(output, GaugeOutput) and not output.continues(simulation):
                    output.begin(simulation)
                output.begun = True
            yield run
        finally:
            for output in outputs:
                output.close()

    def due(self, simulation):
        for output in self.outputs:
            if output.is_due(simulation) and simulation.step != simulation.resumed_step:
                if isinstance(output, RestartOutput):
                    self.write_restart(simulation)
                else:
                    output.write(simulation)

    def chunk(self, simulation, series, count):
        for output in self.outputs:
            output.chunk(simulation, series, count)

    def next_step(self, simulation):
        return min((n for n in (o.next_step(simulation) for o in self.outputs) if n is not None), default=None)

    def finish(self, simulation):
        for output in self.outputs:
            output.finish(simulation)

    def write_restart(self, simulation):
        """A restart, and first all that was recorded until its step, so that a resumed run leaves no gap."""
        for output in self.outputs:
            output.flush()
        for output in self.outputs:
            if isinstance(output, RestartOutput):
                output.write(simulation)

    def restart_hint(self):
        """One sentence on where to go on from."""
        for output in self.outputs:
            if isinstance(output, RestartOutput) and output.written is not None:
                command = f"swmodel resume {shlex.quote(str(output.path))}"
                return f"The newest restart is {output.path}, of step {output.written}: {command}"
        return "No restart was written."


def members_of(simulation):
    """{name: values} of an ensemble's members, as files want it; None without one."""
    model = simulation.model
    return None if model.members is None else model.varied or {"": range(model.members)}


def _rows(simulation, names):
    """Names of variables, or what they are in this run instead."""
    return [UNDER_LID.get(name, name) if simulation.scheme.lid else name for name in names]


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
        "precision": str(model.dtype),
        "time_stepper": f"{type(simulation.scheme).__name__}(dt={simulation.dt:g})",
        "time_step_seconds": np.float64(simulation.dt),
        "gravity": None if model.gravity is None else np.float64(model.gravity),
        "comment": LID if simulation.scheme.lid else None,
        "references": model.core.references,
    }


# -- collecting tiles -----------------------------------------------------------------------------------------------


@jit(static_argnames=("names", "edges", "lid"))
def _diagnose(dynamics, state, step, names, edges, lid):
    def fields(dynamics, state, step):
        thickens = 0.0 * state.eta if lid else state.eta
        flow = dynamics.prepare().flow(state.u, state.v, thickens, Time(step))
        found = {name: _with_edges(diagnostics.FIELDS[name](flow), edges) for name in names}
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


# -- restarts -------------------------------------------------------------------------------------------------------


def _parts(simulation):
    return {"state": simulation.state, "history": simulation.history, "maxima": simulation._maxima_carry}


def _named_leaves(tree):
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {"_".join(_plain(key) for key in path): leaf for path, leaf in leaves}


def _plain(key):
    return str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key))))


def _restart_content(simulation):
    leaves = _named_leaves(_parts(simulation))
    arrays = {name: simulation.model.gather(leaf) for name, leaf in leaves.items() if jnp.ndim(leaf) >= 2}
    scalars = {name: np.asarray(leaf).item() for name, leaf in leaves.items() if jnp.ndim(leaf) == 0}
    if simulation.model.members is not None:
        scalars["members"] = simulation.model.members
    scalars |= {"step": simulation.step, "dt": simulation.dt, "stepper": type(simulation.scheme).__name__}
    return arrays, scalars


def restored(simulation, path):
    """Put a restart's content into `simulation`; collective. Returns one sentence."""
    communicator, grid = simulation.communicator, simulation.model.grid
    restart = communicator.from_root(lambda: _without_arrays(read_restart(path, grid)))
    whole = read_restart(path, grid).arrays if communicator.is_root else {}
    had, have = restart.get("members", 1), simulation.model.members or 1
    if had != have:
        raise DataError(f"{path} holds {had} members and the run has {have}; go on with the ensemble that wrote it.")
    same = restart["stepper"] == type(simulation.scheme).__name__ and restart["dt"] == simulation.dt
    parts = _parts(simulation)
    wanted = _named_leaves(parts if same else {**parts, "history": ()})
    simulation.step = round(restart["step"] * restart["dt"] / simulation.dt)
    simulation.resumed_at, simulation.resumed_step = simulation.time, simulation.step
    values = {}
    for name, leaf in wanted.items():
        if jnp.ndim(leaf) == 0:
            values[name] = communicator.place(lambda rank, name=name, leaf=leaf: np.asarray(restart[name], leaf.dtype))
        elif name in restart["names"]:
            tile = communicator.scatter_from_root(whole.get(name), grid.shape)
            values[name] = jnp.asarray(tile, leaf.dtype)
    _put_back(simulation, parts, values, same)
    if simulation._maxima is not None:
        _restore_maxima(simulation, "maxima_maximum" in restart["names"], restart["dt"] / simulation.dt)
    told = f"resumed {path} at step {simulation.step} ({simulation.time:g} s)"
    if same:
        return f"{told}."
    was = f"{restart['stepper']} with dt = {restart['dt']:g} s"
    return f"{told}; the file was written by {was}, so the time stepper's history starts anew."


def _restore_maxima(simulation, watched, ratio):
    """Start maxima that the earlier run did not watch; count arrivals in steps of this run, `ratio` to one of that."""
    if not watched:
        simulation._maxima_carry = simulation._maxima.start(simulation.state, simulation.step)
    elif ratio != 1.0:
        tiles = simulation.communicator.tiles(simulation._maxima_carry["arrival"])

        def counted_anew(rank):
            arrival = np.asarray(tiles[rank])
            return np.where(arrival < 0, arrival, np.rint(arrival * ratio)).astype(arrival.dtype)

        simulation._maxima_carry["arrival"] = simulation.communicator.place(counted_anew)


def _without_arrays(restart):
    return {**restart.scalars, "names": sorted(restart.arrays)}


def _put_back(simulation, parts, values, same):
    paths, structure = jax.tree_util.tree_flatten_with_path(parts)
    names = ["_".join(_plain(key) for key in path) for path, _ in paths]
    old = dict(zip(names, (leaf for _, leaf in paths)))
    rebuilt = jax.tree_util.tree_unflatten(structure, [values.get(name, old[name]) for name in names])
    state = rebuilt["state"]
    simulation.set(state, rebuilt["history"] if same else simulation.start_history(state))
    simulation._maxima_carry = rebuilt["maxima"]


