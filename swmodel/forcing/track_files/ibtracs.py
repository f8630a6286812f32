"""Tracks of IBTrACS, CSV and netCDF, of any of its agencies: degrees, hPa, knots and nautical miles.

Each agency has columns of its own, such as tokyo_pres, tokyo_wind, tokyo_lat and, of some, reunion_rmw. Without an
agency those of the United States count, and where these are blank those of the WMO's agency for that ocean. A storm is
named by its SID or name. https://www.ncei.noaa.gov/products/international-best-track-archive
"""

import csv
import datetime
from pathlib import Path

import numpy as np

from ...errors import DataError
from ...grids.axes import check_units
from ...runtime.formats import check_format
from . import ISOTACHS, KNOT, MILE, QUADRANTS, Points, chosen

RADII = [f"r{knots}_{quadrant}" for knots in ISOTACHS for quadrant in QUADRANTS]
UNITS = {"lon": "degree", "lat": "degree", "pres": "hPa", "rmw": "nmile", "wind": "knots"}
MINUTES = {"usa": 1, "newdelhi": 3, "cma": 2}  # of which winds are means; 10 elsewhere


def read(path: str | Path, storm: str | None, agency: str | None = None) -> Points:
    """The Points of a storm by an agency."""
    is_csv = check_format(path, ("netcdf", "ibtracs_csv"), "IBTrACS", "track") == "ibtracs_csv"
    who, times, columns = (_of_csv if is_csv else _of_netcdf)(path, storm)
    agencies = sorted({name.removesuffix("_pres") for name in columns if name.endswith("_pres")})
    if agency is not None and agency not in agencies:
        raise DataError(f"{path}, IBTrACS: there is no agency {agency!r}; it has {', '.join(agencies)}.")
    nothing = np.full(len(times), np.nan)

    def first_known(quantity, *names):
        """The values of the first of the agencies `names` that has one."""
        values = nothing
        for name in names:
            other = columns.get(f"{name}_{quantity}" if name else quantity, nothing)
            values = np.where(np.isfinite(values), values, other)
        return values

    order = ("usa", "wmo") if agency is None else (agency,)
    x, y = (first_known(name, *(() if agency is None else order), "") for name in ("lon", "lat"))
    pressure, wind = (first_known(name, *order) for name in ("pres", "wind"))
    who_has = "usa" if agency is None else agency
    radius = np.nan_to_num(first_known("rmw", who_has))
    table = np.column_stack([x, y, 100.0 * pressure, MILE * radius, KNOT * wind]).tolist()
    rows = {moment: (a, b, c, d, e) for moment, (a, b, c, d, e) in zip(times, table) if moment is not None}
    miles = np.stack([columns.get(f"{who_has}_{name}", nothing) for name in RADII], axis=-1).reshape(-1, 3, 4)
    radii = {moment: MILE * each for moment, each in zip(times, miles) if moment is not None}
    if agency is None:
        whose = "usa, and wmo where it has none"
        minutes = "winds of 1 min of usa, 10 min of most others"
    else:
        whose, minutes = agency, f"winds of {MINUTES.get(agency, 10)} min"
    return Points(rows, (f"IBTrACS, {who}".rstrip(", "), f"agency {whose}", minutes), radii)


def _of_csv(path, storm):
    """(the storm, its dates and times, {column: values (n,)}); lines of other storms are passed over."""
    wanted = None if storm is None else storm.strip().upper()
    known: dict[str, str] = {}
    rows: list[dict[str, str]] = []
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        _check_csv_units(path, next(reader))
        for row in reader:
            known.setdefault(row["SID"], row["NAME"])
            if wanted in (None, row["SID"].upper(), row["NAME"].upper()):
                rows.append(row)
    names = list(known.items())
    sid = names[chosen(path, names, storm)][0]
    rows = [row for row in rows if row["SID"] == sid]
    ends = ("LAT", "LON", *(f"_{name.upper()}" for name in (*UNITS, *RADII)))
    columns = {
        name.lower(): np.array([float(row[name]) if (row[name] or "").strip() else np.nan for row in rows])
        for name in reader.fieldnames or ()
        if name.endswith(ends)
    }
    return f"{sid} {known[sid]}", [datetime.datetime.fromisoformat(row["ISO_TIME"]) for row in rows], columns


def _check_csv_units(path, units):
    """Raise DataError if the line of units has others than those of IBTrACS."""
    for name, stated in units.items():
        quantity = "rmw" if str(name).lower().endswith(tuple(RADII)) else str(name).lower().rpartition("_")[2]
        if quantity in UNITS and isinstance(stated, str) and stated.strip():
            check_units(
                f"{name} in {path}", stated.strip().replace("kts", "knots").replace("mb", "hPa"), UNITS[quantity]
            )


def _of_netcdf(path, storm):
    """As `_of_csv`."""
    import xarray as xr

    with xr.open_dataset(path) as data:
        who = ""
        if "storm" in data.sizes:
            texts = [data[key].values for key in ("sid", "name") if key in data]
            known = list(zip(*([_text(x) for x in column] for column in texts)))
            if not known:
                raise ValueError("it has no column sid")
            which = chosen(path, known, storm)
            who, data = " ".join(known[which]), data.isel(storm=which)
        columns = {}
        for name in map(str, data.variables):
            quantity = name.rpartition("_")[2]
            if quantity in UNITS and data[name].dims == data["time"].dims:
                if stated := str(data[name].attrs.get("units", "")):
                    check_units(f"{name} in {path}", stated, UNITS[quantity])
                columns[name] = np.asarray(data[name].values, float)
        for name in [name for name in map(str, data.data_vars) if name.rpartition("_")[2] in ("r34", "r50", "r64")]:
            for k, quadrant in enumerate(QUADRANTS if "quadrant" in data[name].dims else ()):
                columns[f"{name}_{quadrant}"] = np.asarray(data[name].isel(quadrant=k).values, float)
        times = [None if np.isnat(t) else t.astype("datetime64[s]").item() for t in data["time"].values]
        return who, times, columns


def _text(x):
    return x.decode().strip() if isinstance(x, bytes) else str(x).strip()
