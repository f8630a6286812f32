"""`swmodel plot`: the post-processing that comes with the package, with this program's errors."""
from pathlib import Path

from ..config.quantities import quantity
from ..errors import SwmodelError
from ..resources import postprocess

__all__ = ["draw", "plot_files"]


def plot_files(files, output=None, kind="auto", observations=None, variable=None, times=None):
    """Draw what the files hold and print where the figure is."""
    if kind == "auto" and len(files) > 1:
        files = _without_restarts(files)
    seconds = [quantity(time, "s") for time in times] if times else None
    print(draw(files, output, kind, observations, variable, seconds))


def draw(files, output=None, kind="auto", observations=None, variable=None, times=None):
    """The path of the figure; raises SwmodelError with one sentence if it cannot be drawn."""
    module = postprocess()
    try:
        return module.plot([Path(file) for file in files], output, kind, observations, variable, times)
    except module.PlotError as error:
        raise SwmodelError(str(error)) from error


def _without_restarts(files):
    """`swmodel plot output/*.nc` names restarts too, of which there is no figure."""
    import netCDF4

    kept = []
    for file in files:
        try:
            with netCDF4.Dataset(file) as dataset:
                if "swmodel_restart" in dataset.ncattrs():
                    continue
        except OSError:
            pass
        kept.append(file)
    return kept or files
