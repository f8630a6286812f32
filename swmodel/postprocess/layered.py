"""Files of several layers: the energies of layers and interfaces, and spectra by layer and by vertical mode.

    kinetic_energy     density sum area h_k K_k                  of layer k [J]
    potential_energy   density sum area g_j eta_j^2 / 2          of interface j [J]
    conversion         density sum area M_k div(U_k, V_k)        gain of the kinetic energy of layer k by pressure [W]
    release            density sum area g_j eta_j D_j            loss of the potential energy of interface j [W]

D_j sums div(U_k, V_k) over the layers that move interface j, so that both sum to the same. Under a rigid lid the first
interface has no energy; its pressure moves energy between layers.

In spectra, the energies are of a unit of mass: over density, area and the mean depth H of the part that is transformed.
Vertical mode m of a flat bottom at H has the velocity of layer k phi_km, with phi^T diag(H_k) phi = 1
(dynamics/vertical_modes.py):

    u_m = sum_k phi_km H_k u_k              E_m = mean(u_m^2 + v_m^2) / 2H
    p_m = c_m sum_k phi_km h'_k             P_m = mean(p_m^2) / 2H

h'_k is the thickness above that at rest. Under a rigid lid mode 0, all layers alike, has neither waves nor potential
energy, and its celerity is NaN. The sums of P_m and of the potential energies of interfaces are the same; of
kinetic energies they differ by the order of h' / H_k, and by the relief of the sea floor.
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
import xarray as xr

from ..dynamics.vertical_modes import modes, summation
from ..errors import PlotError
from .cgrid import around, fluxes, has_rigid_lid, kinetic_energy, on_faces
from .files import check_cells, mesh_of, seconds, snapshot, wet_cells
from .wavenumbers import Sea

SUMS = {  # {name: (dimension, units, long name)}
    "kinetic_energy": ("layer", "J", "kinetic energy"),
    "potential_energy": ("interface", "J", "available potential energy"),
    "release": ("interface", "W", "loss of available potential energy"),
    "conversion": ("layer", "W", "gain of kinetic energy by pressure"),
}
SPECTRA = {  # {name: (dimension, long name)}
    "kinetic_energy_spectrum": ("layer", "spectrum of kinetic energy"),
    "potential_energy_spectrum": ("interface", "spectrum of available potential energy"),
    "kinetic_energy_of_modes": ("mode", "spectrum of kinetic energy by vertical mode"),
    "potential_energy_of_modes": ("mode", "spectrum of available potential energy by vertical mode"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Column:
    """The layers of a file.

    Attributes:
        gravities: g_j of the interfaces [m s-2], (n,).
        upper: thickness at rest of all layers but the lowest [m], (n - 1,).
        deep_at_rest: whether they move over a deep layer at rest.
        under_rigid_lid: whether that is the first interface.
    """

    gravities: np.ndarray
    upper: np.ndarray
    deep_at_rest: bool
    under_rigid_lid: bool

    @classmethod
    def of(cls, dataset: xr.Dataset) -> Self:
        """The Column of a file with all layers.

        Raises:
            PlotError: if it lacks fields or the attributes of layers.
        """
        if "layer" not in dataset.dims:
            raise PlotError("layers: the file has one layer alone; give a file of several, opened with layer=None.")
        if missing := [name for name in ("eta", "u", "v", "depth") if name not in dataset]:
            raise PlotError(f"layers: the file lacks {', '.join(missing)}; write eta, u and v of the run.")
        names = "gravities_of_interfaces", "thickness_of_upper_layers"
        if not set(names) <= set(dataset.attrs):
            raise PlotError(
                "layers: the file has no gravities of interfaces, as those of ensembles and of swmodel 0.2.0; choose "
                "one layer with --layer."
            )
        gravities, upper = (np.array(json.loads(dataset.attrs[name])) for name in names)
        return cls(gravities, upper, bool(dataset.attrs["deep_layer_at_rest"]), has_rigid_lid(dataset))

    def each(self, dataset: xr.Dataset) -> list[xr.Dataset]:
        """The file of each layer."""
        return [dataset.isel(layer=k) for k in range(self.gravities.size)]

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """Those of the layers, and of the interfaces that move, as files count them."""
        layers = np.arange(1, self.gravities.size + 1)
        return {"layer": layers, "interface": layers + self.deep_at_rest}

    def modes(self, depth: float) -> tuple[np.ndarray, np.ndarray]:
        """(celerities [m s-1] (n,), velocities (layer, mode)) of the vertical modes over this depth [m].

        Mode 0 under a rigid lid has the celerity NaN.
        """
        return modes(self.gravities, self.rest(depth), self.deep_at_rest, under_rigid_lid=self.under_rigid_lid)

    def rest(self, depth: np.ndarray | float) -> np.ndarray:
        """H_k [m], (n, ...), of the depth [m]."""
        return np.stack([*(x + 0.0 * depth for x in self.upper), depth - self.upper.sum()])

    @property
    def sums(self) -> np.ndarray:
        """L (n, n), with eta = L (h - H)."""
        return summation(self.gravities.size, self.deep_at_rest)

    def raised(self, eta: np.ndarray) -> np.ndarray:
        """eta [m] (n, ...) of what is part of the thickness: without that of a rigid lid."""
        return np.concatenate([0.0 * eta[:1], eta[1:]]) if self.under_rigid_lid else eta

    def excess(self, eta: np.ndarray) -> np.ndarray:
        """h_k - H_k [m], (n, ...)."""
        return np.tensordot(np.linalg.inv(self.sums), self.raised(eta), 1)

    def potentials(self, eta: np.ndarray) -> np.ndarray:
        """M_k [m2 s-2], (n, ...)."""
        return np.tensordot(self.sums.T * self.gravities, eta, 1)


def check_given(who: str, **arguments: object) -> None:
    """Raise PlotError for arguments of a figure, {name: value or None}, that it does not have of all layers."""
    if given := [name for name, value in arguments.items() if value is not None]:
        names = " or ".join(given)
        raise PlotError(f"{who}: a figure of all layers has no {names}; leave it out, or choose one with --layer.")


def budgets(dataset: xr.Dataset, density: float = 1025.0) -> xr.Dataset:
    """The energies of each layer and interface at all records, and their conversion.

    Args:
        dataset: a file with eta, u and v of all layers, and depth.
        density: of the top layer [kg m-3].

    Returns:
        xarray.Dataset of kinetic_energy and conversion (time, layer), potential_energy and release (time, interface).

    Raises:
        PlotError: as Column.of, and for means over blocks of cells.
    """
    check_cells("budgets", dataset)
    column, mesh, wet = Column.of(dataset), mesh_of(dataset), wet_cells(dataset)
    layers, depth = column.each(dataset), np.where(wet, snapshot(dataset, "depth"), np.nan)
    rows = [_sums(layers, k, column, mesh, depth) for k in range(dataset.sizes["time"])]
    sums = {
        name: (("time", along), density * np.stack([row[name] for row in rows]), {"units": units, "long_name": text})
        for name, (along, units, text) in SUMS.items()
    }
    time = ("time", seconds(dataset), {"units": "s", "long_name": "time since the start"})
    return xr.Dataset(sums, {"time": time, **column.numbers})


def _sums(layers, record, column, mesh, depth):
    """{name: (n,)} of SUMS over density [m5 s-2] and [m5 s-3], at one record."""
    u, v, eta = (np.stack([snapshot(layer, name, record) for layer in layers]) for name in ("u", "v", "eta"))
    h, outflow, kinetic = column.rest(depth) + column.excess(eta), [], []
    for layer, thickness, along, across in zip(layers, h, np.nan_to_num(u), np.nan_to_num(v)):
        kinetic.append(thickness * kinetic_energy(along, across, mesh, layer["yq"].values))
        along_x, along_y = fluxes(layer.assign(thickness=(("yh", "xh"), thickness)), mesh, record)
        ends = around(along_x, -1, mesh.periodic_x), around(along_y, -2, mesh.periodic_y)
        outflow.append(sum(high - low for low, high in ends))  # of whole cells [m3 s-1]
    g = column.gravities[:, None, None]
    each = {
        "kinetic_energy": mesh.area * np.stack(kinetic),
        "potential_energy": mesh.area * 0.5 * g * column.raised(eta) ** 2,
        "release": g * eta * np.tensordot(column.sums, np.stack(outflow), 1),
        "conversion": column.potentials(eta) * np.stack(outflow),
    }
    return {name: np.nansum(values, (1, 2)) for name, values in each.items()}


def spectra(
    dataset: xr.Dataset, records: Iterable[int] | None = None, box: Sequence[float] | None = None
) -> xr.Dataset:
    """Isotropic spectra of kinetic and potential energy by layer, interface and vertical mode, fastest mode first.

    Args:
        dataset: a file with eta, u and v of all layers, and depth.
        records, box: as for wavenumber_spectrum; all records without them.

    Returns:
        xarray.Dataset of kinetic_energy_spectrum (time, layer, wavenumber), potential_energy_spectrum (time, interface,
        wavenumber), kinetic_energy_of_modes and potential_energy_of_modes (time, mode, wavenumber) [m3 s-2], and
        celerity (mode) [m s-1].

    Raises:
        PlotError: as Column.of and wavenumber_spectrum.
    """
    records = list(range(dataset.sizes["time"]) if records is None else records)
    column = Column.of(dataset)
    records_of = [_of_record([Sea(layer, k, box) for layer in column.each(dataset)], column) for k in records]
    rows = {
        name: (
            ("time", along, "wavenumber"),
            np.stack([one[name] for one in records_of]),
            {"units": "m3 s-2", "long_name": text},
        )
        for name, (along, text) in SPECTRA.items()
    }
    sea = Sea(dataset.isel(layer=0), 0, box)
    coords = {
        "time": ("time", seconds(dataset)[records], dataset["time"].attrs),
        **column.numbers,
        "mode": np.arange(column.gravities.size),
        "celerity": ("mode", column.modes(sea.mean_depth)[0], {"units": "m s-1", "long_name": "speed of long waves"}),
        "wavenumber": sea.array(np.zeros(records_of[0]["kinetic_energy_spectrum"].shape[-1]), {}, "")["wavenumber"],
    }
    return xr.Dataset(rows, coords, {"largest_wavenumber": sea.largest, "ring_width": sea.width})


def _of_record(seas, column):
    """{name: (n, wavenumber)} of SPECTRA, from the Sea of each layer."""
    sea, depth = seas[0], seas[0].mean_depth
    u, v, eta = (np.stack([one.field(name) for one in seas]) for name in ("u", "v", "eta"))
    excess, mesh = column.excess(eta), sea.mesh
    h, raised = column.rest(sea.field("depth")) + excess, column.raised(eta)
    celerities, velocities = column.modes(depth)
    amplitudes = velocities.T * np.sqrt(0.5 / depth)
    along_x, along_y = (np.tensordot(amplitudes * column.rest(depth), x, 1) for x in (u, v))
    pressures = np.nan_to_num(celerities)[:, None, None] * np.tensordot(amplitudes, excess, 1)

    def energy(**pairs):
        each = [[(where, a, where, b) for a, b in zip(*pair)] for where, pair in pairs.items()]
        return np.stack([sea.rings(list(products)) for products in zip(*each)])

    h_u, h_v = on_faces(h, -1, mesh.periodic_x) * (0.5 / depth), on_faces(h, -2, mesh.periodic_y) * (0.5 / depth)
    return {
        "kinetic_energy_spectrum": energy(u=(u, h_u * u), v=(v, h_v * v)),
        "potential_energy_spectrum": energy(eta=(raised, column.gravities[:, None, None] * (0.5 / depth) * raised)),
        "kinetic_energy_of_modes": energy(u=(along_x, along_x), v=(along_y, along_y)),
        "potential_energy_of_modes": energy(eta=(pressures, pressures)),
    }
