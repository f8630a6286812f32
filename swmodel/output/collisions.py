"""Different paths to one file: no output may be an input of its run or another output.

Files that exist are compared by device and inode, so that links are followed and hard links are recognised. Other files
are compared by their real paths. The run may still have to make a folder of such a path, as in output/../depth.nc.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import ConfigError


def _identity(path):
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except OSError:
        return real
    return status.st_dev, status.st_ino


def same_file(a: str | Path, b: str | Path) -> bool:
    """Whether two paths lead to one file, or would lead to one if it existed."""
    return _identity(a) == _identity(b)


def check_apart(outputs: Iterable[tuple[str, Path]], inputs: Iterable[tuple[str, Path]] = ()) -> None:
    """Refuse outputs that would destroy an input or one another.

    Args:
        outputs: (what it is, path) of every file that is to be written.
        inputs: (what it is, path) of every file that is read; of a folder, the files in it count.

    Raises:
        ConfigError: with one sentence for each output that is also another of these files, or a folder of one.
    """
    known, mistakes, outputs = {}, [], list(outputs)
    for what, path in inputs:
        path = Path(path)
        for file in path.iterdir() if path.is_dir() else [path]:
            known.setdefault(_identity(file), (what, file, "which the run reads"))
    for what, path in outputs:
        other, file, harm = known.setdefault(_identity(path), (what, path, "which is written, too"))
        if (other, file) != (what, path):
            link = "" if str(file) == str(path) else f" ({file})"
            mistakes.append(f"{what}: {path} is also the file of {other}{link}, {harm}; give it another name.")
    folders = {os.path.realpath(path): (what, path) for what, path in outputs}
    for what, file, _ in known.values():
        for folder in Path(os.path.realpath(file)).parents:
            if str(folder) in folders:
                other, path = folders[str(folder)]
                mistakes.append(f"{other}: {path} is the folder of {what} ({file}); give it another name.")
    if mistakes:
        raise ConfigError(mistakes)
