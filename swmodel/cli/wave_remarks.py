"""Warnings about wave makers that do not fit the depths along their sides; see remarks.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config.waves import CnoidalSection, SolitarySection
from ..forcing.waves import Table
from ..grids.windows import along_side

if TYPE_CHECKING:
    from ..config import Experiment

__all__ = ["wave_remarks"]

OTHER = 0.1  # relative difference of a wave's depth from those of its side that is worth a warning


def wave_remarks(experiment: Experiment, model: Any) -> list[str]:
    """Warnings about the wave makers of an experiment; the Floor of its model evaluates the cells along their sides."""
    return [sentence for index, entry in enumerate(experiment.boundary) for sentence in _of(index, entry, model)]


def _of(index: int, entry: Any, model: Any) -> Iterator[str]:
    if entry.type != "wave_maker":
        return
    made = dict(zip(model.open_names, model.open_boundaries)).get(f"boundary.{index}")
    if made is None:
        return
    for side in made.sides:
        depths = _depths(model, side)
        if depths.size == 0 or depths.max() <= 0.0:
            yield (
                f"boundary[{index}]: every cell along the {side} side is dry at rest, and no wave comes in before "
                "water reaches it from inside; move the side into water."
            )
            continue
        shallow, deep = float(depths[depths > 0.0].min()), float(depths.max())
        extent = f"{deep:.4g} m" if deep - shallow < 1e-3 * deep else f"{shallow:.4g} to {deep:.4g} m"
        wave = entry.elevation
        if isinstance(wave, (SolitarySection, CnoidalSection)) and not (
            (1.0 - OTHER) * shallow <= wave.depth <= (1.0 + OTHER) * deep
        ):
            yield (
                f"boundary[{index}].elevation.depth = {wave.depth:g} m, and the water along the {side} side is "
                f"{extent} deep: the wave would have the length of another depth; give that of the side."
            )
        if isinstance(made.elevation, Table) and (lowest := float(np.min(made.elevation.values))) <= -shallow:
            yield (
                f"boundary[{index}].elevation: the record falls to {lowest:.4g} m, below the bed of cells along the "
                f"{side} side, which is {extent} deep: it does not follow the record there; check the record's datum."
            )


def _depths(model, side):
    """The depths of the cells along a side that may be wet [m]."""
    line = along_side(side, model.grid.shape)
    return model.sea_floor.depth.block(*line)[model.sea_floor.wet.block(*line)]
