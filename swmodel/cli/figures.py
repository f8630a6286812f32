"""`swmodel plot`: the post-processing that comes with the package, with this program's errors."""

import importlib.util
from pathlib import Path

from ..config.quantities import quantity_of_option
from ..errors import SwmodelError
from ..runtime.resources import postprocess

__all__ = ["draw", "plot_files", "require"]


def require():
    """Raise before a long run, and not after it, if no figure could be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SwmodelError(
            "--plot needs matplotlib, which is not installed; pip install matplotlib, or leave --plot out."
        )


def plot_files(files, output=None, kind="auto", observations=None, variable=None, times=None, member=0, box=None):
    """Draw what the files hold and print where the figures are."""
    seconds = [quantity_of_option("--time", time, "s") for time in times] if times else None
    box = (box[:2], box[2:]) if box else None
    print(*draw(files, output, kind, observations, variable, seconds, member, box), sep="\n")


def draw(files, output=None, kind="auto", observations=None, variable=None, times=None, member=0, box=None):
    """The paths of the figures; raises SwmodelError with one sentence if they cannot be drawn."""
    module = postprocess()
    try:
        return module.plot([Path(file) for file in files], output, kind, observations, variable, times, member, box)
    except module.PlotError as error:
        raise SwmodelError(str(error)) from error
