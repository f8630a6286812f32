"""C-grid means, differences and transports in numpy, for arrays as they lie in the files.

Along a closed or open direction n centres have n + 1 faces; along a periodic one n faces, each after its centre.
"""

import numpy as np
import xarray as xr

from ..errors import PlotError
from .files import Mesh, positions, snapshot, wet_cells

SPEED = "speed"


def around(faces: np.ndarray, axis: int, periodic: bool) -> tuple[np.ndarray, np.ndarray]:
    """(low, high): for every centre, the values on its two faces."""
    if periodic:
        return np.roll(faces, 1, axis), faces
    n = faces.shape[axis]
    return np.take(faces, np.arange(n - 1), axis), np.take(faces, np.arange(1, n), axis)


def between(centres: np.ndarray, axis: int, periodic: bool, beyond: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """(low, high): for every face, the values in its two cells; `beyond` is outside a closed end."""
    if periodic:
        return centres, np.roll(centres, -1, axis)
    before, after = ([(0, 0)] * centres.ndim for _ in range(2))
    before[axis], after[axis] = (1, 0), (0, 1)
    return (np.pad(centres, before, constant_values=beyond), np.pad(centres, after, constant_values=beyond))


def at_centres(dataset: xr.Dataset, mesh: Mesh, name: str, record: int | None) -> np.ndarray:
    """One record of a variable at the centres, (ny, nx): the mean of the water's faces or corners around each.

    SPEED is that of u and v there, if the file does not have it.
    """
    if name == SPEED and SPEED not in dataset:
        return np.hypot(*(at_centres(dataset, mesh, component, record) for component in "uv"))
    values = snapshot(dataset, name, record)
    along_y, along_x = positions(dataset[name]) or ("", "")
    if along_x == "xq":
        values = _mean(around(values, -1, mesh.periodic_x))
    if along_y == "yq":
        values = _mean(around(values, -2, mesh.periodic_y))
    return values


def _mean(parts):
    """The mean of the parts that are finite; NaN where no part is."""
    finite = sum(np.isfinite(part).astype(float) for part in parts)
    total = sum(np.nan_to_num(part) for part in parts)
    return np.where(finite > 0, total / np.maximum(finite, 1.0), np.nan)


def corner_sum(centres: np.ndarray, mesh: Mesh) -> np.ndarray:
    """The sum over the four cells round every corner."""
    along_x = np.add(*between(centres, -1, mesh.periodic_x))
    return np.add(*between(along_x, -2, mesh.periodic_y))


def thickness(dataset: xr.Dataset, record: int | None) -> np.ndarray:
    """Thickness of the water column h [m] (ny, nx), NaN on land.

    It is that of the file, else depth + eta, or depth under a rigid lid.
    """
    if "thickness" in dataset:
        return snapshot(dataset, "thickness", record)
    if "depth" not in dataset or "eta" not in dataset:
        raise PlotError("thickness: the file holds neither thickness nor both depth and eta; write one of them.")
    depth = snapshot(dataset, "depth", record)
    return depth if has_rigid_lid(dataset) else depth + snapshot(dataset, "eta", record)


def has_rigid_lid(dataset: xr.Dataset) -> bool:
    """Whether the run had a rigid lid: eta is the pressure on it, and no part of the thickness."""
    return dataset.attrs.get("time_stepper", "").startswith("RigidLid")


def surface(dataset: xr.Dataset) -> str:
    """The title of a panel of eta: the elevation, that of a layer's thickness, or the pressure on a rigid lid."""
    if has_rigid_lid(dataset):
        return "Pressure on the rigid lid"
    about = dataset["eta"].attrs.get("long_name", "") if "eta" in dataset else ""
    return "Thickness anomaly" if about.startswith("thickness") else "Elevation"


def on_faces(h: np.ndarray, axis: int, periodic: bool) -> np.ndarray:
    """Mean of h over the wet ones of a face's two cells, 0 between two dry ones."""
    return np.nan_to_num(_mean(between(h, axis, periodic, np.nan)))


def fluxes(dataset: xr.Dataset, mesh: Mesh, record: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Transports through whole cell sides: (h_u u dy, h_v v dx) [m3 s-1], 0 on land."""
    h = thickness(dataset, record)
    u, v = (np.nan_to_num(snapshot(dataset, name, record)) for name in "uv")
    along_x = on_faces(h, -1, mesh.periodic_x) * u * mesh.dy
    along_y = on_faces(h, -2, mesh.periodic_y) * v * mesh.dx(dataset["yq"].values)
    return along_x, along_y


def wet_area(dataset: xr.Dataset, mesh: Mesh) -> np.ndarray:
    """The area of the cells that may be wet [m2] (ny, nx), of a block that of such cells in it; 0 on land."""
    return wet_cells(dataset) * (dataset["area"].values if "area" in dataset else mesh.area)


def kinetic_energy(u: np.ndarray, v: np.ndarray, mesh: Mesh, y_faces: np.ndarray) -> np.ndarray:
    """K = [mean_x(area_u u^2) + mean_y(area_v v^2)] / (2 area) [m2 s-2] at centres."""
    east_west = 0.5 * np.add(*around(u**2 * mesh.dx(mesh.y) * mesh.dy, -1, mesh.periodic_x))
    north_south = 0.5 * np.add(*around(v**2 * mesh.dx(y_faces) * mesh.dy, -2, mesh.periodic_y))
    return (east_west + north_south) / (2 * mesh.area)


def vorticity(u: np.ndarray, v: np.ndarray, mesh: Mesh, wet: np.ndarray) -> np.ndarray:
    """zeta = dv/dx - du/dy at corners [s-1]: circulation over area; 0 at walls and coasts (free slip)."""
    v_west, v_east = between(v * mesh.dy, -1, mesh.periodic_x)
    u_south, u_north = between(u * mesh.dx(mesh.y), -2, mesh.periodic_y)
    # outside a closed end `between` gives zeros: those corners are not at sea, and drop out
    at_sea = corner_sum(wet.astype(float), mesh) > 3.5
    return np.where(at_sea, (v_east - v_west) - (u_north - u_south), 0.0) / corner_area(mesh)


def corner_area(mesh: Mesh) -> np.ndarray:
    """Areas of the corners' cells [m2], a column: the mean of the cells round them, of those inside at an end."""
    area = mesh.area
    rows = between(area, -2, mesh.periodic_y, np.nan)
    return np.nanmean(np.stack(rows), axis=0)
