"""Budgets of a run: volume, energy, enstrophy over time, and transports, with the C-grid's own means and areas.

    kinetic energy       density sum area h K,  K = [mean_x(area_u u^2) + mean_y(area_v v^2)] / (2 area)   [J]
    potential energy     density g sum area (eta^2 - b^2) / 2,  b = max(height of the ground, 0)           [J]
    enstrophy            sum area_q zeta^2 / 2                                                             [m2 s-2]
    potential enstrophy  sum (volume round a corner) q^2 / 2,  q = (f + zeta) / h_q                        [m s-2]

These are the sums that the energy- and enstrophy-conserving schemes conserve (Sadourny 1975,
doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2). Potential energy is that above the water at rest, which is level
at 0: ground above it has none, and an emptied basin below it has that of the water which is missing. The mean elevation
is that of the cells which are under water at the time. The streamfunction has U = -d psi/dy and V = d psi/dx, and is 0
at the first corner, in the south-west.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..errors import PlotError
from ..grids.grid import corners
from . import layered, style
from .cgrid import corner_area, corner_sum, fluxes, has_rigid_lid, kinetic_energy, thickness, vorticity, wet_area
from .files import check_cells, has_blocks, mesh_of, nearest, scaled, seconds, snapshot, wet_cells
from .inundation import has_finer_bed, under_water

EARTH_ROTATION = 7.292115e-5  # [s-1]
UNITS = {
    "volume": "m3", "mean_elevation": "m", "kinetic_energy": "J", "potential_energy": "J", "enstrophy": "m2 s-2",
    "potential_enstrophy": "m s-2", "infiltrated": "m3",
}  # fmt: skip


def gravity_of(dataset: xr.Dataset, gravity: float | None = None) -> float | None:
    """The acceleration of gravity [m s-2]: as given, else from the file's attributes; None if it is in neither."""
    given = dataset.attrs.get("gravity") if gravity is None else gravity
    return None if given is None else float(given)


def budgets(
    dataset: xr.Dataset,
    gravity: float | None = None,
    coriolis: np.ndarray | float | None = None,
    density: float = 1025.0,
) -> xr.Dataset:
    """Volume, mean elevation, energies and enstrophies of every record, and the volume that has infiltrated.

    Args:
        dataset: a file with eta, u, v and depth, and `infiltrated` if the run has it.
        gravity: [m s-2]; without it the file's attribute, and no potential energy where there is none.
        coriolis: f at the corners [s-1], a number or (rows, 1); without it the rotating sphere's, and no potential
            enstrophy on a plane.
        density: [kg m-3].

    Returns:
        xarray.Dataset over time, each variable with its units; under a rigid lid there is neither elevation nor
        potential energy, and over beds finer than the cells no potential energy. Means over blocks of cells have
        volumes and elevations alone: the energy of the means is less than that of the cells.
    """
    mesh = mesh_of(dataset)
    _need(dataset, ("eta", "u", "v"))
    gravity, coriolis = gravity_of(dataset, gravity), _coriolis(dataset, mesh, coriolis)
    rows = [_volumes(dataset, mesh, k) for k in range(dataset.sizes["time"])]
    if not has_blocks(dataset):
        rows = [row | _energies(dataset, mesh, k, (gravity, coriolis, density)) for k, row in enumerate(rows)]
    out = {
        name: ("time", [row[name] for row in rows], {"units": unit, "long_name": name.replace("_", " ")})
        for name, unit in UNITS.items()
        if name in rows[0]
    }
    return xr.Dataset(out, {"time": ("time", seconds(dataset), {"units": "s", "long_name": "time since the start"})})


def _need(dataset, names):
    missing = [name for name in names if name not in dataset]
    if missing:
        raise PlotError(f"budgets: the file lacks {', '.join(missing)}; write {', '.join(names)} of the run.")
    if "time" not in dataset[names[0]].dims:
        raise PlotError(f"budgets: {names[0]} has no time; give a file with several records.")


def _coriolis(dataset, mesh, coriolis):
    if coriolis is not None:
        return np.asarray(coriolis, float)
    if not mesh.spherical:
        return None
    return 2 * EARTH_ROTATION * np.sin(np.deg2rad(dataset["yq"].values.astype(float)))[:, None]


def _volumes(dataset, mesh, record):
    """{name: sum} of what is linear in the fields."""
    area = wet_area(dataset, mesh)
    sums = {"volume": (area * np.nan_to_num(thickness(dataset, record))).sum()}
    if "infiltrated" in dataset:
        sums["infiltrated"] = (area * np.nan_to_num(snapshot(dataset, "infiltrated", record))).sum()
    moving_shore = "film_thickness" in dataset.attrs  # where levels of dry cells are those of the ground
    if not has_rigid_lid(dataset) and not (moving_shore and has_blocks(dataset)):
        covered = area * under_water(dataset, record) if moving_shore else area
        sums["mean_elevation"] = (covered * np.nan_to_num(snapshot(dataset, "eta", record))).sum() / covered.sum()
    return sums


def _energies(dataset, mesh, record, constants):
    """{name: sum} of energies and enstrophies."""
    gravity, coriolis, density = constants
    y_faces = dataset["yq"].values
    wet, area = wet_cells(dataset), wet_area(dataset, mesh)
    h, eta = (np.nan_to_num(x) for x in (thickness(dataset, record), snapshot(dataset, "eta", record)))
    u, v = (np.nan_to_num(snapshot(dataset, name, record)) for name in "uv")
    if "vorticity" in dataset:  # the model's own includes the slip at its coasts
        zeta = np.nan_to_num(snapshot(dataset, "vorticity", record))
    else:
        zeta = vorticity(u, v, mesh, wet)
    sums = {
        "kinetic_energy": density * (area * h * kinetic_energy(u, v, mesh, y_faces)).sum(),
        "enstrophy": 0.5 * (corner_area(mesh) * zeta**2).sum(),
    }
    if gravity is not None and not has_rigid_lid(dataset) and not has_finer_bed(dataset):
        ground = np.maximum(eta - h, 0.0)
        sums["potential_energy"] = 0.5 * density * gravity * (area * (eta - ground) * (eta + ground)).sum()
    if coriolis is not None:
        volume = corner_sum(area * h, mesh)
        q = (coriolis + zeta) * corner_sum(area, mesh) / np.where(volume > 0, volume, np.inf)
        sums["potential_enstrophy"] = 0.5 * (volume / 4 * q**2).sum()
    return sums


def streamfunction(dataset: xr.Dataset, record: int | None = None) -> xr.DataArray:
    """psi [m3 s-1] at the corners (yq, xq), of one record, or of the mean over all of them.

    It is exact where the flow has no divergence: a steady flow, or the mean over a long time. On land it is constant.
    It is 0 at the first corner; where both directions are periodic, in the mean.
    """
    mesh = mesh_of(dataset)
    psi = streamfunction_on_edges(dataset, record)[mesh.periodic_y :, mesh.periodic_x :]
    corners = {"yq": dataset["yq"], "xq": dataset["xq"]}
    return _transport(psi, corners, "streamfunction", "transport streamfunction")


def _transport(values, coords, name, long_name):
    attrs = {"units": "m3 s-1", "long_name": long_name}
    return xr.DataArray(values, coords, tuple(coords), name, attrs)


def streamfunction_on_edges(dataset: xr.Dataset, record: int | None = None) -> np.ndarray:
    """The streamfunction at all corners, (ny + 1, nx + 1).

    A periodic direction has corners at both its ends. Their values differ if a mean flow crosses it.
    """
    _need(dataset, ("u", "v"))
    check_cells("streamfunction", dataset)
    mesh = mesh_of(dataset)
    records = range(dataset.sizes["time"]) if record is None else [record]
    means: list[Any] = [sum(parts) / len(records) for parts in zip(*(fluxes(dataset, mesh, k) for k in records))]
    along_x, along_y = means
    # integrated east along the southern side, then north
    if mesh.periodic_x:
        along_x = np.concatenate([along_x[:, -1:], along_x], axis=1)
    if mesh.periodic_y:
        along_y = np.concatenate([along_y[-1:], along_y])
    first = np.concatenate([[0.0], np.cumsum(along_y[0])])
    up = np.cumsum(along_x, axis=0)
    psi = first - np.concatenate([np.zeros_like(up[:1]), up])
    if mesh.periodic_x and mesh.periodic_y:
        return psi - psi[1:, 1:].mean()
    return psi - psi[int(mesh.periodic_y), int(mesh.periodic_x)]


def gyre_transport(dataset: xr.Dataset) -> xr.DataArray:
    """max |psi| [m3 s-1] of every record: the transport of the strongest western boundary current of closed gyres."""
    values = [float(np.abs(streamfunction_on_edges(dataset, k)).max()) for k in range(dataset.sizes["time"])]
    return _transport(values, {"time": seconds(dataset)}, "gyre_transport", "largest |streamfunction|")


def transport(
    dataset: xr.Dataset, start: tuple[float, float], end: tuple[float, float], times: Sequence[float] | None = None
) -> xr.DataArray:
    """Transport [m3 s-1] over time through the section from `start` to `end`, positive to the right of that way.

    The section follows cell sides between the corners nearest to the two points, which conserves volume to rounding.

    Args:
        start, end: (x, y), in metres or degrees as in the file. Round the Earth the section goes the shorter way.
        times: [s]; all records without them.
    """
    _need(dataset, ("u", "v"))
    check_cells("transport", dataset)
    mesh = mesh_of(dataset)
    path = _staircase(*_ends(mesh, start, end))
    records = range(dataset.sizes["time"]) if times is None else nearest(dataset, times)
    values = [_through(path, *fluxes(dataset, mesh, k), mesh) for k in records]
    text = f"transport from {start} to {end}, to the right"
    return _transport(values, {"time": seconds(dataset)[list(records)]}, "transport", text)


def _ends(mesh, start, end):
    """The corners ((j, i), (j, i)) nearest to two points, which go on across the seam of a periodic direction."""
    if (ends := corners(start, end, mesh)) is None:
        west, east, south, north = mesh.extent
        raise PlotError(
            f"transport: the section from {tuple(start)} to {tuple(end)} lies outside the domain, x {west:g} to "
            f"{east:g} and y {south:g} to {north:g}; move it inside."
        )
    return [corner[::-1] for corner in ends]


def _staircase(first, last):
    """Corners (j, i) from `first` to `last`, one cell side at a time, along the straight line."""
    (j, i), path = first, [first]
    down, across = last[0] - first[0], last[1] - first[1]
    while (j, i) != last:
        rising = abs((j + np.sign(down) - first[0]) * across - (i - first[1]) * down)
        running = abs((j - first[0]) * across - (i + np.sign(across) - first[1]) * down)
        if i == last[1] or (j != last[0] and rising <= running):
            j += int(np.sign(down))
        else:
            i += int(np.sign(across))
        path.append((j, i))
    return path


def _through(path, along_x, along_y, mesh):
    total = 0.0
    for (j0, i0), (j1, i1) in zip(path, path[1:]):
        if i0 == i1:
            total += (j1 - j0) * along_x[min(j0, j1) % mesh.y.size, _face(i0, mesh.x.size, mesh.periodic_x)]
        else:
            total -= (i1 - i0) * along_y[_face(j0, mesh.y.size, mesh.periodic_y), min(i0, i1) % mesh.x.size]
    return total


def _face(edge, n, periodic):
    """The number of an edge in a file, which has only those east and north of cells along a periodic direction."""
    return (edge - 1) % n if periodic else edge


def figure(dataset: xr.Dataset, gravity: float | None = None, coriolis: np.ndarray | float | None = None) -> Figure:
    """A figure of the budgets over time, each as its values or, if it hardly changes, as its change since the start.

    Raises:
        PlotError: without the fields, or with `gravity` or `coriolis` for all layers.
    """
    if "layer" in dataset.dims:
        layered.check_given("budgets", gravity=gravity, coriolis=coriolis)
        return _figure_of_layers(dataset)
    sums = budgets(dataset, gravity, coriolis)
    time, unit = time_axis(sums["time"].values)
    with style.applied():
        rows = -(-len(sums) // 2)
        page = style.new_figure(9.0, 1.1 + 1.75 * rows)
        places = page.add_gridspec(rows, 2)
        for n, (name, row) in enumerate(sums.items()):
            last = n == len(sums) - 1  # of an odd number, the last one is as wide as the page
            one = page.add_subplot(places[n // 2, slice(n % 2, None) if last else n % 2])
            values = row.values
            steady = name != "mean_elevation" and np.ptp(values) < 1e-3 * np.abs(values).max()
            shown, units = scaled(values / values[0] - 1, "") if steady else scaled(values, row.attrs["units"])
            one.plot(time, shown, linewidth=1.5)
            one.yaxis.set_major_locator(MaxNLocator(4))
            one.set_title(str(name).replace("_", " ").capitalize())
            bracket = f"[{units}]" if units else ""
            one.set_ylabel(f"relative change {bracket}".rstrip() if steady else bracket)
            one.set_xlabel(f"Time [{unit}]")
            one.grid(axis="both")
        style.finish(page, dataset)
    return page


def _figure_of_layers(dataset):
    """A figure of the energies of layers and interfaces over time, and of their conversion."""
    sums = layered.budgets(dataset)
    time, unit = time_axis(sums["time"].values)
    with style.applied():
        page = style.new_figure(7.0, 6.6)
        for place, name in enumerate(("kinetic_energy", "potential_energy", "conversion")):
            one, row = page.add_subplot(3, 1, place + 1), sums[name]
            values, units = scaled(row.transpose("time", ...).values, row.attrs["units"])
            for number, line in zip(row[row.dims[-1]].values, values.T):
                one.plot(time, line, linewidth=1.5, label=f"{row.dims[-1]} {number}")
            one.set_title(str(row.attrs["long_name"]).capitalize())
            one.set_ylabel(f"[{units}]")
            one.grid(axis="both")
            one.legend()
        one.set_xlabel(f"Time [{unit}]")
        style.finish(page, dataset)
    return page


def time_axis(time: np.ndarray) -> tuple[np.ndarray, str]:
    """(times, unit) in a unit of time that suits their range."""
    for unit, length in (("years", 365.25 * 86400), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if time[-1] - time[0] >= 3 * length:
            return time / length, unit
    return time, "s"
