"""Lines of text that describe a run, for its header and for `swmodel check`."""

import contextlib
from collections.abc import Iterable, Sequence

import numpy as np

from ..config import Experiment
from ..config.physics import TABLES_OF_CORES
from ..config.scenario import WrittenRun
from ..config.sections import Surroundings
from ..config.series import RecordFile, TideSection
from ..dynamics.domain import Floor
from ..dynamics.forcing import WaterForcing
from ..errors import SwmodelError
from ..fields.parts import numbers_of
from ..grids.grid import CartesianGrid, SphericalGrid
from ..grids.windows import GridValues
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater
from ..observed.folder import read_folder
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
    levees = f"; {len(floor.levees)} levee{'s' * (len(floor.levees) > 1)}" if floor.levees else ""
    subgrid = "" if floor.bed is None else f"; tables of {floor.bed.ratio} x {floor.bed.ratio} fine cells in each"
    return f"{wet}, {deep}{levees}{subgrid}"


def layers_lines(model: ShallowWater) -> list[tuple[str, str]]:
    """The line of the layers and of the speeds of their vertical modes, of a model with layers; collective."""
    if model.layers is None:
        return []
    speeds = model.layers.celerities(float(model.gravity), model.sea_floor.depths[1])
    modes = ", ".join(f"{speed:.3g}" for speed in speeds)
    return [("layers", f"{model.layers}\nwhere it is deepest, long waves of their modes have {modes} m/s")]


def waters_lines(model: ShallowWater, until: float) -> list[tuple[str, str]]:
    """The line of the water that rain, rivers and the like bring or take in a run until `until` [s]; collective."""
    sources = [(name, term) for name, term in model.named_parts("terms") if isinstance(term, WaterForcing)]
    lines = [f"{name}, {type(term).__name__}: {term.summary(model, until)}" for name, term in sources]
    return [("water", "\n".join(lines))] if lines else []


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


def file_lines(experiment: Experiment, grid: CartesianGrid | SphericalGrid) -> list[tuple[str, str]]:
    """The lines of files that are read, with what was assumed of each; those that cannot be read have none."""
    texts = {
        "forcing": _series_texts(experiment, grid),
        "storm": _storm_texts(experiment),
        "level": _level_texts(experiment),
        "records": _record_texts(experiment),
        "tracks": _track_texts(experiment),
    }
    joined = {label: "\n".join(lines) for label, lines in texts.items()}
    return [(label, text) for label, text in joined.items() if text]


def _record_texts(experiment):
    """Observed records of gauges: each file with what was assumed, and what the steps of its folder did.

    `remarks` and `inversion` report the mistakes of folders.
    """
    gauges, inversion = experiment.output.gauges, experiment.inversion
    sources = [] if gauges is None or gauges.observations is None else [(gauges.observations, gauges.positions)]
    for entry in () if inversion is None else inversion.observations:
        if entry.type == "gauges" and entry.folder is not None:
            sources.append((entry.folder, entry.known(experiment.output)))
    lines = {}
    for folder, names in sources:
        with contextlib.suppress(SwmodelError):
            records = read_folder(folder, names, experiment.run.start)
            lines |= {record.path: f"{name}, {record}" for name, record in records.items()}
            if without := [name for name in names if name not in records]:
                lines[folder] = (
                    f"no file in {folder} is named after {', '.join(without)}: the run is not compared there"
                )
    return lines.values()


def dry_line(names: Sequence[str]) -> str:
    """A line with the `names` of high-water marks that no water reached; "" if there are none."""
    return f"no water reached the marks {', '.join(names)}: they count by the height of the bed" if names else ""


def _series_texts(experiment, grid):
    """Records of fields and tides that drive the model."""
    on = Surroundings(grid, experiment.run.start, experiment.run.until)
    for kind in ("forcing", "boundary"):
        for k, part in enumerate(getattr(experiment, kind)):
            with contextlib.suppress(SwmodelError):
                yield from [f"{kind}.{k}.{key}: {words}" for key, words in _series_of(part, on)]


def _series_of(part, on):
    """Yield (key, words) for the fields and tides of a section."""
    if part.type == "wind_file":
        for wind in part.stress(on)["x"].winds():
            yield "file", wind.summary(on.grid, "h", "m s-1")
    for key, value in part:
        if isinstance(value, TideSection):
            names = dict.fromkeys((*value.constituents, *value.of_atlas()))
            yield key, f"a tide of {', '.join(names)}, with phase lags of Greenwich"
        elif isinstance(value, RecordFile) and (fields := value.records(on)) is not None:
            rule = numbers_of(part.part)[key]
            yield key, fields.summary(on.grid, rule.position or "h", rule.units)


def _storm_texts(experiment):
    """Tracks of cyclones."""
    for entry in experiment.forcing:
        if entry.type == "cyclone":
            with contextlib.suppress(SwmodelError):
                used = ["radii of maximum wind in each quadrant"] if entry.quadrants else []
                words = *entry.read_track().remarks, *used, f"times {entry.wind_averaging:g} for 10 min"
                yield "; ".join(words)


def _track_texts(experiment):
    """Files of altimeters in costs and inversions."""
    cost = None if experiment.adjoint is None else experiment.adjoint.cost
    tables = cost, *(() if experiment.inversion is None else experiment.inversion.observations)
    lines: dict[str, None] = {}
    for entry in tables:
        if entry is not None and entry.type in ("tracks", "track_misfit") and entry.file is not None:
            with contextlib.suppress(SwmodelError):
                lines |= dict.fromkeys(entry.tracks(experiment.run.start).remarks)
    return lines


def _level_texts(experiment):
    """An initial level from a file."""
    if experiment.initial.type == "level":
        with contextlib.suppress(SwmodelError):
            yield experiment.initial.read_level().assumed


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


def step_warnings(dt: float, longest: float) -> list[str]:
    """A warning if a time step is below each limit, but too long for all processes together."""
    if dt <= longest:
        return []
    return [
        f"dt = {dt:g} s is {dt / longest:.2f} times the step that is certainly stable: it is below each single limit, "
        f"but above {longest:.4g} s, up to which all processes together are certainly stable; use at most that."
    ]


def core_warnings(experiment: Experiment) -> list[str]:
    """Warnings about properties of the chosen core that a user may not expect."""
    model = experiment.model
    for core, table in TABLES_OF_CORES.items():
        if core != model.core and getattr(model, table) is not None:
            return [f"[model.{table}] has no effect with core = {model.core!r}."]
    if model.core != "pseudo_spectral" or experiment.coriolis.type == "none" or experiment.grid.periodic == "xy":
        return []
    return [
        "eta of a rotating flow has a gradient normal to walls, where cosine series converge at first order only: "
        "core = 'finite_differences' is more accurate there."
    ]


def output_lines(experiment: Experiment, model: ShallowWater, dt: float, start: float = 0.0) -> list[str]:
    """A line for each file of a run that begins at `start` [s]: its content, its interval and its largest size."""
    run = written_run(experiment, model, model.grid.nx * model.grid.ny, dt, start)
    place = {"fields": 0, "gauges": 1, "spectra": 3, "restart": 4}
    files = sorted(experiment.output.files(), key=lambda file: place.get(str(file[0][1]), 2))  # products before spectra
    return [section.line(run) for _, section in files]


def written_run(experiment: Experiment, model: ShallowWater, cells: int, dt: float, start: float = 0.0) -> WrittenRun:
    """What the files of a run on `cells` cells with steps of `dt` [s] depend on, from `start` [s] on."""
    moving_shore = experiment.model.wetting is not None and experiment.source is not None
    finer_bed = experiment.bathymetry is not None and experiment.bathymetry.subgrid is not None
    return WrittenRun(model, cells, experiment.run.until - start, dt, (moving_shore, finer_bed))
