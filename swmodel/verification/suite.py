"""Finds the cases of the suite, runs them one after the other, and compares what they measure with their marks.

On a terminal it prints name=value as each case ends, and one table. `page` writes the suite as one HTML file with its
figures, which needs no network.
"""

import base64
import dataclasses
import html
import importlib
import io
import pkgutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import SwmodelError
from ..runtime.version import VERSION
from .case import CASES, Case, Mark, Panel, adjoint_mismatch, draw

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


STYLE = """
:root { color-scheme: light dark; --line: #8886; --pass: #2e7d32; --fail: #c62828; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem; font-size: 0.92rem; }
th, td { text-align: left; padding: 0.3rem 0.7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
code, .equation { font-family: ui-monospace, monospace; font-size: 0.9em; }
.equation { display: block; padding: 0.4rem 0.8rem; border-left: 3px solid var(--line); overflow-x: auto; }
.pass { color: var(--pass); font-weight: 600; } .fail { color: var(--fail); font-weight: 600; }
img { max-width: 100%; background: white; border-radius: 4px; }
section { margin-top: 2.5rem; }
"""
VERDICTS = {True: '<span class="pass">pass</span>', False: '<span class="fail">fail</span>', None: ""}


def page(found: Sequence[Scores]) -> str:
    """The page as text: an overview, then each case with its equation, marks and figure."""
    overview = "".join(_overview_row(scores) for scores in found)
    sections = "".join(_section(scores) for scores in found)
    short = (
        " These are short forms at lower resolutions, where some ranges are wider."
        if any(scores.quick for scores in found)
        else ""
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Verification of swmodel {VERSION}</title><style>{STYLE}</style></head><body>"
        f"<h1>Verification of swmodel {VERSION}</h1><p>{html.escape(summary(found))}{short} "
        "Made by <code>swmodel verify --html</code>, in double precision.</p>"
        "<table><thead><tr><th>case</th><th>what it tests</th><th>source</th><th>main mark</th><th>value</th><th></th>"
        f"</tr></thead><tbody>{overview}</tbody></table>{sections}</body></html>\n"
    )


def _overview_row(scores):
    """The case with its main mark: the first that is missed; else the first one with a range, or the first one."""
    case, rank = scores.case, {False: 0, True: 1, None: 2}
    first = min(scores.verdicts, key=lambda verdict: rank[verdict[2]], default=None)
    mark, value = ("", "") if first is None else (first[0].name, shown(first[1]))
    return (
        f'<tr><td><a href="#{case.name}">{html.escape(case.title)}</a></td><td>{html.escape(case.tests)}</td>'
        f'<td>{html.escape(case.source)}</td><td><code>{mark}</code></td><td class="number">{value}</td>'
        f"<td>{VERDICTS[scores.passed]}</td></tr>"
    )


def _section(scores):
    case, doi = scores.case, html.escape(scores.case.doi)
    link = f', <a href="https://doi.org/{doi}">doi:{doi}</a>' if doi else ""
    facts = [
        ("source", html.escape(case.source) + link),
        ("resolutions", html.escape(scores.resolutions)),
        ("norm", html.escape(case.norm)),
        ("time", f"{scores.seconds:.0f} s"),
    ]
    listed = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in facts if text)
    failure = f'<p class="fail">{html.escape(scores.failure)}</p>' if scores.failure else ""
    return (
        f'<section id="{case.name}"><h2>{html.escape(case.title)}</h2><p>It tests {html.escape(case.tests)}.</p>'
        f'<span class="equation">{html.escape(case.equation)}</span><table>{listed}</table>{failure}'
        f"{_marks(scores)}{_figure(scores)}</section>"
    )


def _marks(scores):
    rows = "".join(
        f"<tr><td><code>{mark.name}</code></td><td>{html.escape(mark.meaning)}</td>"
        f'<td class="number">{shown(value)}</td>'
        f'<td class="number">{html.escape(mark.limits(scores.quick)) if passed is not None else ""}</td>'
        f"<td>{VERDICTS[passed]}</td>"
        f"<td>{html.escape(mark.published)}</td></tr>"
        for mark, value, passed in scores.verdicts
    )
    head = "".join(f"<th>{name}</th>" for name in ("mark", "meaning", "value", "wanted", "", "published"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""


def _figure(scores):
    """The case's figure as an image within the page; nothing for a case without panels."""
    if not scores.panels:
        return ""
    file = io.BytesIO()
    draw(scores.panels).savefig(file, format="png", dpi=110)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(scores.case.title)}" src="data:image/png;base64,{data}">'
