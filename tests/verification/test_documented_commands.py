"""The shell lines of README and docs do what they say: each page's are run one after the other, in a folder of its own.

Runs are shortened (SHORTER), and no more than two ranks are started. What a machine under test does not have, or what
is a target of make with hours of its own, is in ELSEWHERE with the reason.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.test_documents import DOCUMENTS, NOTEBOOKS, ROOT, blocks

pytestmark = pytest.mark.verify

BIN = Path(sys.executable).parent
PROGRAMS = re.compile(r"(\.|cd|swmodel|mpirun|srun|sbatch|python|pip|make|export|[A-Z_]+=\S*)\s")
# {pattern of a line: why it is not run here}
ELSEWHERE = {
    r"^make (demo|test|docs|bench|faults|mutants|gallery|gpu|verify)": "a target with minutes or hours of its own",
    r"^make xgeoclaw|geoclaw/ocean\.py|^(GEO)?CLAW=": "needs a Clawpack with a Fortran compiler",
    r"^srun|^sbatch|--coordinator": "needs a cluster",
    r"^pip install": "tests/verification/test_release.py installs the wheel",
    r"--verify": "compiles for minutes; tests/unit/test_cli_adjoint.py verifies the derivatives of small basins",
    r"learned_closure\.py": "trains for an hour; tests/verification/test_learned_closure.py trains a small one",
    r"horizon\.py": "takes ten minutes; tests/verification/test_stratified.py runs a short one",
    r"native_parts\.py|semi_implicit_worker\.py": "benchmarks of minutes",
    r"^swmodel hazard": "needs a bank of unit faults; tests/unit/test_hazard.py makes a small one",
    r"scaling_figure\.py": "needs the logs of a cluster; tests/unit/test_slurm.py draws one from logs of its own",
    r"^swmodel verify( --html \S+| --quick| tides coasts)?$": "tests/verification/test_suite.py runs the cases",
    r"northwest_europe|^swmodel (invert inversion|run (analysis|northwest_europe))\.toml$|score\.py": "takes an hour; "
    "`make verify CASE=shelf_tide`",
}
COARSE = ("--set", "grid.nx=90", "--set", "grid.ny=68")
SMALL = ("--set", "grid.nx=32", "--set", "grid.ny=32")
COARSE_SOURCES = (*COARSE, "--set", "green.sources.spacing=2")
FEW_SOURCES = ("--set", "inversion.withhold=false", "--set", "inversion.controls.0.spacing=2")
# {(command, experiment): the options that shorten it}
SHORTER = {
    ("run", "tohoku.toml"): (*COARSE, "--until", "2 minute"),
    ("adjoint", "sensitivity.toml"): COARSE,
    ("invert", "inversion.toml"): (*COARSE, *FEW_SOURCES),
    ("run", "double_gyre.toml"): (*SMALL, "--until", "20 day"),
    ("run", "dye_in_a_gyre.toml"): (*SMALL, "--until", "20 day"),
    ("run", "two_layer_gyre.toml"): (*SMALL, "--until", "20 day", "--set", "output.means.begin=0"),
    ("run", "two_layer_turbulence.toml"): (*SMALL, "--until", "20 day", "--set", "output.means.begin=0"),
    ("run", "decaying_turbulence.toml"): (*SMALL, "--until", "10 day"),
    ("run", "storm_in_a_basin.toml"): ("--until", "6 hour"),
    ("run", "storm.toml"): ("--until", "6 hour"),
    ("run", "tidal_channel.toml"): (),
    ("run", "river_plume.toml"): ("--set", "grid.nx=45", "--set", "grid.ny=15", "--until", "2 hour"),
    ("run", "north_atlantic.toml"): ("--set", "grid.nx=50", "--set", "grid.ny=25", "--until", "2 day"),
    ("run", "monai_valley.toml"): ("--until", "5 s"),
    ("run", "x.toml"): (*SMALL, "--until", "1 day"),
    ("bench", "tohoku.toml"): COARSE,
    ("green", "forecast.toml"): COARSE_SOURCES,
    ("rerun", "forecast.toml"): COARSE_SOURCES,
}
FLOOD = "swmodel run experiments/monai_valley/monai_valley.toml -o output"
# {page: what its readers have done before}
BEFORE = {
    "docs/guide/coast.md": (FLOOD,),
    "docs/guide/files.md": (FLOOD, "swmodel run experiments/tidal_channel.toml -o output"),
    "docs/guide/figures.md": ("swmodel run tohoku.toml", "swmodel run double_gyre.toml -o output/gyre"),
    "docs/guide/layers.md": (
        "swmodel run experiments/two_layer_gyre/two_layer_gyre.toml -o . --set output.fields.0.file=layers.nc",
    ),
    "docs/guide/restarts.md": ("swmodel run tohoku.toml -o output",),
    "docs/guide/many_ranks.md": ("swmodel bench --size 64x48 --save node.json",),
    "docs/guide/performance.md": ("swmodel bench --size 64x48 --save machine.json",),
}


def lines(document):
    """[(number, line)] of what a page tells its reader to type."""
    return [
        (first + k + 1, row)
        for language in ("", "bash")
        for first, text in blocks(document, language)
        for k, row in enumerate(text.splitlines())
        if PROGRAMS.match(row)
    ]


def shortened(row):
    """The words of a line, with shorter runs on at most two ranks, which replace each other's files."""
    words = shlex.split(row, comments=True)
    words = [word if before != "-n" else str(min(int(word), 2)) for before, word in zip(["", *words], words)]
    if "swmodel" not in words:
        return words
    command, *arguments = words[words.index("swmodel") + 1 :]
    named = [Path(word).name for word in arguments if not word.startswith("-")]
    more = next((SHORTER[command, name] for name in named if (command, name) in SHORTER), ())
    if "--until" in words and "--until" in more:
        at = words.index("--until")
        words[at : at + 2] = []
    if command in ("run", "adjoint", "invert") and "--overwrite" not in words:
        more = (*more, "--overwrite")
    return [*words, *more]


def expanded(word, folder):
    """The files of a pattern, as a shell finds them."""
    return sorted(str(file.relative_to(folder)) for file in folder.glob(word))


@pytest.fixture
def folder(tmp_path):
    """A reader's folder: the experiments that pages name, and their files."""
    shutil.copytree(ROOT / "experiments" / "tohoku_2011", tmp_path, dirs_exist_ok=True)
    for name in ("double_gyre.toml", "gyre.toml", "x.toml"):
        shutil.copy(ROOT / "experiments" / "double_gyre.toml", tmp_path / name)
    tohoku = tmp_path / "tohoku.toml"
    tohoku.write_text(tohoku.read_text().replace("nx = 720", "nx = 90").replace("ny = 540", "ny = 68"))
    storm = ROOT / "experiments" / "storm_in_a_basin"
    shutil.copy(storm / "storm_in_a_basin.toml", tmp_path / "storm.toml")
    for name in ("track.csv", "track2.csv", "track3.csv"):
        shutil.copy(storm / "track.csv", tmp_path / name)
    shutil.copy(ROOT / "experiments" / "global_tide" / "global_tide.toml", tmp_path / "globe.toml")
    for file in (ROOT / "experiments" / "global_tide").glob("*.nc"):
        shutil.copy(file, tmp_path)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    write_elevations(tmp_path)
    return tmp_path


def write_elevations(folder):
    """The sea floor of Japan in two files for parts of it, and a plain around the valley of Monai."""
    rasterio = pytest.importorskip("rasterio")
    shutil.copy(folder / "etopo5_northwest_pacific.nc", folder / "gebco.nc")
    files = {"harbour.tif": (141.0, 39.0, 0.02, -30.0), "elevation.tif": (-1.0, 5.0, 0.05, -0.1)}
    for name, (west, north, spacing, height) in files.items():
        shape = {"width": 150, "height": 150, "count": 1, "dtype": "float32"}
        transform = rasterio.transform.from_origin(west, north, spacing, spacing)
        with rasterio.open(folder / name, "w", driver="GTiff", transform=transform, **shape) as file:
            file.write(np.full((150, 150), height, "float32"), 1)
    head = "ncols 20\nnrows 20\nxllcorner 141.5\nyllcorner 36\ncellsize 0.1\n"
    (folder / "bay.asc").write_text(head + f"{' '.join(['-50'] * 20)}\n" * 20)


def typed(row, folder):
    """Run a line as it is typed after `. .venv/bin/activate`."""
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    words = [file for word in shortened(row) for file in (expanded(word, folder) if "*" in word else [word])]
    found = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    if found.returncode:
        said = f"{found.stdout[-1500:]}\n{found.stderr[-1500:]}"
        return f"{row}\nas {shlex.join(words)}\nended with {found.returncode}:\n{said}"
    return ""


def is_run(row):
    command = row.split("#")[0].strip()
    return not command.startswith((".", "export")) and not any(re.search(pattern, command) for pattern in ELSEWHERE)


PAGES = [page for page in DOCUMENTS if page not in NOTEBOOKS and any(is_run(row) for _, row in lines(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_run(page, folder):
    wrong = [typed(row, folder) for row in BEFORE.get(page.relative_to(ROOT).as_posix(), ())]
    for number, row in lines(page):
        if row.startswith("cd "):
            folder /= row.split()[1]
        elif is_run(row) and (said := typed(row, folder)):
            wrong.append(f"line {number}: {said}")
    assert not any(wrong), "\n\n".join(filter(None, wrong))


def test_each_reason_not_to_run_a_line_and_each_shortening_is_of_a_line():
    rows = [row.split("#")[0].strip() for page in DOCUMENTS for _, row in lines(page)]
    assert not [pattern for pattern in ELSEWHERE if not any(re.search(pattern, row) for row in rows)]
    prepared = [row for before in BEFORE.values() for row in before]
    assert not [
        key for key in SHORTER if not any({*key} <= {Path(w).name for w in row.split()} for row in rows + prepared)
    ]
