"""The coarser version of an experiment, on which `swmodel plan` counts the iterations of an elliptic solver."""

import json
from pathlib import Path

import pytest

import swmodel as sw
from swmodel.cli.explain import count_iterations
from swmodel.config.assembly import THINNEST, coarsened, model_of
from swmodel.config.experiment import read_text
from swmodel.errors import ConfigError
from swmodel.parallel import SerialCommunicator
from swmodel.performance.prediction import Compute
from swmodel.performance.timing import OneOfMany
from tests.selection import later

PACIFIC = Path(sw.__file__).parent.parent / "experiments" / "tohoku_2011" / "etopo5_northwest_pacific.nc"
SEA = """
run = {until = "2 h"}
grid = {type = "cartesian", nx = 96, ny = 64, x = [0, 960e3], y = [0, 640e3]}
bathymetry = {type = "formula", depth = "4000 - 4500*exp(-((x-300e3)**2 + (y-300e3)**2)/100e3**2)"}
coriolis = {type = "f_plane", f0 = 1e-4}
initial = {type = "gaussian", amplitude = 1.0, centre = [600e3, 300e3], radius = "100 km"}
output = {fields = [{file = "fields.nc", variables = ["eta"], every = "1 h"}]}
[stepper]
type = "semi_implicit"
dt = 600.0
solver = "conjugate_gradients"
preconditioner = "diagonal"
tolerance = 1e-5
"""


def draft_of(text=SEA, *overrides, folder="."):
    return read_text(text, "sea.toml", folder, overrides)


def counted(draft, cut=1):
    """The iterations that `swmodel plan` counts on a grid coarsened by `cut`, whose tile is the first of cut x cut."""
    made = coarsened(draft, 1)
    model = model_of(made, SerialCommunicator() if cut == 1 else OneOfMany((cut, cut)))
    state = made.experiment().initial.state(model)
    section = draft.sections["stepper"]
    return count_iterations(draft, model, state, section.stepper(section.dt), cut)


def test_gravity_waves_cross_as_many_cells_of_the_coarser_grid_in_a_step():
    draft = draft_of()
    made = coarsened(draft, 3)
    assert made.grid.shape == (22, 32) and not made.mistakes
    assert made.section("model").gravity == pytest.approx(9 * draft.sections["model"].gravity)
    assert made.experiment().output.fields == () and made.section("initial").type == "gaussian"


def test_a_thin_grid_is_coarsened_to_a_few_cells_at_least(tmp_path):
    (tmp_path / "start.nc").touch()
    overrides = "grid.ny=20", 'initial={type="file", file="start.nc"}'
    made = coarsened(draft_of(SEA, *overrides, folder=tmp_path), 4)
    assert made.grid.shape == (THINNEST, 24)
    assert made.section("initial").type == "rest", "the file has the original grid"


@pytest.mark.verify
def test_iterations_of_a_coarser_grid_are_about_those_of_the_whole_grid():
    whole, where = counted(draft_of())
    coarse, there = counted(draft_of(), 2)
    assert 0.75 * whole <= coarse <= 1.25 * whole, (whole, coarse)
    assert (where, there) == ("", ", counted on a grid of 48 x 32 cells, coarser by a factor of 2")
    assert counted(draft_of(SEA, "stepper={type='rk4', dt=20.0}"), 2) == (0, "")


@pytest.mark.verify
def test_iterations_of_a_rigid_lid_without_multigrid_grow_with_the_number_of_cells():
    lid = draft_of(SEA, "stepper.type=rigid_lid")
    whole, coarse = counted(lid)[0], counted(lid, 2)[0]
    assert 0.75 * whole <= coarse <= 1.25 * whole, (whole, coarse)


def test_a_sea_that_the_coarser_grid_does_not_resolve_is_refused_in_one_sentence():
    channel = draft_of(SEA, "bathymetry.depth=1000 - abs(x-255e3)")  # one column of cells, which coarser centres miss
    with pytest.raises(ConfigError, match="counted on a grid of 24 x 16 cells, where the depth is nowhere above 0"):
        counted(channel, 4)


@pytest.mark.parametrize("cut, where", [later(1, "the whole grid"), (2, "a grid of 48 x 32 cells")])
def test_a_solver_that_does_not_converge_is_not_planned_with(cut, where):
    with pytest.raises(ConfigError, match=f"needs more than its 3 iterations, counted on {where}"):
        counted(draft_of(SEA, "stepper.iterations=3"), cut)


@pytest.mark.verify
def test_the_command_names_the_grid_on_which_it_counted(command, tmp_path, monkeypatch):
    monkeypatch.setattr("swmodel.cli.planning.MOST_SOLVED", 2000)
    monkeypatch.setattr("swmodel.performance.prediction.measure_compute", lambda *_: Compute(1e-5, 1e-9))
    file = tmp_path / "sea.toml"
    file.write_text(SEA)
    out, _ = command.ok("plan", file, "--ranks", "1")
    assert "iterations a step, counted on a grid of 48 x 32 cells, coarser by a factor of 2" in out


@pytest.mark.verify
@pytest.mark.parametrize("dt", [300.0, 1200.0])
def test_multigrid_over_the_pacific_takes_as_many_iterations_on_coarser_grids(dt):
    """A tile of the grid takes twice as many in steps of 300 s, and does not converge in those of 1200 s."""
    text = f"""
run = {{until = "2 day"}}
grid = {{type = "spherical", nx = 360, ny = 270, longitude = [120, 180], latitude = [15, 60]}}
bathymetry = {{type = "file", file = {json.dumps(str(PACIFIC))}, minimum_depth = "20 m", fill_lakes = true}}
coriolis = {{type = "rotating_sphere"}}
stepper = {{type = "semi_implicit", dt = {dt}}}
"""
    draft = draft_of(text)
    found = [counted(draft, cut)[0] for cut in (1, 2, 3)]
    print(f"iterations of steps of {dt:g} s over the Pacific: {found} on grids coarsened by 1, 2, 3")
    assert max(found) <= 1.25 * min(found), found
