"""What can go wrong, and the exit status that each kind ends the program with. Imports nothing, so that all can."""

from collections.abc import Sequence

__all__ = [
    "SwmodelError",
    "ConfigError",
    "TileError",
    "DataError",
    "BlowUp",
    "Interrupted",
    "printable",
    "EXIT_OK",
    "EXIT_ERROR",
    "EXIT_CONFIG",
    "EXIT_BLOW_UP",
]

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_CONFIG = 2
EXIT_BLOW_UP = 3


LONGEST = 600  # characters of a sentence; what a user wrote may be longer than any


def printable(text: str) -> str:
    """`text` on a terminal: control characters are escaped, and the middle of what is too long is left out."""
    text = "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} [...] {text[-LONGEST // 2 + 7 :]}"


class SwmodelError(Exception):
    """A mistake that the user can mend. Its text is one clear sentence: what came, why not, what to do."""

    exit_code = EXIT_ERROR


class ConfigError(SwmodelError, ValueError):
    """The experiment as written cannot run.

    Args:
        mistakes: one sentence, or a list of them: every mistake is reported at once.
    """

    exit_code = EXIT_CONFIG

    def __init__(self, mistakes: str | Sequence[str]):
        mistakes = [mistakes] if isinstance(mistakes, str) else mistakes
        self.mistakes = [printable(str(mistake)) for mistake in mistakes]
        super().__init__("\n".join(self.mistakes))


class TileError(ConfigError):
    """A layout that does not fit the grid or the number of ranks."""


class DataError(ConfigError):
    """A file that is missing, cannot be read, or does not hold what was asked of it."""


class BlowUp(SwmodelError, ArithmeticError):
    """The run stopped: not a number, over the CFL limit, or a water column that runs dry."""

    exit_code = EXIT_BLOW_UP


class Interrupted(SwmodelError):
    """A signal ended the run; `exit_code` is 128 + its number, as shells count."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.exit_code = 128 + int(signal_number)
