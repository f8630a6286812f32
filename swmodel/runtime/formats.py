"""Formats of files, which are recognised by their contents, and the refusal of those that a reader does not read.

`FORMATS` has a row for each format. A reader passes the names of the formats that it reads to `check_format`, which
returns the one of the file. To read one more format, add its row here, and a function for it to the reader.
"""

import dataclasses
import os
import re
from collections.abc import Collection

from ..errors import DataError
from .netcdf import LOCK

BEGINNING = 4096  # bytes that are read


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        name: for readers.
        words: for users; {names} are those of groups of the pattern.
        pattern: a regular expression on the first bytes of a file; of a netCDF file on "netCDF", the names of its
            variables and "groups:" with the names of its groups.
        contents: of its files, "faults", "grid", "coast", "track", "tide", "gauge", "altimeter" or "".
        remedy: how a reader of such contents gets them.
    """

    name: str
    words: str
    pattern: str
    contents: str = ""
    remedy: str = ""


_ROWS = "write a row for each subfault to a CSV table; docs/questions.md lists its columns"
_GDAL = "gdal_translate -of netCDF makes netCDF of it"
_TRACK = "give it as `track` of a [[forcing]] with type = 'cyclone'"
_GAUGE = "put it into the folder of observations, where records of gauges are read"
_TRACKS = "give it as `file` of a track_misfit, or of observations along tracks"
_NAMES = r'"?(x|lon|longitude)"?[ \t,]+"?(y|lat|latitude)"?[ \t,]+"?z"?'
_NUMBER, _GAP = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", r"[ \t]*[ \t,][ \t]*"
FORMATS = (
    Format("srcmod", "a slip model of SRCMOD", r"(?m)FINITE-SOURCE RUPTURE MODEL|^% *EventTAG", "faults", _ROWS),
    Format(
        "usgs", "a slip model of the USGS (.param)", r"\A#(Total number of f|F)ault_segment", "faults", _ROWS
    ),
    Format("usgs_geojson", "a slip model of the USGS in GeoJSON", r'(?s)\A\s*\{.*"Feature.*"slip"', "faults", _ROWS),
    Format("coops_json", "a JSON file of levels of CO-OPS", r'(?s)\A\s*\{.*"(t|message)"\s*:\s*"', "gauge", _GAUGE),
    Format(
        "ioc_json", "a JSON file of levels of the IOC",
        r'\A\s*\[\s*\{(?=[^}]*"stime")(?=[^}]*"slevel")', "gauge", _GAUGE,
    ),
    Format(
        "geojson", "a GeoJSON file", r'(?s)\A\s*\{.*"(FeatureCollection|Feature)"', "coast",
        "give it as `polygons` of the mask of a [bathymetry]",
    ),
    Format("json", "a JSON file", r'\A\s*\{\s*"'),
    Format(
        "sift", "a table of unit sources of SIFT", r"\A(?=[^\n]*\bname\b)(?=[^\n]*\blongitude_deg\b)[^\n]*\bdepth_km\b",
        "faults", "give it as `file` of a [source], with its `slips`",
    ),
    Format(
        "subfaults", "a table of subfaults without units, as of GeoClaw",
        r"(?i)\A(#[^\n]*\n)*(?=[^\n\[]*\blongitude\b)(?=[^\n\[]*\bstrike\b)[^\n\[]*\bslip\b[^\n\[]*\n", "faults",
        "add the unit to the name of each column, as longitude [degrees] and slip [m]",
    ),
    Format(
        "dtopo", "a GeoClaw file of the motion of the sea floor (dtopo)", r"\A\s*\d+\s+mx\s+\d+\s+my\s+\d+\s+mt\b",
        "faults", "file of [source] reads it",
    ),
    Format("ascii_grid", "an ASCII grid", r"(?i)\A\s*(ncols\s+\d|\d+(\.\d*)?(e\+?\d+)?\s+(mx|ncols)\b)", "grid", _GDAL),
    Format("surfer", "a Surfer grid", r"\ADS(AA|BB|RB)", "grid", _GDAL),
    Format("tiff", "a TIFF file", r"\A(II[*+]\x00|MM\x00[*+])", "grid", _GDAL),
    Format("grib", "a GRIB file", r"\AGRIB", "grid", "cdo -f nc copy makes netCDF of it"),
    Format("hdf4", "an HDF4 file", r"\A\x0e\x03\x13\x01", "grid", _GDAL),
    Format(
        "owi", "a file of winds or pressures of OWI", r"(?i)\A\s*(OWI WWS|Oceanweather)", "",
        "give it as `file` of a wind or air_pressure",
    ),
    Format("hurdat2", "a file of tracks of HURDAT2", r"\A[A-Z]{2}\d{6},[^,\n]*, *\d+,", "track", _TRACK),
    Format("ibtracs_csv", "a CSV file of IBTrACS", r"\ASID,SEASON,", "track", _TRACK),
    Format("jma", "a file of best tracks of JMA", r"\A66666 +\d{4} ", "track", _TRACK),
    Format("atcf", "a file of ATCF tracks", r"\A[A-Z]{2}, *\d\d, *\d{10},", "track", _TRACK),
    Format(
        "coops_csv", "a CSV file of levels of CO-OPS",
        r'\A"?Date( Time, (Water Level|Prediction)|","?Time \()', "gauge", _GAUGE,
    ),
    Format("ioc", "a table of levels of the IOC", r'\A([^\n<]*\n){0,3}"?Time \(UTC\)"?[\t,;]', "gauge", _GAUGE),
    Format("dart", "a text of DART", r"\A#?Y+ +MM DD hh mm ss T +HEIGHT", "gauge", _GAUGE),
    Format(
        "uhslc_csv", "a CSV file of levels of UHSLC",
        r"\A\d{4}, *\d\d?, *\d\d?,( *\d\d?,)? *-?\d+\r?\n", "gauge", _GAUGE,
    ),
    Format(
        "uhslc_dat", "a .dat file of levels of UHSLC",
        r"\A\d{3}[A-Za-z][^\n]{40}\d{4}[ -][^\n]{5,10}[NS] [ \d]{6}[EW] ", "gauge", _GAUGE,
    ),
    Format(
        "uhslc", "a netCDF file of levels of UHSLC",
        r"\AnetCDF (?=.*\bsea_level\b).*\brecord_id\b", "gauge", _GAUGE,
    ),
    Format(
        "altimeter_tracks", "a file of altimeter tracks of CMEMS",
        r"\AnetCDF (?=.*\blatitude\b).*\bsla_(un)?filtered\b", "altimeter", _TRACKS,
    ),
    Format(
        "swot_l2", "a swath of SWOT, level 2", r"\AnetCDF (?=.*\blatitude\b).*\bssha?_karin\b", "altimeter", _TRACKS
    ),
    Format(
        "ssha", "a file of levels ssha, as of SWOT, level 3",
        r"\AnetCDF (?=.*\blatitude\b).*\bssha(_(un)?filtered|_noiseless|_unedited|_smoothed)?\b", "altimeter", _TRACKS,
    ),
    Format(
        "tpxo", "a file of TPXO, with real and imaginary parts", r"(?i)\AnetCDF .*\b[huv]re\b.*\b[huv]im\b", "tide",
        "give it as `atlas` of an elevation or velocity, in place of constituents",
    ),
    Format(
        "netcdf_groups", "a netCDF file with its variables in groups, {groups}", r"\AnetCDF groups: (?P<groups>.+)",
        "grid", "`ncks -G : -g GROUP in.nc out.nc` takes one of them out",
    ),
    Format("netcdf", "a netCDF file", r"\AnetCDF"),
    Format(
        "shapefile", "a shapefile", r"\A\x00\x00\x27\x0a", "coast",
        "give it as `polygons` of the mask of a [bathymetry]",
    ),
    Format("image", "an image", r"\A(\x89PNG|\xff\xd8\xff|GIF8)"),
    Format("pdf", "a PDF document", r"\A%PDF"),
    Format("zip", "an archive, as .zip, .xlsx and .npz", r"\APK\x03\x04"),
    Format("compressed", "a compressed file, to be unpacked first", r"\A(\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd)"),
    Format("numpy", "an array of numpy", r"\A\x93NUMPY"),
    Format("matlab", "a file of MATLAB", r"\AMATLAB"),
    Format("web_page", "a web page, as a download may leave", r"(?i)\A\s*<(!doctype|html|\?xml)"),
    Format("utf16", "text in UTF-16, to be saved in UTF-8", r"\A(\xff\xfe|\xfe\xff)"),
    Format("binary", "a binary file of unknown format", r"\x00"),
    Format(
        "xyz", "a table of x, y and elevation",
        rf"(?i)\A(#[^\n]*\n)*({_NAMES}\s*\n)?\s*{_NUMBER}({_GAP}{_NUMBER}){{2}}[ \t]*\r?\n", "grid", _GDAL,
    ),
    Format(
        "txyz", "a table of time, x, y and uplift (dtopo of type 1)",
        rf"\A\s*{_NUMBER}({_GAP}{_NUMBER}){{3}}[ \t]*\r?\n", "faults", "file of [source] reads it",
    ),
    Format("text", "a text file", r""),
)  # fmt: skip


def format_of(path: str | os.PathLike) -> Format:
    """The first Format of FORMATS of which the file has the pattern, with the names of its groups in its words.

    Raises:
        OSError: if the file cannot be read.
    """
    beginning = _beginning(path)
    for each in FORMATS:
        if match := re.search(each.pattern, beginning):
            return dataclasses.replace(each, words=each.words.format(**match.groupdict()))
    raise AssertionError("every file has the pattern of text")


def check_format(path: str | os.PathLike, readable: Collection[str], wanted: str, contents: str = "") -> str:
    """The name of the format of a file, one of those that are `readable`; "" for a file that cannot be opened.

    Args:
        path: of the file.
        readable: names of formats.
        wanted: the formats in words, for the message.
        contents: the contents that the reader needs, as of a Format; "" if a remedy for any contents fits.

    Raises:
        DataError: for another format, in one sentence with its remedy.
    """
    try:
        form = format_of(path)
    except OSError:
        return ""
    if form.name in readable:
        return form.name
    remedy = form.remedy if form.remedy and contents in ("", form.contents) else "give such a file"
    raise DataError(f"{path} is {form.words}, and not {wanted}; {remedy}.")


def _beginning(path):
    """The first bytes of a file, each as one character; the names of the variables and groups of a netCDF file."""
    with open(path, "rb") as file:
        text = file.read(BEGINNING).decode("latin-1")
    if not re.match(r"CDF[\x01\x02\x05]|\x89HDF\r\n\x1a\n", text):
        return text.removeprefix("\xef\xbb\xbf")
    import netCDF4

    try:
        with LOCK, netCDF4.Dataset(os.fspath(path)) as data:
            groups = f"groups: {', '.join(data.groups)}" if data.groups else ""
            return " ".join(["netCDF", *data.variables, groups]).strip()
    except (OSError, RuntimeError, UnicodeDecodeError):  # a damaged file, which its reader will refuse
        return "netCDF"
