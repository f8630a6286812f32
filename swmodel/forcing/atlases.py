"""Atlases of tides as their providers distribute them: which constituents they hold, and in which variables.

    TPXO       hRe, hIm of elevations, uRe, uIm, vRe, vIm of transports (upper or lower case), of one constituent a file
               or several, named by `con`; A exp(-i g) = hRe + i hIm. The dimensions may be (x, y).
    FES, EOT   amplitude, phase of elevations, Ua, Ug and Va, Vg of velocities, one constituent a file, which is named
               after it, as m2.nc, m2_fes2022.nc or M2_ocean_eot20.nc
    swmodel    eta_amplitude_M2, eta_phase_M2, ... of `Simulation.harmonics`

Transports become velocities by division by the depths of the atlas, which a file of their own has (hz, hu, hv).
https://www.tpxo.net/global, doi:10.1175/1520-0426(2002)019<0183:EIMOBO>2.0.CO;2 (Egbert & Erofeeva 2002)
"""

import dataclasses
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ConfigError, DataError
from ..grids import axes
from .constituents import canonical

if TYPE_CHECKING:
    import xarray as xr

OTHER_NAMES = {"LA2": "LDA2", "LAMBDA2": "LDA2"}
NODES = {"eta": "z", "u": "u", "v": "v"}  # the ends of the names of TPXO's coordinates
LETTERS = {"eta": "h", "u": "u", "v": "v"}
SIZES = {"eta": (("amplitude", "phase"),), "u": (("Ua", "Ug"), ("ua", "up")), "v": (("Va", "Vg"), ("va", "vp"))}


@dataclasses.dataclass(frozen=True)
class AtlasEntry:
    """One constituent of an atlas.

    Attributes:
        data: a Dataset with longitudes and latitudes.
        variables: of the amplitude and the phase lag, or of the real and the imaginary part.
        is_complex: whether they are parts, of A exp(-i g).
        depth: the variable of the depth [m] by which transports are divided; "" of velocities and elevations.
    """

    data: "xr.Dataset"
    variables: tuple[str, str]
    is_complex: bool = False
    depth: str = ""


def atlas_entries(
    files: str | os.PathLike | Iterable[str | os.PathLike], field: str = "eta", depths: str | os.PathLike | None = None
) -> dict[str, AtlasEntry]:
    """{constituent: AtlasEntry} of the files of an atlas.

    Args:
        files: a file or several.
        field: "eta", "u" or "v".
        depths: the file of the depths of an atlas of transports.

    Raises:
        DataError: for files without constituents or with one twice, and for transports without depths.
    """
    entries: dict[str, AtlasEntry] = {}
    for path in (files,) if isinstance(files, (str, os.PathLike)) else tuple(files):
        for name, entry in _entries(path, field, depths).items():
            if name in entries:
                raise DataError(f"{path} has the constituent {name}, as a file before it has; leave one of them out.")
            entries[name] = entry
    return entries


def _entries(path, field, depths):
    data = axes.decode(axes.open_raw(path))
    parts = {name.lower(): name for name in map(str, data.data_vars)}
    letter = LETTERS[field]
    real, imaginary = (parts.get(f"{letter}{part}") for part in ("re", "im"))
    if real and imaginary:
        return _of_tpxo(path, data, (real, imaginary), field, depths)
    own = {name: rest for name in data.data_vars if (rest := re.fullmatch(rf"{field}_amplitude_(\w+)", str(name)))}
    if own:
        return {rest[1]: AtlasEntry(data, (str(name), f"{field}_phase_{rest[1]}")) for name, rest in own.items()}
    for pair in SIZES[field]:
        if all(name in data.data_vars for name in pair):
            return {_named(path, Path(path).stem): AtlasEntry(data, pair)}
    raise DataError(
        f"{path} holds no tide of {field} that is known: neither {letter}Re and {letter}Im as TPXO, nor "
        f"{' and '.join(SIZES[field][0])} as FES, nor {field}_amplitude_M2; name its variables by constituents."
    )


def _named(path, text):
    """The canonical name of a constituent at the beginning of `text`."""
    first = re.split(r"[^A-Za-z0-9]", text.strip())[0].upper()
    try:
        return canonical(OTHER_NAMES.get(first, first))
    except ConfigError:
        raise DataError(f"{path}: {text!r} begins with no constituent that is known, as M2; rename it.") from None


def _of_tpxo(path, data, names, field, depths):
    """The AtlasEntries of a file of TPXO, each with its coordinates alone."""
    import xarray as xr

    end = NODES[field]
    where = {letter: f"{letter}_{end}" for letter in ("lon", "lat")}
    if missing := [name for name in (*where.values(), "con") if name not in data.variables]:
        raise DataError(f"{path} is a file of TPXO without {' and '.join(missing)}; get it again.")
    coordinates = {
        name: (data[name].dims, np.asarray(data[name].values, float), {"standard_name": standard})
        for name, standard in ((where["lon"], "longitude"), (where["lat"], "latitude"))
    }
    of_one = {dim for name in coordinates for dim in data[name].dims}
    common = {}
    if field != "eta":
        depth = _depth(path, depths, f"h{end}").copy(deep=False)
        depth.dims = tuple(dim for dim in data[names[0]].dims if dim in of_one)
        common["depth"] = depth
    labels = np.atleast_1d(_texts(data["con"].values))
    entries = {}
    for k, label in enumerate(labels):
        parts = {}
        for name in names:
            along = [dim for dim in data[name].dims if dim not in of_one]
            one = data[name].isel({dim: k if data.sizes[dim] == len(labels) else 0 for dim in along})
            parts[name] = one.variable
        made = xr.Dataset({**parts, **common}, coords=coordinates)
        made.encoding = {"source": str(path)}
        entries[_named(path, str(label))] = AtlasEntry(made, names, True, "depth" if common else "")
    return entries


def _depth(path, depths, name):
    """The variable of depths at the nodes of a component of the transport."""
    if depths is None:
        raise DataError(f"{path} holds transports of TPXO, which need depths; name the file of its grid by `depths`.")
    data = axes.decode(axes.open_raw(depths))
    if name not in data.data_vars:
        raise DataError(f"{depths} has no {name}, the depths of TPXO's transports; give the file of its grid.")
    return data[name].variable


def _texts(values):
    """Names of constituents of an array of bytes, texts or single characters along its last dimension."""
    values = np.asarray(values)
    if values.dtype.kind == "S" and values.dtype.itemsize == 1 and values.ndim:
        values = np.ascontiguousarray(values).view(f"S{values.shape[-1]}")[..., 0]
    return np.array([x.decode().strip("\x00 ") if isinstance(x, bytes) else str(x).strip() for x in np.ravel(values)])
