"""A file of a run that is written as a whole, such as maxima and restarts."""

from pathlib import Path

from . import Claim, Footprint

__all__ = ["ReplacedFile"]


class ReplacedFile:
    """A file that each write replaces as a whole, claimed until the run ends.

    Args:
        claim: the Claim.
        checked: the file that no other program may change; that of the Claim unless given.
    """

    def __init__(self, claim: Claim, checked: Path | None = None) -> None:
        self._claim, self._checked = claim, claim.path if checked is None else checked
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
