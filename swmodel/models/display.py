"""The printed form of models, simulations and experiments: a table as text, and in notebooks with a small map.

Nothing here is collective, so that a single rank may print an object. A map is drawn without a plotting library where
one process has all tiles and the grid is small enough. It is a PNG in the page, with at most one pixel for each cell.
"""

import base64
import html
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from ..dynamics.system import declared_fields
from ..fields.state import State
from ..grids.grid import Grid

if TYPE_CHECKING:
    from .ensemble import Ensemble
    from .shallow_water import ShallowWater


LARGEST = 4_000_000  # cells of a grid of which a map is drawn
PIXELS = 240  # of the longer side of a map
LAND = (196, 196, 190)
DEEP, SHALLOW = np.array((8.0, 48.0, 107.0)), np.array((222.0, 235.0, 247.0))
LOW, MIDDLE, HIGH = np.array((33.0, 102.0, 172.0)), np.array((247.0, 247.0, 247.0)), np.array((178.0, 24.0, 43.0))


def as_text(name: str, rows: Sequence[tuple[str, str]]) -> str:
    """A class's name and (label, text) pairs, a line each."""
    width = max(len(label) for label, _ in rows)
    pad = "\n" + " " * (width + 4)
    return "\n".join([name, *(f"  {label:<{width}}  {text.replace(chr(10), pad)}" for label, text in rows)])


def as_html(name: str, rows: Sequence[tuple[str, str]], image: str = "", caption: str = "") -> str:
    """The same as a table, with an image (a data URI) to its right."""
    style = "text-align: left; padding: 1px 12px 1px 0; vertical-align: top; white-space: pre-line"
    body = "".join(
        f'<tr><th style="{style}">{html.escape(label)}</th><td style="{style}">{html.escape(text)}</td></tr>'
        for label, text in rows
    )
    picture = (
        f'<figure style="margin: 0 0 0 24px"><img src="{image}" alt="{html.escape(caption)}" '
        f'style="image-rendering: pixelated; min-width: 160px; max-width: 320px; max-height: 320px">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )
    return (
        f'<div style="display: flex; flex-wrap: wrap; align-items: flex-start"><div><b>{html.escape(name)}</b>'
        f"<table>{body}</table></div>{picture if image else ''}</div>"
    )


def rows_of_grid(grid: Grid) -> list[tuple[str, str]]:
    """The grid's kind, cells and extent."""
    kind, unit = ("spherical", "degrees") if grid.spherical else ("Cartesian", "m")
    (west, east), (south, north) = grid.x_edges[[0, -1]], grid.y_edges[[0, -1]]
    periodic = f", periodic in {' and '.join(grid.periodic)}" if grid.periodic else ""
    axes = ("longitude", "latitude") if grid.spherical else ("x", "y")
    extent = f"{axes[0]} {west:g} to {east:g}, {axes[1]} {south:g} to {north:g} {unit}"
    return [("grid", f"{kind}, {grid.nx} x {grid.ny} cells{periodic}"), ("extent", extent)]


def rows_of_model(model: "ShallowWater | Ensemble") -> list[tuple[str, str]]:
    """The parts of a ShallowWater, as (label, text) pairs; for an Ensemble, those of its first member."""
    if model.batch:
        ensemble = cast("Ensemble", model)
        varied = ", ".join(f"{name} ({len(set(map(str, values)))} values)" for name, values in ensemble.varied.items())
        members = f"{ensemble.members}" + (f", which differ in {varied}" if varied else "")
        return [("members", members), *rows_of_model(ensemble.models[0])]
    rows = rows_of_grid(model.grid)
    if has_all_tiles(model):
        floor, cells = model.sea_floor, model.grid.nx * model.grid.ny
        low, high, _ = floor.depths
        deep = f"{low:.4g} m" if low == high else f"{low:.4g} to {high:.4g} m"
        share = f"{100 * floor.cells_under_water / cells:.0f} % of the cells"
        rows.append(("sea floor", f"{deep} deep, {share} {'wet' if model.film is None else 'under water at rest'}"))
    rows += [(x["label"], _as_row(getattr(model, name), x["units"])) for name, x in declared_fields("label")]
    rows.append(("computed", f"{model.dtype}, {_ranks(model)}"))
    return [(label, text) for label, text in rows if text]


def _as_row(value, units):
    """A field of a model as text, "" of one that is left out."""
    if isinstance(value, tuple):
        sides = (f" ({', '.join(part.sides)})" if hasattr(part, "sides") else "" for part in value)
        return ", ".join(getattr(part, "name", type(part).__name__) + of for part, of in zip(value, sides))
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:g} {units}" if isinstance(value, float) else repr(value)


def _ranks(model):
    communicator = model.communicator
    py, px = communicator.layout
    return "one tile" if communicator.size == 1 else f"{communicator.size} tiles ({py} x {px})"


def has_all_tiles(model: "ShallowWater | Ensemble") -> bool:
    """Whether this process has all tiles, so that no call of the model's methods is collective."""
    return len(model.communicator.ranks) == model.communicator.size


def map_of_depth(model: "ShallowWater | Ensemble") -> str:
    """A PNG of the depth as a data URI, darker where it is deeper; "" where no map is drawn."""
    sampled = _sampled(model)
    return "" if sampled is None else map_of_floor(model.sea_floor.depth, model.sea_floor.wet)


def map_of_floor(depth: ArrayLike, wet: ArrayLike) -> str:
    """A PNG of the depth (ny, nx) as a data URI, with land where `wet` is False; "" where the grid is too large."""
    if np.size(wet) > LARGEST:
        return ""
    sampled = _samples(np.shape(wet))
    depth, wet = np.asarray(depth)[sampled], np.asarray(wet)[sampled]
    share = (depth / max(float(depth.max(initial=0.0, where=wet)), 1e-9))[..., None].clip(0.0, 1.0)
    return _png(np.where(wet[..., None], SHALLOW + np.sqrt(share) * (DEEP - SHALLOW), LAND))


def map_of_elevation(model: "ShallowWater | Ensemble", state: State) -> tuple[str, float]:
    """(a PNG of eta as a data URI, blue below and red above zero, or ""; the end of the scale [m])."""
    sampled = _sampled(model)
    if sampled is None or np.ndim(state.eta) != 2:
        return "", 0.0
    eta, wet = np.asarray(model.gather(state.eta)), np.asarray(model.sea_floor.wet)
    high = float(np.abs(eta).max(initial=0.0, where=wet & np.isfinite(eta)))
    share = np.nan_to_num(eta[sampled] / (high or 1.0)).clip(-1.0, 1.0)[..., None]
    colours = MIDDLE + np.abs(share) * (np.where(share < 0, LOW, HIGH) - MIDDLE)
    return _png(np.where(wet[sampled][..., None], colours, LAND)), high


def _sampled(model):
    """The rows and columns that a map shows, the northernmost first; None for no map."""
    ny, nx = model.grid.shape
    if model.batch or not has_all_tiles(model) or nx * ny > LARGEST:
        return None
    return _samples((ny, nx))


def _samples(shape):
    """The rows, the northernmost first, and columns of an array of this shape that a map shows."""
    step = -(-max(shape) // PIXELS)
    return slice(None, None, -step), slice(None, None, step)


def _png(colours):
    """A data URI of (rows, columns, 3) colours from 0 to 255."""
    pixels = np.rint(colours).astype(np.uint8)
    rows, columns = pixels.shape[:2]
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    parts = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")
    return (
        "data:image/png;base64,"
        + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)).decode()
    )
