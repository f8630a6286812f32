"""Animations of a field: mp4 where ffmpeg is installed, else GIF."""

import pathlib
import shutil
import subprocess
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.animation import FFMpegWriter, PillowWriter

from ..errors import PlotError
from . import style
from .files import label, mesh_of, seconds, stamp, start_of, writing
from .maps import colorbar_right_of, draw_field, draw_gauges, draw_surroundings, drawable, field_norm, map_axes
from .style import draw_storms, storms_of

DOTS_PER_INCH = 110


def suffix() -> str:
    """ ".mp4" where ffmpeg is installed, else ".gif"."""
    return ".mp4" if shutil.which("ffmpeg") else ".gif"


def animate(
    dataset: xr.Dataset,
    path: pathlib.Path,
    variable: str = "eta",
    gauges: Sequence = (),
    frames_per_second: float = 10,
    width: float = 6.4,
) -> pathlib.Path:
    """Writes every record of `variable` as a frame of `path` (.mp4 or .gif); returns `path`.

    An older file stays until the new one is complete.

    Args:
        width: of the map [inches].

    Raises:
        PlotError: for an unknown suffix, .mp4 without ffmpeg, or a variable without time.
    """
    writer = _writer(path, frames_per_second)
    mesh = mesh_of(dataset)
    first = drawable(dataset, mesh, variable, 0)
    if "time" not in dataset[variable].dims or dataset.sizes["time"] < 2:
        raise PlotError(f"animate: {variable!r} has one record only; an animation needs two or more.")
    time, start, storms = seconds(dataset), start_of(dataset), storms_of(dataset)
    some = np.unique(np.linspace(0, len(time) - 1, 8).round().astype(int)).tolist()
    norm, colormap = field_norm(dataset[variable], np.stack([drawable(dataset, mesh, variable, k) for k in some]))
    height = float(np.clip(width * mesh.shape, 1.5, 8.0))
    with style.applied():
        page = style.new_figure(width + 1.6, height + 0.85)
        axes = map_axes(page, (0.65, 0.45, width, height), mesh)
        image = draw_field(axes, mesh, first, norm, colormap)
        draw_surroundings(axes, dataset)
        draw_gauges(axes, mesh, gauges)
        title = axes.set_title("")
        colorbar_right_of(axes, image, label(dataset[variable]))
        try:
            with writing("animate", path, path.suffix) as part, writer.saving(page, str(part), DOTS_PER_INCH):
                for k in range(len(time)):
                    image.set_data(drawable(dataset, mesh, variable, k))
                    title.set_text(stamp(time[k], start, time[-1]))
                    moving = draw_storms(axes, storms, mesh, time[k])
                    writer.grab_frame()
                    for artist in moving:
                        artist.remove()
        except subprocess.CalledProcessError as error:
            raise PlotError(f"animate: ffmpeg could not write {path} with H.264; name a .gif instead.") from error
    return path


def _writer(path, frames_per_second):
    kind = path.suffix.lower()
    if kind == ".gif":
        return PillowWriter(fps=frames_per_second)
    if kind != ".mp4":
        raise PlotError(f"animate: {path} does not end in .mp4 or .gif; name a file that does.")
    if shutil.which("ffmpeg") is None:
        raise PlotError(f"animate: {path} needs ffmpeg, which is not installed; name a .gif instead.")
    even = "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white"  # H.264 halves both sides
    return FFMpegWriter(
        fps=frames_per_second, codec="libx264", extra_args=["-vf", even, "-pix_fmt", "yuv420p", "-crf", "20"]
    )
