"""Fast Fourier, cosine and sine transforms of fields that are distributed over ranks; a library in its own right.

    Plan(communicator, shape, kinds)   forward, inverse and wavenumbers of a 2-D or 3-D field
    Fourier, RealFourier, Cosine, Sine, Unchanged
                                       kinds of transforms along an axis
    dct, idct, dst, idst               along the last axis of an array, as scipy.fft has them, types 1 to 4

All are linear and have transposes, so that they can be differentiated.
"""

from .kinds import Cosine, Fourier, Kind, RealFourier, Sine, Unchanged, dct, dst, idct, idst
from .plan import LayoutError, Plan, Waves

__all__ = [
    "Cosine",
    "Fourier",
    "Kind",
    "LayoutError",
    "Plan",
    "RealFourier",
    "Sine",
    "Unchanged",
    "Waves",
    "dct",
    "dst",
    "idct",
    "idst",
]
