"""Figures of `make verify CASE=name`: the marks of `swmodel verify`, and of the cases of this folder.

The latter need data of the repository, or hours. Each is a `Case` in a module whose name begins with "measures_".
"""

import functools
import importlib
import pkgutil
import sys

from swmodel.errors import SwmodelError
from swmodel.verification import CASES, Mark, Scores, UnknownCase, select, verify
from swmodel.verification.suite import marks_named, print_values

__all__ = ["main"]


def register() -> None:
    """Import the cases of this folder, which registers them."""
    package = importlib.import_module(__package__ or "tests.verification")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("measures_"):
            importlib.import_module(f"{package.__name__}.{module.name}")


def main(names: list[str]) -> int:
    """Print `name=value` of each mark named, of the marks of each case named, or of all for "all"; the exit status.

    All values are printed first, then a line for each one that is missed among them, and for each case that failed. The
    status is 0 if there is none of these, 1 otherwise, also for marks that the documentation calls missed.
    """
    register()
    try:
        if not names:
            raise UnknownCase("name a case, a mark or a group, or all.")
        cases = select(names)
    except UnknownCase as error:
        print(f"verify: {error}")
        return UnknownCase.exit_code
    found = verify(cases, finished=lambda scores: print_values(scores, names))
    for scores in found:
        if scores.failure:
            print(f"{scores.case.name}: {scores.failure}")
    missed = [line for scores in found for line in misses(scores, names)]
    print(*missed, sep="\n", end="\n" if missed else "")
    return int(bool(missed) or any(scores.failure for scores in found))


def measured(name: str, quick: bool = False) -> tuple[Mark, float]:
    """The mark with this name, and its value. A case is run once for all its marks.

    Raises:
        UnknownCase: for a name without a mark.
    """
    (case,) = select([name])
    mark = next((mark for mark in case.all_marks if mark.name == name), None)
    if mark is None:
        raise UnknownCase(f"{name!r} is a case; its marks are {', '.join(mark.name for mark in case.all_marks)}.")
    return mark, _once(case.name, quick)[name]


@functools.cache
def _once(name, quick):
    (scores,) = verify([CASES[name]], quick)
    if scores.failure:
        raise SwmodelError(scores.failure)
    return scores.values


def misses(scores: Scores, names: list[str]) -> list[str]:
    """A sentence for each mark that a case missed; if marks of the case are named, for those only."""
    named = marks_named(scores.case, names)
    return [
        f"{mark.name} is missed: {value:.6g}, wanted {mark.limits()}."
        for mark, value, passed in scores.verdicts
        if passed is False and mark.name in named
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
