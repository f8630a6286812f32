"""Spectra: isotropic wavenumber spectra of boxes, and frequency spectra of gauges.

The spectrum E(k) of a field f in a box of sides Lx, Ly is summed over rings of |k| and divided by their width:

    sum over rings of E(k) dk = mean of f^2                (for kinetic energy, mean of (u^2 + v^2) / 2)

with k in rad m-1. A direction in which the box is the whole periodic domain is transformed as it is; in any other one
the mean is taken out and a Hann window laid over the box, whose loss of variance is put back (Harris 1978,
doi:10.1109/PROC.1978.10837). u and v are transformed on their own faces: averaging them to centres would lose the
shortest waves.
"""
import numpy as np
import xarray as xr

from . import style
from .errors import PlotError
from .files import mesh_of, pretty, seconds, snapshot, stamp, start_of

__all__ = ["figure", "frequency_spectrum", "gauge_figure", "wavenumber_spectrum"]


def wavenumber_spectrum(dataset, variable="kinetic_energy", record=-1, box=None):
    """The isotropic spectrum of one record.

    Args:
        variable: "kinetic_energy" (from u and v), or any field of the file, as "eta".
        box: ((x0, x1), (y0, y1)) in the file's coordinates; the whole domain without it.

    Returns:
        xarray.DataArray over wavenumber [rad m-1].

    Raises:
        PlotError: if there is land in the box, or fewer than 8 cells a side.
    """
    mesh = mesh_of(dataset)
    names = ("u", "v") if variable == "kinetic_energy" else (variable,)
    density = sum(_density(dataset, mesh, name, record, box) for name in names)
    units = dataset[names[0]].attrs.get("units", "1")
    attrs = {"units": f"({units})2 m", "long_name": f"spectrum of {variable.replace('_', ' ')}"}
    if variable == "kinetic_energy":
        density, attrs["units"] = 0.5 * density, "m3 s-2"
    shape, sides = density.shape, _sides(mesh, density.shape, box)
    wavenumber, spectrum = _rings(density, shape, sides)
    # beyond it are only the corners of the square of wavenumbers
    attrs["largest_wavenumber"] = np.pi * min(n / side for n, side in zip(shape, sides))
    return xr.DataArray(spectrum, dims="wavenumber", name="spectrum", attrs=attrs,
                        coords={"wavenumber": ("wavenumber", wavenumber, {"units": "rad m-1"})})


def _cut(mesh, box):
    """Slices (y, x) of the cells whose centres lie in `box`."""
    if box is None:
        return slice(0, mesh.y.size), slice(0, mesh.x.size)
    chosen = []
    for (low, high), centres, name in zip(box, (mesh.x, mesh.y), "xy"):
        inside = np.flatnonzero((centres >= low) & (centres <= high))
        if inside.size < 8:
            raise PlotError(f"wavenumber_spectrum: the box holds {inside.size} cells along {name}, from {low:g} to "
                            f"{high:g}; make it at least 8 wide.")
        chosen.append(slice(int(inside[0]), int(inside[-1]) + 1))
    return chosen[1], chosen[0]


def _density(dataset, mesh, name, record, box):
    """|f_k|^2, whose sum is the mean of f^2, (ny, nx) in numpy's order of wavenumbers."""
    rows, columns = _cut(mesh, box)
    values = snapshot(dataset, name, record)
    # of n + 1 faces, the east and north ones of the cells in the box
    values = values[values.shape[0] - mesh.y.size:, values.shape[1] - mesh.x.size:][rows, columns]
    if min(values.shape) < 8:
        rows, columns = values.shape
        raise PlotError(f"wavenumber_spectrum: the domain has {columns} x {rows} cells; 8 a side are needed.")
    if not np.isfinite(values).all():
        raise PlotError(f"wavenumber_spectrum: there is land in the box, or {name} is not finite; choose a box at sea.")
    whole_y = mesh.periodic_y and values.shape[0] == mesh.y.size
    whole_x = mesh.periodic_x and values.shape[1] == mesh.x.size
    window = (np.ones(values.shape[0]) if whole_y else _hann(values.shape[0]))[:, None] * (
        np.ones(values.shape[1]) if whole_x else _hann(values.shape[1]))
    if not (whole_x and whole_y):
        values = values - (values * window).sum() / window.sum()
    return np.abs(np.fft.fft2(values * window) / values.size) ** 2 / np.mean(window**2)


def _hann(n):
    return np.sin(np.pi * (np.arange(n) + 0.5) / n) ** 2


def _sides(mesh, shape, box):
    """Lengths (Ly, Lx) of the box [m]; on the sphere Lx is that at its middle latitude."""
    rows, _ = _cut(mesh, box)
    return shape[0] * mesh.dy, shape[1] * float(mesh.dx(mesh.y[rows].mean())[0, 0])


def _rings(density, shape, sides):
    ky, kx = (2 * np.pi * np.fft.fftfreq(n, side / n) for n, side in zip(shape, sides))
    k = np.hypot(ky[:, None], kx)
    width = 2 * np.pi / min(sides)
    ring = np.rint(k / width).astype(int)
    total = np.bincount(ring.ravel(), density.ravel())
    count = np.bincount(ring.ravel())
    mean_k = np.bincount(ring.ravel(), k.ravel()) / np.maximum(count, 1)
    kept = np.arange(count.size) > 0
    return mean_k[kept & (count > 0)], (total / width)[kept & (count > 0)]


def frequency_spectrum(series, segments=1):
    """(frequency [Hz], power [m2 Hz-1]) of a gauge's Series, by Welch's method with Hann windows.

    Args:
        segments: into how many half-overlapping parts the record is cut; more are smoother and resolve less.

    Gaps are bridged linearly, and uneven records put on their median interval.
    """
    from scipy.signal import welch

    finite = np.isfinite(series.value)
    if finite.sum() < 16:
        raise PlotError(f"frequency_spectrum: gauge {series.name} has {finite.sum()} values; 16 are needed.")
    time, value = series.time[finite], series.value[finite]
    step = float(np.median(np.diff(time)))
    even = np.arange(time[0], time[-1] + 0.5 * step, step)
    length = min(even.size, max(16, int(2 * even.size / (segments + 1))))
    frequency, power = welch(np.interp(even, time, value), fs=1 / step, nperseg=length, detrend="linear")
    return frequency[1:], power[1:]


def figure(dataset, variable=None, records=None, box=None):
    """A figure of wavenumber spectra at several records, with the slopes of k^-3 and k^-5/3."""
    if variable is None:
        variable = "kinetic_energy" if {"u", "v"} <= set(dataset) else "eta"
    time = seconds(dataset)
    if records is None:
        records = sorted({0, len(time) // 2, len(time) - 1})
    with style.applied():
        page = style.new_figure(6.4, 4.8)
        axes = page.add_axes((0.14, 0.13, 0.82, 0.8))
        shades = style.colormap("dense")(np.linspace(0.35, 0.95, len(records)))
        for k, shade in zip(records, shades):
            spectrum = wavenumber_spectrum(dataset, variable, k, box)
            if not (spectrum > 0).any():
                continue
            spectrum = spectrum[spectrum["wavenumber"] <= spectrum.attrs["largest_wavenumber"]]
            axes.loglog(spectrum["wavenumber"], spectrum, color=shade, linewidth=1.6,
                        label=stamp(time[k], start_of(dataset), time[-1]))
        _slopes(axes, spectrum)
        axes.set_xlabel("Wavenumber [rad m⁻¹]")
        axes.set_ylabel(f"{spectrum.attrs['long_name'].capitalize()} [{pretty(spectrum.attrs['units'])}]")
        axes.grid(which="major")
        axes.legend()
    return page


def _slopes(axes, spectrum):
    """Lines k^-3 and k^-5/3 through the middle of the last spectrum."""
    k, values = spectrum["wavenumber"].values, spectrum.values
    middle = len(k) // 6
    if not values[middle] > 0:
        return
    limits = axes.get_ylim()
    for power, text, dash in ((-3, "k⁻³", "--"), (-5 / 3, "k⁻⁵ᐟ³", ":")):
        line = 3 * values[middle] * (k / k[middle]) ** power
        axes.plot(k[middle:], line[middle:], dash, color=style.GREY, linewidth=1.0, label=text)
    axes.set_ylim(max(limits[0], limits[1] * 1e-12), limits[1])


def gauge_figure(gauges, observations=None):
    """A figure of the frequency spectra of gauges [Series], against period in minutes."""
    observations = observations or {}
    with style.applied():
        page = style.new_figure(6.4, 4.8)
        axes = page.add_axes((0.13, 0.13, 0.83, 0.8))
        for gauge in gauges:
            frequency, power = frequency_spectrum(gauge, 3)
            (line,) = axes.loglog(1 / (60 * frequency), power, linewidth=1.5, label=gauge.name)
            if gauge.name in observations:
                frequency, power = frequency_spectrum(observations[gauge.name], 3)
                axes.loglog(1 / (60 * frequency), power, "--", linewidth=1.1, color=line.get_color())
        axes.invert_xaxis()
        axes.set_xlabel("Period [min]" + (", dashed: observed" if observations else ""))
        axes.set_ylabel("Power [m² Hz⁻¹]")
        axes.grid(which="major")
        axes.legend()
    return page
