"""Figures and diagnostics of model output, read with xarray alone; nothing here imports the model.

maps         a field at several times; maximum elevation with arrival-time isochrones
gauges       series against observed ones, and their scores
figure       one page of a tsunami
circulation  one page of a basin's circulation
animate      mp4 or GIF of a field
spectra      wavenumber spectra of boxes, frequency spectra of gauges
budgets      volume, energy, enstrophy; streamfunction and transports
cli          `plot`, which chooses among them by what the files hold
"""

from .cli import KINDS, plot
from .errors import PlotError

__all__ = ["KINDS", "PlotError", "plot"]
