"""Files: each is written completely or not at all, under its own path, and by one run at a time.

    schedule.py     outputs, when they are due, and the thread that writes them while the next steps are computed
    products/       what runs compute of their states, one file each
    running.py      the files of a run while it lasts, its restart among them
    zarr_store.py   Zarr stores, of which every rank writes its chunks
    zarr_fields.py  snapshots of fields in such stores
    netcdf.py       fields, gauges and maxima as CF and SGRID netCDF; boxes of the grid, and means over blocks of cells
    records.py      a netCDF file that grows along time
    studies.py      sensitivities, and results of inversions
    restart.py      all that a run needs to continue
    resuming.py     how a run continues from a restart, file or store, and when it is refused
    fingerprint.py  what a run was computed with, for comparison with a later run
    metadata.py     CF and SGRID metadata of these files, and of the run
    definitions.py  dimensions and variables with that metadata, in an open file

This module has the functions that they share. `claim` prevents two runs from writing one file. `replacing` writes a
temporary file next to the final one and renames it, so that the old content stays until the new one is complete.
`reserve` detects a full disk before HDF5 does, which would leave the file unreadable. `remove_figures`
removes what `swmodel plot` and `--plot` drew of a file, by the names that they choose.
"""

import contextlib
import dataclasses
import errno
import fcntl
import math
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from ..errors import DataError, SwmodelError
from ..runtime import paths
from ..runtime.signals import PROCESS

# Without HDF5's own lock a file can be opened and plotted while the run still writes it. `claim` excludes other runs,
# also on file systems where that lock fails. HDF5 reads this variable once, when netCDF4 is imported.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")

NO_LOCKS_HERE = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_store(path: str | Path) -> bool:
    """Whether the name of an output file is that of a Zarr store."""
    return Path(path).suffix == ".zarr"


def disturbed(path: str | Path, what: str = "was removed") -> SwmodelError:
    """The error of a file or folder that another program has removed or changed while a run was writing it."""
    return SwmodelError(
        f"{path} {what} while the run was writing it, and what it held is lost; keep other programs away from the "
        "output of a running model."
    )


def not_continued(path: str | Path, why: str) -> DataError:
    """The error of an output that belongs to another run."""
    return DataError(
        f"{path} cannot be continued: {why}; give the output another name, or another folder (--output DIR)."
    )


@dataclasses.dataclass
class Claim:
    """The right to write `path`, from `claim` until `release` or the end of the process."""

    path: Path
    descriptor: int | None

    def release(self) -> None:
        """Let other runs write the file."""
        if self.descriptor is not None:
            PROCESS.remove_cleanup(("lock", self.path))
            _lock_path(self.path).unlink(missing_ok=True)
            os.close(self.descriptor)
            self.descriptor = None


@dataclasses.dataclass(frozen=True)
class Footprint:
    """The identity and the length of the file at `path` when it was last written.

    Attributes:
        path, device, inode: which file.
        size: its length [bytes].
        filled: the bytes from its start to the first hole (a range without blocks on the disk), or its length. Where a
            file is cut short while a program continues to write at its old end, a hole remains.
    """

    path: Path
    device: int
    inode: int
    size: int
    filled: int | float

    @classmethod
    def of(cls, file: int | str | Path, path: str | Path | None = None) -> Self:
        """The Footprint of the file at the path `file`, or of the open descriptor `file` of the file at `path`.

        Raises:
            SwmodelError: if there is no such file.
        """
        try:
            status = os.stat(file)
        except FileNotFoundError:
            raise disturbed(str(file)) from None
        filled = min(_first_hole(file), status.st_size) if isinstance(file, int) else status.st_size
        return cls(Path(str(file) if path is None else path), status.st_dev, status.st_ino, status.st_size, filled)

    def written_on(self, descriptor: int) -> Self:
        """The Footprint after more was written to the file, which is open as `descriptor`.

        Raises:
            SwmodelError: if the file was cut short meanwhile, also where it has grown again since.
        """
        now = self.of(descriptor, self.path)
        if min(now.size, now.filled) < self.filled:
            raise disturbed(self.path, f"was cut to {min(now.size, now.filled)} bytes or fewer")
        return now

    def check(self) -> None:
        """Raise SwmodelError if the file was removed, replaced or cut short since."""
        now = self.of(self.path)
        if (now.device, now.inode) != (self.device, self.inode):
            raise disturbed(self.path, "was replaced by another file")
        if now.size < self.size:
            raise disturbed(self.path, f"was cut from {self.size} to {now.size} bytes")


def _first_hole(descriptor):
    """The offset of the first hole in an open file; infinity where it is not known."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_HOLE)
    except (AttributeError, OSError):
        return math.inf


class ReplacedFile:
    """A file that each write replaces as a whole, claimed until the run ends.

    Args:
        claim: the Claim.
        checked: the file that no other program may change; that of the Claim unless given.
    """

    def __init__(self, claim: Claim, checked: Path | None = None) -> None:
        self._claim, self.path, self._checked = claim, claim.path, claim.path if checked is None else checked
        self._written: Footprint | None = None

    def written(self) -> None:
        """Record the footprint of the file that has just been written."""
        self._written = Footprint.of(self._checked)

    def check(self) -> None:
        """Raise SwmodelError if the file that was last written was removed, replaced or cut short."""
        if self._written is not None:
            self._written.check()

    def close(self) -> None:
        """Release the claim."""
        self._claim.release()


def claim(path: str | Path, *, overwrite: bool = False, append: bool = False) -> Claim:
    """Claim `path` for this run, with a lock (flock on `.NAME.lock` in its folder) that ends with the process.

    Args:
        path: the file; its folder is created where it does not exist.
        overwrite: whether an existing file may be replaced.
        append: whether an existing file may be continued.

    Returns:
        Claim: the caller releases it when the file is closed.

    Raises:
        DataError: if the file exists and neither is allowed, or its folder cannot be written.
        SwmodelError: if another run has claimed it.
    """
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}; give a path in a folder of yours.") from error
    taken = Claim(path, descriptor)
    is_folder = path.is_dir() and path.suffix != ".zarr"  # a Zarr store is one
    if is_folder or (path.exists() and not (overwrite or append)):
        taken.release()
        kind, remedy = ("is a folder", "") if is_folder else ("exists already", ", or replace it with --overwrite")
        raise DataError(f"{path} {kind}, and would be lost; give another name{remedy}.")
    return taken


def _lock_path(path):
    return path.with_name(f".{path.name}.lock")


def _locked(path):
    """The descriptor of the locked lock file of `path`; None on file systems without locks."""
    while True:
        descriptor = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have removed the lock file between the two lines above; then this lock has no effect.
            if os.path.samestat(os.fstat(descriptor), os.stat(_lock_path(path))):
                break
            os.close(descriptor)
        except FileNotFoundError:
            os.close(descriptor)
        except BlockingIOError:
            owner = os.pread(descriptor, 256, 0).decode(errors="replace") or "unknown process"
            os.close(descriptor)
            raise SwmodelError(
                f"{path} is being written by another run ({owner}); let it end, or give this run another name."
            ) from None
        except OSError as error:
            os.close(descriptor)
            if error.errno not in NO_LOCKS_HERE:
                raise
            return None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
    PROCESS.add_cleanup(("lock", path), lambda: _lock_path(path).unlink(missing_ok=True))
    return descriptor


def earlier(path: Path) -> Path:
    """The path of the restart that was replaced by the one at `path`."""
    path = Path(os.path.realpath(path))
    return path.with_name(f".{path.name}.earlier")


@contextlib.contextmanager
def replacing(
    path: str | Path,
    *,
    durable: bool = True,
    earlier: Path | None = None,
    safe: str = "An older file of that name is unchanged.",
) -> Iterator[Path]:
    """`runtime.paths.replacing` of a file whose folder is made where it does not exist.

    Args:
        path, durable, earlier: as there.
        safe: the sentence on what is kept after an error.

    Raises:
        SwmodelError: if the file cannot be written, naming the cause.
    """
    path, has_folder = Path(os.path.realpath(path)), False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        has_folder = True
        with paths.replacing(path, durable=durable, earlier=earlier) as new:
            yield new
    except (OSError, RuntimeError) as error:  # netCDF4 raises RuntimeError when HDF5 fails
        if has_folder and not path.parent.is_dir():  # for netCDF4 a denied permission
            raise disturbed(path.parent) from error
        if isinstance(error, FileNotFoundError):
            raise disturbed(path) from error
        why = getattr(error, "strerror", None) or error
        raise SwmodelError(
            f"{path} could not be written: {why}; free space on the disk, or give another folder. {safe}"
        ) from error


def reserve(descriptor: int, size: int, name: str | Path) -> None:
    """Fail now if the open file `descriptor` cannot grow by `size` bytes.

    The space is allocated and freed again, which shows that the next write fits. A write that fails half-way (full
    disk, quota) leaves an HDF5 file that cannot be opened.

    Raises:
        SwmodelError: naming the file, the cause and the size.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    end = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, end, size)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise SwmodelError(
                f"{name} cannot grow by {size / 1e6:.1f} MB: {error.strerror}; its records so far are safe. Free "
                "space, and resume from the newest restart."
            ) from error
    finally:
        if os.fstat(descriptor).st_size > end:  # not where another program has cut it short since
            os.ftruncate(descriptor, end)


# {kind of a product's file with a page of its own: part of the name of a variable that it alone has}
STATISTICS = {"extremes": "minimum_elevation", "means": "mean_", "harmonics": "_amplitude_"}

BLOCKS = "cells_along_blocks"  # the attribute of files of means over blocks of so many cells along each axis

# The kinds of figures of postprocess/cli.py, and the formats that it chooses by itself.
KINDS = (
    "tsunami",
    "maps",
    "maximum",
    *STATISTICS,
    "drifters",
    "gauges",
    "circulation",
    "animation",
    "spectrum",
    "budgets",
    "sensitivity",
    "inversion",
    "ensemble",
)
FORMATS = ("png", "mp4", "gif")


def remove_figures(path: Path) -> None:
    """Remove the figures of the output file `path`, which is about to be replaced: they show an earlier run.

    Only names that are chosen without --output are removed, in the folder of NAME.nc: NAME.KIND.png, animations as .mp4
    or .gif, the pages NAME.report.html and report.html, and NAME.png where NAME is a kind itself (sensitivity.png,
    inversion.png).
    """
    path = Path(path)
    for kind in KINDS:
        for ending in FORMATS:
            path.with_name(f"{path.stem}.{kind}.{ending}").unlink(missing_ok=True)
    for page in (path.with_name(f"{path.stem}.report.html"), path.with_name("report.html")):
        _remove_page(page)
    if path.stem in KINDS and path.suffix != ".png":
        path.with_suffix(".png").unlink(missing_ok=True)


def _remove_page(page):
    """Remove a page that `swmodel report` wrote; a page of that name from another program stays."""
    try:
        with open(page, encoding="utf-8") as file:
            ours = 'name="generator" content="swmodel' in file.read(1000)
    except (OSError, UnicodeDecodeError):
        return
    if ours:
        page.unlink(missing_ok=True)
