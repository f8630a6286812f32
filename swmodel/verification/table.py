"""The suite on a terminal: name=value as each case ends, and one table."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .case import Case
from .suite import Scores

__all__ = ["list_cases", "print_table", "print_values"]

WORDS = {True: "[green]pass[/green]", False: "[red]FAIL[/red]", None: ""}


def shown(value: float) -> str:
    """A value in the format of tables."""
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def print_values(scores: Scores, wanted: Sequence[str] = ()) -> None:
    """A line name=value for each mark; if a mark is in `wanted`, for those in it only."""
    names = [mark.name for mark in scores.case.all_marks]
    chosen = [name for name in names if name in wanted] or names
    for name in chosen:
        if name in scores.values:
            print(f"{name}={scores.values[name]:.6g}", flush=True)


def list_cases(cases: Sequence[Case], console: Console | None = None) -> None:
    """A row for each case."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("case", "group", "what it tests", "source"):
        table.add_column(column, overflow="fold")
    for case in cases:
        table.add_row(case.name, case.group, escape(f"{case.title}: {case.tests}"), escape(case.source))
    (console or Console(highlight=False)).print(table)


def print_table(found: Sequence[Scores], console: Console | None = None) -> None:
    """A line for each case, a row for each of its marks, and a line that counts the cases."""
    console = console or Console(highlight=False)
    width = max((len(mark.name) for scores in found for mark, *_ in scores.verdicts), default=0)
    for scores in found:
        console.print(f"[bold]{escape(scores.case.title)}[/bold]{escape(_where(scores))}")
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


def _where(scores):
    """The source and the resolutions of a case."""
    used = scores.case.quick if scores.quick else scores.case.resolutions
    resolutions = f"; {', '.join(str(n) for n in used)}" if used else ""
    return f"  {scores.case.source}{resolutions}"


def summary(found: Sequence[Scores]) -> str:
    """How many cases passed, and how long they took, in a sentence."""
    failed = [scores.case.name for scores in found if not scores.passed]
    text = f"{len(found) - len(failed)} of {len(found)} cases passed in {sum(s.seconds for s in found):.0f} s"
    return f"{text}; failed: {', '.join(failed)}." if failed else f"{text}."
