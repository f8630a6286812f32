"""Finds the cases of the suite, runs them one after the other, and compares what they measure with their marks.

On a terminal it prints name=value as each case ends, and one table.
"""

import dataclasses
import importlib
import pkgutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import SwmodelError
from .case import CASES, Case, Mark, Panel, adjoint_mismatch

GROUPS = ("planar", "sphere", "tides", "coasts", "nests")


class UnknownCase(SwmodelError, ValueError):
    """An error of a name without a case, mark or group."""

    exit_code = 2


@dataclasses.dataclass(frozen=True)
class Scores:
    """The values that a case measured, and their comparison with its marks.

    Args:
        case: the Case.
        values: {name of a mark: its value}; marks that were not measured are left out.
        seconds: the wall time of the case [s].
        quick: whether this was its short form.
        panels: the Panels of its figure.
        failure: the message of the error that stopped it, or "".
    """

    case: Case
    values: dict[str, float]
    seconds: float
    quick: bool = False
    panels: Sequence[Panel] = ()
    failure: str = ""

    @property
    def resolutions(self) -> str:
        """Those that were used, in words; "" if there are none."""
        return ", ".join(str(n) for n in (self.case.quick if self.quick else self.case.resolutions))

    @property
    def verdicts(self) -> list[tuple[Mark, float, bool | None]]:
        """[(mark, value, whether it is in its range; None where there is no range)]."""
        measured = [mark for mark in self.case.all_marks if mark.name in self.values]
        return [(mark, self.values[mark.name], mark.passes(self.values[mark.name], self.quick)) for mark in measured]

    @property
    def passed(self) -> bool:
        """Whether the case ran to its end, and no mark is missed."""
        return not self.failure and all(passed is not False for _, _, passed in self.verdicts)


def all_cases() -> dict[str, Case]:
    """{name: Case} of the package, in the order of the table, and of modules that registered more."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__package__}.{module.name}")
    rank = {group: k for k, group in enumerate(GROUPS)}
    place = lambda case: (rank.get(case.group, len(rank)), case.measure.__module__)  # noqa: E731
    return dict(sorted(CASES.items(), key=lambda item: place(item[1])))


def select(names: Sequence[str] = ()) -> list[Case]:
    """The cases with these names, which may be of a case, of one of its marks, or of a group; all cases without names.

    Raises:
        UnknownCase: for another name.
    """
    known, found = all_cases(), []
    for name in names:
        its = [c for c in known.values() if name in (c.name, c.group, "all") or name in [m.name for m in c.all_marks]]
        if not its:
            raise UnknownCase(
                f"there is no case, mark or group {name!r}; the cases are {', '.join(known)}, the groups "
                f"{', '.join(dict.fromkeys(case.group for case in known.values()))}."
            )
        found += [case for case in its if case not in found]
    return found if names else list(known.values())


def verify(
    cases: Sequence[Case],
    quick: bool = False,
    started: Callable[[Case], None] = lambda case: None,
    finished: Callable[[Scores], None] = lambda scores: None,
) -> list[Scores]:
    """Run cases in double precision.

    Args:
        cases: the Cases, from `select`.
        quick: run the short form of each.
        started: called before each case.
        finished: called after each case.
    """
    before, found = jax.config.read("jax_enable_x64"), []
    jax.config.update("jax_enable_x64", True)
    try:
        for case in cases:
            started(case)
            found.append(_scores(case, quick))
            finished(found[-1])
    finally:
        jax.config.update("jax_enable_x64", before)
    return found


def _scores(case, quick):
    begun, values, panels, failure = time.monotonic(), {}, (), ""
    try:
        outcome = case.measure(case.quick if quick else case.resolutions)
        values, panels = dict(outcome.values), outcome.panels
        if case.twin is not None:
            values[f"{case.name}_adjoint"] = adjoint_mismatch(case.twin())
    except SwmodelError as error:  # a case whose run blows up fails, and the other cases are run
        failure = str(error)
    return Scores(case, values, time.monotonic() - begun, quick, panels, failure)


WORDS = {True: "[green]pass[/green]", False: "[red]FAIL[/red]", None: ""}


def shown(value: float) -> str:
    """A value in the format of tables."""
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def marks_named(case: Case, wanted: Sequence[str]) -> list[str]:
    """The names of the marks in `wanted`; of all marks of the case if it is in `wanted` itself, or none of them is."""
    names = [mark.name for mark in case.all_marks]
    return names if case.name in wanted else [name for name in names if name in wanted] or names


def print_values(scores: Scores, wanted: Sequence[str] = ()) -> None:
    """A line name=value for each of `marks_named`."""
    for name in marks_named(scores.case, wanted):
        if name in scores.values:
            print(f"{name}={scores.values[name]:.6g}", flush=True)


def list_cases(cases: Sequence[Case]) -> None:
    """A row for each case."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("case", "group", "what it tests", "source"):
        table.add_column(column, overflow="fold")
    for case in cases:
        table.add_row(case.name, case.group, escape(f"{case.title}: {case.tests}"), escape(case.source))
    Console(highlight=False).print(table)


def print_table(found: Sequence[Scores]) -> None:
    """A line for each case, a row for each of its marks, and a line that counts the cases."""
    console = Console(highlight=False)
    width = max((len(mark.name) for scores in found for mark, *_ in scores.verdicts), default=0)
    for scores in found:
        where = f"  {scores.case.source}" + f"; {scores.resolutions}" * bool(scores.resolutions)
        console.print(f"[bold]{escape(scores.case.title)}[/bold]{escape(where)}")
        if scores.failure:
            console.print(f"  {WORDS[False]} {escape(scores.failure)}")
        table = Table(box=None, padding=(0, 1, 0, 2), show_header=False)
        for least in (width, 9, 16, 4):
            table.add_column(min_width=least, no_wrap=True)
        for mark, value, passed in scores.verdicts:
            wanted = mark.limits(scores.quick) if passed is not None else ""
            table.add_row(mark.name, shown(value), wanted, WORDS[passed])
        if scores.verdicts:
            console.print(table)
        for text in dict.fromkeys(mark.published for mark, *_ in scores.verdicts if mark.published):
            console.print(f"  [dim]published: {escape(text)}[/dim]")
    console.print(summary(found))


def summary(found: Sequence[Scores]) -> str:
    """How many cases passed, and how long they took, in a sentence."""
    failed = [scores.case.name for scores in found if not scores.passed]
    text = f"{len(found) - len(failed)} of {len(found)} cases passed in {sum(s.seconds for s in found):.0f} s"
    return f"{text}; failed: {', '.join(failed)}." if failed else f"{text}."
