"""The recipe for conda follows from pyproject.toml, and the image for containers takes what `make setup` needs."""

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


def test_the_recipe_has_no_key_that_conda_does_not_know_and_its_files_are_there(recipe):
    assert set(recipe) == {"package", "source", "build", "requirements", "test", "about"}
    assert (ROOT / "packaging" / recipe["source"]["path"] / recipe["about"]["license_file"]).is_file()
    assert recipe["about"]["license"] == PROJECT["license"]


def test_the_image_has_what_setup_needs_and_leaves_out_what_git_leaves_out():
    text = (ROOT / "packaging" / "Containerfile").read_text()
    needed = re.search(r"Needs (.*?);", (ROOT / "Makefile").read_text())[1]
    assert needed == "python3, g++ and make"
    assert all(f" {name} " in text.replace("\n", " ") for name in ("g++", "make"))
    version = tuple(map(int, re.search(r"FROM python:(\d+)\.(\d+)-slim", text).groups()))
    assert version in [tuple(map(int, python.split("."))) for python in ("3.11", "3.12", "3.13")]
    assert {"output", ".venv*", ".git"} <= set((ROOT / ".dockerignore").read_text().split())
