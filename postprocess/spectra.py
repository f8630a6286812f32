"""Figures of spectra: of energy over wavenumber and what moves it (wavenumbers.py), and frequency spectra of gauges."""
import numpy as np
import xarray as xr
from matplotlib.ticker import LogLocator, NullFormatter

from . import style
from .cgrid import under_lid
from .errors import PlotError
from .files import label, pretty, scaled, seconds, stamp, start_of
from .wavenumbers import QUANTITIES, transfers, wavenumber_spectrum

__all__ = ["figure", "frequency_spectrum", "gauge_figure", "of_fields", "wavenumber_spectrum"]

SLOPES = ((-3, "k⁻³", "--"), (-5 / 3, "k⁻⁵ᐟ³", ":"))
ENSTROPHY_SLOPES = ((-1, "k⁻¹", "--"), (1 / 3, "k¹ᐟ³", ":"))  # of the same flows
MOST = 20  # records of fields whose transfers are averaged


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


def of_fields(dataset, variable=None, records=None, box=None):
    """The spectra of a file of fields as a run's own file of spectra has them, (time, wavenumber).

    Args:
        variable: one alone; without it both energies, enstrophy and their transfers, as far as the file goes.
        records: numbers of the records.
        box: ((x0, x1), (y0, y1)) in the file's coordinates; the whole domain without it.
    """
    if variable is None and not {"u", "v"} <= set(dataset):
        variable = "eta"
    names = [variable] if variable is not None else ["kinetic_energy", "enstrophy"]
    whole = variable is None and {"eta", "depth"} <= set(dataset)
    if whole and not under_lid(dataset):
        names.append("potential_energy")
    if variable is None and "degree" in dataset["xh"].attrs.get("units", "") and "vorticity" not in dataset:
        names.remove("enstrophy")
    found = []
    for k in records:
        one = {f"{name}_spectrum": wavenumber_spectrum(dataset, name, k, box) for name in names}
        if whole and "degree" not in dataset["xh"].attrs.get("units", ""):
            one |= transfers(dataset, k, box)
        found.append(xr.Dataset(one))
    time = xr.DataArray(seconds(dataset)[list(records)], dims="time", attrs=dataset["time"].attrs)
    together = xr.concat(found, dim="time", coords="minimal", join="exact", combine_attrs="override")
    return together.assign_coords(time=time)


def figure(dataset, variable=None, records=None, box=None):
    """A page of a run's own file of spectra, or of those of its fields: spectra at several records with the slopes of
    k^-3 and k^-5/3 as guides and, where they are known, transfers and fluxes, averaged over the later half."""
    time = seconds(dataset)
    shown = sorted({0, len(time) // 2, len(time) - 1}) if records is None else list(records)
    if "wavenumber" in dataset.dims:
        found, later = dataset, dataset.isel(time=slice(len(time) // 2, None))
        names = [f"{variable}_spectrum"] if variable else [f"{q}_spectrum" for q in QUANTITIES]
        found = found.isel(time=shown)
    else:
        found = of_fields(dataset, variable, shown, box)
        steps = np.unique(np.linspace(len(time) // 2, len(time) - 1, MOST).astype(int))
        moving = any("_transfer_" in name for name in found)
        later = of_fields(dataset, variable, steps, box) if moving else found
        names = [name for name in found if name.endswith("_spectrum")]
    names = [name for name in names if name in found]
    if not names:
        raise PlotError(f"spectra: the file has no spectrum of {variable!r}; it has {', '.join(found.data_vars)}.")
    found, later = _resolved(found), _resolved(later)
    moved = [q for q in QUANTITIES if any(name.startswith(f"{q}_transfer") for name in later)]
    with style.applied():
        page = style.new_figure(6.4 if not moved else 10.4, 4.8 if not moved else 7.6)
        axes = page.subplots(2 if moved else 1, 2 if moved else 1, squeeze=False).ravel()
        stamps = [stamp(t, start_of(dataset), time[-1]) for t in found["time"].values]
        _draw_spectra(axes[0], found, [n for n in names if not n.startswith("enstrophy")] or names, stamps)
        if moved:
            other = "enstrophy_spectrum" if "enstrophy_spectrum" in found else names[0]
            _draw_spectra(axes[1], found, [other], stamps)
            _draw_transfers(axes[2], later, "kinetic_energy")
            _draw_fluxes(axes[3], later)
        page.tight_layout()
    return page


def _resolved(found):
    """Without the mean, and the rings beyond the shortest waves."""
    k, name = found["wavenumber"], "largest_resolved_in_all_directions"
    largest = k.attrs[name] if name in k.attrs else next(iter(found.values())).attrs["largest_wavenumber"]
    return found.isel(wavenumber=np.flatnonzero((k > 0) & (k <= largest * (1 + 1e-9))))


def _draw_spectra(axes, found, names, stamps):
    """The first of `names` at all records, others at the last one."""
    k, last = found["wavenumber"].values, len(stamps) - 1
    for number, name in enumerate(names):
        shades = style.colormap("dense")(np.linspace(0.35, 0.95, len(stamps)))
        shades = shades if number == 0 else [style.VERMILLION] * len(stamps)
        for record in range(len(stamps)) if number == 0 else [last]:
            values = found[name].isel(time=record).values
            if not (values > 0).any():
                continue
            told = stamps[record] if number == 0 else found[name].attrs["long_name"].removeprefix("spectrum of ")
            axes.loglog(k, np.where(values > 0, values, np.nan), color=shades[record], linewidth=1.6, label=told)
    if not axes.lines:
        axes.set(xscale="log", xlim=(k[0], k[-1]), yticks=[])
        axes.text(0.5, 0.5, "nothing moves", transform=axes.transAxes, ha="center")
    guides = ENSTROPHY_SLOPES if names[0].startswith("enstrophy") else SLOPES
    _slopes(axes, k, found[names[0]].isel(time=last).values, guides)
    _wavenumbers(axes)
    first = found[names[0]]
    axes.set_ylabel(label(first) if len(names) == 1 else f"Spectrum [{pretty(first.attrs['units'])}]")
    if len(names) > 1:
        axes.set_title("Energy")
    axes.grid(which="major")
    if axes.lines:
        axes.legend()


def _wavenumbers(axes):
    axes.set_xlabel("Wavenumber [rad m⁻¹]")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _slopes(axes, k, values, guides):
    """Guides through the middle of the last spectrum."""
    middle = len(k) // 6
    if not values[middle] > 0:
        return
    limits = axes.get_ylim()
    for power, text, dash in guides:
        line = 3 * values[middle] * (k / k[middle]) ** power
        axes.plot(k[middle:], line[middle:], dash, color=style.GREY, linewidth=1.0, label=text)
    axes.set_ylim(max(limits[0], limits[1] * 1e-12), limits[1])


def _draw_transfers(axes, later, quantity):
    """k T(k) on a logarithmic axis, whose area is the power, by what does it."""
    k = later["wavenumber"].values
    names = [name for name in later if name.startswith(f"{quantity}_transfer")]
    means = [later[name].mean("time").values * k for name in names]
    units = pretty({"m3 s-3": "m2 s-3"}.get(later[names[0]].attrs["units"], later[names[0]].attrs["units"]))
    values, units = scaled(np.array(means), units)
    for name, mean in zip(names, values):
        axes.semilogx(k, mean, linewidth=1.5, label=name.split("_transfer_")[1].replace("_", " "))
    axes.axhline(0, color=style.BLACK, linewidth=0.6)
    axes.set_title(f"What changes {quantity.replace('_', ' ')}, mean of {later.sizes['time']} records")
    _wavenumbers(axes)
    axes.set_ylabel(f"k T(k) [{units}]")
    axes.legend()


def _draw_fluxes(axes, later):
    """Fluxes by advection, each with an axis of its own."""
    k = later["wavenumber"].values
    sides = [axes, axes.twinx()]
    for side, name, colour in zip(sides, ("kinetic_energy_flux", "enstrophy_flux"), (style.BLUE, style.VERMILLION)):
        if name not in later:
            continue
        values, units = scaled(later[name].mean("time").values, later[name].attrs["units"])
        side.semilogx(k, values, color=colour, linewidth=1.6)
        largest = 1.1 * np.abs(values).max() or 1.0
        side.set_ylim(-largest, largest)  # both zeros at one height
        side.set_ylabel(f"{name.removesuffix('_flux').replace('_', ' ').capitalize()} [{units}]", color=colour)
    axes.axhline(0, color=style.BLACK, linewidth=0.6)
    axes.set_title("Flux to larger wavenumbers, by advection")
    _wavenumbers(axes)


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
