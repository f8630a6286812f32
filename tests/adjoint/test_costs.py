"""Costs are what their equations say, however a run is cut, and their derivatives are those of that number.

Most tests take a trajectory of states that no model made: a cost knows nothing of how they came about.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint.costs import costs, readers
from swmodel.adjoint.costs.costs import GaugeConcentration
from swmodel.adjoint.costs.records import Record, records_in
from swmodel.diagnostics.derived import energy
from swmodel.errors import ConfigError, DataError
from swmodel.fields.state import State
from swmodel.output.products.extremes import Maxima
from swmodel.parallel import SerialCommunicator
from swmodel.runtime.compilation import jit

SIDES = (0.0, 9e4), (0.0, 7e4)
GRID = sw.CartesianGrid(9, 7, *SIDES)
LAND = np.zeros(GRID.shape, bool)
LAND[5, 6] = True
MODEL = sw.ShallowWater(
    GRID,
    np.where(LAND, 0.0, 100.0 + 3.0 * np.arange(9)[None, :] + 2.0 * np.arange(7)[:, None]),
    coriolis=sw.FPlane(1e-4),
    communicator=SerialCommunicator(),
    engine="arrays",
)
DYNAMICS = MODEL.interval(2, 0, 1.0)
DT, FIRST, STEPS = 10.0, 4, 12
TIMES = DT * (FIRST + 1 + np.arange(STEPS))
PLACES = {"a": (2.1e4, 3.3e4), "b": (7.7e4, 1.2e4)}
RECORDS = {
    name: Record(place, np.arange(52.0, 158.0, 3.7), np.sin(np.arange(29.0) + k), 0.2 + 0.1 * k, (60.0, 150.0))
    for k, (name, place) in enumerate(PLACES.items())
}
WEIGHTS = np.random.default_rng(9).standard_normal(GRID.shape)
COSTS = {
    "elevation at a time": costs.GaugeElevation(PLACES, time=97.3),
    "mean elevation": costs.GaugeElevation(PLACES, window=(65.0, 131.0)),
    "elevation at the end": costs.GaugeElevation(PLACES),
    "maximum": costs.GaugeMaximum(PLACES),
    "maximum in a window": costs.GaugeMaximum(PLACES, window=(70.0, 120.0), power=6.0),
    "transport along y": costs.SectionTransport((4.1e4, 1e4), (3.9e4, 6e4), time=100.0),
    "transport along x": costs.SectionTransport((8e4, 3e4), (1e4, 3e4)),
    "energy": costs.BoxEnergy(window=(60.0, 160.0)),
    "energy in a box": costs.BoxEnergy((1e4, 5e4), (2e4, 6e4)),
    "misfit": costs.Misfit(RECORDS),
    "one's own": costs.FinalState(lambda state, equations, w: jnp.sum(w * state.eta**3), (WEIGHTS,), "m3"),
}


def trajectory(seed=0, size=1.0):
    """States after each step, (STEPS, ny, nx), zero on land."""
    random = np.random.default_rng(seed)
    masks = MODEL.faces("u"), MODEL.faces("v"), MODEL.wet
    return State(*(jnp.asarray(size * random.standard_normal((STEPS, *GRID.shape)) * m) for m in masks))


def number(cost, states, segments=(STEPS,)):
    """J of a TileCost along a trajectory, read segment by segment."""
    equations = DYNAMICS.prepare()
    acc, done = cost.start(), 0
    if cost.read is not None:
        for count in segments:
            part = jax.tree.map(lambda x: x[done : done + count], states)  # noqa: B023
            readings = jax.lax.map(lambda s: cost.read(s, equations, jnp.asarray(0.0)), part)
            acc = cost.update(acc, readings, jnp.int32(FIRST + 1 + done))
            done += count
    last = jax.tree.map(lambda x: x[-1], states)
    return cost.value(acc, None if cost.final is None else cost.final(last, equations, jnp.asarray(0.0)))


compiled = jit(number, static_argnums=2)


def value(cost, states):
    return float(compiled(cost.on_tile(MODEL, DT, FIRST, STEPS), states))


@jit
def derivatives(cost, x, d):
    """(gradient, slope along d, Hessian times d)."""
    (_, first), (slope, second) = jax.jvp(jax.value_and_grad(lambda x: number(cost, x)), (x,), (d,))
    return first, slope, second


def dot(a, b):
    return sum(float(np.vdot(x, y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)))


def assert_derivatives(cost, changes, floor):
    """Raise AssertionError unless both modes pass a dot-product test, and a Taylor test of third order with these
    `changes`, whose residuals may be below a share `floor` of the cost; return the slope."""
    x, d = trajectory(1), trajectory(2)
    first, slope, second = derivatives(cost, x, d)
    size = float(np.sqrt(dot(first, first) * dot(d, d)))
    assert size > 0 and abs(dot(first, d) - float(slope)) < 1e-13 * size
    at = lambda h: float(compiled(cost, jax.tree.map(lambda a, b: a + h * b, x, d)))  # noqa: E731
    curvature = dot(second, d)
    residuals = [at(h) - at(0.0) - h * float(slope) - 0.5 * h * h * curvature for h in changes]
    small = abs(residuals[0]) < floor * (abs(at(0.0)) + abs(curvature))
    assert small or np.log2(residuals[0] / residuals[1]) > 2.9, residuals
    return float(slope)


@pytest.mark.parametrize("name", COSTS)
def test_derivatives_are_those_of_the_number(name):
    assert_derivatives(COSTS[name].on_tile(MODEL, DT, FIRST, STEPS), (4e-3, 2e-3), 1e-14)


@pytest.mark.parametrize("name", COSTS)
def test_derivatives_at_exact_rest_are_finite(name):
    cost = COSTS[name].on_tile(MODEL, DT, FIRST, STEPS)
    for leaf in jax.tree.leaves(derivatives(cost, trajectory(size=0.0), trajectory(3))):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("name", ["elevation at a time", "maximum in a window", "misfit"])
def test_segments_do_not_matter(name):
    cost, x = COSTS[name].on_tile(MODEL, DT, FIRST, STEPS), trajectory(1)
    assert float(compiled(cost, x, (5, 6, 1))) == pytest.approx(float(compiled(cost, x)), rel=1e-14)


def moving(slope=(1e-5, -2e-5, 3e-3)):
    """States whose eta is linear in x, y and t."""
    x, y = GRID.coordinates("h")
    eta = slope[0] * x[None] + slope[1] * y[None] + slope[2] * TIMES[:, None, None]
    zero = jnp.zeros((STEPS, *GRID.shape))
    return State(zero, zero, jnp.asarray(eta * MODEL.wet)), lambda x, y, t: slope[0] * x + slope[1] * y + slope[2] * t


def test_a_gauge_is_bilinear_in_space_and_linear_in_time():
    states, eta = moving()
    wanted = sum(eta(*place, 97.3) for place in PLACES.values())
    assert value(COSTS["elevation at a time"], states) == pytest.approx(wanted, rel=1e-12)
    at_end = sum(eta(*place, TIMES[-1]) for place in PLACES.values())
    assert value(COSTS["elevation at the end"], states) == pytest.approx(at_end, rel=1e-12)


def test_a_window_is_the_mean_of_the_steps_in_it():
    states, eta = moving()
    inside = TIMES[(TIMES >= 65.0) & (TIMES <= 131.0)]
    assert len(inside) == 7
    wanted = sum(eta(*place, inside.mean()) for place in PLACES.values())
    assert value(COSTS["mean elevation"], states) == pytest.approx(wanted, rel=1e-12)


def test_the_maximum_comes_near_to_the_largest_elevation_from_below_and_counts_no_trough():
    crest = np.exp(-(((TIMES - 110.0) / 40.0) ** 2)) - 3.0 * (TIMES < 60)
    states = State(*(jnp.asarray(k * crest[:, None, None] * MODEL.wet) for k in (0.0, 0.0, 2.0)))
    found = [value(costs.GaugeMaximum({"a": PLACES["a"]}, power=p), states) for p in (2.0, 16.0, 128.0)]
    assert found == sorted(found) and found[-1] < 2.0
    assert found[-1] == pytest.approx(2.0, rel=0.02)
    powers = (2.0 * np.maximum(crest, 0.0)) ** 16
    assert found[1] == pytest.approx(powers.mean() ** (1 / 16), rel=1e-12)


def test_the_maximum_in_a_window_counts_the_steps_in_it_and_no_others():
    """Of a wave that is higher at each step, so that every other window has another maximum."""
    heights = 0.1 * (1.0 + np.arange(STEPS))
    states = State(*(jnp.asarray(k * heights[:, None, None] * MODEL.wet) for k in (0.0, 0.0, 1.0)))
    inside = heights[(TIMES >= 70.0) & (TIMES <= 120.0)]
    wanted = 2 * (inside**6).mean() ** (1 / 6)  # at both gauges
    assert value(COSTS["maximum in a window"], states) == pytest.approx(wanted, rel=1e-12)


def test_a_gauge_is_read_at_the_first_step_too():
    states, eta = moving()
    wanted = sum(eta(*place, TIMES[0]) for place in PLACES.values())
    assert value(costs.GaugeElevation(PLACES, time=TIMES[0]), states) == pytest.approx(wanted, rel=1e-12)


def test_places_on_the_sphere_may_be_a_turn_away():
    """Sections and boxes of a grid from 170 to 190 degrees east, in longitudes from -180 to 180."""
    grid = sw.SphericalGrid(10, 6, (170.0, 190.0), (20.0, 32.0))
    model = sw.ShallowWater(grid, 1000.0, communicator=SerialCommunicator(), engine="arrays")
    here = readers.SectionReader.between((176.0, 22.0), (176.0, 30.0), model)
    beyond = readers.SectionReader.between((184.0, 22.0), (184.0, 30.0), model)
    for place, wanted in ((176.0 - 360.0, here), (184.0 - 360.0, beyond), (-176.0, beyond)):
        found = readers.SectionReader.between((place, 22.0), (place, 30.0), model)
        assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted)))
    middle = [3, 4, 5, 6]
    boxes = {
        (176.0, 184.0): middle,
        (176.0, -176.0): middle,
        (-184.0, -176.0): middle,
        (-188.0, -182.0): [1, 2, 3],
        (0.0, 360.0): [*range(10)],
    }
    for limits, columns in boxes.items():
        inside = np.asarray(readers.BoxReader.over(limits, None, 1.0, model).inside)
        assert np.flatnonzero(inside[0]).tolist() == columns, limits


def test_a_section_across_the_seam_of_a_periodic_direction_does_not_go_the_long_way_round():
    """Longitudes are angles; x of a plane is a length, so that a section goes from one to the other."""
    globe, channel = sw.SphericalGrid(72, 9, (0.0, 360.0), (-45.0, 45.0)), sw.CartesianGrid(9, 7, *SIDES, periodic="xy")

    def along(start, end, grid):
        model = sw.ShallowWater(grid, 1000.0, communicator=SerialCommunicator(), engine="arrays")
        section = readers.SectionReader.between(start, end, model)
        return np.argwhere(np.asarray(section.along_u + section.along_v)).tolist()

    for west, east in ((350, 370), (-10, 10), (350, 10), (10, 350), (370, 350)):
        assert along((west, 5.0), (east, 5.0), globe) == [[4, i] for i in (0, 1, 70, 71)], (west, east)
    assert len(along((20, 5.0), (140, 5.0), globe)) == 24 and len(along((-180, 5.0), (180, 5.0), globe)) == 72
    assert along((8e4, 2e4), (11e4, 2e4), channel) == [[1, i] for i in (0, 1, 8)]
    assert along((1e4, 3e4), (8e4, 3e4), channel) == [[2, i] for i in range(1, 8)]
    assert along((9e4, 6e4), (9e4, 8e4), channel) == [[j, 8] for j in (0, 6)]
    with pytest.raises(ConfigError, match="leaves the grid"):
        along((1e4, 3e4), (11e4, 3e4), channel)


def test_transport_is_the_thickness_times_the_flow_through_the_faces_of_the_section():
    states = trajectory(4)
    h = np.asarray(MODEL.depth * MODEL.wet + states.eta[-1])
    # along x on the line between rows 2 and 3: columns 1 to 7
    along_x = (0.5 * (h[2] + h[3]) * np.asarray(states.v[-1, 2]) * 1e4)[1:8].sum()
    assert value(COSTS["transport along x"], states) == pytest.approx(along_x, rel=1e-12)
    # along y between columns 3 and 4, rows 1 to 5, at t = 100 s, which is the sixth state
    h = np.asarray(MODEL.depth * MODEL.wet + states.eta[5])
    along_y = (0.5 * (h[:, 3] + h[:, 4]) * np.asarray(states.u[5, :, 3]) * 1e4)[1:6].sum()
    assert value(COSTS["transport along y"], states) == pytest.approx(along_y, rel=1e-12)


def test_the_energies_of_boxes_add_up_to_that_of_the_diagnostics():
    states = trajectory(5)
    whole = value(costs.BoxEnergy(), states)
    parts = [value(costs.BoxEnergy(x=x, density=1025.0), states) for x in ((0.0, 4.4e4), (4.4e4, 9e4))]
    assert sum(parts) == pytest.approx(whole, rel=1e-13) and min(parts) > 0
    last = jax.tree.map(lambda x: x[-1], states)
    found = jit(lambda state: energy(DYNAMICS.prepare().flow(state, 0.0)))(last)
    assert whole == pytest.approx(1025.0 * float(found), rel=1e-13)


def test_a_misfit_is_half_the_sum_of_squares_at_the_observed_times():
    states, eta = moving()
    wanted = 0.0
    for record in RECORDS.values():
        used = (record.time >= 60.0) & (record.time <= 150.0)
        modelled = eta(*record.place, record.time[used])
        wanted += 0.5 * np.sum(((modelled - record.value[used]) / record.deviation) ** 2)
    assert value(COSTS["misfit"], states) == pytest.approx(wanted, rel=1e-12)


def test_several_observations_between_two_steps_and_gaps_all_count_as_they_should():
    states, eta = moving()
    time = np.array([61.0, 63.0, 66.5, 90.0, 90.0])
    record = Record(PLACES["a"], time, np.array([0.1, np.nan, 0.3, 0.4, 0.5]), np.array([1.0, 1.0, 2.0, 1.0, 0.5]))
    used = np.isfinite(record.value)
    wanted = 0.5 * np.sum(((eta(*PLACES["a"], time) - record.value) / record.deviation)[used] ** 2)
    assert value(costs.Misfit({"a": record}), states) == pytest.approx(wanted, rel=1e-12)


LONG = np.arange(0.0, 1000.0, 10.0)
WRONG = {
    "outside the grid": lambda: costs.GaugeElevation({"far": (1e9, 0.0)}),
    "has no water around it": lambda: costs.GaugeElevation({"inland": (6.5e4, 5.5e4)}, time=80.0),
    "places = {} is not a dict of places": lambda: costs.GaugeMaximum({}),
    "900 s is not in the run, whose steps end from 50 to 160 s": lambda: costs.GaugeElevation(PLACES, time=900.0),
    "0 to 100 s is not in the run": lambda: costs.GaugeElevation(PLACES, window=(0.0, 100.0)),
    "no step of 10 s ends in the window": lambda: costs.GaugeElevation(PLACES, window=(61.0, 69.0)),
    "exclude one another": lambda: costs.BoxEnergy(time=60.0, window=(60.0, 80.0)),
    "power = 1.0 is less than 2": lambda: costs.GaugeMaximum(PLACES, power=1.0),
    "follows none of its lines": lambda: costs.SectionTransport((1e4, 1e4), (5e4, 6e4)),
    "is one point of it": lambda: costs.SectionTransport((1e4, 1e4), (1.1e4, 1.1e4)),
    "on the edge of the domain": lambda: costs.SectionTransport((0.0, 1e4), (0.0, 6e4)),
    "leaves the grid": lambda: costs.SectionTransport((4e4, 1e4), (4e4, 9e4)),
    "crosses no water": lambda: costs.SectionTransport((7e4, 5e4), (7e4, 6e4)),
    "holds no wet cell": lambda: costs.BoxEnergy((6.1e4, 6.9e4), (5.1e4, 5.9e4)),
    "observations from 0 to 990 s, and the run's": lambda: costs.Misfit({"a": Record(PLACES["a"], LONG, LONG)}),
    "no observation from 2000 to 3000 s": lambda: costs.Misfit(
        {"a": Record(PLACES["a"], LONG, LONG, 1.0, (2000.0, 3000.0))}
    ),
    "standard deviation of 0 m": lambda: costs.Misfit({"a": Record(PLACES["a"], LONG, LONG, 0.0, (60.0, 100.0))}),
    "records = 3 is not a dict of records": lambda: costs.Misfit(3),
    "window = (80.0, 60.0) is not a range": lambda: costs.GaugeMaximum(PLACES, window=(80.0, 60.0)),
    "time = -1 is not positive": lambda: costs.BoxEnergy(time=-1),
    "the model steps no tracer 'dye'": lambda: GaugeConcentration("dye", PLACES),
    "there are no records": lambda: costs.Misfit({}),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_cannot_be_is_told_in_one_sentence(sentence):
    with pytest.raises(ConfigError) as printed:
        WRONG[sentence]().on_tile(MODEL, DT, FIRST, STEPS)
    assert sentence in str(printed.value) and "\n" not in str(printed.value)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda state, equations: state.eta, "an array of shape (7, 9), and a cost is one number"),
        (lambda state, equations: jnp.argmax(state.eta), "has no derivative"),
        (lambda state, equations: {"J": jnp.sum(state.eta)}, "a dict, and a cost is one number"),
    ],
)
def test_a_function_that_is_no_cost_is_refused(function, sentence):
    cost = costs.FinalState(function).on_tile(MODEL, DT, FIRST, STEPS)
    with pytest.raises(ConfigError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        jax.eval_shape(lambda states: number(cost, states), trajectory())


def test_what_is_no_cost_at_all_is_refused_with_what_to_give():
    with pytest.raises(ConfigError, match=r"wrap it: FinalState\(function\)"):
        costs.tile_cost(lambda state: state.eta, MODEL, DT, FIRST, STEPS)
    with pytest.raises(ConfigError, match="arrival times have no derivative: give GaugeMaximum"):
        costs.tile_cost(Maxima(0.01), MODEL, DT, FIRST, STEPS)


def test_records_are_read_from_the_files_of_post_processing(tmp_path):
    (tmp_path / "21418.csv").write_text("time_s,elevation_m\n8,0.5\n0,0.25\n4,\n")
    found = records_in(tmp_path, {"DART 21418": (1.0, 2.0), "unseen": (0.0, 0.0)})
    assert list(found) == ["DART 21418"] and found["DART 21418"].place == (1.0, 2.0)
    np.testing.assert_array_equal(found["DART 21418"].time, [0.0, 4.0, 8.0])
    np.testing.assert_array_equal(found["DART 21418"].counted()[1], [0.25, 0.5])
    (tmp_path / "21418.csv").write_text("time_s,elevation_m\n8,0.5\n", encoding="utf-8-sig")  # as spreadsheets do
    np.testing.assert_array_equal(records_in(tmp_path, {"DART 21418": (1.0, 2.0)})["DART 21418"].time, [8.0])
    with pytest.raises(DataError, match="no file NAME.csv or NAME.nc .* is named after"):
        records_in(tmp_path, {"unseen": (0.0, 0.0)})
    (tmp_path / "unseen.csv").write_text("t,eta\n1,2\n")
    with pytest.raises(DataError, match="lacks the columns"):
        records_in(tmp_path, {"unseen": (0.0, 0.0)})


def test_the_title_of_a_transport_has_all_digits_of_its_ends():
    title = costs.SectionTransport((0.0, 1e6), (123456.0, 1e6)).title()
    assert title == "transport through the section from (0, 1000000) to (123456, 1000000) at the end"
