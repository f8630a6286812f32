"""Members may differ in every number, vector and field of every part: the parts follow from the declarations."""

import datetime
import typing

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.config import physics, read
from swmodel.config.assembly import assemble, model_of
from swmodel.config.sections import Section
from swmodel.dynamics.terms import Series, Window
from swmodel.fields.state import replace
from swmodel.models.parts import nodal_latitude
from swmodel.parallel import SerialCommunicator
from swmodel.stepping.loop import SAME, engine_of, per_member
from swmodel.stepping.steps import ArrayStepLoop
from tests.faults import basins, draws

SIDES = ("west", "east", "south", "north")
PARTS = ("terms", "open_boundaries", "tracers")
STEPPER = sw.AB2(60.0)


def series_of(annotation):
    """The sections of tides, records and waves that may take the place of a number."""
    inner = typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for each in inner:
        yield from series_of(each)


def boundaries():
    """Lists of four sides: one of each type, then one with each kind of series outside."""
    sections = draws.PARTS["boundary"]
    entries = [draws.simplest(draws.section(cls, 0, type=name)) for name, cls in sections.items()]
    kinds = dict.fromkeys(series_of(physics.BOUNDARY["flather"].schema()["elevation"].annotation))
    series = [draws.simplest(draws.section(kind, 0)) for kind in kinds]
    entries += [{"type": "flather", "elevation": value} for value in series]
    return [[{**e, "sides": side} for e, side in zip(entries[k : k + 4], SIDES)] for k in range(0, len(entries), 4)]


def experiment(sides, forcing, dissipation, precision="float64"):
    """An experiment with these sides, types of forcing and of dissipation; without sides, of the whole Earth."""
    grid, _, _, seconds = basins.BASINS["sphere"]
    globe = {} if sides else {"longitude": [0, 360], "latitude": [-80, 80]}
    tables = {
        "run": {"until": seconds, "start": basins.START},
        "grid": {**grid, **globe, "nx": 8, "ny": 7},
        "model": {"precision": precision},
        "bathymetry": {"type": "flat", "depth": basins.DEPTH},
        "coriolis": {"type": "rotating_sphere"},
        "initial": {"type": "formula", "eta": "0.1 * cos(longitude)", "u": 0.1},
        "boundary": sides,
        "tracer": [{"name": "dye", "diffusivity": 5.0, "source": 1e-3, "flux": 1e-3, "outside": 1.0}],
        "stepper": {"type": "ab2", "dt": 60.0},
    }
    for kind, names in (("forcing", forcing), ("dissipation", dissipation)):
        made = [draws.section(draws.PARTS[kind][n], 0, type=n, **draws.TOGETHER.get(n, {})) for n in names]
        tables[kind] = list(map(draws.simplest, made))
    return draws.text_of(
        draws.completed(
            tables,
            "longitude / 12.0",
            places=[draws.at(grid, "longitude", "latitude", share, 0.5) for share in (0.5, 0.7)],
        )
    )


def is_record(x):
    """Whether `x` is one of the records of a file, for which there are other tests."""
    return isinstance(x, (Series, Window))


def numbers(tree):
    """The numbers and arrays of a pytree that are not 0 everywhere."""
    leaves = jax.tree.leaves(tree, is_leaf=is_record)
    return [x for x in leaves if not is_record(x) and np.asarray(x).dtype.kind == "f" and np.any(np.asarray(x))]


def scaled(tree):
    """A pytree with all of its numbers and arrays larger by a thousandth."""
    known = set(map(id, numbers(tree)))
    return jax.tree.map(lambda x: 1.001 * x if id(x) in known else x, tree, is_leaf=is_record)


def step(dynamics, stepper, start):
    """(state, history) one step later."""
    loop = ArrayStepLoop(dynamics, stepper)
    return loop.unpack_state(loop.steps(loop.pack_state(*start), 0, 1)[0])


FIRST, *OTHERS = boundaries()
NEARBY = [name for name in draws.PARTS["forcing"] if name not in (*draws.ON_GLOBE, *draws.ON_LAND)]


CASES = [(FIRST, NEARBY, draws.PARTS["dissipation"]), *((sides, ["air_pressure"], []) for sides in OTHERS)]
CASES += [([], draws.ON_GLOBE, [])]
NAMES = ["terms", *("-".join(side["type"] for side in sides) for sides in OTHERS), "globe"]


def ensemble_of(folder, sides, forcing, dissipation, precision="float64"):
    """(two models that differ in all numbers of their parts, their states, their Ensemble)."""
    basins.write_files(folder)
    path = folder / "sphere" / "all.toml"
    path.write_text(experiment(sides, forcing, dissipation, precision))
    made, alone = assemble(read(path)), SerialCommunicator()
    models = [model_of(made, alone, engine="arrays") for _ in range(2)]
    models[1].system = replace(models[1].system, **{name: scaled(getattr(models[1], name)) for name in PARTS})
    states = [made.experiment().initial.state(model) for model in models]
    return models, states, sw.Ensemble(models, states)


@pytest.mark.parametrize(("sides", "forcing", "dissipation"), CASES, ids=NAMES)
def test_every_part_keeps_single_precision_and_its_leaves_may_differ_between_members(
    sides, forcing, dissipation, tmp_path
):
    """A number of numpy, such as np.exp(-1.0), would make float64 of float32, where JAX has double."""
    (model, _), (state, _), ensemble = ensemble_of(tmp_path, sides, forcing, dissipation, "float32")
    members, single = (each.interval(ensemble.halo(STEPPER), 0, 60.0) for each in (ensemble, model))
    after = jax.eval_shape(step, single, STEPPER, (state, STEPPER.history(state)))
    assert {str(x.dtype) for x in jax.tree.leaves(after) if x.dtype.kind == "f"} == {"float32"}
    assert engine_of(members, STEPPER) == ("arrays", "engine = 'arrays' was chosen")
    assert sum(kind != SAME for kind in members.kinds) == len(numbers([getattr(single, name) for name in PARTS]))


@pytest.mark.verify
@pytest.mark.parametrize(("sides", "forcing", "dissipation"), CASES, ids=NAMES)
def test_a_step_of_members_is_that_of_each_alone(sides, forcing, dissipation, tmp_path):
    models, states, ensemble = ensemble_of(tmp_path, sides, forcing, dissipation)
    halo = ensemble.halo(STEPPER)
    members, singles = ensemble.interval(halo, 0, 60.0), [model.interval(halo, 0, 60.0) for model in models]
    together, _ = jax.jit(per_member(step, at=1))(
        members, STEPPER, (ensemble.initial, STEPPER.history(ensemble.initial))
    )
    single = jax.jit(step)
    for k, (dynamics, state) in enumerate(zip(singles, states)):
        one, _ = single(dynamics, STEPPER, (state, STEPPER.history(state)))
        for name in one.names:
            np.testing.assert_allclose(together[name][k], one[name], rtol=0, atol=1e-12 * np.abs(one[name]).max())


def test_members_may_have_nodal_factors_of_their_own_latitudes():
    grid, start = sw.CartesianGrid(4, 3, (0.0, 4e4), (0.0, 3e4)), datetime.datetime(2024, 3, 1)
    sides = [sw.Flather("west", sw.Tide({"M2": (0.5, 30.0)}, start, latitude=y)) for y in (20.0, 50.0, None)]
    models = [sw.ShallowWater(grid, 100.0, boundaries=side, communicator="serial") for side in sides]
    ensemble = sw.Ensemble(models, [model.at_rest() for model in models])
    assert [nodal_latitude(model) for model in ensemble.models] == [20.0, 50.0, 45.0]
