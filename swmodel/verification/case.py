"""A case of the published suite: what it tests, its source, what is measured, and the marks that it is held to.

A module of cases makes `Case` objects, which are registered under their names when the module is imported. A case is
measured by one function, `measure(resolutions) -> Outcome`; the table, the page and the tests all read its result.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["CASES", "Case", "Mark", "Outcome", "Panel", "Twin"]


@dataclasses.dataclass(frozen=True)
class Mark:
    """A number that a case measures, and the range in which it has to lie.

    Args:
        name: under which it is printed, name=value.
        meaning: what the number is, with its norm and unit.
        most: the largest size that it may have, or None.
        least: the least value that it may have, or None.
        published: what other models publish, with the citation.
        quick: whether the short form of the case is held to the range too; its resolutions are lower.
    """

    name: str
    meaning: str
    most: float | None = None
    least: float | None = None
    published: str = ""
    quick: bool = True

    def passes(self, value: float, quick: bool = False) -> bool | None:
        """Whether `value` is in the range; None where no range is set."""
        if (self.most is None and self.least is None) or (quick and not self.quick):
            return None
        return (self.most is None or abs(value) <= self.most) and (self.least is None or value >= self.least)

    @property
    def wanted(self) -> str:
        """The range, as the table prints it."""
        if self.least is not None and self.most is not None:
            return f"{self.least:.4g} to {self.most:.4g}"
        return f">= {self.least:g}" if self.least is not None else "" if self.most is None else f"<= {self.most:g}"


@dataclasses.dataclass(frozen=True)
class Panel:
    """A part of a case's figure.

    Args:
        title: above it.
        kind: "map" of `values` over x and y, "lines" or "errors" (logarithmic, over the number of cells).
        x, y: coordinates of a map, (nx,) and (ny,).
        values: (ny, nx) of a map; {label: (abscissae, ordinates)} of lines and errors.
        labels: of both axes.
        unit: of a map's values.
    """

    title: str
    kind: str
    values: Any
    x: Any = None
    y: Any = None
    labels: tuple[str, str] = ("", "")
    unit: str = ""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a case measured.

    Args:
        values: {name of a mark: its value}.
        panels: of the figure.
    """

    values: dict[str, float]
    panels: Sequence[Panel] = ()


@dataclasses.dataclass(frozen=True)
class Twin:
    """A small form of a case, for the test of its adjoint."""

    model: Any
    stepper: Any
    state: Any
    steps: int = 2


@dataclasses.dataclass(frozen=True)
class Case:
    """A published case; registered in CASES when it is made.

    Args:
        name: in one word.
        group: the section of the table: planar, sphere, tides, coasts, forcing.
        title: of the table and the page.
        tests: what goes wrong where the case fails, in a sentence.
        source: authors and year.
        doi: of the source, or "".
        equation: what is solved or compared, as a formula or a sentence.
        measure: the function from the resolutions to an Outcome.
        marks: what is measured.
        resolutions: the arguments of `measure`, as numbers of cells; empty where it takes none.
        quick: those of the short form.
        norm: of the errors.
        twin: makes the Twin for the test of the adjoint; None where the case has none.

    Raises:
        ValueError: for a name that is taken.
    """

    name: str
    group: str
    title: str
    tests: str
    source: str
    doi: str
    equation: str
    measure: Callable[[tuple], Outcome]
    marks: tuple[Mark, ...]
    resolutions: tuple = ()
    quick: tuple = ()
    norm: str = ""
    twin: Callable[[], Twin] | None = None

    def __post_init__(self):
        taken = {mark.name for case in CASES.values() for mark in case.marks} | set(CASES)
        names = {self.name} | {mark.name for mark in self.every_mark}
        if names & taken:
            raise ValueError(f"verification: {', '.join(sorted(names & taken))} is the name of another case or mark.")
        CASES[self.name] = self

    @property
    def every_mark(self) -> tuple[Mark, ...]:
        """The marks, and that of the adjoint where the case has a twin."""
        if self.twin is None:
            return self.marks
        meaning = "<J x, y> against <x, J^T y> of random x and y through a few steps of a small form, relative"
        return (*self.marks, Mark(f"{self.name}_adjoint", meaning, most=1e-11))


CASES: dict[str, Case] = {}
