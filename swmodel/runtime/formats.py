"""Formats of files, which are recognised by their contents, and the one reader of tables in CSV files.

`FORMATS` has a row for each format. A reader passes the names of the formats that it reads to `check_format`, which
returns the one of the file. To read one more format, add its row here, and a function for it to the reader.

`read_csv` reads all tables, such as observations, storm tracks and faults. The first line names the
columns, and each further line is a row with a cell for each of them. Decimal commas and missing delimiters change the
number of cells, so that a row with another number of them is refused. Lines that begin with # are comments. If the
first other line holds numbers alone, the comment before it names the columns, as in files of numpy.savetxt.
"""

import csv
import dataclasses
import datetime
import os
import re
from collections.abc import Collection, Iterator

import numpy as np

from ..errors import DataError
from .signals import LOCK

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
        remedy: how a reader of such contents gets them; that of REMEDIES unless given.
    """

    name: str
    words: str
    pattern: str
    contents: str = ""
    remedy: str = ""


REMEDIES = {
    "faults": "write a row for each subfault to a CSV table; docs/questions.md lists its columns",
    "grid": "gdal_translate -of netCDF makes netCDF of it",
    "coast": "give it as `polygons` of the mask of a [bathymetry]",
    "track": "give it as `track` of a [[forcing]] with type = 'cyclone'",
    "gauge": "put it into the folder of observations, where records of gauges are read",
    "altimeter": "give it as `file` of a track_misfit, or of observations along tracks",
}
_NAMES = r'"?(x|lon|longitude)"?[ \t,]+"?(y|lat|latitude)"?[ \t,]+"?z"?'
_NUMBER, _GAP = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", r"[ \t]*[ \t,][ \t]*"
FORMATS = (
    Format("srcmod", "a slip model of SRCMOD", r"(?m)FINITE-SOURCE RUPTURE MODEL|^% *EventTAG", "faults"),
    Format("usgs", "a slip model of the USGS (.param)", r"\A#(Total number of f|F)ault_segment", "faults"),
    Format("usgs_geojson", "a slip model of the USGS in GeoJSON", r'(?s)\A\s*\{.*"Feature.*"slip"', "faults"),
    Format("coops_json", "a JSON file of levels of CO-OPS", r'(?s)\A\s*\{.*"(t|message)"\s*:\s*"', "gauge"),
    Format("ioc_json", "a JSON file of levels of the IOC", r'\A\s*\[\s*\{(?=[^}]*"stime")(?=[^}]*"slevel")', "gauge"),
    Format("geojson", "a GeoJSON file", r'(?s)\A\s*\{.*"(FeatureCollection|Feature)"', "coast"),
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
    Format("ascii_grid", "an ASCII grid", r"(?i)\A\s*(ncols\s+\d|\d+(\.\d*)?(e\+?\d+)?\s+(mx|ncols)\b)", "grid"),
    Format("surfer", "a Surfer grid", r"\ADS(AA|BB|RB)", "grid"),
    Format("tiff", "a TIFF file", r"\A(II[*+]\x00|MM\x00[*+])", "grid"),
    Format("grib", "a GRIB file", r"\AGRIB", "grid", "cdo -f nc copy makes netCDF of it"),
    Format("hdf4", "an HDF4 file", r"\A\x0e\x03\x13\x01", "grid"),
    Format(
        "owi", "a file of winds or pressures of OWI", r"(?i)\A\s*(OWI WWS|Oceanweather)", "",
        "give it as `file` of a wind or air_pressure",
    ),
    Format("hurdat2", "a file of tracks of HURDAT2", r"\A[A-Z]{2}\d{6},[^,\n]*, *\d+,", "track"),
    Format("ibtracs_csv", "a CSV file of IBTrACS", r"\ASID,SEASON,", "track"),
    Format("jma", "a file of best tracks of JMA", r"\A66666 +\d{4} ", "track"),
    Format("atcf", "a file of ATCF tracks", r"\A[A-Z]{2}, *\d\d, *\d{10},", "track"),
    Format(
        "coops_csv", "a CSV file of levels of CO-OPS", r'\A"?Date( Time, (Water Level|Prediction)|","?Time \()', "gauge"
    ),
    Format("ioc", "a table of levels of the IOC", r'\A([^\n<]*\n){0,3}"?Time \(UTC\)"?[\t,;]', "gauge"),
    Format("dart", "a text of DART", r"\A#?Y+ +MM DD hh mm ss T +HEIGHT", "gauge"),
    Format("uhslc_csv", "a CSV file of levels of UHSLC", r"\A\d{4}, *\d\d?, *\d\d?,( *\d\d?,)? *-?\d+\r?\n", "gauge"),
    Format(
        "uhslc_dat", "a .dat file of levels of UHSLC",
        r"\A\d{3}[A-Za-z][^\n]{40}\d{4}[ -][^\n]{5,10}[NS] [ \d]{6}[EW] ", "gauge",
    ),
    Format("uhslc", "a netCDF file of levels of UHSLC", r"\AnetCDF (?=.*\bsea_level\b).*\brecord_id\b", "gauge"),
    Format(
        "altimeter_tracks", "a file of altimeter tracks of CMEMS",
        r"\AnetCDF (?=.*\blatitude\b).*\bsla_(un)?filtered\b", "altimeter",
    ),
    Format("swot_l2", "a swath of SWOT, level 2", r"\AnetCDF (?=.*\blatitude\b).*\bssha?_karin\b", "altimeter"),
    Format(
        "ssha", "a file of levels ssha, as of SWOT, level 3",
        r"\AnetCDF (?=.*\blatitude\b).*\bssha(_(un)?filtered|_noiseless|_unedited|_smoothed)?\b", "altimeter",
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
    Format("shapefile", "a shapefile", r"\A\x00\x00\x27\x0a", "coast"),
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
        rf"(?i)\A(#[^\n]*\n)*({_NAMES}\s*\n)?\s*{_NUMBER}({_GAP}{_NUMBER}){{2}}[ \t]*\r?\n", "grid",
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
    remedy = form.remedy or REMEDIES.get(form.contents, "")
    remedy = remedy if remedy and contents in ("", form.contents) else "give such a file"
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


@dataclasses.dataclass(frozen=True)
class Table:
    """The cells of a file.

    Attributes:
        path: of the file, for messages.
        names: of the columns; a column without one is "".
        rows: {column: text} of each line, without white space around the texts.
        lines: the number of each row's line in the file, from 1.
    """

    path: str
    names: tuple[str, ...]
    rows: tuple[dict[str, str], ...]
    lines: tuple[int, ...]

    def texts(self, name: str) -> list[str]:
        """The cells of a column."""
        return [row[name] for row in self.rows]

    def numbers(self, name: str) -> np.ndarray:
        """The numbers of a column, (n,), with NaN for empty cells; raises DataError for other texts."""
        return np.array([self._number(k, name) for k in range(len(self.rows))], float)

    def _number(self, k, name):
        text = self.rows[k][name]
        try:
            return float(text) if text else np.nan
        except ValueError:
            date = "a date where a number is needed; give seconds since the start of the run" if is_date(text) else ""
            why = date or "not a number; correct it, or leave it empty for a gap"
            raise DataError(f"{self.path}, line {self.lines[k]}: {text!r} in {name} is {why}.") from None


def read_csv(path: str | os.PathLike, inline_comments: bool = False, formats: tuple[str, ...] = ("text",)) -> Table:
    """The Table of a CSV file.

    Args:
        path: of the file.
        inline_comments: whether a # within a line begins a comment, too.
        formats: names of those of formats.py that are CSV tables with a line of names.

    Raises:
        DataError: if the file cannot be read as text, names a column twice, or has rows with more or fewer cells than
            columns. Empty cells at the end of a row do not count.
    """
    check_format(path, formats, "a CSV table")
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets write a byte order mark
            table = list(_cells(file, inline_comments))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{path} cannot be read as a CSV table ({error}); check the path, and save it as text in UTF-8."
        ) from error
    names = table[0][1] if table else ()
    if twice := [name for k, name in enumerate(names) if name and name in names[:k]]:
        raise DataError(f"{path} has the column {twice[0]!r} twice in its header; name each column once.")
    rows = [(line, _padded_to(len(names), cells)) for line, cells in table[1:]]
    if wrong := [(line, len(cells)) for line, cells in rows if len(cells) != len(names)]:
        line, count = wrong[0]
        more = f" (and {len(wrong) - 1} more lines)" if len(wrong) > 1 else ""
        raise DataError(
            f"{path}, line {line} has {count} cells and the header {len(names)}{more}; give one for each column, "
            "separate them by commas, and write decimal points."
        )
    return Table(str(path), tuple(names), tuple(dict(zip(names, row)) for _, row in rows), tuple(k for k, _ in rows))


def _cells(file, inline_comments) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of the header and of each row; blank lines and comments are left out."""
    number, comment, is_header = 0, "", True

    def lines():
        nonlocal number, comment
        for line in file:
            number += 1
            line = line.split("#")[0] if inline_comments else line
            if line.lstrip().startswith("#"):
                comment = line
            elif line.strip():
                yield line

    for row in csv.reader(lines(), skipinitialspace=True):
        row = [cell.strip() for cell in row]
        if is_header and comment and all(map(is_number, row)):
            yield 0, [name.strip() for name in next(csv.reader([comment.lstrip(" #")]))]
        is_header = False
        yield number, row


def is_number(text: str) -> bool:
    """Whether `text` is a number with a decimal point."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_date(text: str) -> bool:
    """Whether `text` is a date, or a date and time, of ISO 8601."""
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return not text.isdigit()


def _padded_to(count, cells):
    """The cells without empty ones beyond `count`."""
    return cells[:count] if not any(cells[count:]) else cells
