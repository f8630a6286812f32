"""The recipe for conda follows from pyproject.toml."""

import re
import tomllib
from pathlib import Path

import jinja2
import pytest
import yaml
from packaging.requirements import Requirement

from swmodel.runtime.packages import VERSION

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def recipe():
    """packaging/meta.yaml as conda-build reads it: Jinja, with two functions that read files, and then YAML."""
    folder = ROOT / "packaging"
    functions = {
        "load_file_data": lambda path, from_recipe_dir: tomllib.loads((folder / path).read_text()),
        "load_file_regex": lambda path, regex, from_recipe_dir: re.search(regex, (folder / path).read_text(), re.M),
        "PYTHON": "python",
    }
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    return yaml.safe_load(environment.from_string((folder / "meta.yaml").read_text()).render(functions))


def test_the_recipe_has_the_version_and_requirements_of_the_package(recipe):
    assert recipe["package"] == {"name": "swmodel", "version": VERSION}
    assert recipe["build"]["entry_points"] == ["swmodel = swmodel.__main__:main"]
    wanted = [Requirement(line) for line in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["plots"]]
    python, *others = (re.fullmatch(r"([a-z0-9-]+) ?(.*)", line) for line in recipe["requirements"]["run"])
    assert (python[1], python[2]) == ("python", PROJECT["requires-python"])
    found = {line[1]: Requirement(line[0]).specifier for line in others}
    assert found == {one.name.lower(): one.specifier for one in wanted}
    assert all(len(line.split()) <= 2 and "[" not in line for line in recipe["requirements"]["run"])
