"""The TOML that pages show is accepted: in a complete experiment, each block has no mistake but for missing files."""

import copy
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from swmodel.config import read
from swmodel.config.dump import dump

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "docs" / "own_parts.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Experiments of which a block may be a part.
SPHERE = """
[run]
start = 2011-03-11T05:46:23
until = "31 day"

[grid]
type = "spherical"
nx = 30
ny = 20
longitude = [140, 155]
latitude = [30, 40]

[bathymetry]
type = "flat"
depth = "4 km"

[coriolis]
type = "rotating_sphere"

[initial]
type = "gaussian"
amplitude = "1 m"
radius = "100 km"
centre = [145, 35]

[source]
file = "faults_satake2013.csv"

[stepper]
type = "ssprk3"
dt = 10.0

[[dissipation]]
type = "laplacian"
viscosity = 100.0

[[boundary]]
type = "flather"
sides = "west"
incoming = {constituents = {M2 = {amplitude = 1.0, phase = 0.0}}}

[output.gauges.positions]
21418 = [148.655, 38.735]
"""
PLANE = """
[run]
until = "31 day"

[grid]
type = "cartesian"
nx = 30
ny = 20
x = [0, "300 km"]
y = [0, "200 km"]

[bathymetry]
type = "flat"
depth = "100 m"

[stepper]
type = "ssprk3"
dt = 10.0
"""
FILES = re.compile(r"there is no (file|folder)")


def blocks():
    """Each (page, line, text) of TOML that is part of an experiment file."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            if "project" not in tomllib.loads(found[1]):  # of a pyproject.toml
                yield page, text[: found.start()].count("\n") + 2, found[1]


def merged(whole, part):
    """The tables of `whole` with those of `part`; a list of tables replaces the other one."""
    result = copy.deepcopy(whole)
    for key, value in part.items():
        inside = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if inside and "type" not in value else value
    return result


def mistakes(text, folder):
    """The mistakes of an experiment into which a block is merged, but for files that are not there."""
    part = tomllib.loads(text)
    if isinstance(part.get("boundary"), dict):  # a table of a [[boundary]] that is shown before
        part["boundary"] = [{"type": "clamped", "sides": "west"} | part["boundary"]]
    if "cost" in part.get("adjoint", {}):
        part["adjoint"].setdefault("controls", ["depth"])
    found = []
    for whole in (SPHERE, PLANE):
        file = folder / "case.toml"
        tables = tomllib.loads(whole)
        if "faults" in part.get("source", {}):
            tables.pop("source", None)  # a table of faults
        file.write_text(dump(merged(tables, part)))
        found.append([sentence for sentence in read(file).sentences() if not FILES.search(sentence)])
    return min(found, key=len)


@pytest.fixture
def folder(tmp_path):
    """A folder with the faults of SPHERE, and the parts of one's own that docs/own_parts.md writes."""
    shutil.copy(ROOT / "experiments" / "tohoku_2011" / "faults_satake2013.csv", tmp_path)
    for code in re.findall(r"^```python\n(# \w+\.py\n.*?)^```$", OWN.read_text(), re.MULTILINE | re.DOTALL):
        (tmp_path / code.split()[1]).write_text(code)
    return tmp_path


@pytest.mark.parametrize("text", [pytest.param(text, id=f"{page.name}:{line}") for page, line, text in blocks()])
def test_a_block_of_toml_is_accepted(text, folder):
    assert not mistakes(text, folder)


def test_a_block_that_is_wrong_would_be_noticed(tmp_path):
    assert mistakes('[[boundary]]\ntype = "flather"\nside = "west"\n', tmp_path)
    assert mistakes('[stepper]\ntype = "ab2"\ndt = "3 km"\n', tmp_path)
