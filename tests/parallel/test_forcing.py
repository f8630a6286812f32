"""Potential, attraction, drags, cyclones, the inverse barometer, winds of files: the same on any number of ranks.

With their gradients.
"""

import functools

import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.parallel import make_communicator
from tests.gridded import write_axes

from . import cases

pytestmark = cases.MORE_THAN_FOUR
on_two = pytest.mark.skipif(cases.RANKS > 2, reason="two ranks show what more would")

STEPS = 4


@pytest.fixture(scope="module")
def winds(tmp_path_factory):
    """A file of winds every two steps, over all of the sphere of the cases."""
    path, random = tmp_path_factory.mktemp("winds") / "winds.nc", np.random.default_rng(9)
    axes = {"time": ("seconds", 120.0 * np.arange(4)), "lat": ("degrees_north", np.arange(10.0, 66.0, 5.0))}
    axes["lon"] = "degrees_east", np.arange(115.0, 186.0, 5.0)
    with netCDF4.Dataset(path, "w") as file:
        write_axes(file, axes)
        wind = file.createVariable("u10", "f4", tuple(axes))
        wind.units, wind[:] = "m s-1", 10.0 + random.standard_normal(wind.shape)
    return path


def ocean(communicator, engine, winds):
    gusts = sw.FunctionOfTime(lambda x, y, t: 3.0 + np.sin(0.1 * x + 0.01 * t) * np.cos(0.2 * y), 600.0, every=120.0)
    wind = sw.Wind(x=sw.FileRecords(winds, "u10"), y=gusts)
    return cases.sea(
        cases.sphere(),
        communicator=communicator,
        engine=engine,
        forcing=(sw.TidalPotential(), sw.SelfAttraction(0.09), cases.cyclone(), wind),
        dissipation=(sw.InternalWaveDrag(np.abs(50.0 * cases.random(8))),),
        boundaries=(sw.Flather(("west", "south"), elevation=sw.InverseBarometer(0.1)),),
    )


def run(communicator, engine, winds):
    """(model, State after some steps)."""
    model = ocean(communicator, engine, winds)
    simulation = sw.Simulation(model, cases.start(model), sw.ForwardBackward(60.0))
    state = simulation.run(steps=STEPS)
    assert simulation.engine[0] == engine
    return model, state


@pytest.mark.parametrize("engine", cases.ENGINES)
def test_runs_equal_those_of_one_rank_on_arrays(engine, winds):
    cases.assert_runs_equal(functools.partial(run, winds=winds), cases.all_ranks(), engine)


@on_two
@pytest.mark.verify  # a program is compiled for each; test_parameters.py compares gradients with those of one rank
@pytest.mark.parametrize(
    "controls", [("forcing.2.central_pressure", "dissipation.0.roughness"), ("forcing.2.x", "forcing.1.fraction")]
)
def test_gradients_pass_dot_products_and_taylor_tests(winds, controls):
    model = ocean(cases.all_ranks(), "fused", winds)
    cases.assert_derivatives(model, sw.ForwardBackward(60.0), STEPS, controls)


@pytest.mark.parametrize("layout", cases.LAYOUTS[:1], ids=str)
def test_records_of_a_file_are_read_by_every_rank_for_its_own_tile(layout, winds):
    """With a tide that comes in through the sides: both depend on where the tile lies, and tiles differ in size."""

    def final(communicator, engine):
        tide = sw.Tide({"M2": (lambda x, y: 0.5 + 0.01 * x - 0.02 * y, 40.0)})
        parts = {"forcing": sw.Wind(x=sw.FileRecords(winds, "u10"), y=3.0), "coriolis": None}
        sides = sw.Flather(("west", "north"), incoming=tide)
        model = cases.sea(cases.sphere(), communicator=communicator, engine=engine, boundaries=sides, **parts)
        return model, sw.Simulation(model, cases.start(model), sw.ForwardBackward(60.0)).run(steps=STEPS)

    cases.assert_runs_equal(final, make_communicator("auto", (cases.NY, cases.NX), layout), "arrays")
