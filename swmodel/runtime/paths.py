"""Names of files and folders from users: `~` is expanded, and names that no file system accepts raise DataError.

`experiments` is the folder of those that come with the package.
"""

import contextlib
import os
import stat
from pathlib import Path

from ..errors import DataError

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
        there = _file_in_the_way(path)
        raise DataError(f"{there} is a file, and a folder is needed; choose another folder.") from error
    except OSError as error:
        raise DataError(refusal(path, error)) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise DataError(f"files cannot be written to the folder {path}: permission denied; choose another folder.")


def _file_in_the_way(path):
    """The part of `path` that is a file, where a folder is needed."""
    path = Path(path)
    there = [part for part in (path, *path.parents) if os.path.lexists(part)]
    return next((part for part in there if not part.is_dir()), path)


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
