"""A case of the published suite: its purpose, its source, its measurement, and the marks that it has to reach.

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
        name: the name in the printed line name=value.
        meaning: a description of the number, with its norm and unit.
        most: the largest allowed magnitude, or None.
        least: the least allowed value, or None.
        published: the published values of other models, with the citation.
        quick: whether the range also holds for the short form of the case, whose resolutions are lower. A number takes
            the place of `most` there, or of `least` where there is no `most`.
    """

    name: str
    meaning: str
    most: float | None = None
    least: float | None = None
    published: str = ""
    quick: bool | float = True

    def bounds(self, quick: bool = False) -> tuple[float | None, float | None]:
        """(the least value, the largest magnitude) allowed; None where there is none."""
        if not quick or self.quick is True:
            return self.least, self.most
        if self.quick is False:
            return None, None
        return (self.quick, None) if self.most is None else (self.least, self.quick)

    def passes(self, value: float, quick: bool = False) -> bool | None:
        """Whether `value` is in the range; None where no range is set."""
        least, most = self.bounds(quick)
        if most is None and least is None:
            return None
        return bool((most is None or abs(value) <= most) and (least is None or value >= least))

    def limits(self, quick: bool = False) -> str:
        """The range, as the table prints it."""
        least, most = self.bounds(quick)
        if least is not None and most is not None:
            return f"{least:.4g} to {most:.4g}"
        return f">= {least:g}" if least is not None else "" if most is None else f"<= {most:g}"


@dataclasses.dataclass(frozen=True)
class Panel:
    """A part of a case's figure.

    Args:
        title: the title above the panel.
        kind: "map" of `values` over x and y, "lines" or "errors" (logarithmic, over the number of cells).
        x, y: coordinates of a map, (nx,) and (ny,).
        values: (ny, nx) for a map; {label: (abscissae, ordinates)} for lines and errors.
        labels: the labels of both axes.
        unit: the unit of a map's values.
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
    """The result of the measurement of a case.

    Args:
        values: {name of a mark: its value}.
        panels: the Panels of the figure.
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
        name: the name, one word.
        group: the section of the table: planar, sphere, tides, coasts, nests.
        title: the title in the table and on the page.
        tests: the property of the model that the case tests, a phrase.
        source: authors and year.
        doi: the DOI of the source, or "".
        equation: the equation or comparison, as a formula or a sentence.
        measure: the function from the resolutions to an Outcome.
        marks: the Marks.
        resolutions: the arguments of `measure`, as numbers of cells; empty if it takes none.
        quick: the resolutions of the short form.
        norm: the norm of the errors.
        twin: a function that makes the Twin for the test of the adjoint, or None.

    Raises:
        ValueError: if another case or mark has the name.
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
        names = {self.name} | {mark.name for mark in self.all_marks}
        if names & taken:
            raise ValueError(f"verification: {', '.join(sorted(names & taken))} is the name of another case or mark.")
        CASES[self.name] = self

    @property
    def all_marks(self) -> tuple[Mark, ...]:
        """The marks, and that of the adjoint where the case has a twin."""
        if self.twin is None:
            return self.marks
        meaning = "<J x, y> against <x, J^T y> of random x and y through a few steps of a small form, relative"
        return (*self.marks, Mark(f"{self.name}_adjoint", meaning, most=1e-11))


CASES: dict[str, Case] = {}
