"""`swmodel explain`: the loops of a step, with the names of fields, what they cost, or why there are none."""

import re
from pathlib import Path

import pytest

from swmodel.stencils import native

pytestmark = pytest.mark.skipif(not native.usable(), reason="no C++ compiler here")

CASE = """\
run = {{until = 60}}
grid = {{type = "cartesian", nx = 16, ny = 12, x = [0, 2e4], y = [0, 1.5e4]}}
bathymetry = {{type = "flat", depth = 10}}
stepper = {{type = "{stepper}", dt = 10}}
[[dissipation]]
type = "laplacian"
viscosity = 10
"""


@pytest.fixture
def case(tmp_path):
    def write(stepper="ab2", more=""):
        (tmp_path / "case.toml").write_text(CASE.format(stepper=stepper) + more)
        return tmp_path / "case.toml"

    return write


def test_a_step_of_ab2_is_one_loop_that_moves_what_the_docs_say(case, command, tmp_path):
    status, out, err = command(
        "explain", case(), "--bandwidth", "1e10", "--source", tmp_path / "src", "--set", 'model.precision="float32"'
    )
    assert (status, err) == (0, "")
    assert "engine      fused loops" in out and out.count("\nloop ") == 1
    assert re.search(r"^loop 1, once a step: u, v, eta, history\S*u, history\S*v, history\S*eta$", out, re.M)
    assert re.search(r"^reads +u, halo 1 west, 1 east, 1 south, 1 north$", out, re.M)
    assert re.search(r"^ +depth, halo 1 west, 1 east", out, re.M) and re.search(r"^writes +u, over u$", out, re.M)
    assert "52 bytes a cell" in out  # docs/theory/step.md: state, tendencies and depth are read once, and overwritten
    milliseconds = 16 * 12 * 52 / 1e10 * 1e3
    assert f"its 192 cells take at least {milliseconds:.3g} ms at 10 GB/s (as given)" in out
    (file,) = (tmp_path / "src").iterdir()
    assert str(file) in out and "dynamics/" in file.read_text()


@pytest.mark.verify
def test_the_adjoint_of_a_step_is_listed_with_what_it_computes_again(case, command):
    """Of AB2 it has more operations than a step, and its loops read the state before the step and the cotangents."""
    status, out, err = command("explain", case(), "--bandwidth", "1e10", "--adjoint")
    assert (status, err) == (0, "")
    step, back = (int(n) for n in re.findall(r"^(?:a|the adjoint of a) step: (\d+) operations", out, re.M))
    assert step < back < 4 * step
    assert re.search(r"^loop 2, once a step: cotangent of", out, re.M)


ROOT = Path(__file__).resolve().parents[2]


def counted(command, experiment, *options):
    """The operations a cell of a step, and of its adjoint, that `explain` prints of an experiment."""
    status, out, _ = command("explain", ROOT / "experiments" / experiment, "--bandwidth", "1e10", *options)
    assert status == 0
    return [int(n) for n in re.findall(r"^(?:a|the adjoint of a) step: (\d+) operations", out, re.M)]


@pytest.mark.verify
def test_pages_have_the_operations_that_are_counted(command):
    of = {x: counted(command, "double_gyre.toml", "--set", f"stepper.type={x}")[0] for x in ("ab2", "forward_backward")}
    for page in ("guide/performance.md", "developers/benchmarks.md"):
        text = (ROOT / "docs" / page).read_text()
        (numbers,) = re.findall(r"has (\d+) operations a cell,?\s(?:where|for) AB2(?:'s| has) (\d+)", text)
        assert [int(n) for n in numbers] == [of["forward_backward"], of["ab2"]], page


@pytest.mark.verify  # the adjoint of a coast takes a minute to compile
def test_the_page_of_coasts_has_the_operations_that_are_counted(command):
    text = " ".join((ROOT / "docs" / "guide" / "coast.md").read_text().split())
    (numbers,) = re.findall(r"and has (\d+) operations a cell where the step has (\d+)\.", text)
    assert [int(n) for n in numbers] == counted(command, "monai_valley/monai_valley.toml", "--adjoint")[::-1]
    assert f"one stage has {numbers[1]} operations a cell" in text
    assert (
        f"of SSPRK3 has {counted(command, 'monai_valley/monai_valley.toml', '--set', 'stepper.type=ssprk3')[0]};"
        in text
    )


def test_a_graph_names_the_lines_of_physics(case, command):
    status, out, _ = command("explain", case("rk4"), "--graph", "--bandwidth", "1e10")
    assert status == 0
    assert re.search(r"n\d+ = n\d+ \* eta  # dynamics/\w+\.py:\d+: .*rest \+ excess \* ", out)  # the thickness
    assert re.search(r"^writes +stage\.0\.u$", out, re.M) and re.search(r"^reads .*stage\.", out, re.M | re.S)


def test_where_steps_run_on_arrays_it_says_why(case, command):
    status, out, err = command("explain", case(more='[coriolis]\ntype = "none"\n'), "--set", "run.engine=arrays")
    assert (status, err) == (0, "")
    assert "arrays (XLA fuses): engine = 'arrays' was chosen" in out and "loop 1" not in out


def test_mistakes_are_one_sentence(case, command):
    status, _, err = command("explain", case(), "--bandwidth", "0")
    assert status == 2 and err == "error: --bandwidth 0 is not positive; give bytes a second, as 2e10.\n"
    status, _, err = command("explain", "nowhere.toml")
    assert status == 2 and err.count("\n") == 1 and "nowhere.toml" in err
