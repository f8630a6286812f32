"""Published slip models, as they come: a reader for each format of `runtime/formats.py`.

A reader takes the path of a file and gives a `SlipModel`, in SI units, of which `swmodel check` prints what was
assumed. Rows without slip are kept, so that the numbers of subfaults are those of the file.
"""

from collections.abc import Callable

from swmodel.sources.formats.columns import SlipModel
from swmodel.sources.formats.geoclaw import read_geoclaw
from swmodel.sources.formats.sift import read_sift
from swmodel.sources.formats.srcmod import read_srcmod
from swmodel.sources.formats.usgs import read_param
from swmodel.sources.formats.usgs_geojson import read_geojson

__all__ = ["READERS", "SlipModel"]

READERS: dict[str, Callable[[str], SlipModel]] = {
    "srcmod": read_srcmod,
    "usgs": read_param,
    "usgs_geojson": read_geojson,
    "subfaults": read_geoclaw,
    "sift": read_sift,
}  # by name of a Format
