"""Fields of winds and pressures in other files than plain netCDF: WIN and PRE of Oceanweather, and groups of netCDF.

    OWI text (NWS = 12 of ADCIRC)     variables "u10", "v10" [m s-1] of a WIN file, or "pressure" [Pa] of a PRE file
    groups (NWS = 13)                 variables "GROUP/U10", "GROUP/V10", "GROUP/PSFC" (mb, read as Pa), with own axes;
                                      "U10" without a group is that of all, of which the finest wins

A text has a line of dates, and for each time a line of its grid and the values from the south-west corner along rows,
eight a line of ten characters each; a WIN file has those of u, and then those of v. Times are in UTC.
https://wiki.adcirc.org/NWS12, https://wiki.adcirc.org/NWS13
"""

from __future__ import annotations

import datetime
import functools
import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from ..runtime.formats import format_of
from ..runtime.signals import LOCK
from ..units import conversion

if TYPE_CHECKING:
    import xarray as xr

WIDTH, PER_LINE = 10, 8
NUMBER = r"\s*([-+]?[\d.]+)\s*"
HEAD = re.compile(
    rf"iLat={NUMBER}iLong={NUMBER}DX={NUMBER}DY={NUMBER}SWLat={NUMBER}SWLon={NUMBER}DT={NUMBER}", re.IGNORECASE
)
EPOCH = datetime.datetime(1970, 1, 1)


def fields_in(path: Any) -> Any:
    """The xarray Dataset of a file of OWI or with groups; `path` itself of all others, which xarray opens.

    Raises:
        DataError: for a file of OWI that is damaged, or whose grid moves.
    """
    try:
        kind = "" if "://" in str(path) else format_of(path).name
        if kind == "owi":
            return _of_text(str(path), os.stat(path).st_mtime_ns)
        return _of_groups(path) if kind == "netcdf_groups" else path
    except OSError:
        return path


def from_finest(path: Any, variable: str) -> list[str]:
    """The names of a variable in the groups of a file, that of the finest grid first; none of files without groups."""
    dataset = fields_in(path)
    if isinstance(dataset, (str, os.PathLike)) or variable in dataset.variables:
        return []

    def cell(name):
        axes = [dataset[f"{name.rpartition('/')[0]}/{axis}"].values for axis in ("lon", "lat")]
        return np.prod([np.ptp(axis) for axis in axes]) / dataset[name][-1].size

    return sorted((str(name) for name in dataset.variables if str(name).endswith(f"/{variable}")), key=cell)


@functools.lru_cache(maxsize=4)
def _of_text(path: str, changed: int) -> xr.Dataset:
    """The Dataset of a WIN or PRE file, whole in memory; `changed`: when it was written, so that it is read again."""
    import xarray as xr

    with open(path, encoding="latin-1") as file:
        lines = file.read().splitlines()
    heads = [k for k, line in enumerate(lines) if HEAD.search(line)]
    if not heads:
        raise DataError(f"{path} is a file of OWI without a line of iLat=, iLong= and so on; get it again.")
    grids = [HEAD.search(lines[k]).groups() for k in heads]  # pyright: ignore[reportOptionalMemberAccess]
    if moved := [grid for grid in grids if grid[:6] != grids[0][:6]]:
        raise DataError(
            f"{path} is a file of OWI whose grid changes at {moved[0][6]}; write each grid to a file of its own."
        )
    ny, nx = (int(float(grid)) for grid in grids[0][:2])
    dx, dy, south, west = map(float, grids[0][2:6])
    of_field = -(-nx * ny // PER_LINE)
    parts = 2 if heads[0] + 2 * of_field < (heads[1] if len(heads) > 1 else len(lines)) else 1
    values = [_values(path, lines, k, parts, (ny, nx)) for k in heads]
    times = [(_moment(path, grid[6]) - EPOCH).total_seconds() for grid in grids]
    axes = {
        "time": ("time", times, {"units": "seconds since 1970-01-01"}),
        "lat": ("lat", south + dy * np.arange(ny), {"units": "degrees_north"}),
        "lon": ("lon", west + dx * np.arange(nx), {"units": "degrees_east"}),
    }
    table, dims = np.array(values), ("time", "lat", "lon")
    if parts == 2:
        data = {name: (dims, table[:, k], {"units": "m s-1"}) for k, name in enumerate(("u10", "v10"))}
    else:
        data = {"pressure": (dims, 100.0 * table[:, 0], {"units": "Pa"})}
    dataset = xr.Dataset(data, axes)
    dataset.encoding = {"source": path}
    return dataset


def _values(path, lines, head, parts, shape):
    """The fields (parts, ny, nx) below the line `head`."""
    each = -(-shape[0] * shape[1] // PER_LINE)
    fields = []
    for part in range(parts):
        some = lines[head + 1 + part * each : head + 1 + (part + 1) * each]
        cells = [line[k : k + WIDTH] for line in some for k in range(0, len(line.rstrip()), WIDTH)]
        try:
            field = np.array(cells, float)
        except ValueError:
            field = np.zeros(0)
        if field.size != shape[0] * shape[1]:
            raise DataError(
                f"{path}, a file of OWI: below line {head + 1} are not the {shape[0]} x {shape[1]} numbers that it "
                "announces; get it again."
            )
        fields.append(field.reshape(shape))
    return fields


def _moment(path, text):
    try:
        return datetime.datetime.strptime(text, "%Y%m%d%H%M")
    except ValueError:
        raise DataError(f"{path}, a file of OWI: DT={text} is no date as 202009100030; get it again.") from None


def _of_groups(path):
    """The Dataset of all groups, whose variables and dimensions have the group's name before theirs."""
    import netCDF4
    import xarray as xr

    with LOCK, netCDF4.Dataset(path) as data:
        groups = list(data.groups)
    parts = []
    for group in groups:
        one = xr.open_dataset(path, group=group, decode_cf=False)
        parts.append(
            one.rename({str(name): f"{group}/{name}" for name in {*map(str, one.variables), *map(str, one.dims)}})
        )
        for variable in parts[-1].data_vars.values():
            if conversion(str(variable.attrs.get("units", "")), "Pa") == 100.0:  # as documented; read lazily
                packing = {
                    key: 100.0 * variable.attrs.get(key, x) for key, x in (("scale_factor", 1.0), ("add_offset", 0.0))
                }
                variable.attrs |= packing | {"units": "Pa"}
    merged = xr.merge(parts, combine_attrs="override")
    dated = {str(name): merged[str(name)].dims for name in merged.variables if str(name).endswith("/time")}
    merged = merged.set_coords([name for name, dims in dated.items() if dims == (name,)])
    merged.encoding = {"source": str(path)}
    return merged
