"""The wheel and the source distribution work in bare environments, from another folder, without a checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from swmodel.runtime.packages import VERSION

pytestmark = pytest.mark.verify

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = "python3.11", "python3.12", "python3.13"


def done(*command, cwd=None):
    """The output of a command, without this checkout in Python's path."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    found = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)
    assert found.returncode == 0, f"{command}\n{found.stdout[-2000:]}\n{found.stderr[-2000:]}"
    return found.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """{suffix: path} of the wheel and the source distribution."""
    pytest.importorskip("hatchling", reason="`make setup` installs hatchling")
    folder = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    found = {path.suffix: path for path in folder.iterdir()}
    assert (
        found[".whl"].name == f"swmodel-{VERSION}-py3-none-any.whl" and found[".gz"].name == f"swmodel-{VERSION}.tar.gz"
    )
    return found


def installed(distribution, folder, python):
    """The folder of programs of a new environment with a distribution and what figures need."""
    index = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":none:", "-d", folder, "typer"]
    if subprocess.run(list(map(str, index)), capture_output=True).returncode:
        pytest.skip("no package index can be reached")
    done(python, "-m", "venv", folder / "venv")
    pip = folder / "venv" / "bin" / "python", "-m", "pip", "install", "-q"
    done(*pip, f"{distribution}[plots]", "-c", ROOT / "constraints.txt", cwd=folder)
    return folder / "venv" / "bin"


def try_out(programs, folder):
    """What the README does first: new, check, run, plot, report, view; from an empty folder."""
    swmodel = programs / "swmodel"
    assert done(swmodel, "--version", cwd=folder) == f"swmodel {VERSION}\n"
    where = done(programs / "python", "-c", "import swmodel; print(swmodel.__file__)", cwd=folder)
    assert Path(where.strip()).is_relative_to(folder / "venv")
    done(swmodel, "new", "double_gyre", "mine", cwd=folder)
    small = "--set", "grid.nx=32", "--set", "grid.ny=32", "--until", "30day"
    done(swmodel, "check", "mine/double_gyre.toml", *small, cwd=folder)
    assert "out/fields.nc" in done(swmodel, "run", "mine/double_gyre.toml", *small, "-o", "out", cwd=folder)
    assert (folder / done(swmodel, "plot", "out/fields.nc", cwd=folder).strip()).stat().st_size > 20_000
    assert "<canvas" in (folder / done(swmodel, "report", "out", cwd=folder).strip()).read_text()
    assert "report.html" in done(swmodel, "view", "out", cwd=folder)  # with a display it opens a browser
    done(programs / "python", "-c", "from swmodel.postprocess import budgets; print(budgets.figure)", cwd=folder)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_wheel_runs_in_a_bare_environment(distributions, tmp_path, python):
    if shutil.which(python) is None or subprocess.run([python, "--version"], capture_output=True).returncode:
        pytest.skip(f"{python} is not installed")
    try_out(installed(distributions[".whl"], tmp_path, python), tmp_path)


def test_the_source_distribution_runs_in_a_bare_environment(distributions, tmp_path):
    try_out(installed(distributions[".gz"], tmp_path, sys.executable), tmp_path)


def test_the_wheel_holds_the_data_of_all_experiments(distributions):
    inside = set(zipfile.ZipFile(distributions[".whl"]).namelist())
    listed = subprocess.run(["git", "ls-files", "experiments"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode or not listed.stdout:
        pytest.skip("this is no checkout of git")
    assert {f"swmodel/{name}" for name in listed.stdout.splitlines()} <= inside
