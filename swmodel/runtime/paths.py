"""Names of files and folders from users: `~` is expanded, and names that no file system accepts raise DataError.

`experiments` is the folder of those that come with the package. `check_apart` finds different paths to one file: no
output may be an input of its run or another output. Files that exist are compared by device and inode, so that links
are followed and hard links are recognised. Other files are compared by their real paths. The run may still have to make
a folder of such a path, as in output/../depth.nc.

`replacing` is the one way in which files get their content: it is written under another name, and renamed when it is
complete. `take_place` is its last step, which folders have, too.
"""

import contextlib
import errno
import glob
import os
import shutil
import socket
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import ConfigError, DataError
from .signals import PROCESS

LONGEST_NAME, LONGEST_PATH = 255, 4095  # bytes, of Linux


def expanded(text: str | os.PathLike, folder: str | os.PathLike | None = None) -> Path:
    """The Path that `text` names, with `~` expanded; a relative one is in `folder` if that is given.

    Raises:
        DataError: if no file can have such a name.
    """
    text = os.fspath(text)
    if not text.strip():
        raise DataError("the name of a file or folder is empty; give one.")
    if any(ord(character) < 32 or 0xD800 <= ord(character) < 0xE000 for character in text):
        raise DataError(f"{text!r} contains a character that no name of a file may have; take it out.")
    with contextlib.suppress(RuntimeError):  # ~name of an unknown user is an ordinary name
        text = os.path.expanduser(text)
    path = Path(text) if folder is None else Path(folder) / text
    longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    if longest > LONGEST_NAME or len(os.fsencode(path)) > LONGEST_PATH:
        raise DataError(
            f"{text!r} is too long for the name of a file; a name has at most {LONGEST_NAME} bytes and a path "
            f"{LONGEST_PATH:,}."
        )
    return path


def found(path: str | os.PathLike, kind: str) -> bool:
    """Whether there is a `kind` ("file" or "folder") at `path`; raises DataError without permission to read it."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise DataError(refusal(path, error)) from error
    return (stat.S_ISDIR if kind == "folder" else stat.S_ISREG)(mode)


def make_folder(path: str | os.PathLike) -> None:
    """Make the folder `path` and those above it, and check that files can be written to it.

    Raises:
        DataError: if a file has its name, or without permission to write there.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        above = [Path(path), *Path(path).parents]
        there = next((part for part in above if os.path.lexists(part) and not part.is_dir()), path)
        raise DataError(f"{there} is a file, and a folder is needed; choose another folder.") from error
    except OSError as error:
        raise DataError(refusal(path, error)) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise DataError(f"files cannot be written to the folder {path}: permission denied; choose another folder.")


def refusal(path: str | os.PathLike, error: OSError) -> str:
    """One sentence for the OSError that the file system gave for `path`."""
    why = (error.strerror or str(error) or "it cannot be used").lower()
    return f"{path} cannot be used: {why}; choose another place, or see to its permissions."


PACKAGE = Path(__file__).resolve().parents[1]


def experiments() -> Path:
    """The folder of experiments."""
    for parent in (PACKAGE, PACKAGE.parent):
        if (parent / "experiments").is_dir():
            return parent / "experiments"
    raise FileNotFoundError(
        f"The folder experiments/ is neither in {PACKAGE} nor next to it; the installation is incomplete: "
        "install it again with `pip install --force-reinstall --no-deps .` in a checkout."
    )


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


def bytes_in(path: Path) -> int:
    """The size of a file, or of all files of a folder such as a Zarr store."""
    parts = path.rglob("*") if path.is_dir() else [path]
    return sum(part.stat().st_size for part in parts if part.is_file())


@contextlib.contextmanager
def replacing(path: Path, suffix: str = "", *, durable: bool = True, earlier: Path | None = None) -> Iterator[Path]:
    """A path next to `path` for a file that takes its place if the block succeeds; after an error `path` is unchanged.

    Args:
        path: the path of the file.
        suffix: that of the path in the block, for programs that choose a format by it.
        durable, earlier: as for `take_place`.
    """
    remove_remains(path.parent, glob.escape(path.name))
    with temporary(path, suffix) as new:
        yield new
        take_place(new, path, durable=durable, earlier=earlier)


@contextlib.contextmanager
def temporary(path: Path, suffix: str = "") -> Iterator[Path]:
    """A path next to `path`; a file or folder there is removed after the block, and if a signal ends the process."""
    new = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.part{suffix}")
    try:
        with PROCESS.cleanup(lambda: remove(new)):
            yield new
    finally:
        remove(new)


def take_place(new: Path, path: Path, *, durable: bool = True, earlier: Path | None = None) -> None:
    """Give a complete file or folder the name `path`.

    A file is replaced in one step. A folder, or what gets the name `earlier`, is renamed first; after a kill between
    the two steps there is nothing at `path`, and both are next to it.

    Args:
        new: the path of the file or folder.
        path: its name from now on.
        durable: whether it survives a loss of power.
        earlier: the name of what was at `path` until now, which is removed unless this is given.

    Raises:
        IsADirectoryError, NotADirectoryError: if a folder is at the path of a file, or a file at that of a folder.
    """
    if durable and new.is_file():
        to_disk(new)
    is_folder, before = path.is_dir(), earlier or path.with_name(f".{path.name}.old")
    if is_folder != new.is_dir() and os.path.lexists(path):
        code = errno.EISDIR if is_folder else errno.ENOTDIR
        raise OSError(code, os.strerror(code), str(path))
    if earlier is not None or is_folder:
        remove(before)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, before)
    os.replace(new, path)
    if durable:
        with contextlib.suppress(OSError):  # not every file system can sync a folder
            to_disk(path.parent)
    if earlier is None and is_folder:
        remove(before)


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one that can be removed."""
    with contextlib.suppress(OSError):
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)


def remove_remains(folder: Path, name: str = "*") -> None:
    """Remove what processes of this host that no longer exist have left as a `temporary` in a folder.

    Args:
        folder: the folder.
        name: a pattern of the names that the files or folders would have got.
    """
    for left in glob.glob(f"{glob.escape(str(folder))}/.{name}.{glob.escape(socket.gethostname())}.*.part*"):
        try:
            os.kill(int(left.rpartition(".part")[0].rpartition(".")[2]), 0)
        except ProcessLookupError:
            remove(Path(left))
        except (ValueError, OSError):
            continue


def to_disk(path: str | Path) -> None:
    """Make sure that what was written to a file, or the names in a folder, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
