"""Ensembles: the mean of the members, their spread about it, and the band of all members at gauges.

The spread is the standard deviation of the members, with n - 1 in the denominator.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..errors import PlotError
from . import style
from .files import label, mesh_of, nearest, pretty, seconds, stamp, start_of, wet_cells
from .maps import add_colorbar, draw_base, draw_field, drawable, field_norm, keep_outer_labels, map_axes, sea_floor
from .scores import time_unit
from .series import gauge_names

WIDTH, LEFT, MOST_GAUGES = 4.4, 0.65, 6  # [inches], and series on a page


def figure(
    fields: xr.Dataset | None = None,
    gauges: xr.Dataset | None = None,
    variable: str | None = None,
    times: Sequence[float] | None = None,
) -> Figure:
    """Maps of the mean and of the spread at one time, and series of gauges with the range of the members.

    Args:
        fields: a dataset with a dimension `member`, or None for no maps.
        gauges: the dataset of the gauges' series, or None for none.
        variable: that of the maps; eta unless given.
        times: [the time] of the maps [s]; the last record unless given.

    Raises:
        PlotError: for files of a single run, or more than one time.
    """
    if fields is None and gauges is None:
        raise PlotError("ensemble: it needs the members' fields or series; give a file of fields or of gauges.")
    for dataset in (fields, gauges):
        if dataset is not None and dataset.sizes.get("member", 1) < 2:
            raise PlotError("ensemble: the file has a single run and no spread; give a file of an ensemble.")
    if times is not None and len(times) != 1:
        raise PlotError(f"ensemble: {len(times)} times were given, and it shows one; choose among them.")
    names = [] if gauges is None else gauge_names(gauges)
    mesh = None if fields is None else mesh_of(fields.isel(member=0))
    height = 0.0 if mesh is None else min(WIDTH * mesh.shape, 4.5)
    lower = 1.2 * min(len(names), MOST_GAUGES) + 0.5 if names else 0.0
    with style.applied():
        page = style.new_figure(2 * WIDTH + 3.6, height + lower + (1.5 if height else 0.5))
        titles = [dataset.attrs.get("title", "") for dataset in (fields, gauges) if dataset is not None]
        style.heading(page, titles[0] if titles else "", LEFT)
        if fields is not None and mesh is not None:
            _draw_maps(page, fields, mesh, variable or "eta", times, (height, lower + 0.65))
        if gauges is not None and names:
            _draw_series(page, gauges, names, lower)
    return page


def _draw_maps(page, dataset, mesh, name, times, place):
    if name not in dataset:
        raise PlotError(f"ensemble: the file has no {name!r}; it has {', '.join(dataset.data_vars)}.")
    height, bottom = place
    record = len(seconds(dataset)) - 1 if times is None else nearest(dataset, times)[0]
    array = dataset[name].isel(time=record)
    about, members = array.attrs, dataset.sizes["member"]
    mean = array.mean("member", keep_attrs=True)
    spread = array.std("member", ddof=1).assign_attrs(about)
    together = dataset.isel(member=0).assign({"mean": mean, "spread": spread})
    low, high = drawable(together, mesh, "mean", None), drawable(together, mesh, "spread", None)
    largest = float(np.nanmax(high, initial=0.0)) or 1.0
    shown = (
        (f"mean of {members} members", low, *field_norm(dataset[name], low)),
        ("spread", high, Normalize(0.0, largest), style.colormap("amp")),
    )
    when, size = stamp(seconds(dataset)[record], start_of(dataset), seconds(dataset)[-1]), page.get_size_inches()
    for column, (title, values, norm, colours) in enumerate(shown):
        axes = map_axes(page, (LEFT + column * (WIDTH + 1.45), bottom, WIDTH, height), mesh)
        image = draw_field(axes, mesh, values, norm, colours)
        draw_base(axes, mesh, wet_cells(together), sea_floor(together))
        keep_outer_labels(axes, column == 0, True)
        axes.set_title(f"{title}, {when}" if column == 0 else title)
        box = axes.get_position()
        bar = (box.x1 * size[0] + 0.12, box.y0 * size[1] + 0.1, 0.12, box.height * size[1] - 0.2)
        add_colorbar(page, bar, image, label(dataset[name]), "both" if column == 0 else "neither")


def _draw_series(page, dataset, names, lower):
    """The mean, the standard deviation about it and all members, of each gauge."""
    size, time = page.get_size_inches(), seconds(dataset)
    _, unit, length = time_unit(time[-1])
    name = next(k for k, v in dataset.data_vars.items() if {"time", "gauge", "member"} <= set(v.dims))
    for n, gauge in enumerate(names[:MOST_GAUGES]):
        values = dataset[name].isel(gauge=n).transpose("member", "time").values
        mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
        bottom = lower - 1.0 - 1.2 * n + 0.05
        axes = page.add_axes((LEFT / size[0], bottom / size[1], (size[0] - LEFT - 0.3) / size[0], 0.8 / size[1]))
        axes.plot(time / length, values.T, color=style.GREY, linewidth=0.5, alpha=0.5)
        axes.fill_between(time / length, mean - spread, mean + spread, color=style.BLUE, alpha=0.3, linewidth=0)
        axes.plot(time / length, mean, color=style.BLUE, linewidth=1.5)
        axes.set(xlim=(time[0] / length, time[-1] / length), title=gauge)
        axes.tick_params(labelbottom=n == min(len(names), MOST_GAUGES) - 1)
        axes.set_ylabel(f"[{pretty(dataset[name].attrs.get('units', ''))}]")
        axes.spines[["top", "right"]].set_visible(False)
    left_out = f"; not shown: {style.few(names[MOST_GAUGES:])}" if len(names) > MOST_GAUGES else ""
    axes.set_xlabel(f"{unit} after the start; thin: members, band: mean ± spread{left_out}", loc="left")
