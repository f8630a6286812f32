"""A release: one version everywhere, and a workflow whose commands exist."""

import re
import tomllib
from pathlib import Path

import pytest

from swmodel.runtime.packages import VERSION

pytestmark = pytest.mark.verify  # tests of the repository, and not of the model
ROOT = Path(__file__).resolve().parents[2]


def test_the_citation_has_the_version_of_the_package():
    assert re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == VERSION


def test_the_changelog_has_each_version_in_two_minutes():
    text = (ROOT / "CHANGELOG.md").read_text()
    sections = re.findall(r"^## (\S+).*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert VERSION in dict(sections)
    assert all(len(section.splitlines()) <= 150 for _, section in sections)


def test_the_package_takes_its_version_from_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"] and "version" not in project["project"]
    source = project["tool"]["hatch"]["version"]
    text = (ROOT / source["path"]).read_text()
    assert re.search(source["pattern"], text, re.MULTILINE)["version"] == VERSION


def test_the_workflow_runs_targets_of_the_makefile_on_the_supported_pythons():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = set(re.findall(r"run: make (\w+)", workflow))
    assert {"lint", "types", "test", "docs", "dist", "verify"} <= used <= targets
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    low, high = (int(n) for n in re.findall(r"3\.(\d+)", project["requires-python"]))
    assert re.search(r"python-version: \[(.*)\]", workflow)[1] == ", ".join(f'"3.{n}"' for n in range(low, high))
    assert all((ROOT / path).exists() for path in re.findall(r"TESTS=(\S+)", workflow))
