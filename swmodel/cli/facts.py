"""Lines of text that describe a run, for its header and for `swmodel check`; warnings that need the model.

The warnings are of waves that do not fit the depths along their sides, of tides, and of calendars of files. See
remarks.py for those that need the experiment file alone.
"""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..config import Experiment
from ..config.assembly import Assembly
from ..config.scenario import Run, WrittenRun
from ..config.series import WaveSection
from ..dynamics.domain import Floor, Model
from ..fields.parameters import in_utc
from ..fields.parts import values_of
from ..fields.state import State
from ..forcing.constituents import drift, from_iho
from ..forcing.tides import LARGEST, Harmonics
from ..forcing.waves import Table
from ..grids.grid import CartesianGrid, SphericalGrid
from ..grids.regrid import Date, in_calendar
from ..grids.windows import GridValues, along_side
from ..models.ensemble import Ensemble
from ..models.parts import first_date, named_series
from ..models.shallow_water import ShallowWater
from ..parallel.decomposition import Decomposition
from ..runtime.packages import VERSION, git_commit
from ..stepping.stability import Limit
from ..units import duration


def table(lines: Sequence[tuple[str, str]]) -> str:
    """(label, text) pairs as lines, with the texts aligned below each other."""
    width = max(len(label) for label, _ in lines) + 2
    pad = "\n" + " " * width
    return "\n".join(f"{label:<{width}}{text.replace(chr(10), pad)}" for label, text in lines)


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows of cells as lines; the cells of the first `left` columns are flush left, the others flush right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(w) if k < left else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths)))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def between(values: Iterable[float], digits: int = 2) -> str:
    """The low, middle and high value as text: middle (low to high)."""
    low, middle, high = (f"{value:.{digits}f}" for value in values)
    return f"{middle} ({low} to {high})"


def damping_of(model: ShallowWater) -> str:
    """The damping of unresolved scales, where it is another one than that of the form of momentum; else ""."""
    damping = float(getattr(model.momentum, "damping", 1.0))
    return "" if damping == 1.0 else f"damping {damping:g} by {type(model.momentum).__name__}"


def grid_line(grid: CartesianGrid | SphericalGrid) -> str:
    """Cells, their size and the domain."""
    metrics = grid.metrics(np.arange(grid.ny))
    sizes = [_span(metrics[name]) for name in ("dx_h", "dy_h")]
    domain = f"{grid.x_edges[0]:g} to {grid.x_edges[-1]:g}", f"{grid.y_edges[0]:g} to {grid.y_edges[-1]:g}"
    closed = f", periodic in {' and '.join(grid.periodic)}" if grid.periodic else ""
    if grid.spherical:
        where = f"longitude {domain[0]}, latitude {domain[1]}"
        return f"spherical, {grid.nx} x {grid.ny} cells of {sizes[0]} x {sizes[1]}, {where}{closed}"
    extent = [length(high - low) for low, high in (grid.x_edges[[0, -1]], grid.y_edges[[0, -1]])]
    return f"cartesian, {grid.nx} x {grid.ny} cells of {sizes[0]} x {sizes[1]}, {extent[0]} x {extent[1]}{closed}"


def length(metres: float) -> str:
    """A length in m or km."""
    return f"{metres / 1000:.4g} km" if metres >= 1000 else f"{metres:.4g} m"


def _span(lengths):
    low, high = length(np.min(lengths)), length(np.max(lengths))
    if low == high:
        return low
    return f"{low.removesuffix(' km') if low.endswith('km') == high.endswith('km') else low} to {high}"


def sea_line(floor: Floor, cells: int) -> str:
    """Wet share and depths of a grid of `cells` cells; collective."""
    count, (low, high, mean) = floor.wet_cells, floor.depths
    wet = f"{count:,} of {cells:,} cells wet ({100 * count / cells:.0f} %)"
    if dry := count - floor.cells_under_water:
        under = floor.cells_under_water
        wet = f"{under:,} of {cells:,} cells under water at rest ({100 * under / cells:.0f} %)"
        wet += f", {dry:,} that may be flooded"
    deep = f"{low:g} m deep" if low == high else f"{low:.4g} to {high:.4g} m deep, {mean:.4g} m in the mean"
    return "; ".join([f"{wet}, {deep}", *floor.finer])


def layers_lines(model: ShallowWater) -> list[tuple[str, str]]:
    """The line of the layers and of the speeds of their vertical modes, of a model with layers; collective."""
    if model.layers is None:
        return []
    speeds = model.layers.celerities(float(model.gravity), model.sea_floor.depths[1])
    modes = ", ".join(f"{speed:.3g}" for speed in speeds)
    return [("layers", f"{model.layers}\nwhere it is deepest, long waves of their modes have {modes} m/s")]


def ranks_line(decomposition: Decomposition, wet: GridValues | None = None) -> str:
    """The tiles, and the numbers of wet cells on them."""
    tiles = [decomposition.tile(rank) for rank in range(decomposition.size)]
    rows, columns = ({tile.shape[axis] for tile in tiles} for axis in (0, 1))
    py, px = decomposition.layout
    across = " or ".join(map(str, sorted(columns, reverse=True)))
    along = " or ".join(map(str, sorted(rows, reverse=True)))
    text = f"{decomposition.size}, {py} x {px} tiles (y x x) of {across} x {along} cells"
    if wet is None or decomposition.size == 1:
        return text
    water = [int(wet.block(*tile.slices).sum()) for tile in tiles]
    return f"{text}, with {min(water):,} to {max(water):,} wet cells each"


def dry_line(names: Sequence[str]) -> str:
    """A line with the `names` of high-water marks that no water reached; "" if there are none."""
    return f"no water reached the marks {', '.join(names)}: they count by the height of the bed" if names else ""


def members_line(ensemble: Ensemble) -> str:
    """The number of members, and the values in which they differ."""
    varied = [f"{name} = {', '.join(map(str, values))}" for name, values in ensemble.varied.items()]
    return "\n".join([f"{ensemble.members} members in one program", *varied])


def engine_line(engine: str, why: str | None, stages: int = 1) -> str:
    """The engine that runs the steps, why it is not fused loops, and how many stages share an exchange of halos."""
    how = "fused loops" if engine == "fused" else f"arrays (XLA fuses): {why}"
    return how if stages == 1 else f"{how}, a halo exchange every {stages} stages"


def version_text(root: bool) -> str:
    """The version, on the root with the commit of a checkout."""
    commit = git_commit() if root else None
    return f"{VERSION} ({commit})" if commit else VERSION


def step_line(dt: float, limits: Sequence[Limit], longest: float, until: float) -> str:
    """Time step, its share of the limit, number of steps."""
    share = f"{dt / longest:.2f} of the longest stable one, {longest:.4g} s" if limits else "no limit"
    return f"{dt:.6g} s ({share}); {round(until / dt):,} steps to {duration(until)}"


def output_lines(experiment: Experiment, model: ShallowWater, dt: float, start: float = 0.0) -> list[str]:
    """A line for each file of a run that begins at `start` [s]: its content, its interval and its largest size."""
    run = WrittenRun(model, model.grid.nx * model.grid.ny, experiment.run.until - start, dt)
    place = {"fields": 0, "gauges": 1, "spectra": 3, "restart": 4}
    files = sorted(experiment.output.files(), key=lambda file: place.get(str(file[0][1]), 2))  # products before spectra
    return [section.line(run) for _, section in files]


DRIFT = 0.01  # relative change of a nodal factor that is worth a warning
FEWEST = 8.0  # cells of a wave
GAP = 1.5  # an interval between records is a gap if it is longer than this many usual ones
OTHER = 0.1  # relative difference of a wave's depth from those of its side that is worth a warning


def model_remarks(experiment: Experiment, model: Model) -> list[str]:
    """Warnings about an experiment and its model, whose Floor evaluates the cells along the sides of wave makers."""
    waves = [sentence for index, entry in enumerate(experiment.boundary) for sentence in _waves(index, entry, model)]
    return [
        *waves,
        *_calendars(experiment, model),
        *_high_tides(model),
        *_drifts(experiment.run, model),
        *_solar(experiment.run, model),
        *_gaps(experiment.run, model),
    ]


def _high_tides(model: Model) -> Iterator[str]:
    """A warning of each tide that is higher than half of the limit at which it is refused, on the tiles here."""
    for name, units, tide in values_of(model, Harmonics):
        for constituent, amplitude in tide.amplitude.items() if units in LARGEST else ():
            tiles = model.communicator.tiles([amplitude]).values()
            if (highest := max(float(np.max(np.abs(x))) for (x,) in tiles)) > 0.5 * LARGEST[units]:
                yield (
                    f"{name}: the amplitude of {constituent} is {highest:g} {units}, higher than any on Earth; "
                    "check its units."
                )


def _drifts(run: Run, model: Model) -> Iterator[str]:
    """A warning of each tide whose nodal factors, those of the start, are off by a hundredth during the run."""
    tides = [(name, getattr(part, "constituents", ()), None) for name, part in model.named_parts()]
    tides += [(name, tide.names, tide.nodal.degrees) for name, _, tide in values_of(model, Harmonics)]
    for name, names, latitude in tides:
        off = {} if run.start is None else {each: drift(each, in_utc(run.start), run.until, latitude) for each in names}
        worst = max(off, key=lambda each: off[each], default=None)
        if worst is not None and off[worst] > DRIFT:
            yield (
                f"{name}: nodal factors and angles are those of the start, and those of {worst} change by "
                f"{100 * off[worst]:.2g} % of its amplitude until the end of the run after {duration(run.until)}; make "
                "several shorter runs where this matters."
            )


def _solar(run: Run, model: Model) -> Iterator[str]:
    """A warning of each tide with a constituent that is published with two different arguments."""
    if run.start is None:
        return
    for name, _, tide in values_of(model, Harmonics):
        changes = {each: from_iho(each, in_utc(run.start), tide.nodal.degrees) for each in tide.names}
        remedies = [
            f"multiply amplitudes of {each} by {change[0]:.3g} and add {change[1]:.0f} degrees to its lags"
            for each, change in changes.items()
            if change is not None
        ]
        if remedies:
            yield (
                f"{name}: S1 and SA count from the arguments of UTide. Constants by the definition of the IHO, as of "
                f"NOAA, need a change: {', '.join(remedies)}."
            )


def _gaps(run: Run, model: Model) -> Iterator[str]:
    """A warning of the longest gap in each series of records that are equally spaced elsewhere."""
    start = first_date(run.start, model)
    series = {name: each.times for name, each in named_series(model).items() if each.source and not each.cycle}
    for name, _, table in values_of(model, Table):
        series[name] = table.points(model.communicator)
    for name, times in series.items():
        intervals = np.diff(times)
        usual = float(np.median(intervals)) if intervals.size > 1 else np.inf
        regular = np.count_nonzero(np.abs(intervals - usual) < 0.1 * usual) >= 0.5 * intervals.size
        in_run = (times[1:] > 0.0) & (times[:-1] < run.until)
        longest = np.where(in_run, intervals, 0.0)
        if regular and intervals.size > 1 and longest.max() > GAP * usual:
            k = int(np.argmax(longest))
            yield (
                f"{name}: its records are {duration(usual)} apart, and {duration(intervals[k])} from "
                f"{_moment(start, times[k])} to {_moment(start, times[k + 1])}, where a straight line bridges them; "
                "add the records or the file that is missing."
            )


def _moment(start: Date | None, seconds: float) -> str:
    """A moment of a run as a date, or in seconds without one."""
    if start is None:
        return f"{seconds:g} s"
    return f"{start + datetime.timedelta(seconds=float(seconds)):%Y-%m-%d %H:%M}"


def _calendars(experiment: Experiment, model: Model) -> Iterator[str]:
    """A warning if observations, whose dates are Gregorian, have other dates than the files of the forcing."""
    run, gauges = experiment.run, experiment.output.gauges
    if run.start is None or ((gauges is None or gauges.observations is None) and experiment.inversion is None):
        return
    for name, series in named_series(model).items():
        calendar = getattr(series.source, "calendar", None)
        if calendar in (None, "standard"):
            continue
        starts = run.start, in_calendar(in_utc(run.start), calendar, name)
        end, there = (f"{start + datetime.timedelta(seconds=run.until):%Y-%m-%d}" for start in starts)
        if there != end:
            yield (
                f"{name} is in the calendar {calendar}, and observations count their dates in the Gregorian one: the "
                f"end of the run is {end} there, and {there} in the calendar of the forcing."
            )
            return


def _waves(index: int, entry: Any, model: Model) -> Iterator[str]:
    if entry.type != "wave_maker":
        return
    made = dict(model.named_parts("open_boundaries")).get(f"boundary.{index}")
    if made is None:
        return
    for side in made.sides:
        depths = _depths(model, side)
        if depths.size == 0 or depths.max() <= 0.0:
            yield (
                f"boundary[{index}]: every cell along the {side} side is dry at rest, and no wave comes in before "
                "water reaches it from inside; move the side into water."
            )
            continue
        shallow, deep = float(depths[depths > 0.0].min()), float(depths.max())
        extent = f"{deep:.4g} m" if deep - shallow < 1e-3 * deep else f"{shallow:.4g} to {deep:.4g} m"
        wave = entry.elevation
        depth = dict(wave)["depth"] if isinstance(wave, WaveSection) else shallow
        if not (1.0 - OTHER) * shallow <= depth <= (1.0 + OTHER) * deep:
            yield (
                f"boundary[{index}].elevation.depth = {depth:g} m, and the water along the {side} side is "
                f"{extent} deep: the wave would have the length of another depth; give that of the side."
            )
        if isinstance(made.elevation, Table) and (lowest := float(np.min(made.elevation.values))) <= -shallow:
            yield (
                f"boundary[{index}].elevation: the record falls to {lowest:.4g} m, below the bed of cells along the "
                f"{side} side, which is {extent} deep: it does not follow the record there; check the record's datum."
            )


def _depths(model, side):
    """The depths of the cells along a side that may be wet [m]."""
    line = along_side(side, model.grid.shape)
    return model.sea_floor.depth.block(*line)[model.sea_floor.wet.block(*line)]


# -- waves of a source over banks -------------------------------------------------------------------------------------


def wave_remarks(made: Assembly, model: Model, state: State) -> list[str]:
    """The warning of banks over which a wave of the source is too short for the cells; collective.

    A wave of length L in water of depth H has the length L sqrt(h / H) over a bank of depth h, since its period stays.
    The length of a source is that of the mean square of its elevation and slope,

        L = 2 pi sqrt(integral of eta^2 / integral of |grad eta|^2),

    4.4 R for a hump exp(-(r / R)^2). A wave of FEWEST cells is too slow by 1 - sin(pi / 8) / (pi / 8), 2.6 %, and
    shorter ones by more, so that they disperse behind the others, as waves of two cells. There is no warning unless
    water at rest is set in motion by an elevation or an uplift.

    Args:
        made: the Assembly of the experiment. model, state: its ShallowWater or Ensemble, and the first State.
    """
    if model.batch:
        return []
    lifted = getattr(made.source, "uplift", None)  # none while a thread still computes it
    parts = [
        _sums(model, rank, tile, None if lifted is None else lifted[-1])
        for rank, tile in model.communicator.tiles(state).items()
    ]
    shares = model.communicator.host_gather(np.sum(np.array(parts), axis=0))
    square, slope, weighted, moves = np.sum(shares, axis=0)
    if moves or not slope or not square or not model.communicator.is_root:
        return []
    return _banks(model, 2 * np.pi * np.sqrt(square / slope), weighted / square)


def _sums(model, rank, state, lifted):
    """(integrals of eta^2, |grad eta|^2 and eta^2 H, the number of moving faces) of a tile."""
    box, cut = model.decomposition.box(rank), model.decomposition.cut
    depth = cut(model.sea_floor.depth, rank).astype(float)
    wet = cut(model.sea_floor.wet, rank).astype(bool) & (depth > 0.0)
    eta = np.asarray(state.eta, float) + (0.0 if lifted is None else np.asarray(cut(np.asarray(lifted), rank)))
    eta = np.where(wet, eta, 0.0)
    dx, dy = _widths(model.grid, np.arange(box.j0, box.j1))
    east, north = wet[:, 1:] & wet[:, :-1], wet[1:] & wet[:-1]
    slope = np.sum(np.diff(eta, axis=1) ** 2 * east * dy / dx) + np.sum(
        np.diff(eta, axis=0) ** 2 * north * (dx / dy)[1:]
    )
    area = dx * dy
    moving = sum(np.count_nonzero(np.asarray(x)) for x in (state.u, state.v))
    return np.sum(eta**2 * area), slope, np.sum(eta**2 * area * depth * wet), moving


def _widths(grid, rows):
    """(dx, dy) [m] of the cells of these rows, (n, 1) each."""
    metrics = grid.metrics(rows)
    return tuple(np.broadcast_to(np.asarray(metrics[key], float), (len(rows), 1)) for key in ("dx_h", "dy_h"))


def _banks(model, length, depth):
    """The warning of a wave of this length in this depth [m]; none where it only has too few cells at coasts."""
    grid, whole = model.grid, (slice(0, model.grid.ny), slice(0, model.grid.nx))
    h = np.asarray(model.sea_floor.depth.block(*whole), float)
    wet = np.asarray(model.sea_floor.wet.block(*whole)) & (h > 0.0)
    cells = length * np.sqrt(np.where(wet, h, np.inf) / depth) / np.maximum(*_widths(grid, np.arange(grid.ny)))
    few = cells < FEWEST
    inner = few[1:-1, 1:-1].copy()
    for j in range(3):
        for i in range(3):
            inner &= few[j : j + grid.ny - 2, i : i + grid.nx - 2]
    if not inner.any():
        return []
    j, i = np.unravel_index(np.argmin(np.where(inner, cells[1:-1, 1:-1], np.inf)), inner.shape)
    x, y = grid.x_centres[i + 1], grid.y_centres[j + 1]
    return [
        f"a wave of the source is {length / 1e3:.3g} km long in water of {depth:.4g} m, and has fewer than "
        f"{FEWEST:g} cells in water of less than {h[few].max():.4g} m, {100 * few.sum() / wet.sum():.3g} % of the sea: "
        f"{cells[j + 1, i + 1]:.2g} cells at ({x:.6g}, {y:.6g}). Waves of two cells arise there, and stay; use a finer "
        "grid, or place no gauge there."
    ]
