"""What experiments of the repository score: each is run as it is, and its own score.py judges the output."""

import contextlib
import functools
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from ..scripts import script

FOLDER = Path(__file__).parents[2] / "experiments"


def module_of(experiment: str, name: str) -> ModuleType:
    """NAME.py of an experiment's folder, as a module."""
    return script(f"experiments/{experiment}/{name}.py")


@contextlib.contextmanager
def output_of(experiment: str, command: str, file: str, hours: float, changes: Sequence[str] = ()) -> Iterator[Path]:
    """The folder of the output of `swmodel COMMAND FILE`, which is stopped after so many hours; removed at the end.

    Args:
        experiment: the folder. command, file: what is run. hours: after which the run is stopped.
        changes: of keys of the file, as "grid.nx=99".
    """
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-m", "swmodel", command, str(FOLDER / experiment / file), "--output", folder]
        program += [argument for change in changes for argument in ("--set", change)]
        subprocess.run(program, check=True, capture_output=True, timeout=hours * 3600)
        yield Path(folder)


@functools.cache
def scores(
    experiment: str, command: str, file: str, output: str, hours: int, changes: tuple[str, ...] = ()
) -> dict[str, float]:
    """The scores of `output`, the name of a file of `output_of`; the other arguments are those."""
    with output_of(experiment, command, file, hours, changes) as folder:
        return module_of(experiment, "score").scores(folder / output)
