"""Gates, culverts and pumps: their laws, every litre that passes, tracers, and derivatives in each parameter."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.config.assembly import assemble, model_of
from swmodel.config.experiment import read_text
from swmodel.dynamics.clock import Time
from swmodel.dynamics.exchanges import End, with_exchanges
from swmodel.errors import ConfigError
from swmodel.fields.state import replace
from swmodel.runtime.compilation import jit
from tests.derivatives import linearised
from tests.selection import now

GRID = sw.CartesianGrid(7, 3, (0.0, 700.0), (0.0, 300.0))
AREA, G = 1e4, 9.81
WEST, EAST = (150.0, 150.0), (550.0, 150.0)
PONDS = np.where(np.isin(np.arange(7), (1, 5)) & (np.arange(3) == 1)[:, None], 4.0, 0.0)  # two cells of 4 m in land


def ponds(*exchanges, **options):
    """A model of two cells of water in land."""
    options = {"dtype": "float64", "communicator": "serial", "gravity": G, **options}
    return sw.ShallowWater(GRID, PONDS, forcing=exchanges, **options)


def levels(model, west, east):
    return model.state(eta=lambda x, y: np.where(x < 350.0, west, east) + 0.0 * y)


def passed(gate, west, east, dt=1.0, time=0):
    """V of one step [m3] between levels west and east."""
    model = ponds(gate)
    before = levels(model, west, east)
    after = _after(model.dynamics(sw.AB2(dt)), before, Time(time, 0.0, jnp.asarray(dt), dt))
    change = AREA * np.asarray(after.eta - before.eta)
    assert abs(change.sum()) <= 1e-12 * abs(change).sum()
    assert np.count_nonzero(change) in (0, 2)
    return change[1, 5]


@jit
def _after(dynamics, state, time):
    return with_exchanges(dynamics.prepare(), state, time)


def volume(law, west, east):
    """V of one second [m3] by the law alone, between the same ponds."""
    return float(_volume(dataclasses.replace(law, areas=(AREA, AREA)), west, east))


@jit
def _volume(law, west, east):
    ends = (End(level, 4.0 + level) for level in (west, east))
    return law.volume(*ends, jnp.asarray(G), jnp.asarray(1.0))


def test_a_gate_is_a_weir_an_orifice_and_drowned_by_du_buat():
    gate = {"inlet": WEST, "outlet": EAST, "width": 3.0, "sill": -1.0}
    root = np.sqrt(2 * G)
    free = 0.6 * 3.0 * root * 2 / 3 * 1.5**1.5
    assert passed(sw.Gate(**gate), 0.5, -2.0) == pytest.approx(free, rel=1e-9)
    assert volume(sw.Gate(**gate), 0.5, -2.0) == pytest.approx(free, rel=1e-9)
    drowned = 0.6 * 3.0 * root * (1.0 * 0.5**0.5 + 2 / 3 * 0.5**1.5)
    assert volume(sw.Gate(**gate), 0.5, 0.0) == pytest.approx(drowned, rel=1e-5)
    assert volume(sw.Gate(**gate), 0.0, 0.5) == pytest.approx(-drowned, rel=1e-5)
    orifice = 0.7 * 3.0 * 0.2 * root * 0.5**0.5
    assert volume(sw.Gate(**gate, opening=0.2, coefficient=0.7), 0.5, 0.0) == pytest.approx(orifice, rel=1e-5)
    falling = 0.7 * 3.0 * root * 2 / 3 * (1.5**1.5 - 1.3**1.5)
    assert volume(sw.Gate(**gate, opening=0.2, coefficient=0.7), 0.5, -2.0) == pytest.approx(falling, rel=1e-9)
    assert volume(sw.Gate(**gate, one_way=True), 0.0, 0.5) == 0.0 < volume(sw.Gate(**gate, one_way=True), 0.5, 0.0)
    assert volume(sw.Gate(**gate), -1.5, -2.0) == 0.0  # both below the sill


def test_a_full_culvert_loses_its_head_by_its_ends_and_its_walls():
    culvert = {"inlet": WEST, "outlet": EAST, "width": 2.0, "sill": -3.0, "opening": 1.5}
    radius = 2.0 * 1.5 / (2 * (2.0 + 1.5)) + 1e-3
    losses = 1 / 0.8**2 + 2 * G * 0.02**2 * 60.0 / radius ** (4 / 3)
    full = 2.0 * 1.5 * np.sqrt(2 * G * 0.4 / losses)
    assert passed(sw.Culvert(**culvert, length=60.0, roughness=0.02), 0.4, 0.0) == pytest.approx(full, rel=1e-5)
    smooth, gate = sw.Culvert(**culvert, length=0.0), sw.Gate(**culvert, coefficient=0.8)
    assert volume(smooth, 0.4, -2.5) == pytest.approx(volume(gate, 0.4, -2.5), rel=1e-12)


def test_no_cell_gives_more_than_it_has_and_levels_meet_without_passing_each_other():
    gate = sw.Gate(WEST, EAST, width=500.0, sill=-10.0)
    assert passed(gate, 1.0, 0.0, dt=1e3) == pytest.approx(AREA * 0.5, rel=1e-12)
    assert passed(sw.Gate(WEST, EAST, width=500.0, sill=0.7), 1.0, -3.0, dt=1e3) == pytest.approx(AREA * 0.3, rel=1e-12)
    assert passed(sw.Pump(WEST, EAST, 5.0), -3.0, 0.0, dt=1e4) == pytest.approx(AREA * 1.0, rel=1e-12)
    assert passed(sw.Pump(WEST, EAST, 5.0), -3.0, 0.0, dt=10.0) == pytest.approx(50.0, rel=1e-12)
    moved = sw.Gate(WEST, EAST, width=1.0, sill=-10.0, opening=sw.Record([0.0, 10.0, 20.0], [0.0, 0.0, 1.0]))
    assert passed(moved, 1.0, 0.0) == 0.0


def test_a_gate_takes_no_more_than_the_water_upstream():
    """Also where its sill is below the bed there, and the other end is deep; both ends have areas of their own."""
    gate = dataclasses.replace(sw.Gate((0.0, 0.0), (1.0, 0.0), 1e3, -5.0), areas=(2.0, 3.0))
    thin, deep = End(jnp.asarray(1.0), jnp.asarray(0.1)), End(jnp.asarray(-9.0), jnp.asarray(4.0))
    passed = partial(gate.volume, gravity=jnp.asarray(9.81), dt=jnp.asarray(1e3))
    assert float(passed(thin, deep)) == pytest.approx(0.1 * 2.0)
    assert float(passed(deep, thin)) == pytest.approx(-0.1 * 3.0)


@pytest.mark.verify
def test_two_ponds_drain_into_each_other_as_torricelli_has_it():
    """sqrt(D) falls linearly: D is the difference of the levels, and the orifice is always drowned."""
    width, head = 2.0, 1.0
    gate = sw.Gate(WEST, EAST, width=width, sill=-3.5, opening=0.5)
    model = ponds(gate)
    state = sw.Simulation(model, levels(model, head, 0.0), sw.AB2(2.0)).run(until=2000.0)
    eta = np.asarray(state.eta)
    rate = 0.6 * width * 0.5 * np.sqrt(2 * G) / AREA  # -dD/dt = 2 rate sqrt(D)
    assert eta[1, 1] - eta[1, 5] == pytest.approx((head**0.5 - rate * 2000.0) ** 2, rel=2e-3)
    assert eta[1, 1] + eta[1, 5] == pytest.approx(head, rel=1e-12)


ENGINES = now([("ab3", "fused"), ("ab3", "arrays"), ("semi_implicit", "arrays")], ("ab3", "fused"))
STEPPERS = {"ab3": sw.AB3(0.5), "semi_implicit": sw.SemiImplicit(0.5)}


@pytest.mark.parametrize("name, engine", ENGINES)
def test_volume_and_tracers_are_kept_in_a_basin_with_gates_that_share_a_cell(name, engine):
    grid = sw.CartesianGrid(12, 9, (0.0, 1200.0), (0.0, 900.0))
    wall = lambda x, y: np.where((x > 500.0) & (x < 600.0), -1.0, 10.0) + 0.0 * y  # noqa: E731
    gates = (
        sw.Gate((450.0, 450.0), (650.0, 450.0), width=20.0, sill=-5.0, opening=3.0),
        sw.Culvert((450.0, 450.0), (650.0, 650.0), width=3.0, sill=-2.0, opening=2.0, length=100.0),
        sw.Pump((1150.0, 50.0), (450.0, 450.0), 30.0),
    )
    tracers = [sw.Tracer("dye", initial=lambda x, y: 1.0 * (x < 550.0) + 0.0 * y), sw.Tracer("one", initial=1.0)]
    model = sw.ShallowWater(
        grid, wall, forcing=gates, tracers=tracers, dtype="float64", communicator="serial", engine=engine
    )
    start = model.state(eta=lambda x, y: np.where(x < 550.0, 1.0, 0.0) + 0.0 * y)
    end = sw.Simulation(model, start, STEPPERS[name]).run(until=60.0)
    assert model.engine == engine
    total = lambda state, key: float(np.sum(np.asarray(state[key])))  # noqa: E731
    for key in ("eta", "dye"):
        assert total(end, key) == pytest.approx(total(start, key), rel=1e-12)
    h = np.where(np.asarray(model.depth) > 0, np.asarray(model.depth) + np.asarray(end.eta), 0.0)
    np.testing.assert_allclose(np.asarray(end["one"]), h, atol=1e-11)
    assert np.asarray(end["dye"])[:, 6:].sum() > 1e-3  # it has come through the wall


def test_gradients_in_every_parameter_are_those_of_the_tangent():
    gates = (
        sw.Gate(WEST, EAST, width=3.0, sill=-1.0, opening=1.3),
        sw.Culvert(WEST, EAST, width=2.0, sill=-3.0, opening=3.2, length=60.0),
        sw.Pump(EAST, WEST, sw.Record([0.0, 8.0, 40.0], [1.0, 3.0, 0.5])),
    )
    model, dt = ponds(*gates), 1.0
    dynamics, first = model.dynamics(sw.AB2(dt)), levels(model, 0.6, 0.0)
    names = [
        ("width", "sill", "opening", "coefficient"),
        ("width", "sill", "opening", "length", "roughness", "coefficient"),
    ]

    def cost(values):
        *openings, pump = dynamics.terms
        new = [replace(term, **dict(zip(keys, each))) for term, keys, each in zip(openings, names, values)]
        new.append(replace(pump, discharge=replace(pump.discharge, values=values[2])))
        equations = replace(dynamics, terms=tuple(new)).prepare()
        add = lambda state, k: (with_exchanges(equations, state, Time(k, 0.0, jnp.asarray(dt), dt)), None)  # noqa: E731
        end, _ = jax.lax.scan(add, first, jnp.arange(20))
        return 100.0 * end.eta[1, 1] ** 2

    values = [[jnp.asarray(float(getattr(gate, key))) for key in keys] for gate, keys in zip(gates, names)]
    values.append(jnp.asarray(gates[2].discharge.values, float))
    along = jax.tree.map(lambda x: 0.1 * (x + 0.3), values)
    program = jit(lambda x, d: linearised(cost, x, d))
    _, gradient, slope = program(values, along)
    assert all(np.abs(np.asarray(x)).max() > 0 for x in jax.tree.leaves(gradient))
    product = sum(float(np.sum(a * b)) for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(along)))
    assert product == pytest.approx(float(slope), rel=1e-12)
    step = 1e-5
    at = lambda s: program(jax.tree.map(lambda x, d: x + s * d, values, along), along)[0]  # noqa: E731
    ahead, back = at(step), at(-step)
    assert float(ahead - back) / (2.0 * step) == pytest.approx(float(slope), rel=1e-6)


REFUSED = [
    (lambda: ponds(sw.Pump(WEST, (140.0, 150.0), 1.0)), "inlet and outlet, .* are in one cell"),
    (lambda: ponds(sw.Pump((-5.0, 0.0), EAST, 1.0)), r"position \(-5, 0\) is outside the grid"),
    (lambda: sw.Pump(WEST, EAST, lambda x, y: x), "Pump: discharge = .* varies in space; give a number in m3 s-1"),
    (lambda: sw.Pump(WEST, EAST, -1.0), "is negative"),
    (lambda: sw.Gate(WEST, EAST, width=0.0, sill=0.0), "is not positive"),
    (
        lambda: ponds(sw.Pump(WEST, EAST, 1.0), layers=sw.Layers((2.0,), densities=(1020.0, 1025.0))),
        "Pump exchanges the whole column of water, and the model has layers",
    ),
    (
        lambda: sw.Simulation(m := ponds(sw.Pump(WEST, EAST, 1.0)), m.at_rest(), sw.RigidLid(1.0)).run(until=1.0),
        "Pump needs a surface that moves",
    ),
]


@pytest.mark.parametrize("make, why", REFUSED, ids=[why for _, why in REFUSED])
def test_what_cannot_be_right_is_refused_in_a_sentence(make, why):
    with pytest.raises(ConfigError, match=why):
        make()


FILE = """
run = {until = "1 hour"}
grid = {type = "cartesian", nx = 7, ny = 3, x = [0, "700 m"], y = [0, "300 m"]}
bathymetry = {type = "formula", depth = "where((x > 300) & (x < 400), -1.0, 4.0)"}
stepper = {type = "ab2"}
forcing = [
  {type = "gate", inlet = ["250 m", "150 m"], outlet = ["450 m", "150 m"], width = 3, sill = "-1 m", one_way = true},
  {type = "culvert", inlet = [250, 50], outlet = [450, 50], width = 3, sill = -1, opening = "1 m", length = "120 m"},
  {type = "pump", inlet = ["250 m", "50 m"], outlet = ["450 m", "50 m"], discharge = {file = "q.csv"}},
]
"""


def test_a_file_describes_them(tmp_path):
    (tmp_path / "q.csv").write_text("time_s,q_m3_s\n0,1\n7200,3\n")
    made = assemble(read_text(FILE, "gates.toml", tmp_path))
    assert made.sentences() == []
    model = model_of(made, "serial")
    assert [type(term).__name__ for term in model.terms] == ["Gate", "Culvert", "Pump"]
    assert model.terms[0].summary(model, 3600.0) == "between (250, 150) and (450, 150)"
    assert model.terms[0].one_way and float(model.terms[1].length) == 120.0
