"""Tracks of cyclones as agencies write them: a reader for each format, all behind `read_points`.

    csv        CSV with time_utc, longitude_deg, latitude_deg, radius_of_maximum_wind_m, central_pressure_pa in the
               header. There may be maximum_wind_m_s and, for several storms, storm; other columns are left alone.
               Cells of the radius and of the wind may be blank.
    atcf       a-decks (forecasts) and b-decks (best tracks): knots, nautical miles and hPa.
               https://science.nrlmry.navy.mil/atcf/docs/database/new/abdeck.txt
    hurdat2    best tracks of the National Hurricane Center: knots, nautical miles and hPa. -99 and -999 are unknown.
               Radii in quadrants are there since 2004, and the last column, the radius of maximum wind, since 2021.
               https://www.nhc.noaa.gov/data/hurdat/hurdat2-format-atlantic.pdf
    jma        best tracks of RSMC Tokyo: tenths of degrees, hPa and knots. There are no winds before 1977, and no radii
               of maximum wind. https://www.jma.go.jp/jma/jma-eng/jma-center/rsmc-hp-pub-eg/
    IBTrACS    CSV and netCDF: degrees, hPa, knots and nautical miles. Each agency has columns of its own, such as
               tokyo_pres, tokyo_wind, tokyo_lat and, of some, reunion_rmw. Without an agency those of the United States
               count, and where these are blank those of the WMO's agency for that ocean. A storm is named by its SID or
               name. https://www.ncei.noaa.gov/products/international-best-track-archive

To read one more format, add its row to FORMATS of runtime/formats.py, and its reader, a function from (path, storm) to
Points, to READERS.
"""

import csv
import dataclasses
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..fields.parameters import in_utc
from ..runtime.formats import check_format, read_csv
from ..units import check_units
from .wind_laws import KNOT

MILE = 1852.0  # [m], of the sea
ISOTACHS, QUADRANTS = (34, 50, 64), ("ne", "se", "sw", "nw")  # winds [knots] of which files have the radii
Row = tuple[float, float, float, float, float]  # longitude, latitude [degrees], pressure [Pa], radius [m], wind [m s-1]


@dataclasses.dataclass(frozen=True)
class Points:
    """The points of one storm of a file.

    Attributes:
        rows: {date and time in UTC: (longitude, latitude, central pressure, radius of maximum wind, largest wind)}; a
            pressure or radius that is not known is not positive or NaN, and such a wind NaN.
        remarks: the format and the storm, and the averaging of the winds, each in words.
        radii: {date and time: radii of winds of 34, 50 and 64 knots in the quadrants north-east, south-east, south-west
            and north-west [m], (3, 4)}; 0 where there is no such wind, and NaN where that is not known.
    """

    rows: dict[datetime.datetime, Row]
    remarks: tuple[str, ...]
    radii: dict[datetime.datetime, np.ndarray] = dataclasses.field(default_factory=dict)


def read_points(kind: str, path: str | Path, storm: str | None, agency: str | None) -> Points:
    """The Points of a file in a format of READERS, "csv" or "text", which is taken for ATCF.

    Raises:
        DataError: for a file without that storm or agency.
        ValueError, KeyError, IndexError: for a damaged file.
    """
    if (read := READERS.get(kind, _of_atcf)) is _of_ibtracs:
        return _of_ibtracs(path, storm, agency)
    if agency is not None:
        raise DataError(f"{path} has the analysis of one agency; leave agency = {agency!r} out.")
    return (_of_csv if kind == "csv" else read)(path, storm)


def _chosen(path: str | Path, known: Sequence[Sequence[str]], storm: str | None) -> int:
    """The number of the storm `storm` in a file; `known` has the identifier and the name of each storm."""
    wanted = [k for k, names in enumerate(known) if storm is None or storm.strip().upper() in map(str.upper, names)]
    if len(wanted) == 1:
        return wanted[0]
    some = ", ".join(names[0] for names in known[:5]) + (", ..." if len(known) > 5 else "")
    if storm is None:
        raise DataError(f"{path} holds {len(known)} storms, {some}; name one of them by `storm`.")
    if wanted:
        first = known[wanted[0]][0]
        raise DataError(f"{path}: {len(wanted)} storms are called {storm!r}; give an identifier, as {first!r}.")
    remedy = f"it has {some}" if some else "it names none, so leave `storm` out"
    raise DataError(f"{path} has no storm {storm!r}; {remedy}.")


def _lines(path: str | Path, separator: str | None = ",") -> list[list[str]]:
    """The cells of the lines of a text that are not blank."""
    text = Path(path).read_text(encoding="utf-8")
    return [[cell.strip() for cell in line.split(separator)] for line in text.splitlines() if line.strip()]


def _knots(wind: float) -> float:
    """A wind in m s-1; NaN where it is not known."""
    return KNOT * wind if wind > 0 else float("nan")


# -- CSV --------------------------------------------------------------------------------------------------------------

COLUMNS = ("time_utc", "longitude_deg", "latitude_deg", "radius_of_maximum_wind_m", "central_pressure_pa")


def _of_csv(path, storm):
    table = read_csv(path)
    rows = table.rows
    if not rows or (missing := [name for name in COLUMNS if name not in table.names]):
        raise ValueError(f"the column {missing[0]} is missing" if rows else "it has no rows")
    if storm is not None or "storm" in table.names:
        names = list(dict.fromkeys(row.get("storm", "") for row in rows))
        wanted = names[_chosen(path, [(name,) for name in names], storm)]
        rows = [row for row in rows if row.get("storm", "") == wanted]
    points = {}
    for row in rows:
        moment = in_utc(datetime.datetime.fromisoformat(row["time_utc"].strip()))
        if moment in points:
            raise ValueError(f"it has two points on {moment:%Y-%m-%d %H:%M}")
        needed = [_number(path, row, name) for name in ("longitude_deg", "latitude_deg", "central_pressure_pa")]
        unknown = (_number(path, row, name, "nan") for name in ("radius_of_maximum_wind_m", "maximum_wind_m_s"))
        points[moment] = *needed, *unknown
    return Points(points, ("CSV", *(() if storm is None else (f"storm {storm}",))))


def _number(path, row, name, otherwise=None):
    """The number in a column of a row; `otherwise` in a blank cell, or where there is no such column."""
    text = row.get(name) or otherwise
    try:
        if text is not None:
            return float(text)
    except ValueError:
        pass
    what = "is blank" if text is None else f"is {text!r}"
    raise DataError(f"{path}: {name} {what} on {row['time_utc']}; give a number.")


# -- ATCF -------------------------------------------------------------------------------------------------------------

PAUSE = datetime.timedelta(days=30)  # between the storms with one number of two years
FIRST = (*(f"{quadrant.upper()}Q" for quadrant in QUADRANTS), "AAA")  # of the four radii; AAA is a circle


def _of_atcf(path, storm):
    """Best tracks have the minutes of dates in the column of a forecast's technique; forecasts count TAU hours."""
    storms = _atcf_storms([row for row in _lines(path) if len(row) >= 10 and row[2].isdigit()])
    known = [(key, *sorted({row[27] for row in of if len(row) > 27})) for key, of in storms.items()]
    if not known:
        raise ValueError("it has no lines of an ATCF deck")
    name = list(storms)[_chosen(path, known, storm)]
    rows = storms[name]
    best = [row for row in rows if row[4] == "BEST"]
    if not best and len({(row[2], row[4]) for row in rows}) > 1:
        raise DataError(f"{path} holds forecasts of several models or dates; leave the lines of one of them.")
    points: dict[datetime.datetime, tuple] = {}
    radii: dict[datetime.datetime, np.ndarray] = {}
    for row in best or rows:
        latitude, longitude = (_atcf_degrees(text, letters) for text, letters in zip(row[6:8], ("NS", "EW")))
        radius = float(row[19] or 0) * MILE if len(row) > 19 else 0.0
        later = datetime.timedelta(hours=float(row[5] or 0), minutes=float(row[3] or 0) if best else 0.0)
        moment = datetime.datetime.strptime(row[2], "%Y%m%d%H") + later
        if len(row) > 16 and row[11] in map(str, ISOTACHS) and row[12] in FIRST:
            miles = np.array([float(cell or 0) for cell in row[13:17]])
            table = radii.setdefault(moment, np.full((3, 4), np.nan))
            whole = row[12] == "AAA"
            table[ISOTACHS.index(int(row[11]))] = MILE * (miles[0] if whole else np.roll(miles, FIRST.index(row[12])))
        if moment not in points or not points[moment][2] > 0:  # there are lines for several radii; one may be blank
            points[moment] = longitude, latitude, float(row[9] or 0) * 100, radius, float(row[8] or "nan") * KNOT
    what = f"ATCF, {'best track' if best else f'forecast of {rows[0][4]}'} of {name}"
    return Points(points, (what, "winds of 1 min"), radii)


def _atcf_storms(rows):
    """{identifier, as AL302005: its lines}; a storm that lasts over New Year's Eve has the year of its first line.

    South of the equator a year begins in July of the year before.
    """
    storms: dict[str, list] = {}
    last: dict[tuple[str, str], tuple[str, datetime.datetime]] = {}  # the storm and the time of a number's last line
    for row in rows:
        number, moment = (row[0], row[1]), datetime.datetime.strptime(row[2], "%Y%m%d%H")
        storm, before = last.get(number, ("", moment))
        if not storm or moment - before > PAUSE:
            storm = f"{row[0]}{row[1]}{moment.year + (row[6].endswith('S') and moment.month >= 7)}"
        storms.setdefault(storm, []).append(row)
        last[number] = storm, moment
    return storms


def _atcf_degrees(text, letters):
    """A latitude or longitude of an ATCF deck, tenths of degrees with one of two letters, such as 172N."""
    if not (text[:-1].isdigit() and text[-1] in letters):
        raise ValueError(f"{text!r} is not a number of tenths of degrees with {letters[0]} or {letters[1]}")
    return float(text[:-1]) / 10 * (-1 if text[-1] in "SW" else 1)


# -- HURDAT2 and JMA --------------------------------------------------------------------------------------------------

RADII, RADIUS = slice(8, 20), 20  # columns of HURDAT2
HEAD, FIRST_YEAR = "66666", 51  # of JMA


def _block(path, lines, known, storm, fewest, of):
    """(the head of a storm, its lines below), of lines in blocks whose heads give their numbers in the third cell.

    Args:
        known: {number of a head's line: (identifier, name)}.
        fewest: cells of a line.
        of: the format, for messages.
    """
    head = list(known)[_chosen(path, list(known.values()), storm)]
    count = int(lines[head][2])
    rows = lines[head + 1 : head + 1 + count]
    if len(rows) < count or any(len(cells) < fewest or cells[0] == HEAD for cells in rows):
        raise ValueError(f"{known[head][0]} of {of} has fewer than its {count} lines")
    return known[head], rows


def _of_hurdat2(path, storm):
    """Read lines as these.

    AL092008,                IKE,     57,
    20080901, 0600,  , TD, 17.2N,  37.0W,  30, 1006, ... radii of 34, 50 and 64 knots in four quadrants ..., 90
    """
    lines = _lines(path)
    known = {k: tuple(cells[:2]) for k, cells in enumerate(lines) if len(cells) < 6}
    names, rows = _block(path, lines, known, storm, 8, "HURDAT2")
    points, radii = {}, {}
    for cells in rows:
        moment = datetime.datetime.strptime(f"{cells[0]}{cells[1]}", "%Y%m%d%H%M")
        radius = float(cells[RADIUS]) if len(cells) > RADIUS and cells[RADIUS] else -999.0
        if len(cells) >= RADII.stop:
            miles = np.array([float(cell or -999) for cell in cells[RADII]]).reshape(3, 4)
            radii[moment] = MILE * np.where(miles < 0, np.nan, miles)
        x, y = _hurdat2_degrees(cells[5], "EW"), _hurdat2_degrees(cells[4], "NS")
        points[moment] = x, y, 100.0 * float(cells[7]), MILE * max(radius, 0.0), _knots(float(cells[6]))
    return Points(points, (f"HURDAT2, {' '.join(names)}", "winds of 1 min"), radii)


def _hurdat2_degrees(text, letters):
    if text[-1:] not in letters:
        raise ValueError(f"{text!r} of HURDAT2 does not end in {letters[0]} or {letters[1]}")
    return float(text[:-1]) * (-1 if text[-1] in "SW" else 1)


def _of_jma(path, storm):
    """Read lines as these.

    66666 9119  150 0045 9119 0 6             MIRREILE              19920701
    91092706 002 5 325 1293  935     095     30180 0140 30400 0260         #
    """
    lines = _lines(path, None)
    heads = {k: cells for k, cells in enumerate(lines) if cells[0] == HEAD}
    known = {k: (cells[1], next(filter(str.isalpha, cells[5:]), "")) for k, cells in heads.items()}
    names, rows = _block(path, lines, known, storm, 6, "JMA's best tracks")
    points = {}
    for cells in rows:
        year = int(cells[0][:2])
        moment = datetime.datetime.strptime(f"{1900 + year + 100 * (year < FIRST_YEAR)}{cells[0][2:]}", "%Y%m%d%H")
        wind = float(cells[6]) if len(cells) > 6 and cells[6].isdigit() else 0.0
        points[moment] = float(cells[4]) / 10, float(cells[3]) / 10, 100.0 * float(cells[5]), 0.0, _knots(wind)
    return Points(points, (f"best track of JMA, {' '.join(names).strip()}", "winds of 10 min"))


# -- IBTrACS ----------------------------------------------------------------------------------------------------------

OF_QUADRANTS = [f"r{knots}_{quadrant}" for knots in ISOTACHS for quadrant in QUADRANTS]
UNITS = {"lon": "degree", "lat": "degree", "pres": "hPa", "rmw": "nmile", "wind": "knots"}
MINUTES = {"usa": 1, "newdelhi": 3, "cma": 2}  # of which winds are means; 10 elsewhere


def _of_ibtracs(path, storm, agency=None):
    is_csv = check_format(path, ("netcdf", "ibtracs_csv"), "IBTrACS", "track") == "ibtracs_csv"
    who, times, columns = (_ibtracs_csv if is_csv else _ibtracs_netcdf)(path, storm)
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
    radius = np.nan_to_num(first_known("rmw", order[0]))
    table = np.column_stack([x, y, 100.0 * pressure, MILE * radius, KNOT * wind]).tolist()
    miles = np.stack([columns.get(f"{order[0]}_{name}", nothing) for name in OF_QUADRANTS], axis=-1).reshape(-1, 3, 4)
    rows = {moment: tuple(row) for moment, row in zip(times, table) if moment is not None}
    radii = {moment: MILE * each for moment, each in zip(times, miles) if moment is not None}
    if agency is None:
        whose, minutes = "usa, and wmo where it has none", "winds of 1 min of usa, 10 min of most others"
    else:
        whose, minutes = agency, f"winds of {MINUTES.get(agency, 10)} min"
    return Points(rows, (f"IBTrACS, {who}".rstrip(", "), f"agency {whose}", minutes), radii)


def _ibtracs_csv(path, storm):
    """(the storm, its dates and times, {column: values (n,)}); lines of other storms are passed over."""
    wanted = None if storm is None else storm.strip().upper()
    known: dict[str, str] = {}
    rows: list[dict[str, str]] = []
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        for name, stated in next(reader).items():
            lower = str(name).lower()
            quantity = "rmw" if lower.endswith(tuple(OF_QUADRANTS)) else lower.rpartition("_")[2]
            if quantity in UNITS and isinstance(stated, str) and (units := stated.strip()):
                check_units(f"{name} in {path}", units, UNITS[quantity])
        for row in reader:
            known.setdefault(row["SID"], row["NAME"])
            if wanted in (None, row["SID"].upper(), row["NAME"].upper()):
                rows.append(row)
    names = list(known.items())
    sid = names[_chosen(path, names, storm)][0]
    rows = [row for row in rows if row["SID"] == sid]
    ends = ("LAT", "LON", *(f"_{name.upper()}" for name in (*UNITS, *OF_QUADRANTS)))
    columns = {
        name.lower(): np.array([float(row[name]) if (row[name] or "").strip() else np.nan for row in rows])
        for name in reader.fieldnames or ()
        if name.endswith(ends)
    }
    return f"{sid} {known[sid]}", [datetime.datetime.fromisoformat(row["ISO_TIME"]) for row in rows], columns


def _ibtracs_netcdf(path, storm):
    """As `_ibtracs_csv`."""
    import xarray as xr

    text = lambda x: x.decode().strip() if isinstance(x, bytes) else str(x).strip()  # noqa: E731
    with xr.open_dataset(path) as data:
        who = ""
        if "storm" in data.sizes:
            known = list(zip(*(map(text, data[key].values) for key in ("sid", "name") if key in data)))
            if not known:
                raise ValueError("it has no column sid")
            which = _chosen(path, known, storm)
            who, data = " ".join(known[which]), data.isel(storm=which)
        columns = {}
        for name in map(str, data.variables):
            quantity = name.rpartition("_")[2]
            if quantity in UNITS and data[name].dims == data["time"].dims:
                if stated := str(data[name].attrs.get("units", "")):
                    check_units(f"{name} in {path}", stated, UNITS[quantity])
                columns[name] = np.asarray(data[name].values, float)
            elif quantity in ("r34", "r50", "r64") and "quadrant" in data[name].dims:
                for k, quadrant in enumerate(QUADRANTS):
                    columns[f"{name}_{quadrant}"] = np.asarray(data[name].isel(quadrant=k).values, float)
        times = [None if np.isnat(t) else t.astype("datetime64[s]").item() for t in data["time"].values]
        return who, times, columns


READERS: dict[str, Callable[..., Points]] = {
    "atcf": _of_atcf,
    "hurdat2": _of_hurdat2,
    "ibtracs_csv": _of_ibtracs,
    "netcdf": _of_ibtracs,
    "jma": _of_jma,
}
