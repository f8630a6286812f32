"""Messages of a run: plain text on the root's standard output; with --debug, everything in a file per rank."""

import faulthandler
import logging
import os
import sys
from pathlib import Path

from ..runtime.paths import make_folder

__all__ = ["LOGGER", "start", "keep_in"]

LOGGER = logging.getLogger("swmodel")


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return f"{record.levelname.lower()}: {text}" if record.levelno >= logging.WARNING else text


class _Output(logging.StreamHandler):
    """Writes to the present sys.stdout, and warnings to sys.stderr.

    The stream of the last message is not flushed again, since notebooks and tests may have closed it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr if record.levelno >= logging.WARNING else sys.stdout
        super().emit(record)


def start(root: bool, quiet: bool = False) -> None:
    """Show messages of level INFO, or WARNING if `quiet`, on the root."""
    LOGGER.handlers.clear()
    LOGGER.propagate = False
    LOGGER.setLevel(logging.DEBUG)
    handler = _Output() if root else logging.NullHandler()
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    handler.setFormatter(_Plain())
    LOGGER.addHandler(handler)
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").handlers = [handler]


def keep_in(folder: str | os.PathLike, rank: int) -> Path:
    """Keep this rank's messages, those of jax, and the stack of a crash in folder/rank-NNNN.log, after earlier ones."""
    path = Path(folder) / f"rank-{rank:04d}.log"
    make_folder(path.parent)
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("swmodel", "py.warnings", "jax"):
        logging.getLogger(name).addHandler(handler)
    if handler.stream is not None:
        faulthandler.enable(handler.stream)
    LOGGER.debug("rank %d, process %d on %s", rank, os.getpid(), os.uname().nodename)
    return path
