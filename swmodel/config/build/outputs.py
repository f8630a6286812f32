"""The memory that the outputs of an experiment need in addition to the model, from the section [output] alone.

Also the size of the file of gauges.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from ...runtime import memory
from ..parts import part_of

if TYPE_CHECKING:
    from ..scenario import Gauges, Output


def bytes_of_gauges(output: Output, itemsize: int, members: int = 1) -> float:
    """The bytes on a rank for the series of all gauges and variables."""
    gauges = output.gauges
    return 0.0 if gauges is None else memory.of_gauges(len(gauges.positions) * len(gauges.variables), itemsize, members)


def bytes_of_gauge_file(gauges: Gauges, until: float, dt: float, members: int = 1) -> float:
    """The bytes of the file of gauges after `until` [s]: its series and their times, in float64."""
    columns = members * len(gauges.positions) * len(gauges.variables) + 1
    return 8.0 * columns * until / (gauges.every or dt)


def bytes_of_sums(output: Output, tile: int, itemsize: int) -> float:
    """The bytes on a rank of `tile` cells for the arrays of products."""
    arrays = [x for _, section in output.named_products() for x in arrays_of(section, tile, itemsize).values()]
    return memory.of_sums(sum(math.prod(x.shape) * x.dtype.itemsize for x in arrays))


def arrays_of(section: Any, cells: int, itemsize: int = 8) -> dict[str, Any]:
    """{name: shape and type} of the arrays of a product on a tile of so many cells."""
    import jax

    from ...fields.state import State

    product, one = part_of(section, None), jax.ShapeDtypeStruct((int(cells),), f"float{8 * itemsize}")
    names = {"u", "v", "eta", *getattr(product, "variables", ())}
    return jax.eval_shape(product.start, State(**dict.fromkeys(names, cast(Any, one))))
