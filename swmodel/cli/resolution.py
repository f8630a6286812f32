"""A warning of banks over which a wave of the source is too short for the cells, which then show waves of two cells.

A wave of length L in water of depth H has the length L sqrt(h / H) over a bank of depth h, since its period stays. The
length of a source is that of the mean square of its elevation and slope,

    L = 2 pi sqrt(integral of eta^2 / integral of |grad eta|^2),

4.4 R for a hump exp(-(r / R)^2). A wave of FEWEST cells is too slow by 1 - sin(pi / 8) / (pi / 8), 2.6 %, and shorter
ones by more, so that they disperse behind the others.
"""

from typing import Any

import numpy as np

__all__ = ["wave_remarks"]

FEWEST = 8.0  # cells of a wave


def wave_remarks(made: Any, model: Any, state: Any) -> list[str]:
    """The warning, where water at rest is set in motion by an elevation or an uplift; collective.

    Args:
        made: the Assembly of the experiment. model, state: its ShallowWater or Ensemble, and the first State.
    """
    if model.members is not None:
        return []
    lifted = getattr(made.source, "uplift", None)  # none while a thread still computes it
    parts = [
        _sums(model, rank, tile, None if lifted is None else lifted[-1])
        for rank, tile in model.communicator.tiles(state).items()
    ]
    shares = model.communicator.host_gather(np.sum(np.array(parts), axis=0))
    square, slope, weighted, moves = np.sum(shares, axis=0)
    if moves or not slope or not square or not model.communicator.is_root:
        return []
    return _banks(model, 2 * np.pi * np.sqrt(square / slope), weighted / square)


def _sums(model, rank, state, lifted):
    """(integrals of eta^2, |grad eta|^2 and eta^2 H, the number of moving faces) of a tile."""
    box, cut = model.decomposition.box(rank), model.decomposition.cut
    depth = cut(model.sea_floor.depth, rank).astype(float)
    wet = cut(model.sea_floor.wet, rank).astype(bool) & (depth > 0.0)
    eta = np.asarray(state.eta, float) + (0.0 if lifted is None else np.asarray(cut(np.asarray(lifted), rank)))
    eta = np.where(wet, eta, 0.0)
    dx, dy = _widths(model.grid, np.arange(box.j0, box.j1))
    east, north = wet[:, 1:] & wet[:, :-1], wet[1:] & wet[:-1]
    slope = np.sum(np.diff(eta, axis=1) ** 2 * east * dy / dx) + np.sum(
        np.diff(eta, axis=0) ** 2 * north * (dx / dy)[1:]
    )
    area = dx * dy
    moving = sum(np.count_nonzero(np.asarray(x)) for x in (state.u, state.v))
    return np.sum(eta**2 * area), slope, np.sum(eta**2 * area * depth * wet), moving


def _widths(grid, rows):
    """(dx, dy) [m] of the cells of these rows, (n, 1) each."""
    metrics = grid.metrics(rows)
    return tuple(np.broadcast_to(np.asarray(metrics[key], float), (len(rows), 1)) for key in ("dx_h", "dy_h"))


def _banks(model, length, depth):
    """The warning of a wave of this length in this depth [m]; none where it only has too few cells at coasts."""
    grid, whole = model.grid, (slice(0, model.grid.ny), slice(0, model.grid.nx))
    h = np.asarray(model.sea_floor.depth.block(*whole), float)
    wet = np.asarray(model.sea_floor.wet.block(*whole)) & (h > 0.0)
    cells = length * np.sqrt(np.where(wet, h, np.inf) / depth) / np.maximum(*_widths(grid, np.arange(grid.ny)))
    few = cells < FEWEST
    inner = few[1:-1, 1:-1].copy()
    for j in range(3):
        for i in range(3):
            inner &= few[j : j + grid.ny - 2, i : i + grid.nx - 2]
    if not inner.any():
        return []
    j, i = np.unravel_index(np.argmin(np.where(inner, cells[1:-1, 1:-1], np.inf)), inner.shape)
    x, y = grid.x_centres[i + 1], grid.y_centres[j + 1]
    return [
        f"a wave of the source is {length / 1e3:.3g} km long in water of {depth:.4g} m, and has fewer than "
        f"{FEWEST:g} cells in water of less than {h[few].max():.4g} m, {100 * few.sum() / wet.sum():.2g} % of the sea: "
        f"{cells[j + 1, i + 1]:.2g} at ({x:.6g}, {y:.6g}). Waves of two cells arise there, and stay; use a finer grid, "
        "or place no gauge there."
    ]
