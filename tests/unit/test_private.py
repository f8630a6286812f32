"""Private names of other packages are used in one file for each package."""

import re
from pathlib import Path

import swmodel

PACKAGE = Path(swmodel.__file__).parent
PRIVATE = re.compile(r"\b(jax|jaxlib|mpi4jax|mpi4py|pydantic|typer|xarray)\._(?!_)\w+|jax\.interpreters\.partial_eval")
HOMES = {"jax": "runtime/private.py", "mpi4jax": "parallel/mpi.py"}


def test_private_names_of_a_package_are_in_one_file():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for match in PRIVATE.finditer(path.read_text()):
            found.setdefault(match[0].partition(".")[0], set()).add(str(path.relative_to(PACKAGE)))
    assert found == {package: {home} for package, home in HOMES.items()}
