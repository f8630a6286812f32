"""A variable that the flow transports goes everywhere that u, v and eta go: nothing counts three fields.

`Content` is the smallest such variable: s = h c, changed by the centred flux of c alone. With c = 1 it is the thickness
itself, by every stepper, in arrays and in fused loops; so each claim about it is one about eta, which is known.
"""

import copy
import itertools
import pickle

import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.dynamics.clock import Time
from swmodel.errors import BlowUp, ConfigError, DataError
from swmodel.fields.state import State
from swmodel.fields.variables import Variable
from swmodel.stencils.native import why_not
from tests.transported import SALT, Content

NX, NY, DT = 11, 9, 5.0
DEPTH = np.full((NY, NX), 80.0) + 10.0 * np.random.default_rng(1).random((NY, NX))
DEPTH[3:5, 4:6] = 0.0
STEPPERS = [sw.AB2, sw.AB3, sw.SSPRK3, sw.RK4, sw.ForwardBackward, sw.SemiImplicit, sw.RigidLid, sw.SplitExplicit]
NEEDS_COMPILER = pytest.mark.skipif(why_not() is not None, reason="no compiler")


def grid(periodic="x"):
    return sw.CartesianGrid(NX, NY, (0.0, 1e3 * NX), (0.0, 1e3 * NY), periodic)


CARRIED = (Content(),)


def model(engine="arrays", tracers=CARRIED, periodic="x", **options):
    options = {"coriolis": sw.FPlane(1e-4), "dissipation": (sw.Laplacian(20.0),), "depth": DEPTH} | options
    return sw.ShallowWater(grid(periodic), communicator="serial", engine=engine, tracers=tracers, **options)


def bump(x, y):
    return jnp.exp(-((x - 3e3) ** 2 + (y - 3e3) ** 2) / 4e6)


def stripes(x, y):
    return 2.0 + jnp.sin(x / 2e3)


def moving(ocean, height=0.5, **dye):
    return ocean.state(eta=lambda x, y: height * bump(x, y), u=lambda x, y: 0.1 * bump(x, y), **dye)


def thickness(state, stepper):
    return np.where(DEPTH > 0, DEPTH + (0.0 if stepper.rigid_lid else np.asarray(state.eta)), 0.0)


# -- a State ----------------------------------------------------------------------------------------------------------


def test_a_state_holds_named_fields():
    state = sw.State(1.0, 2.0, 3.0, dye=4.0)
    assert state.names == ("u", "v", "eta", "dye") and state.others == ("dye",)
    assert state.positions == {"u": "u", "v": "v", "eta": "h", "dye": "h"}
    assert list(2.0 * state + state.replace(dye=0.0)) == [("u", 3.0), ("v", 6.0), ("eta", 9.0), ("dye", 8.0)]
    assert list(np.float64(2.0) * state) == list(2.0 * state)
    for same in (copy.copy(state), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert list(same) == list(state) and same.positions == state.positions
    assert repr(sw.State(np.zeros((2, 3)), 1.0, 1.0)) == "State(u=(2, 3), v=float, eta=float)"


def test_the_structure_of_a_state_has_the_names():
    three, four = sw.State(1.0, 2.0, 3.0), sw.State(1.0, 2.0, 3.0, dye=4.0)
    structures = {jax.tree.structure(s) for s in (three, four, sw.State(1.0, 2.0, 3.0, salt=4.0))}
    assert len(structures) == 3
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(four)]
    assert paths == [".u", ".v", ".eta", ".dye"]


def test_a_state_says_what_it_lacks():
    state = sw.State(1.0, 2.0, 3.0)
    with pytest.raises(AttributeError, match="this State has no 'dye'; it holds u, v, eta"):
        state.dye  # noqa: B018
    with pytest.raises(TypeError, match="there is no 'dye'; this State holds u, v, eta"):
        state.replace(dye=1.0)
    with pytest.raises(AttributeError, match=r"state.replace\(eta=...\) makes another one"):
        state.eta = 0.0


def test_names_are_checked():
    for name in ("eta", "map", "speed", "a dye"):
        with pytest.raises(ValueError, match="is taken, or is no name"):
            model(tracers=(Content(Variable(name, "h", "1", "a dye")),))
    with pytest.raises(ValueError, match="'dye' is taken"):
        model(tracers=(Content(), Content()))
    with pytest.raises(TypeError, match="the model has no 'salt'; it steps u, v, eta, dye"):
        model().state(salt=1.0)
    with pytest.raises((ValueError, ConfigError), match="holds u, v, eta, and the model steps u, v, eta, dye"):
        sw.Simulation(model(), model(tracers=()).at_rest(), sw.AB2(DT))
    with pytest.raises(ValueError, match="member 1: the state holds u, v, eta, and the model steps"):
        sw.Ensemble(model(), [model().at_rest(), model(tracers=()).at_rest()])
    with pytest.raises(ConfigError, match="PseudoSpectral steps u, v and eta alone, and not 'dye'"):
        model(core=sw.PseudoSpectral(), depth=80.0, dissipation=(), momentum=sw.EnergyConserving())


# -- steps ------------------------------------------------------------------------------------------------------------


def in_both_loops():
    """Every stepper in both loops, most of them in `make verify`."""
    now = {(sw.AB3, "fused")}
    for stepper, engine in itertools.product(STEPPERS, ("arrays", "fused")):
        marks = [NEEDS_COMPILER] if engine == "fused" else []
        if not (stepper.is_implicit and marks):
            yield pytest.param(stepper, engine, marks=marks if (stepper, engine) in now else pytest.mark.verify)


@pytest.mark.parametrize("stepper, engine", list(in_both_loops()), ids=lambda x: getattr(x, "__name__", x))
def test_every_stepper_carries_it_in_both_loops(stepper, engine):
    """c = 1 stays 1, and any c is conserved; of u, v and eta it changes nothing."""
    ocean, scheme = model(engine, CARRIED + (Content(SALT),)), stepper(DT)
    height = 0.0 if scheme.rigid_lid else 0.5
    start = moving(ocean, height, salt=stripes)
    end = sw.Simulation(ocean, start, scheme).run(steps=7)
    np.testing.assert_allclose(end.dye, thickness(end, scheme), rtol=2e-14 if not scheme.rigid_lid else 1e-7)
    for name in ("dye", "salt"):
        assert abs(np.sum(end[name]) - np.sum(start[name])) < 1e-12 * np.sum(start.dye)
    assert np.abs(end.salt - start.salt).max() > 1e-3
    plain = model(engine, tracers=())
    alone = sw.Simulation(plain, moving(plain, height), scheme).run(steps=7)
    for name, x in alone:
        np.testing.assert_allclose(end[name], x, rtol=1e-13, atol=1e-15)


# -- files ------------------------------------------------------------------------------------------------------------


def test_files_and_gauges_show_the_concentration(tmp_path):
    ocean = model()
    run = sw.Simulation(ocean, moving(ocean, dye=stripes), sw.AB2(DT))
    run.write(tmp_path / "out.nc", ("eta", "dye"), every=5 * DT)
    run.gauges(tmp_path / "gauges.nc", {"here": (2500.0, 1500.0)}, variables=("eta", "dye"))
    run.run(steps=5)
    shown = np.asarray(run.shown().dye)
    np.testing.assert_allclose(shown[DEPTH > 0], (run.state.dye / thickness(run.state, sw.AB2))[DEPTH > 0])
    with netCDF4.Dataset(tmp_path / "out.nc") as file:
        assert file["dye"].long_name == "concentration of dye" and file["dye"].units == "1"
        np.testing.assert_allclose(file["dye"][-1].filled(0.0), shown, rtol=1e-6)
    with netCDF4.Dataset(tmp_path / "gauges.nc") as file:
        np.testing.assert_allclose(file["dye"][0, -1], shown[1, 2], rtol=1e-6)
        np.testing.assert_allclose(file["eta"][0, -1], run.state.eta[1, 2], rtol=1e-6)
        assert file["dye"].shape == (1, 6)
    with pytest.raises(ConfigError, match="gauges cannot read 'salt'; give names out of u, v, eta, dye"):
        sw.Simulation(ocean, ocean.at_rest(), sw.AB2(DT)).gauges(
            tmp_path / "g.nc", {"a": (1e3, 1e3)}, variables=("salt",)
        )
    with pytest.raises(ConfigError, match="there is no variable 'salt'; choose from .*dye"):
        run.write(tmp_path / "other.nc", ("salt",))


def test_a_restart_with_other_variables_is_refused(tmp_path):
    with_dye, plain = model(), model(tracers=())
    for ocean, name in ((with_dye, "dye.nc"), (plain, "plain.nc")):
        sw.Simulation(ocean, moving(ocean), sw.AB2(DT)).restart(tmp_path / name).run(steps=2)
    with pytest.raises(DataError, match=r"tracers.dye \(.*Content\) is in the restart and not in the experiment"):
        sw.Simulation(plain, plain.at_rest(), sw.AB2(DT)).resume(tmp_path / "dye.nc")
    run = sw.Simulation(with_dye, with_dye.at_rest(), sw.AB2(DT))
    with pytest.raises(DataError, match=r"tracers.dye \(.*Content\) is in the experiment and not in the restart"):
        run.resume(tmp_path / "plain.nc")
    run.resume(tmp_path / "plain.nc", force="tracers.dye")
    assert run.step == 2 and np.abs(run.state.u).max() > 0


def test_a_run_ends_when_it_is_not_finite():
    ocean = model(tracers=(Content(decay=-1e9),))
    with pytest.raises(BlowUp, match="a tracer is not finite"):
        sw.Simulation(ocean, moving(ocean), sw.AB2(DT)).run(steps=200)


# -- derivatives ------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_uniform_concentration_does_not_depend_on_the_depth():
    """The control is the concentration: with c = 1 at the start it is 1 at the end, over any depth."""
    ocean = model()
    cost = adjoint.FinalState(lambda state, equations: jnp.sum(equations.shown(state, Time(4)).dye ** 2))
    problem = adjoint.Problem(ocean, sw.AB2(DT), moving(ocean), 4, cost, ["initial.dye", "initial.eta", "depth"])
    J, gradient = problem.value_and_gradient()
    np.testing.assert_allclose(J, (DEPTH > 0).sum(), rtol=1e-12)
    assert np.abs(gradient["initial.dye"]).max() > 1.0
    for name in ("initial.eta", "depth"):
        np.testing.assert_allclose(gradient[name], 0.0, atol=1e-12)


def test_states_have_their_own_history_structure():
    own = State.of({"a": jnp.ones(2), "b": jnp.ones(2)}, {"a": "u", "b": "h"})
    assert own.positions == {"a": "u", "b": "h"}
    assert list(jax.tree.map(lambda x: 2.0 * x, own).names) == ["a", "b"]
