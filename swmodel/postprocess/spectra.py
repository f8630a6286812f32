"""Figures of spectra: of energy and its transfers over wavenumber (wavenumbers.py), and frequency spectra of gauges."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from ..errors import PlotError
from . import layered, style
from .cgrid import has_rigid_lid
from .files import pretty, scaled, seconds, stamp, start_of
from .scores import Series, time_unit
from .wavenumbers import QUANTITIES, transfers, wavenumber_spectrum

SLOPES = ((-3, "k⁻³", "--"), (-5 / 3, "k⁻⁵ᐟ³", ":"))
ENSTROPHY_SLOPES = ((-1, "k⁻¹", "--"), (1 / 3, "k¹ᐟ³", ":"))  # of the same flows
NEAR = 30.0  # of a slope and the spectrum that it is compared with
MOST = 20  # records of fields whose transfers are averaged


def frequency_spectrum(series: Series, segments: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(frequency [Hz], power [m2 Hz-1]) of a gauge's Series, by Welch's method with Hann windows.

    Args:
        segments: the number of half-overlapping parts of the record; more of them are smoother and resolve less.

    Gaps are interpolated linearly, and uneven records are interpolated to their median interval.
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


def of_fields(
    dataset: xr.Dataset,
    variable: str | None = None,
    records: Sequence[int] | None = None,
    box: Sequence[float] | None = None,
) -> xr.Dataset:
    """The spectra of a file of fields as a run's own file of spectra has them, (time, wavenumber).

    Args:
        variable: one alone; without it both energies, enstrophy and their transfers, as far as the file goes.
        records: numbers of the records; all without them.
        box: ((x0, x1), (y0, y1)) in the file's coordinates; the whole domain without it.
    """
    if variable is None and not {"u", "v"} <= set(dataset):
        variable = "eta"
    names = [variable] if variable is not None else ["kinetic_energy", "enstrophy"]
    whole = variable is None and {"eta", "depth"} <= set(dataset)
    if whole and not has_rigid_lid(dataset):
        names.append("potential_energy")
    if variable is None and "degree" in dataset["xh"].attrs.get("units", "") and "vorticity" not in dataset:
        names.remove("enstrophy")
    records = range(dataset.sizes["time"]) if records is None else records
    records_of = []
    for k in records:
        one: dict[Any, xr.DataArray] = {
            f"{name}_spectrum": wavenumber_spectrum(dataset, name, k, box) for name in names
        }
        if whole and "degree" not in dataset["xh"].attrs.get("units", ""):
            one |= dict(transfers(dataset, k, box).data_vars.items())
        records_of.append(xr.Dataset(one))
    time = xr.DataArray(seconds(dataset)[list(records)], dims="time", attrs=dataset["time"].attrs)
    together = xr.concat(records_of, dim="time", coords="minimal", join="exact", combine_attrs="override")
    return together.assign_coords(time=time)


def figure(
    dataset: xr.Dataset,
    variable: str | None = None,
    records: Sequence[int] | None = None,
    box: Sequence[float] | None = None,
) -> Figure:
    """A page of a run's own file of spectra, or of the spectra of its fields.

    It has spectra at several records, with the slopes of k^-3 and k^-5/3 as guides. If the file allows, it has
    transfers and fluxes, averaged over the later half. With `variable` it has the spectrum of this variable alone.
    Of a file with all layers, it has the energies by layer and by vertical mode, averaged over the later half.

    Raises:
        PlotError: without the fields, or with `variable` or `records` for all layers.
    """
    if "layer" in dataset.dims:
        layered.check_given("spectra", variable=variable, records=records)
        return _figure_of_layers(dataset, box)
    time = seconds(dataset)
    shown = sorted({0, len(time) // 2, len(time) - 1}) if records is None else list(records)
    if "wavenumber" in dataset.dims:
        spectra, later = dataset, dataset.isel(time=slice(len(time) // 2, None))
        names = [f"{variable}_spectrum"] if variable else [f"{q}_spectrum" for q in QUANTITIES]
        spectra = spectra.isel(time=shown)
    else:
        spectra = of_fields(dataset, variable, shown, box)
        steps = np.unique(np.linspace(len(time) // 2, len(time) - 1, MOST).astype(int)).tolist()
        moving = any("_transfer_" in str(name) for name in spectra)
        later = of_fields(dataset, variable, steps, box) if moving else spectra
        names = [str(name) for name in spectra if str(name).endswith("_spectrum")]
    names = [name for name in names if name in spectra]
    if not names:
        raise PlotError(
            f"spectra: the file has no spectrum of {variable!r}; it has {', '.join(map(str, spectra.data_vars))}."
        )
    spectra, later = _resolved(spectra), _resolved(later)
    stamps = [stamp(t, start_of(dataset), time[-1]) for t in spectra["time"].values]
    panels = _panels(spectra, later, names, variable, stamps)
    columns, rows = min(len(panels), 2), -(-len(panels) // 2)
    with style.applied():
        page = style.new_figure(*((5.2 * columns, 3.8 * rows + 0.5) if columns > 1 else (6.4, 5.3)))
        for n, draw in enumerate(panels):
            draw(page.add_subplot(rows, columns, n + 1))
        style.finish(page, dataset, 0.2)
    return page


def _figure_of_layers(dataset, box):
    """The energies of layers and interfaces, and of vertical modes, averaged over records of the later half."""
    count = dataset.sizes["time"]
    records = np.unique(np.linspace(count // 2, count - 1, MOST).astype(int)).tolist()
    spectra = _resolved(layered.spectra(dataset, records, box).mean("time", keep_attrs=True))
    k = spectra["wavenumber"].values
    with style.applied():
        page = style.new_figure(10.4, 4.6)
        for place, title in enumerate(("By layer and interface", "By vertical mode (0: the fastest)")):
            axes, names = page.add_subplot(1, 2, place + 1), list(layered.SPECTRA)[2 * place : 2 * place + 2]
            for name, dash in zip(names, ("-", "--")):
                row, along = spectra[name], spectra[name].dims[0]
                for number, values in enumerate(row.values):
                    colour = None if dash == "-" else axes.lines[number].get_color()
                    what = f"{name.partition('_energy')[0]}, {along} {spectra[along].values[number]}"
                    shown = np.where(values > 0, values, np.nan)
                    axes.loglog(k, shown, dash, color=colour, linewidth=1.6, label=what)
            _wavenumbers(axes)
            axes.set_ylabel(f"Spectrum [{pretty('m3 s-2')}]")
            axes.set_title(title)
            axes.grid(which="major")
            axes.legend()
        style.finish(page, dataset, 0.2)
    return page


def _panels(spectra, later, names, variable, stamps):
    """The functions that draw the panels: energies, enstrophy, their transfers, fluxes; those that the file has."""
    squares = [name for name in names if name.startswith("enstrophy")]
    groups = [[name for name in names if name not in squares], squares]
    draw = functools.partial(_draw_spectra, spectra=spectra, stamps=stamps)
    panels = [functools.partial(draw, names=group) for group in groups if group]
    changed = variable or "kinetic_energy"
    if any(name.startswith(f"{changed}_transfer") for name in later):
        panels.append(functools.partial(_draw_transfers, later=later, quantity=changed))
    if variable is None and "kinetic_energy_flux" in later:
        panels.append(functools.partial(_draw_fluxes, later=later))
    return panels


def _resolved(spectra):
    """The spectra without the mean and without the rings beyond the shortest waves."""
    k, name = spectra["wavenumber"], "largest_resolved_in_all_directions"
    owner = spectra if "largest_wavenumber" in spectra.attrs else next(iter(spectra.values()))
    largest = k.attrs[name] if name in k.attrs else owner.attrs["largest_wavenumber"]
    return spectra.isel(wavenumber=np.flatnonzero((k > 0) & (k <= largest * (1 + 1e-9))))


def _draw_spectra(axes, spectra, names, stamps):
    """The first of `names` at all records, others at the last one; several are energies."""
    k, last = spectra["wavenumber"].values, len(stamps) - 1
    for number, name in enumerate(names):
        shades = style.colormap("dense")(np.linspace(0.35, 0.95, len(stamps)))
        shades = shades if number == 0 else [style.VERMILLION] * len(stamps)
        for record in range(len(stamps)) if number == 0 else [last]:
            values = spectra[name].isel(time=record).values
            if not (values > 0).any():
                continue
            text = stamps[record] if len(names) == 1 else f"{_words(name)}, {stamps[record]}"
            axes.loglog(k, np.where(values > 0, values, np.nan), color=shades[record], linewidth=1.6, label=text)
    if not axes.lines:
        axes.set(xscale="log", xlim=(k[0], k[-1]), yticks=[])
        axes.text(0.5, 0.5, "nothing moves", transform=axes.transAxes, ha="center")
    guides = ENSTROPHY_SLOPES if names[0].startswith("enstrophy") else SLOPES
    _slopes(axes, k, spectra[names[0]].isel(time=last).values, guides)
    _wavenumbers(axes)
    axes.set_ylabel(f"Spectrum [{pretty(spectra[names[0]].attrs['units'])}]")
    axes.set_title("Energy" if len(names) > 1 else _words(names[0]).capitalize())
    axes.grid(which="major")
    if axes.lines:
        axes.legend()


def _words(name):
    """The quantity of a spectrum in words, such as "kinetic energy"."""
    return name.removesuffix("_spectrum").replace("_", " ")


def _wavenumbers(axes):
    axes.set_xlabel("Wavenumber [rad m⁻¹]")
    if axes.get_yscale() == "log":
        style.powers_of_ten(axes.yaxis)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    style.powers_of_ten(axes.xaxis)


def _slopes(axes, k, values, guides):
    """Lines of given slopes above the last spectrum, which end where they are NEAR times as high as it.

    They are moved down where they would leave the panel.
    """
    middle = len(k) // 6
    known = (values[middle:] > 0) & np.isfinite(values[middle:])
    if not known.any():
        return
    limits = axes.get_ylim()
    waves, values = k[middle:][known], values[middle:][known]
    for power, text, dash in guides:
        line = (waves / waves[0]) ** power
        line *= 2.0 * float(np.max(values[:5] / line[:5]))
        count = max(np.append(np.flatnonzero(line > NEAR * values), line.size)[0], 2)
        line *= min(1.0, 0.7 * limits[1] / line[:count].max())
        axes.plot(waves[:count], line[:count], dash, color=style.GREY, linewidth=1.0, label=text)
    axes.set_ylim(max(limits[0], limits[1] * 1e-12), limits[1])


def _draw_transfers(axes, later, quantity):
    """k T(k) on a logarithmic axis, on which equal areas are equal powers, for each term."""
    k = later["wavenumber"].values
    names = [name for name in later if name.startswith(f"{quantity}_transfer")]
    means = [later[name].mean("time").values * k for name in names]
    units = {"m3 s-3": "m2 s-3", "m s-3": "s-3"}[later[names[0]].attrs["units"]]
    values, units = scaled(np.array(means), units)
    for name, mean in zip(names, values):
        axes.semilogx(k, mean, linewidth=1.5, label=name.split("_transfer_")[1].replace("_", " "))
    axes.axhline(0, color=style.BLACK, linewidth=0.6)
    axes.set_title(f"Transfers of {quantity.replace('_', ' ')}, mean of {later.sizes['time']} records")
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


def gauge_figure(gauges: Sequence[Series], observations: Mapping[str, Series] | None = None) -> Figure:
    """A figure of the frequency spectra of gauges [Series], against period."""
    observations = observations or {}
    unit, _, length = time_unit(max((np.ptp(gauge.time) / 3 for gauge in gauges), default=3600.0))
    with style.applied():
        page = style.new_figure(6.4, 4.8)
        axes = page.add_axes((0.13, 0.13, 0.83, 0.8))
        for gauge in gauges:
            frequency, power = frequency_spectrum(gauge, 3)
            (line,) = axes.loglog(1 / (length * frequency), power, linewidth=1.5, label=gauge.name)
            if gauge.name in observations:
                frequency, power = frequency_spectrum(observations[gauge.name], 3)
                axes.loglog(1 / (length * frequency), power, "--", linewidth=1.1, color=line.get_color())
        style.powers_of_ten(axes.xaxis)
        style.powers_of_ten(axes.yaxis)
        axes.invert_xaxis()
        axes.set_xlabel(f"Period [{unit}]" + (", dashed: observed" if observations else ""))
        axes.set_ylabel("Power [m² Hz⁻¹]")
        axes.grid(which="major")
        axes.legend()
    return page
