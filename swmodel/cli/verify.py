"""`swmodel verify`: the published suite as a table, and as a page."""

import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import EXIT_ERROR, EXIT_OK, ConfigError
from ..postprocess.pages.frame import Markup, Section, as_figure, as_image, as_table, filled, joined, markup
from ..runtime import launch
from ..runtime.packages import VERSION
from ..verification.case import draw
from ..verification.suite import Scores, list_cases, print_table, print_values, select, shown, summary, verify


def verify_cases(names: Sequence[str], quick: bool, html: str | None, listed: bool) -> int:
    """Run cases, print name=value of each mark and the table, and write the page.

    Args:
        names: names of cases, marks or groups; empty for all.
        quick: whether to run the short forms.
        html: the file of the page, or None.
        listed: list the cases, and run none.

    Returns:
        The exit status: 1 if a mark is missed.

    Raises:
        UnknownCase: for a name without a case, mark or group.
        ConfigError: on several ranks.
    """
    cases = select(names)
    if listed:
        list_cases(cases)
        return EXIT_OK
    started = launch.launcher()
    if started is not None and started.size > 1:
        raise ConfigError(f"swmodel verify runs in one process, and {started.size} were started; leave mpirun out.")
    if html is not None and not Path(html).absolute().parent.is_dir():
        raise ConfigError(f"--html {html}: there is no folder {Path(html).absolute().parent}; make it first.")
    with _progress(len(cases)) as advance:
        found = verify(cases, quick, advance, lambda scores: print_values(scores, names))
    print()
    print_table(found)
    if html is not None:
        Path(html).write_text(verification_page(found), encoding="utf-8")
        print(f"wrote {html}")
    return EXIT_OK if all(scores.passed for scores in found) else EXIT_ERROR


@contextmanager
def _progress(number):
    """A function that shows the running case on a terminal, by standard error, so that values can be piped."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=number)
        count = iter(range(number))

        def advance(case):
            bar.update(task, description=case.title, completed=next(count))

        yield advance


VERDICTS = {
    True: Markup('<span class="pass">pass</span>'),
    False: Markup('<span class="fail">fail</span>'),
    None: Markup(""),
}


def verification_page(cases: Sequence[Scores]) -> str:
    """The page as text, which needs no other file."""
    heads = "case", "what it tests", "source", "main mark", "value", ""
    overview = Section("overview", "Overview", as_table(heads, map(_overview, cases), "words"))
    sections = [overview, *(Section(s.case.name, s.case.title, _body(s)) for s in cases)]
    short = " These are short forms at lower resolutions, where some ranges are wider."
    lead = f"{summary(cases)}{short if any(scores.quick for scores in cases) else ''} In double precision."
    return filled("Verification", lead, f"swmodel {VERSION}", sections, "swmodel verify --html")


def _overview(scores):
    """The case with its main mark: the first that is missed; else the first one with a range, or the first one."""
    case, rank = scores.case, {False: 0, True: 1, None: 2}
    first = min(scores.verdicts, key=lambda verdict: rank[verdict[2]], default=None)
    mark, value = ("", "") if first is None else (first[0].name, shown(first[1]))
    title = markup('<a href="#{}">{}</a>', case.name, case.title)
    return title, case.tests, case.source, markup("<code>{}</code>", mark), value, VERDICTS[scores.passed]


def _body(scores):
    case = scores.case
    doi = markup(', <a href="https://doi.org/{0}">doi:{0}</a>', case.doi) if case.doi else ""
    facts = {
        "source": markup("{}{}", case.source, doi),
        "resolutions": scores.resolutions,
        "norm": case.norm,
        "time": f"{scores.seconds:.0f} s",
    }
    listed = joined(markup("<dt>{}</dt><dd>{}</dd>", name, text) for name, text in facts.items() if text)
    failure = markup('<p class="fail">{}</p>', scores.failure) if scores.failure else ""
    figure = as_figure(as_image(draw(scores.panels), case.title)) if scores.panels else ""
    form = "<p>It tests {}.</p><pre>{}</pre><dl>{}</dl>{}{}{}"
    return markup(form, case.tests, case.equation, listed, failure, _marks(scores), figure)


def _marks(scores):
    rows = [
        (
            markup("<code>{}</code>", mark.name),
            mark.meaning,
            shown(value),
            mark.limits(scores.quick) if passed is not None else "",
            VERDICTS[passed],
            mark.published,
        )
        for mark, value, passed in scores.verdicts
    ]
    return as_table(("mark", "meaning", "value", "wanted", "", "published"), rows, "words") if rows else ""
