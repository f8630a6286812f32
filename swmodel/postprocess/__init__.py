"""Figures and diagnostics of model output, read with xarray.

They import neither JAX nor the model, but its readers of tables and its tides.

maps         a field at several times
maxima       maximum elevation, flow depth on land, arrival-time isochrones
inundation   flooded land, run-up line and height, inundation line
statistics   fields of products: means, harmonic constants and others; drifters; members of an ensemble
seafloor     files of elevations, before they are read
gis          GeoTIFF and GeoJSON of floods and other fields
gauges       series against observed ones, and their scores
series       modelled and observed series, and the table of scores, without figures
overview     one page of a tsunami, or of a basin's circulation
animate      mp4 or GIF of a field
spectra      wavenumber spectra of boxes, frequency spectra of gauges
inversion    controls before and after, and the observations
layered      energies and spectra of layers, interfaces and vertical modes
budgets      volume, energy, enstrophy; streamfunction and transports
pages        one HTML page of a run
cli          `plot`, which chooses among them by the content of the files
"""

from typing import Any

from ..errors import PlotError
from ..runtime.packages import loaded_when_used

_HOMES = {
    "cli": ("KINDS", "plot"),
    "files": ("open_output",),
    "gis": ("export",),
    "pages": ("report",),
    "seafloor": ("bathymetry",),
    "series": ("marks", "score_table"),
}
_load, __all__ = loaded_when_used(__name__, _HOMES, with_modules=True)
__all__ += ["PlotError"]


def __getattr__(name: str) -> Any:
    """The modules of this package, and their functions, are loaded when they are first used."""
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        raise PlotError(f"{name}: no {error.name} here; `pip install {error.name}` installs it.") from error
