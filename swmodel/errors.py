"""The errors of this package and their exit status. It imports no other module of the package."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_CONFIG = 2
EXIT_BLOW_UP = 3


LONGEST = 600  # characters of a sentence, which may quote a longer text of the user


def suggestion(name: str, known: Iterable[str], otherwise: str) -> str:
    """A hint for an unknown name: the known one that is spelled alike, or `otherwise`."""
    import difflib  # errors are imported at every start

    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]!r}?" if near else otherwise


def nearest(name: object, known: Iterable[object]) -> str:
    """A hint for an unknown name of few: "did you mean ...?", also by a part of the name, or the known names."""
    import difflib

    known, name = [str(k) for k in known], str(name).lower()
    spelled = {k.lower(): k for k in known}
    holding = [k for k in spelled if len(name) > 2 and name in k]
    near = holding if len(holding) == 1 else difflib.get_close_matches(name, spelled, 1, cutoff=0.55)
    return f"did you mean {spelled[near[0]]!r}?" if near else f"known are {', '.join(sorted(known))}"


def printable(text: str) -> str:
    """`text` for a terminal: control characters are escaped, and the middle of a long text is left out."""
    text = "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} [...] {text[-LONGEST // 2 + 7 :]}"


def ended(text: object) -> str:
    """`text` as a sentence, which ends in a full stop or a question mark."""
    return text if (text := str(text)).endswith((".", "?")) else f"{text}."


class SwmodelError(Exception):
    """An error that the user can correct. Its message is one sentence: the value, the reason and the remedy.

    Attributes:
        part: the part of a model that has the mistake, by its name in experiment files, as "boundary.0"; "" if unknown.
    """

    exit_code = EXIT_ERROR
    part = ""


@contextlib.contextmanager
def logged_once(logged: set[str]) -> Iterator[None]:
    """Leave out the messages that were `logged` before, such as those of another member."""

    def is_new(record):
        text = record.getMessage()
        return text not in logged and not logged.add(text)

    logger = logging.getLogger("swmodel")
    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)


class ConfigError(SwmodelError, ValueError):
    """The experiment as written cannot run.

    Args:
        mistakes: one sentence, or a list of sentences, so that every mistake is reported at once.
    """

    exit_code = EXIT_CONFIG

    def __init__(self, mistakes: str | Sequence[str]):
        mistakes = [mistakes] if isinstance(mistakes, str) else mistakes
        self.mistakes = [printable(str(mistake)) for mistake in mistakes]
        super().__init__("\n".join(self.mistakes))


class TileError(ConfigError):
    """A layout that does not fit the grid or the number of ranks."""


class DataError(ConfigError):
    """A file that is missing, cannot be read, or lacks the required data."""


class BlowUp(SwmodelError, ArithmeticError):
    """The run stopped: a value is not finite, the CFL limit is exceeded, or the water is too thin."""

    exit_code = EXIT_BLOW_UP


class PlotError(SwmodelError, ValueError):
    """A figure or number of output files that cannot be drawn or computed."""


class Interrupted(SwmodelError):
    """A signal ended the run; `exit_code` is 128 + its number, as shells count."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.exit_code = 128 + int(signal_number)
