"""The memory that the outputs of an experiment need in addition to the model, from the section [output] alone.

Also the size of the file of gauges.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...runtime import budget

if TYPE_CHECKING:
    from ..scenario import Gauges, Output

__all__ = ["bytes_of_gauge_file", "bytes_of_gauges", "bytes_of_sums"]


def bytes_of_gauges(output: Output, itemsize: int, members: int = 1) -> float:
    """The bytes on a rank for the series of all gauges and variables."""
    gauges = output.gauges
    return 0.0 if gauges is None else budget.of_gauges(len(gauges.positions) * len(gauges.variables), itemsize, members)


def bytes_of_gauge_file(gauges: Gauges, until: float, dt: float, members: int = 1) -> float:
    """The bytes of the file of gauges after `until` [s]: its series and their times, in float64."""
    columns = members * len(gauges.positions) * len(gauges.variables) + 1
    return 8.0 * columns * until / (gauges.every or dt)


def bytes_of_sums(output: Output, tile: int, itemsize: int) -> float:
    """The bytes on a rank of `tile` cells for means, extremes and harmonics."""
    import jax

    from ...fields.state import State
    from ...simulation.products import Harmonics
    from ...simulation.statistics import Extremes, Means

    products = []
    if (tides := output.harmonics) is not None:
        products.append(Harmonics(1.0, 1, 0, None, tides.constituents, tides.variables))
    if output.means is not None:
        products.append(Means(1.0, 1, 0, tuple(tuple(field.split()) for field in output.means.fields)))
    if output.extremes is not None:
        products.append(Extremes(1.0, 1, 0))
    names = {"u", "v", "eta", *(output.harmonics.variables if output.harmonics is not None else ())}
    one = jax.ShapeDtypeStruct((int(tile),), f"float{8 * itemsize}")
    sums = [jax.eval_shape(product.initial, State(**dict.fromkeys(names, one))) for product in products]
    size = sum(math.prod(x.shape) * x.dtype.itemsize for arrays in sums for x in arrays.values())
    return budget.of_sums(size)
