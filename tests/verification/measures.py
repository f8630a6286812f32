"""Figures of `make verify CASE=name`: the marks of `swmodel verify`, and of the cases of this folder.

The latter need data of the repository, or hours. Each is a `Case` in a module whose name begins with "measures_".
"""

import importlib
import pkgutil
import sys

from swmodel.verification import UnknownCase, select, verify
from swmodel.verification.table import print_values

__all__ = ["main"]


def register() -> None:
    """Import the cases of this folder, which registers them."""
    package = importlib.import_module(__package__ or "tests.verification")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("measures_"):
            importlib.import_module(f"{package.__name__}.{module.name}")


def main(names: list[str]) -> int:
    """Print `name=value` of each mark named, of the marks of each case named, or of all for "all"; the exit status."""
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
    return int(any(scores.failure for scores in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
