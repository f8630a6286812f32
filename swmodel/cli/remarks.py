"""Warnings about values of an experiment that are valid, but do not fit each other.

Each is one sentence: what came, why it cannot do what was wanted, and what to do. `swmodel check` and `swmodel run`
print them. Values that are wrong by themselves, or that no run can use, are mistakes (config/consistency.py).
"""

import datetime
import math
from collections.abc import Iterator

import numpy as np

from ..config import Experiment
from ..config.physics import TABLES_OF_CORES
from ..config.sections import Surroundings
from ..config.series import SeriesSection
from ..config.toml import dotted
from ..errors import SwmodelError
from ..fields.parameters import in_utc
from ..forcing.constituents import period
from ..grids.grid import Grid
from ..output.products.base import Sampler
from ..units import duration

OTHER_WIND = 0.1  # relative difference of winds from which on a warning is given
FAINT = 0.01  # the share of a storm's pressure deficit that raises no surge to speak of: 5 mm of 0.5 m
WIDE = 3.0  # a relative error of 3 is a factor of 20
OF_METHODS = {  # keys that only these methods of an inversion read
    "products": ("incremental", "descent"),
    "residual": ("incremental",),
    "uncertainty": ("incremental", "descent"),
}


def step_warnings(dt: float, longest: float) -> list[str]:
    """A warning if a time step is below each limit, but too long for all processes together."""
    if dt <= longest:
        return []
    return [
        f"dt = {dt:g} s is {dt / longest:.2f} times the step that is certainly stable: it is below each single limit, "
        f"but above {longest:.4g} s, up to which all processes together are certainly stable; use at most that."
    ]


def remarks(experiment: Experiment, grid: Grid, dt: float, deepest: float = math.inf) -> list[str]:
    """All warnings of an experiment.

    Args:
        experiment: the Experiment. grid: its grid. dt: the time step [s].
        deepest: the largest depth [m]; infinite where only a part of the sea is known.
    """
    found = [*_core(experiment), *_circle(grid), *_seam(experiment, grid), *_intervals(experiment, dt)]
    found += [*_ramps(experiment), *_harmonics(experiment, dt), *_gauges(experiment)]
    found += [*_thresholds(experiment, -deepest), *_repeated(experiment), *_storms(experiment, grid)]
    found += [*_barometers(experiment), *_nests(experiment)]
    return found + [*_inversion(experiment, deepest)]


def _core(experiment):
    """A warning about a property of the chosen core that a user may not expect."""
    model = experiment.model
    without_effect = [
        table for core, table in TABLES_OF_CORES.items() if core != model.core and getattr(model, table) is not None
    ]
    if without_effect:
        yield f"[model.{without_effect[0]}] has no effect with core = {model.core!r}."
    elif model.core == "pseudo_spectral" and experiment.coriolis.type != "none" and experiment.grid.periodic != "xy":
        yield (
            "eta of a rotating flow has a gradient normal to walls, where cosine series converge at first order only: "
            "core = 'finite_differences' is more accurate there."
        )


def _nests(experiment):
    """Warnings of nests that would start when the run has ended."""
    starts = {None: 0.0}
    for k, nest in enumerate(experiment.nest):
        starts[nest.name] = start = max(nest.start, starts[nest.inside])
        if start >= experiment.run.until:
            yield (
                f"nest[{k}].start: the nest {nest.name!r} is not stepped and writes no files, since it starts after "
                f"{duration(start)} and the run ends after {duration(experiment.run.until)}."
            )


def _circle(grid):
    """A warning of a grid that goes round the Earth but for a cell or two."""
    if not grid.spherical or grid.periodic_x:
        return
    west, east = grid.x_edges[[0, -1]]
    cell = (east - west) / grid.nx
    missing = 360.0 - (east - west)
    if 1e-6 * cell < missing < 2.5 * cell:
        yield (
            f"grid: {grid.nx} cells reach from {west:g} to {east:g} degrees of longitude, {missing:g} short of the "
            "circle, with a wall at each end; for a grid that goes round give "
            f"{grid.nx + round(missing / cell)} cells and longitude = [{west:g}, {west + 360.0:g}]."
        )


def _seam(experiment, grid):
    """A warning of a beta plane that is periodic across it."""
    beta = getattr(experiment.coriolis, "beta", 0.0)
    if beta and grid.periodic_y:
        low, high = grid.y_edges[[0, -1]]
        yield (
            f"coriolis.beta: f jumps by {abs(beta) * (high - low):.2g} s-1 where the grid closes in y; "
            "use an f-plane, or walls in the south and north."
        )


# -- times -------------------------------------------------------------------------------------------------------------


def _intervals(experiment, dt):
    until = experiment.run.until
    for path, section in experiment.output.files():
        if not hasattr(section, "every") or path[1] in ("spectra", "restart"):
            continue
        name, every = dotted(path), section.every or dt
        is_sampled = hasattr(section, "part") and section.part.records is None
        if abs(every / dt - round(every / dt)) > 1e-6 * every / dt:
            steps = max(1, round(every / dt))
            fall = f"samples are {steps * dt:.6g} s apart" if is_sampled else "records fall on the nearest step"
            yield f"{name}.every = {every:g} s is not a multiple of dt = {dt:.6g} s: {fall}."
        if not is_sampled and every > until:
            yield f"{name}.every is longer than the run: only its first state is written."
        if is_sampled and (first := _first_sample(section, dt)) > until + 0.5 * dt:
            yield (
                f"{name} takes no sample: the first one would be after {duration(first)}, and the run ends after "
                f"{duration(until)}; begin earlier, or sample more often."
            )


def _first_sample(section, dt):
    """The time of the first sample of a product [s]."""
    sampler = Sampler.of(section.build(), dt)
    return dt * sampler.steps(0, max(sampler.first, 1) + sampler.every)[0]


def _ramped(experiment) -> Iterator[tuple[str, float]]:
    """(name, time over which it is switched on [s]) of the tides that have a ramp."""
    for group in ("boundary", "forcing", "dissipation"):
        for index, entry in enumerate(getattr(experiment, group)):
            held = [(f"{group}[{index}]", entry), *((f"{group}[{index}].{name}", value) for name, value in entry)]
            for name, value in held:
                ramp = getattr(value, "ramp", 0.0)
                if isinstance(ramp, float) and ramp > 0:
                    yield name, ramp


def _ramps(experiment):
    until = experiment.run.until
    for name, ramp in _ramped(experiment):
        if ramp > until:
            yield (
                f"{name}.ramp = {duration(ramp)} is longer than the run of {duration(until)}: the tide never has its "
                "full amplitude; shorten the ramp, or run longer."
            )
            continue
        for window, begin in _fits(experiment):
            if begin < ramp:
                yield (
                    f"{window} begins after {duration(begin)}, and {name} is switched on until {duration(ramp)}: the "
                    f"amplitudes that are found are too small; begin at {duration(ramp)} or later."
                )


def _fits(experiment):
    """(name, begin [s]) of the windows in which tides are fitted."""
    if (tides := experiment.output.harmonics) is not None:
        yield "output.harmonics", tides.begin
    cost = None if experiment.adjoint is None else experiment.adjoint.cost
    if cost is not None and cost.type == "harmonic_misfit":
        yield "adjoint.cost.window", 0.0 if cost.window is None else cost.window[0]
    inversion = experiment.inversion
    if inversion is not None:
        for table in inversion.observations:
            if table.type == "harmonics":
                yield "inversion.observations.window", inversion.spin_up if table.window is None else table.window[0]


def _harmonics(experiment, dt):
    tides = experiment.output.harmonics
    if tides is None:
        return
    if experiment.run.start is None:
        yield (
            "output.harmonics has no date, because run.start is not given: its phase lags are behind cos(omega t) from "
            "the first step, and nodal factors are 1; give run.start to compare them with tide tables."
        )
    for name in tides.constituents:
        if dt > 0.5 * period(name):
            yield (
                f"output.harmonics cannot see {name}, of which a period of {duration(period(name))} has less than two "
                f"steps of {duration(dt)}; shorten stepper.dt, or leave {name} out."
            )


# -- gauges and thresholds ---------------------------------------------------------------------------------------------


def _gauges(experiment):
    gauges, run = experiment.output.gauges, experiment.run
    until = run.until
    if gauges is None:
        return
    windows = [("", gauges.window)] if isinstance(gauges.window, tuple) else gauges.windows.items()
    for name, (first, last) in windows:
        which = f"output.gauges.window{'.' if name else ''}{name}"
        if last > until * (1 + 1e-9):
            none = first >= until
            what = "nothing is scored" if none else f"only its part until {duration(until)} is scored"
            yield (
                f"{which} {'lies' if none else 'ends'} after the end of the run at {duration(until)}: {what}; change "
                "the window, or run longer."
            )
    if gauges.observations is not None and (why := _no_records(gauges, run)):
        yield f"output.gauges.observations: {why}"


def _no_records(gauges, run):
    """Why no observation can be compared with the run; None if one can."""
    from ..adjoint.costs.records import records_in

    try:
        records = records_in(gauges.observations, dict(gauges.positions), start=run.start)
    except SwmodelError as error:
        return str(error)
    if any(((record.time >= 0) & (record.time <= run.until)).any() for record in records.values()):
        return None
    times = np.concatenate([record.time for record in records.values()])
    first, last = times.min(initial=np.inf), times.max(initial=-np.inf)
    return (
        f"all observations lie between {first:g} and {last:g} s, and the run between 0 and {run.until:g} s; time_s "
        "counts seconds from the start of the run."
    )


def _thresholds(experiment, lowest):
    for path, section in experiment.output.named_products():
        for remark in section.build().remarks(lowest):
            yield f"{'.'.join(map(str, path))}.{remark}"


# -- forcing -----------------------------------------------------------------------------------------------------------


def _repeated(experiment):
    for group in ("forcing", "dissipation"):
        entries = getattr(experiment, group)
        for index, entry in enumerate(entries):
            if entry in entries[:index]:
                yield (
                    f"{group}[{index}] is the same as {group}[{entries.index(entry)}], and both count; leave one out, "
                    "or give its double once."
                )


def _barometers(experiment):
    if any(entry.type == "air_pressure" for entry in experiment.forcing):
        return
    for index, boundary in enumerate(experiment.boundary):
        for name, value in boundary:
            if isinstance(value, SeriesSection) and value.reference is not None:
                yield (
                    f"boundary[{index}].{name}.reference has no effect: it is that of an air_pressure, and a cyclone "
                    "has its own ambient_pressure; leave it out."
                )


def _storms(experiment, grid):
    for index, entry in enumerate(experiment.forcing):
        if entry.type != "cyclone":
            continue
        name = f"forcing[{index}]"
        if "exponent" in entry.written and entry.profile != "holland_2010":
            yield (
                f"{name}.exponent has no effect with profile = {entry.profile!r}; leave it out, or give 'holland_2010'."
            )
        yield from _reach_of_storm(name, entry, experiment, grid)


def _reach_of_storm(name, entry, experiment, grid):
    """Warnings of a storm that is never near the grid, and of one that is smaller than its cells."""
    if not grid.spherical:
        return
    try:
        storm = entry.build(Surroundings(start=experiment.run.start, until=experiment.run.until))
    except SwmodelError:  # another check refuses it
        return
    times = np.linspace(0.0, experiment.run.until, 200)
    x, y, radius, b = (np.interp(times, storm.times, getattr(storm, key)) for key in ("x", "y", "radius", "b"))
    (west, east), (south, north) = grid.x_edges[[0, -1]], grid.y_edges[[0, -1]]
    middle = 0.5 * (west + east)
    across = np.maximum(np.abs((x - middle + 180.0) % 360.0 - 180.0) - 0.5 * (east - west), 0.0)
    along = np.maximum(np.maximum(south - y, y - north), 0.0)
    metres = np.deg2rad(1.0) * grid.radius
    away = metres * np.hypot(across * np.cos(np.deg2rad(np.clip(y, south, north))), along)
    share = 1.0 - np.exp(-((radius / np.maximum(away, radius)) ** b))
    if share.max() < FAINT:
        k = int(np.argmin(away))
        yield (
            f"{name}: the storm is never nearer to the grid than {away[k] / 1e3:.4g} km, where {100 * share[k]:.3g} % "
            "of its pressure deficit are left; check its longitudes and latitudes, or the grid."
        )
        return
    yield from _winds_of_storm(name, entry, experiment, storm)
    inside = away <= 0.0
    cell = float(min(grid.metrics(np.arange(grid.ny))[key].max() for key in ("dx_h", "dy_h")))
    if inside.any() and (least := float(radius[inside].min())) < cell:
        yield (
            f"{name}: the radius of maximum wind is {least / 1e3:.3g} km, less than a cell of {cell / 1e3:.3g} km, so "
            "that the strongest winds fall between cells; use a finer grid."
        )


def _winds_of_storm(name, entry, experiment, storm):
    """A warning of points of a track without a wind, and of points whose wind the vortex does not reproduce."""
    from ..forcing.tracks import SHAPES, largest_winds

    track = entry.read_track()
    times = storm.times[: int(np.searchsorted(storm.times, experiment.run.until)) + 1]  # up to the end of the run
    moments = [experiment.run.start + datetime.timedelta(seconds=seconds) for seconds in times]
    points = [track.moments.index(in_utc(moment)) for moment in moments]
    track_winds = entry.wind_averaging * np.array([track.wind[k] for k in points])
    unknown, vortex_winds, b = ~(track_winds > 0), largest_winds(storm)[: len(times)], storm.b[: len(times)]
    if unknown.any():
        yield (
            f"{name}: {unknown.sum()} of {unknown.size} points of the track have no wind, so that B is "
            f"{b[unknown][0]:g} there; add winds to the track."
        )
    off = np.abs(vortex_winds - track_winds) > OTHER_WIND * track_winds
    if (off := off & ~unknown).any():
        k = int(np.argmax(np.where(off, np.abs(vortex_winds - track_winds), 0.0)))
        yield (
            f"{name}: the largest wind of the vortex is not that of the track at {off.sum()} of {off.size} points, "
            f"since no B from {SHAPES[0]:g} to {SHAPES[1]:g} fits the pressure: {vortex_winds[k]:.3g} m/s in "
            f"place of {track_winds[k]:.3g} m/s on {moments[k]:%Y-%m-%d %H:%M}; correct the pressures or winds, or "
            "end the run before a storm dies."
        )


# -- inversions --------------------------------------------------------------------------------------------------------


def _inversion(experiment, deepest):
    section = experiment.inversion
    if section is None:
        return
    for key, methods in OF_METHODS.items():
        if key in section.written and section.chosen not in methods:
            yield f"inversion.{key} has no effect with method = {section.chosen!r}; leave it out."
    for index, control in enumerate(section.controls):
        name = f"inversion.controls[{index}]"
        relative = getattr(control, "positive", False) is True or control.type == "depth_classes"
        if relative and control.deviation > WIDE:
            yield (
                f"{name}.deviation = {control.deviation:g} is relative, so that one standard deviation is a factor of "
                f"e^{control.deviation:g}; give {control.deviation / 100:g} for {control.deviation:g} %."
            )
        if control.type == "depth_classes" and control.edges[-1] >= deepest:
            yield (
                f"{name}.edges reach {control.edges[-1]:g} m, and the sea is at most {deepest:.4g} m deep: the last "
                "range has no cell; leave such edges out."
            )
