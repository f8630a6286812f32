"""Programs are compiled before the motion of a source is known, and are those that a run or a gradient then calls."""

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import BoxEnergy, Nested, Problem
from swmodel.adjoint.core import runs
from swmodel.grids.windows import LazyRecords, Stored
from swmodel.simulation.program import compile_ahead

SHAPE = (12, 16)


class Later:
    """A source whose records are counted when they are read."""

    def __init__(self):
        self.read = []

    def series(self, domain):
        def record(k):
            self.read.append(k)
            return Stored(np.full(SHAPE, 0.1 * k), SHAPE)

        return domain.series(np.array([0.0, 60.0]), LazyRecords(record, (2, *SHAPE)))


def model_of(source, engine):
    grid = sw.CartesianGrid(nx=SHAPE[1], ny=SHAPE[0], x=(0.0, 160e3), y=(0.0, 120e3))
    return sw.ShallowWater(
        grid, 100.0, boundaries=sw.Flather(), source=source, engine=engine, communicator="serial", dtype="float32"
    )


def simulation_of(source, tmp_path, engine):
    model = model_of(source, engine)
    simulation = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(dt=20.0))
    simulation.write(tmp_path / "fields.nc", ("eta", "u"), every=60.0)
    simulation.gauges(tmp_path / "gauges.nc", {"a": (80e3, 60e3)})
    simulation.maxima(tmp_path / "maxima.nc")
    return simulation


@pytest.fixture(scope="module")
def compiled():
    """The names of the programs that JAX compiles or loads from here on."""
    names = []

    def note(event, seconds, **about):
        if event.endswith("backend_compile_duration"):
            names.append(about["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(note)
    return names


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["auto", pytest.param("arrays", marks=pytest.mark.verify)])
def test_the_run_compiles_none_of_them_again(tmp_path, engine, compiled):
    source = Later()
    simulation = simulation_of(source, tmp_path, engine)
    compiled.clear()
    compile_ahead(simulation)
    assert not source.read, "the uplift is not known yet"
    assert sum("_diagnose" in name for name in compiled) == 1
    assert sum("program" in name for name in compiled) == 2, "the first arrays of the step loop, and the steps"
    before = simulation.engine
    compiled.clear()
    simulation.run(steps=9)
    assert source.read and simulation.engine == before
    assert not any("_diagnose" in name for name in compiled)
    assert sum("program" in name for name in compiled) <= 2, "gauges at the start, and the state at the end of the loop"


PROGRAMS = {"_start", "_forward", "_record", "_finish", "_pull", "_to_start"}


def programs_of_gradients(names):
    return sorted(name for program in PROGRAMS for name in names if f"({program})" in name)


@pytest.mark.verify
def test_a_gradient_compiles_none_of_them_again(compiled):
    source = Later()
    model, controls = model_of(source, "auto"), ["uplift", "depth", "initial.eta"]
    given = model, sw.ForwardBackward(dt=20.0), model.at_rest(), 9, BoxEnergy(), controls
    problem = Problem(*given, checkpoints=Nested(lengths=(2, 2)))
    compiled.clear()
    runs.compile_ahead(problem)
    assert not source.read, "the uplift is not known yet"
    assert programs_of_gradients(compiled) == sorted(f"jit({name})" for name in PROGRAMS)
    compiled.clear()
    problem.value_and_gradient()
    assert source.read and not programs_of_gradients(compiled)
