"""Isotropic wavenumber spectra, and transfers, of the fields of a file, as swmodel.Spectra computes them during a run.

    kinetic energy     mean(h_u u^2 + h_v v^2) / (2 H), H the mean depth; mean(u^2 + v^2) / 2 where a file has no depth
    potential energy   mean(g eta^2) / (2 H)
    enstrophy          mean(zeta^2) / 2
    any other field    mean(f^2)

are sums of Re(a_k* b_k) over modes, here of u and h_u u: by rings |k| = n dk -+ dk / 2, divided by dk. So

    sum over rings of E(k) dk = the mean,     sum of T(k) = dE(k)/dt by advection and by pressure,

with k in rad m-1. Fields are transformed at their own C-grid points. A periodic direction has Fourier series, and one
between walls the sines and cosines that satisfy the boundary conditions. In a box, on the sphere and between open sides
the mean is subtracted, and a Hann window is applied along each direction. The loss of variance is corrected (Harris
1978, doi:10.1109/PROC.1978.10837). docs/guide/spectra.md has more.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.fft import dct, dst

from ..errors import PlotError
from ..grids.grid import limits_on
from .cgrid import around, between, corner_sum, has_rigid_lid, kinetic_energy, on_faces, thickness, vorticity
from .files import mesh_of, positions, snapshot

QUANTITIES = {"kinetic_energy": "m3 s-2", "potential_energy": "m3 s-2", "enstrophy": "m s-2"}  # of their spectra
FEWEST = 8  # cells a side


def wavenumber_spectrum(
    dataset: xr.Dataset, variable: str = "kinetic_energy", record: int = -1, box: Sequence[float] | None = None
) -> xr.DataArray:
    """The isotropic spectrum of one record.

    Args:
        variable: one of QUANTITIES, or any field of the file, as "eta".
        box: ((x0, x1), (y0, y1)) in the file's coordinates; the whole domain without it.

    Returns:
        xarray.DataArray over wavenumber [rad m-1], the first ring of which is the mean.

    Raises:
        PlotError: if there is land in the box, fewer than 8 cells a side, or no such energy as under a rigid lid.
        ConfigError: for a box at both ends of the file's longitudes.
    """
    sea = Sea(dataset, record, box)
    spectrum = sea.rings(sea.pairs(variable))
    units = QUANTITIES.get(variable) or _of_spectrum(dataset[variable].attrs.get("units", "1"))
    attrs = {"units": units, "long_name": f"spectrum of {variable.replace('_', ' ')}"}
    return sea.array(spectrum, attrs, "spectrum")


def _of_spectrum(units):
    """The units of a variable's square over wavenumber: "m s-1" becomes "m3 s-2"."""
    symbols = [re.fullmatch(r"([A-Za-z_]+)(-?\d+)?", word) for word in units.split() if word != "1"]
    words = [word for word in symbols if word]
    if len(words) < len(symbols):
        return f"({units})2 m"
    powers = {"m": 1}
    for name, power in (word.groups() for word in words):
        powers[name] = powers.get(name, 0) + 2 * int(power or 1)
    return " ".join(name if power == 1 else f"{name}{power}" for name, power in powers.items() if power)


def transfers(dataset: xr.Dataset, record: int = -1, box: Sequence[float] | None = None) -> xr.Dataset:
    """The transfers of energy and enstrophy by advection and pressure at one record, on a plane.

    They are those of Sadourny's energy-conserving form (1975, doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2).

    Returns:
        xarray.Dataset of transfers and fluxes over wavenumber, named as in the files of spectra of a run.

    Raises:
        PlotError: on the sphere, without u, v, eta and depth, or as wavenumber_spectrum.
    """
    sea = Sea(dataset, record, box)
    if sea.mesh.spherical:
        raise PlotError("transfers: they are for a plane, and this file is of the sphere; take spectra alone.")
    for name in ("u", "v", "eta", "depth"):
        if name not in dataset:
            raise PlotError(f"transfers: the file has no {name}; write u, v, eta and depth.")
    flow = Flow(sea)
    scale = 1.0 / sea.mean_depth
    products = {
        "kinetic_energy_transfer_advection": (flow.kinetic(*flow.advection(), thinning=True), scale),
        "kinetic_energy_transfer_pressure": (flow.kinetic(*flow.pressure(), thinning=False), scale),
        "enstrophy_transfer_advection": ([("q", flow.curl(*flow.advection()), "q", flow.zeta)], 2.0),
    }
    if not has_rigid_lid(dataset):
        lifting = [("eta", flow.thinning, "eta", flow.eta)]
        products["potential_energy_transfer_pressure"] = lifting, 2 * sea.gravity * scale
    rows = {}
    for name, (pairs, factor) in products.items():
        units = "m s-3" if name.startswith("enstrophy") else "m3 s-3"
        text = f"rate of change of the spectrum of {name.replace('_', ' ').replace(' transfer ', ' by ')}"
        rows[name] = sea.array(0.5 * factor * sea.rings(pairs), {"units": units, "long_name": text}, name)
    for name in ("kinetic_energy", "enstrophy"):
        flux = -rows[f"{name}_transfer_advection"].cumsum("wavenumber") * sea.width
        attrs = {"units": "s-3" if name == "enstrophy" else "m2 s-3", "long_name": f"flux of {name.replace('_', ' ')}"}
        rows[f"{name}_flux"] = flux.assign_attrs(attrs)
    return xr.Dataset(rows)


class Sea:
    """The part of a record that is transformed, of each field one value for each cell, and its modes."""

    def __init__(self, dataset: xr.Dataset, record: int, box: Sequence[float] | None):
        self.dataset, self.record, self.box, self.mesh = dataset, record, box, mesh_of(dataset)
        self.rows, self.columns = _cut(self.mesh, box)
        shape = tuple(len(range(*part.indices(n))) for part, n in zip((self.rows, self.columns), self._cells))
        if min(shape) < FEWEST:
            cells = f"{shape[1]} x {shape[0]} cells"
            raise PlotError(f"wavenumber_spectrum: the domain has {cells}; {FEWEST} a side are needed.")
        middle = self.mesh.y[self.rows].mean()
        self.sides = shape[0] * self.mesh.dy, shape[1] * float(self.mesh.dx(middle)[0, 0])
        self.ways = self._ways(shape)
        self.repeats = tuple(2 * side if way == "walls" else side for way, side in zip(self.ways, self.sides))
        self.width, self.shape = 2 * np.pi / min(self.repeats), shape
        # beyond it are only the corners of the square of wavenumbers
        self.largest = np.pi * min(n / side for n, side in zip(shape, self.sides))

    @property
    def _cells(self):
        return self.mesh.y.size, self.mesh.x.size

    def _ways(self, shape):
        """ "periodic", "walls" or "window" along y and x."""
        whole = [n == cells for n, cells in zip(shape, self._cells)]
        ways = []
        for k, (name, periodic) in enumerate((("v", self.mesh.periodic_y), ("u", self.mesh.periodic_x))):
            if whole[k] and periodic:
                ways.append("periodic")
            elif whole[k] and self.box is None and not self.mesh.spherical and self._closed(name):
                ways.append("walls")
            else:
                ways.append("window")
        return tuple(ways)

    def _closed(self, name):
        """Whether the direction has walls at both ends."""
        along = {"u": "xq", "v": "yq"}[name]
        if name not in self.dataset or along not in self.dataset[name].dims:
            return False
        ends = self.dataset[name].isel({along: [0, -1]}).values
        return bool(np.all(np.nan_to_num(ends) == 0))

    def field(self, name: str) -> np.ndarray:
        """The values in the whole domain, not finite on land."""
        return snapshot(self.dataset, name, self.record)

    def whole(self, name: str) -> np.ndarray:
        """The same with 0 for missing values."""
        return np.nan_to_num(self.field(name))

    @property
    def gravity(self) -> float:
        return float(self.dataset.attrs.get("gravity", 9.81))

    @property
    def mean_depth(self) -> float:
        if "depth" not in self.dataset:
            raise PlotError("wavenumber_spectrum: the file has no depth, which energy is divided by; write depth, too.")
        return float(np.nanmean(self.field("depth")[self.rows, self.columns]))

    def pairs(self, variable: str) -> list[tuple]:
        """[(position, a, position, b)] whose products, averaged, are the quantity."""
        if variable == "kinetic_energy":
            u, v = self.field("u"), self.field("v")
            if not {"depth", "eta"} <= set(self.dataset):
                return [("u", u, "u", 0.5 * u), ("v", v, "v", 0.5 * v)]
            h = thickness(self.dataset, self.record) * (0.5 / self.mean_depth)
            h_u, h_v = on_faces(h, 1, self.mesh.periodic_x), on_faces(h, 0, self.mesh.periodic_y)
            return [("u", u, "u", h_u * u), ("v", v, "v", h_v * v)]
        if variable == "potential_energy":
            if has_rigid_lid(self.dataset):
                raise PlotError("potential energy: under a rigid lid there is none; choose another variable.")
            eta = self.field("eta")
            return [("eta", eta, "eta", 0.5 * self.gravity / self.mean_depth * eta)]
        if variable == "enstrophy":
            zeta = self.field("vorticity") if "vorticity" in self.dataset else Flow(self).zeta
            return [("q", zeta, "q", 0.5 * zeta)]
        field = self.field(variable)
        y, x = positions(self.dataset[variable]) or ("yh", "xh")
        position = {("yh", "xh"): "eta", ("yh", "xq"): "u", ("yq", "xh"): "v", ("yq", "xq"): "q"}[y, x]
        return [(position, field, position, field)]

    def rings(self, pairs: list[tuple]) -> np.ndarray:
        """The sum over rings of Re(a* b) of the pairs, over the rings' width."""
        total = np.zeros(self._count)
        for position, a, other, b in pairs:
            (left, numbers), (right, _) = self._modes(position, a), self._modes(other, b)
            product = left.real * right.real + left.imag * right.imag
            along_y, along_x = (n / repeat for n, repeat in zip(np.ix_(*numbers), self.repeats))
            squared = along_y**2 + along_x**2
            ring = np.floor(np.sqrt(squared) * min(self.repeats) + 0.5 + 1e-9)
            ring = np.where(squared > 0, np.maximum(ring, 1), 0).astype(int)
            total = total + np.bincount(ring.ravel(), product.ravel(), minlength=self._count)
        return total / self.width

    @property
    def _count(self):
        y, x = (np.pi * n / side for n, side in zip(self.shape, self.sides))
        corner = np.hypot(y, x)
        return int(corner / self.width + 0.5) + 2

    def array(self, values: np.ndarray, attrs: dict, name: str) -> xr.DataArray:
        coords = {"wavenumber": ("wavenumber", self.width * np.arange(self._count), {"units": "rad m-1"})}
        attrs = {**attrs, "largest_wavenumber": self.largest, "ring_width": self.width}
        return xr.DataArray(values, dims="wavenumber", name=name, attrs=attrs, coords=coords)

    def _modes(self, position, values):
        """(modes, the sum of whose squares is the mean square; whole numbers of waves in a repeat along y and x)."""
        first = (n - cells for n, cells in zip(values.shape, self._cells))  # of n + 1 faces, the east and north ones
        values = values[tuple(slice(k, None) for k in first)][self.rows, self.columns]
        if not np.isfinite(values).all():
            why = "there is land in the box, or the field is not finite; choose one at sea with --box X0 X1 Y0 Y1"
            raise PlotError(f"wavenumber_spectrum: {why}.")
        hann = [np.sin(np.pi * (np.arange(n) + 0.5) / n) ** 2 for n in self.shape]
        windows = [x if way == "window" else np.ones(x.size) for way, x in zip(self.ways, hann)]
        if "window" in self.ways:
            window = windows[0][:, None] * windows[1]
            values = (values - (values * window).sum() / window.sum()) * window / np.sqrt(np.mean(window**2))
        numbers = []
        for axis, way, at_faces in zip((0, 1), self.ways, (position in "vq", position in "uq")):
            values, waves = _along(values, axis, way, at_faces)
            numbers.append(waves)
        return values, numbers


def _along(values, axis, way, at_faces):
    n = values.shape[axis]
    if way != "walls":
        return np.fft.fft(values, axis=axis) / n, n * np.fft.fftfreq(n)
    if at_faces:
        inner = np.take(values, np.arange(n - 1), axis)  # the last one lies on the wall
        transform = lambda x: dst(x, 1, axis=axis, norm="ortho")  # noqa: E731
        waves = np.arange(1.0, n)
    else:
        inner, transform, waves = values, lambda x: dct(x, 2, axis=axis, norm="ortho"), np.arange(float(n))
    parts: Any = transform(inner.real)
    if np.iscomplexobj(inner):
        imaginary: Any = transform(inner.imag)
        parts = parts + 1j * imaginary
    return parts / np.sqrt(n), waves


def _cut(mesh, box):
    """Slices (y, x) of the cells whose centres lie in `box`."""
    if box is None:
        return slice(0, mesh.y.size), slice(0, mesh.x.size)
    x, chosen = limits_on(box[0], mesh, "wavenumber_spectrum: the box"), []
    for (low, high), centres, name in zip((x, box[1]), (mesh.x, mesh.y), "xy"):
        inside = np.flatnonzero((centres >= low) & (centres <= high))
        if inside.size < FEWEST:
            raise PlotError(
                f"wavenumber_spectrum: the box holds {inside.size} cells along {name}, from {low:g} to "
                f"{high:g}; make it at least {FEWEST} wide."
            )
        chosen.append(slice(int(inside[0]), int(inside[-1]) + 1))
    return chosen[1], chosen[0]


class Flow:
    """A record's flow on a plane, and its tendencies; 0 on land. Values next to land have no meaning."""

    def __init__(self, sea: Sea):
        if sea.mesh.spherical:
            raise PlotError("wavenumber_spectrum: on the sphere the file must hold vorticity itself; write it, too.")
        self.mesh, self.gravity, self.y_faces = sea.mesh, sea.gravity, sea.dataset["yq"].values
        self.periodic, self.sides = (sea.mesh.periodic_y, sea.mesh.periodic_x), (sea.mesh.dy, sea.mesh.width)
        self.u, self.v = sea.whole("u"), sea.whole("v")
        self.zeta = self.curl(self.u, self.v)
        if not {"eta", "depth"} <= set(sea.dataset):
            return
        self.eta, h = sea.whole("eta"), thickness(sea.dataset, sea.record)
        self.h = np.where(h > 0, h, 1.0)
        self.h_u, self.h_v = (on_faces(self.h, axis, self.periodic[axis]) for axis in (1, 0))
        self.U, self.V = self.h_u * self.u, self.h_v * self.v
        self.thinning = -(self._outflow(self.U, 1) + self._outflow(self.V, 0))

    def _outflow(self, transport, axis):
        low, high = around(transport, axis, self.periodic[axis])
        return (high - low) / self.sides[axis]

    def _slope(self, centres, axis):
        """The derivative at faces; 0 at the ends of the domain."""
        low, high = between(centres, axis, self.periodic[axis])
        slope = np.moveaxis((high - low) / self.sides[axis], axis, 0)
        if not self.periodic[axis]:
            slope[[0, -1]] = 0.0
        return np.moveaxis(slope, 0, axis)

    def curl(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """dv/dx - du/dy at corners; 0 on walls."""
        return vorticity(u, v, self.mesh, np.ones((self.mesh.y.size, self.mesh.x.size)))

    def advection(self) -> tuple[np.ndarray, np.ndarray]:
        """(du/dt, dv/dt) by relative vorticity and the slope of u^2 / 2 + v^2 / 2."""
        q = 4.0 * self.zeta / corner_sum(self.h, self.mesh)
        k = kinetic_energy(self.u, self.v, self.mesh, self.y_faces)
        tendencies = []
        for axis, transport, sign in ((1, self.V, 1.0), (0, self.U, -1.0)):
            turning = q * 0.5 * np.add(*between(transport, axis, self.periodic[axis]))
            turned = 0.5 * np.add(*around(turning, 1 - axis, self.periodic[1 - axis]))
            tendencies.append(sign * turned - self._slope(k, axis))
        return tendencies[0], tendencies[1]

    def pressure(self) -> tuple[np.ndarray, np.ndarray]:
        """(du/dt, dv/dt) by the slope of the surface."""
        return -self.gravity * self._slope(self.eta, 1), -self.gravity * self._slope(self.eta, 0)

    def kinetic(self, du: np.ndarray, dv: np.ndarray, thinning: bool) -> list[tuple]:
        """Pairs of the rate of change of u U + v V along a tendency; with what thins the water, or without."""
        pairs = []
        along_x = "u", 1, self.u, self.U, self.h_u, du
        for position, axis, x, X, h, dx in (along_x, ("v", 0, self.v, self.V, self.h_v, dv)):
            dX = h * dx + (on_faces(self.thinning, axis, self.periodic[axis]) * x if thinning else 0.0)
            pairs += [(position, dx, position, X), (position, x, position, dX)]
        return pairs
