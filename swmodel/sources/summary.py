"""The size of an earthquake: seismic moment, magnitude, slip and displaced volumes."""

import dataclasses
import math

import numpy as np
from jax.typing import ArrayLike

from swmodel.sources.fault import Source, final_slip

__all__ = ["Summary", "summarise"]


@dataclasses.dataclass(frozen=True)
class Summary:
    """The size of an earthquake: moment [N m], moment magnitude, slip [m], volumes of water lifted and lowered [m3].

    `assumed` is that of the Source.
    """

    faults: int
    seismic_moment: float
    magnitude: float
    maximum_slip: float
    lifted: float | None = None
    lowered: float | None = None
    highest: float | None = None
    lowest: float | None = None
    assumed: str = ""

    def __str__(self):
        lines = [
            f"faults              {self.faults}",
            f"seismic moment      {self.seismic_moment:.3g} N m",
            f"moment magnitude    {f'{self.magnitude:.2f}' if self.seismic_moment > 0 else 'none, nothing slips'}",
            f"maximum slip        {self.maximum_slip:.1f} m",
        ]
        if self.lifted is not None and self.lowered is not None:
            lines += [
                f"uplift              {self.lowest:.2f} to {self.highest:.2f} m",
                f"displaced volume    {self.lifted / 1e9:.1f} km3 up, {self.lowered / 1e9:.1f} km3 down",
            ]
        return "\n".join(lines + [self.assumed] * bool(self.assumed))


def summarise(source: Source, field: ArrayLike | None = None, area: ArrayLike | None = None) -> Summary:
    """Summary of a source, with its volumes where `field`, its uplift [m], and the `area` of the cells [m2] are given.

    Mw = (log10 M0 - 9.1) / 1.5 (IASPEI 2013 form of Hanks & Kanamori 1979, doi:10.1029/JB084iB05p02348), M0 the sum of
    rigidity x length x width x slip.
    """
    faults, slip = source.faults, np.asarray(final_slip(source))
    moment = float(np.sum(np.asarray(faults.rigidity * faults.length * faults.width) * slip))
    magnitude = (math.log10(moment) - 9.1) / 1.5 if moment > 0 else -math.inf
    size = Summary(slip.size, moment, magnitude, float(slip.max()), assumed=source.assumed)
    if field is None:
        return size
    field = np.asarray(field, float)
    volume = field * np.asarray(area, float)
    return dataclasses.replace(
        size,
        lifted=float(volume[volume > 0].sum()),
        lowered=float(-volume[volume < 0].sum()),
        highest=float(field.max()),
        lowest=float(field.min()),
    )
