"""The command lines that README and docs show run, in their order, on copies of the experiments with few cells.

Each page has a folder of its own. What a page takes for granted is in FILES: the experiments under the names that the
page uses, and commands that make its output files. The lines of OMITTED are not run, for the reason that is given.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.verify

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^(?:mpirun -n \d+ |srun .*)?swmodel .*", re.MULTILINE)
CELLS = 48  # along a side, at most
TSUNAMI = {"tohoku.toml": "tohoku_2011/tohoku.toml"}
RUN = "swmodel run tohoku.toml -o output/tohoku_2011 --overwrite --quiet"
# {page: (experiments by the names that it uses, commands that go before)}
FILES = {
    "README.md": ({}, (RUN.replace("tohoku.toml", "experiments/tohoku_2011/tohoku.toml"),)),  # as `make demo`
    "docs/ensembles.md": (TSUNAMI | {"double_gyre.toml": "double_gyre.toml"}, ()),
    "docs/figures.md": (
        TSUNAMI | {"gyre.toml": "double_gyre.toml"},
        (RUN, "swmodel run gyre.toml --until 60day -o output/gyre --quiet"),
    ),
    "docs/loops.md": ({"gyre.toml": "double_gyre.toml"}, ()),
    "docs/many_ranks.md": (
        TSUNAMI | {"globe.toml": "tohoku_2011/tohoku.toml"},
        ("swmodel bench tohoku.toml --save node.json",),
    ),
    "docs/performance.md": (TSUNAMI, ()),
    "docs/restarts.md": (TSUNAMI, ("swmodel run tohoku.toml -o output --until 30min --quiet",)),
    "docs/sensitivity.md": ({}, ()),
    "docs/sharded.md": (TSUNAMI, ()),
    "docs/step.md": ({"x.toml": "double_gyre.toml"}, ()),
    "docs/verification.md": ({}, ()),
}
ALTERNATIVES = "docs/ensembles.md", "docs/sharded.md", "docs/step.md"  # lines that write to the same folder
OMITTED = {
    r"^srun ": "there is no Slurm here; tests/unit/test_slurm.py tests job scripts",
    r"--coordinator": "several hosts; tests/unit/test_sharded.py starts processes that connect",
    r"swmodel verify( --quick| --html| \w+ |$)": "tests/verification/test_suite.py runs all cases",
}
ELSEWHERE = {
    "docs/gallery.md": "`make gallery` runs them",
    "docs/learned_closure.md": "tests/verification/test_learned_closure.py runs the experiment",
    "docs/questions.md": "8 GPUs, and Slurm",
    "docs/shelf_tide.md": "tests/verification/measures_shelf_tide.py runs the experiment",
}


def lines(page):
    """The command lines that a page shows, in order, without comments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = [row for block in BLOCK.finditer(text) if not block[1] for row in LINE.findall(block[2])]
    return [re.sub(r"\s+#.*", "", row) for row in shown]


def smaller(most, found):
    """`nx = 720` with CELLS in place of `most`."""
    return f"{found[1]} = {int(found[2]) * CELLS // most}"


def made_small(folder):
    """Give the experiments below a folder at most CELLS cells along a side, and short runs."""
    for file in folder.rglob("*.toml"):
        text = file.read_text(encoding="utf-8")
        sizes = [int(n) for n in re.findall(r"^n[xy] = (\d+)", text, re.MULTILINE)]
        if sizes and max(sizes) > CELLS:
            text = re.sub(r"^(n[xy]) = (\d+)", functools.partial(smaller, max(sizes)), text, flags=re.MULTILINE)
            text = re.sub(r'^until = "\d+ year"', 'until = "60 day"', text, flags=re.MULTILINE)
            file.write_text(text, encoding="utf-8")


def done(line, folder):
    """Run a line in a folder; returns what went wrong, or None."""
    line = re.sub(r"^mpirun -n (\d+)", lambda found: f"mpirun -n {min(int(found[1]), 4)}", line)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    found = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        stdin=subprocess.DEVNULL,
    )
    made_small(folder)
    return f"{line}\n{found.stdout[-1000:]}\n{found.stderr[-1000:]}" if found.returncode else None


def test_each_page_with_commands_is_run_or_has_a_reason():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {str(page.relative_to(ROOT)) for page in pages if lines(page.relative_to(ROOT))}
    assert shown == set(FILES) | set(ELSEWHERE)


@pytest.mark.parametrize("page", FILES)
def test_the_commands_of_a_page_run(page, tmp_path):
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    experiments, before = FILES[page]
    for name, source in experiments.items():
        folder = (ROOT / "experiments" / source).parent
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.toml"))
        shutil.copy(ROOT / "experiments" / source, tmp_path / name)
    made_small(tmp_path)
    rows = [row for row in lines(page) if not any(re.search(pattern, row) for pattern in OMITTED)]
    wrong = []
    for row in (*before, *rows):
        if page in ALTERNATIVES:
            shutil.rmtree(tmp_path / "output", ignore_errors=True)
        wrong += [why] if (why := done(row, tmp_path)) else []
    assert not wrong, "\n\n".join(wrong)
