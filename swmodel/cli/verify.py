"""`swmodel verify`: the published suite as a table, and as a page."""

import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import EXIT_ERROR, EXIT_OK, ConfigError
from ..runtime import launch
from ..verification.suite import list_cases, print_table, print_values, select, verify


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
        from ..postprocess.pages.verification import verification_page

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
