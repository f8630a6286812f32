"""Published slip models, as they come: a reader for each format of `runtime/formats.py`, all behind `read_slip_model`.

    srcmod        SRCMOD (.fsp): lines that begin with % are a header, and each other line is a subfault. Columns have
                  the names of the last header line before them: LAT, LON, Z [km], SLIP [m], and RAKE [degrees], TRUP
                  and RISE [s] if they vary. Positions are those of the middle of the upper edge, as in the header:
                  "Coordinates are given for top-center of each subfault or segment". Where this has "center" alone,
                  they are centres. Strike, dip, and the lengths Dx along strike and Dz down dip [km] of subfaults are
                  in the header, those of each segment before its columns. Mai and Thingbaijam (2014),
                  doi:10.1785/0220140077.
    usgs          text of the USGS (.param): segments of subfaults, each with a header of lines that begin with #. It
                  has Dx along strike and Dy down dip [km], and the boundary of the segment. Each further line is a
                  subfault: latitude, longitude and depth [km] of its centre, slip [cm], rake, strike and dip. Then
                  follow the times of rupture, of rise and of fall [s], and the moment [dyn cm]. The rise time of the
                  model is the sum of rise and fall.
    usgs_geojson  GeoJSON of the USGS: a polygon of four corners for each subfault, with its slip and times. Corners
                  have longitude, latitude [degrees] and depth, in m, or in km where none exceeds 700. Strike, dip,
                  length and width follow from them: the upper edge joins the two shallowest corners. Properties are
                  slip [m], rake [degrees], trup, rise and t_fal or fall [s] and the moment sf_moment or moment [N m].
    subfaults     GeoClaw: a CSV file whose columns have units in round brackets, or none. Without a unit, a length or
                  depth is in km if no value of the column reaches 1000, and else in m. A slip is in m if none exceeds
                  100, and else in cm. Positions are centres unless a column `reference` names another point.
    sift          unit sources of SIFT (NOAA): faults of 100 km x 50 km with 1 m of slip each, of which sources are
                  combined. A CSV file has the columns name, longitude_deg, latitude_deg, strike_deg, dip_deg, depth_km,
                  and length_km, width_km and rake_deg unless these are 100 km, 50 km and 90 degrees. Positions are
                  those of the middle of the lower edge, and depths those of the upper edge. Gica et al. (2008), NOAA
                  Technical Memorandum OAR PMEL-139.

Rows without slip are kept, so that the numbers of subfaults are those of the file.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..defaults import RIGIDITY
from ..errors import DataError
from ..runtime.formats import Table, read_csv
from .fault import AzimuthalEqualArea, Fault, si_units, to_si

DEEPEST = 700.0  # [km] of earthquakes: greater depths are in metres


@dataclasses.dataclass(frozen=True)
class SlipModel:
    """Subfaults of a file.

    Attributes:
        columns: {name of an argument of Fault: (n,), or a number for all} [SI units, degrees].
        reference: the point of a subfault that is given, as of Fault.
        assumed: a sentence on units and positions, which `swmodel check` prints.
        names: of the subfaults, by which sources are combined; none if they have none.
    """

    columns: dict[str, Any]
    reference: str
    assumed: str
    names: tuple[str, ...] = ()


def read_slip_model(form: str, path: str) -> SlipModel:
    """The SlipModel of a file in a format of READERS; raises DataError for what the file lacks, and for other texts."""
    words, read = READERS[form]
    model = read(path, words)
    return dataclasses.replace(model, assumed=f"{path} was read as {words}: {model.assumed}.")


def _numbers(path: str, words: str, lines: Iterable[tuple[int, str]], count: int) -> np.ndarray:
    """The numbers (n, count) in lines with their number in the file; raises DataError for others, and for none."""
    rows = []
    for number, line in lines:
        try:
            rows.append([float(text.replace("D", "e")) for text in line.split()[:count]])
        except ValueError:
            rows.append([])
        if len(rows[-1]) < count:
            raise DataError(
                f"{path}, line {number}: {words} has {count} numbers there, not {line.strip()!r}; correct it."
            )
    if not rows:
        raise DataError(f"{path} is {words} without subfaults; it is cut off: copy it again.")
    return np.array(rows)


def _with_rigidity(columns: dict[str, Any], moment: np.ndarray) -> dict[str, Any]:
    """Columns with moment [N m] / (slip x length x width) [Pa]; RIGIDITY of subfaults without slip or moment."""
    volume = columns["slip"] * columns["length"] * columns["width"]
    known = (volume > 0) & (moment > 0)
    return columns | {"rigidity": np.where(known, moment / np.where(volume > 0, volume, 1.0), RIGIDITY)}


# -- SRCMOD -----------------------------------------------------------------------------------------------------------

KEYS = {"strike": r"STR(?:K|IKE)", "dip": "DIP", "rake": "RAKE", "length": "Dx", "width": "Dz"}
SRCMOD = dict(
    zip("lat lon z slip rake trup rise".split(), "latitude longitude depth slip rake onset rise_time".split())
)
POINTS = {"top_centre": "the middle of upper edges", "centroid": "centres"}
FACTORS = {"depth": 1e3, "length": 1e3, "width": 1e3}


def _srcmod(path: str, words: str) -> SlipModel:
    values: dict[str, float] = {}
    names: list[str] = []
    parts: list[dict[str, np.ndarray]] = []
    reference = "top_centre"
    block: list[tuple[int, str]] = []
    with open(path, encoding="latin-1") as file:
        lines = list(file)
    for number, line in enumerate([*lines, "%"], 1):
        if not line.startswith("%"):
            block += [(number, line)] if line.strip() else []
            continue
        if block:
            parts.append(_srcmod_part(path, words, values, names, block))
            block = []
        if match := re.search(r"Coordinates are given for (top)?[- ]*cent(?:er|re)", line):
            reference = "top_centre" if match[1] else "centroid"
        for key, pattern in KEYS.items():
            if match := re.search(rf"\b{pattern}\s*=\s*([-+\d.eE]+)", line):
                values[key] = float(match[1])
        if {"lat", "lon", "slip", "z"} <= {word.lower() for word in line.split()}:
            names = [re.sub(r"[=([].*", "", word.lower()) for word in line.lstrip("% ").split()]
    if not parts:
        raise DataError(f"{path} is {words} without subfaults; it is cut off: copy it again.")
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    timed = "with" if "onset" in columns else "without"
    about = f"depth in km, slip in m, {timed} times of rupture, positions of {POINTS[reference]}"
    return SlipModel(columns | {"rigidity": RIGIDITY}, reference, f"{about}, rigidity {RIGIDITY:g} Pa")


def _srcmod_part(path, words, values, names, block):
    """The columns of the subfaults of one segment."""
    if not names:
        raise DataError(f"{path} is {words} whose columns LAT, LON, Z and SLIP are not named; copy it again.")
    table = _numbers(path, words, block, len(names))
    part = {SRCMOD[name]: table[:, k] for k, name in enumerate(names) if name in SRCMOD}
    for key in KEYS:
        if key not in part and key not in values:
            raise DataError(f"{path} is {words} whose header has no {key} of its subfaults; add it, as KEY = number.")
        part.setdefault(key, np.full(len(table), values.get(key, 0.0)))
    return {name: column * FACTORS.get(name, 1.0) for name, column in part.items()}


# -- USGS -------------------------------------------------------------------------------------------------------------

SIZES = re.compile(r"Dx\s*=\s*([\d.]+)\s*km.*Dy\s*=\s*([\d.]+)\s*km", re.I)
PARAM = ("latitude", "longitude", "depth", "slip", "rake", "strike", "dip", "onset", "rise", "fall", "moment")
OPTIONAL = {"onset": ("trup",), "rise": ("rise", "t_ris"), "fall": ("t_fal", "fall"), "moment": ("sf_moment", "moment")}


def _param(path: str, words: str) -> SlipModel:
    sizes, rows, lengths = None, [], []
    is_boundary = False
    with open(path, encoding="latin-1") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#"):
                sizes = tuple(float(x) for x in match.groups()) if (match := SIZES.search(line)) else sizes
                is_boundary = bool(re.match(r"#\s*Lon", line)) or (is_boundary and "Lat" not in line)
            elif line.strip() and not is_boundary:
                rows.append((number, line))
                lengths.append(sizes)
    if any(size is None for size in lengths):
        raise DataError(f"{path} is {words} whose header has no Dx and Dy in km; add them, as Dx= 20.00km.")
    table = dict(zip(PARAM, _numbers(path, words, rows, len(PARAM)).T))
    length, width = 1e3 * np.array(lengths, float).T
    columns = {name: table[name] for name in ("latitude", "longitude", "rake", "strike", "dip", "onset")}
    columns |= {"depth": 1e3 * table["depth"], "slip": 1e-2 * table["slip"], "length": length, "width": width}
    columns["rise_time"] = table["rise"] + table["fall"]
    about = "depth in km, slip in cm, times in s (rise and fall added up), moments in dyn cm, positions of centres"
    return SlipModel(_with_rigidity(columns, 1e-7 * table["moment"]), "centroid", about)


def _geojson(path: str, words: str) -> SlipModel:
    try:
        with open(path, encoding="utf-8-sig") as file:
            features = json.load(file)["features"]
        corners = np.array([feature["geometry"]["coordinates"][0][:4] for feature in features], float)
        rows = [{key.lower(): value for key, value in feature["properties"].items()} for feature in features]
        if corners.ndim != 3 or corners.shape[1:] != (4, 3):
            raise ValueError("polygons need four corners, each with longitude, latitude and depth")
        columns = {name: np.array([row[name] for row in rows], float) for name in ("slip", "rake")}
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is {words} that cannot be read ({type(error).__name__}: {error}); it is cut off, or lacks slip or "
            "rake: copy it again."
        ) from None
    unit = "km" if np.abs(corners[..., 2]).max() <= DEEPEST else "m"
    corners[..., 2] = _in_si(path, words, "depth", unit, np.abs(corners[..., 2]))
    called = {name: next((key for key in keys if key in rows[0]), None) for name, keys in OPTIONAL.items()}
    values = {name: np.array([float(row.get(key) or 0.0) for row in rows]) for name, key in called.items()}
    columns |= _rectangles(corners) | {"onset": values["onset"], "rise_time": values["rise"] + values["fall"]}
    about = f"depth in {unit}, slip in m, times in s, moments in N m, strike, dip and sizes from the corners"
    return SlipModel(_with_rigidity(columns, values["moment"]), "centroid", about)


def _rectangles(corners):
    """Centre, strike, dip, length and width of rectangles with corners (n, 4, 3), in any order round them."""
    turned = np.unwrap(corners[..., 0], period=360.0, axis=1)  # corners at 179.9 and -179.9 are close
    longitude, latitude, depth = turned.mean(1), *corners[..., 1:].mean(1).T
    east, north = AzimuthalEqualArea().local(turned, corners[..., 1], (longitude[:, None], latitude[:, None]))
    points = np.stack([east, north, -corners[..., 2]], axis=-1)
    order = np.argsort(corners[..., 2], axis=1, kind="stable")
    upper, lower = (np.take_along_axis(points, part[..., None], axis=1) for part in (order[:, :2], order[:, 2:]))
    along, down = upper[:, 1] - upper[:, 0], lower.mean(1) - upper.mean(1)
    strike = np.rad2deg(np.arctan2(along[:, 0], along[:, 1]))
    to_right = down[:, 0] * np.cos(np.deg2rad(strike)) - down[:, 1] * np.sin(np.deg2rad(strike))
    strike = np.where(to_right < 0, strike + 180.0, strike) % 360.0
    dip = np.rad2deg(np.arctan2(-down[:, 2], np.hypot(down[:, 0], down[:, 1])))
    columns = {"longitude": longitude, "latitude": latitude, "depth": depth, "strike": strike, "dip": dip}
    return columns | {"length": np.hypot(along[:, 0], along[:, 1]), "width": np.sqrt((down**2).sum(1))}


# -- tables whose columns have units ----------------------------------------------------------------------------------

GEOCLAW = {"rupture_time": "onset", "mu": "rigidity"}
UNLESS_GIVEN = {"length": 1e5, "width": 5e4, "rake": 90.0, "slip": 1.0, "rigidity": RIGIDITY}  # [m, degrees, Pa]
NEEDED = tuple(field.name for field in dataclasses.fields(Fault) if field.default is dataclasses.MISSING)


def _columns(table: Table, pattern: str) -> Iterator[tuple[str, str | None, np.ndarray]]:
    """(argument of Fault, unit, values) of the columns whose names, in small letters, have the pattern."""
    for header in table.names:
        match = re.fullmatch(pattern, header.strip().lower())
        name = GEOCLAW.get(match[1], match[1]) if match else ""
        if match and name in (*NEEDED, "onset", "rise_time", "rigidity"):
            yield name, match[2], table.numbers(header)


def _in_si(path, words, name, unit, values):
    """Values of an argument of Fault in its SI unit."""
    if (factor := to_si(name, unit)) is None:
        raise DataError(f"{path} is {words} with the unit {unit!r} of {name}; give {' or '.join(si_units(name))}.")
    return values * factor


def _check_complete(path, words, columns, needed, example=""):
    if missing := [name for name in needed if name not in columns]:
        raise DataError(f"{path} is {words} without {', '.join(missing)}; add a column for each{example}.")


def _geoclaw(path: str, words: str) -> SlipModel:
    table, columns, units = read_csv(path, inline_comments=True, formats=("subfaults",)), {}, []
    for name, unit, values in _columns(table, r"(\w+)\s*(?:\(\s*(\w+)\s*\))?"):
        unit = unit or _unit_of(name, values)
        columns[name] = _in_si(path, words, name, unit, values)
        units += [f"{name} in {unit}"] if name in ("depth", "length", "width", "slip") else []
    _check_complete(path, words, columns, NEEDED)
    references = set(table.texts("reference")) if "reference" in table.names else {"centroid"}
    if len(references) > 1:
        raise DataError(f"{path} is {words} with several reference points, {', '.join(sorted(references))}; give one.")
    reference = references.pop()
    about = f"{', '.join(units)}, positions of the {reference} of subfaults"
    return SlipModel({"rigidity": RIGIDITY} | columns, reference, about)


def _unit_of(name, values):
    """The unit of a column that has none."""
    largest = np.nanmax(np.abs(values), initial=0.0)
    if name in ("depth", "length", "width"):
        return "km" if largest < 1000.0 else "m"
    return ("m" if largest <= 100.0 else "cm") if name == "slip" else si_units(name)[0]


def _sift(path: str, words: str) -> SlipModel:
    table = read_csv(path, formats=("sift",))
    columns = {
        name: _in_si(path, words, name, unit, values) for name, unit, values in _columns(table, r"(\w+?)_(deg|km|m)")
    }
    _check_complete(path, words, UNLESS_GIVEN | columns, NEEDED, ", as depth_km")
    columns = UNLESS_GIVEN | columns
    columns["depth"] = columns["depth"] + columns["width"] * np.sin(np.deg2rad(columns["dip"]))  # of the lower edge
    about = "depths of upper edges in km, positions of the middle of lower edges, 1 m of slip on each"
    return SlipModel(columns, "bottom_centre", f"{about}, rigidity {RIGIDITY:g} Pa", tuple(table.texts("name")))


READERS: dict[str, tuple[str, Callable[[str, str], SlipModel]]] = {  # by name of a Format; what it is, in words
    "srcmod": ("a slip model of SRCMOD", _srcmod),
    "usgs": ("a slip model of the USGS (.param)", _param),
    "usgs_geojson": ("a slip model of the USGS in GeoJSON", _geojson),
    "subfaults": ("a table of subfaults of GeoClaw", _geoclaw),
    "sift": ("a table of unit sources of SIFT", _sift),
}
