"""Problems of nested grids: derivatives on each grid and across borders, and controls that act on all grids alike."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint import verification
from swmodel.adjoint.controls.controls import controls_of
from swmodel.adjoint.costs.costs import tile_cost
from swmodel.adjoint.costs.marks import marks_in_water
from swmodel.adjoint.costs.readers import BoxReader, OnGrids, SectionReader
from swmodel.adjoint.costs.records import ground_tracks
from swmodel.adjoint.problem import dot
from swmodel.dynamics.clock import Time
from swmodel.errors import ConfigError
from swmodel.output.products.gauges import Gauges
from swmodel.stencils.native import why_not

from .. import nested

WITH_COMPILER = pytest.mark.skipif(why_not() is not None, reason="no compiler")
FB, STEPS = sw.ForwardBackward(dt=8.0), 10
PLACES = {"town": (11.2e3, 9.3e3), "sea": (7.2e3, 7.4e3)}  # in the nest, and outside of it
TRACKS = adjoint.TrackMisfit(ground_tracks(nested.GRID, 40.0, 80.0, 2e3, 9e3))
CONTROLS = ("initial.eta", "uplift", "depth", "gravity", "dissipation.0.rate")


def family(scale=1.0, **options):
    uplift = scale * nested.bump(*nested.GRID.coordinates("h"))
    source = sw.BottomMotion([0.0, 30.0, 60.0], np.stack([0.0 * uplift, uplift, 1.5 * uplift]))
    options = {"dissipation": (sw.LinearDrag(1e-4),), "source": source} | options
    nests = options.pop("nests", [sw.Nest("harbour", **nested.HARBOUR)])
    return nested.family(nests, **options)


def problem(model, cost=None, controls=CONTROLS, **options):
    cost = adjoint.GaugeElevation(PLACES, window=(8.0, 8.0 * STEPS)) if cost is None else cost
    return adjoint.Problem(model, FB, model.states(eta=nested.bump), STEPS, cost, controls, **options)


def directions(values, seed=0):
    """{name: a direction of one control}: of the initial elevation one offshore, and one within the box alone."""
    random = np.random.default_rng(seed)
    sizes = {"initial.eta": 1.0, "uplift": 1.0, "depth": 10.0, "gravity": 1.0, "dissipation.0.rate": 1e-4}

    def noise(name):
        return jax.tree.map(lambda x: sizes[name] * np.asarray(random.standard_normal(np.shape(x))), values[name])

    found = {name: {name: noise(name)} for name in values}
    box = np.zeros(nested.GRID.shape, bool)
    box[8:18, 9:20] = True
    eta = found.pop("initial.eta")["initial.eta"]
    return found | {"offshore": {"initial.eta": eta * ~box}, "in the nest": {"initial.eta": eta * box}}


@pytest.mark.verify  # tests/unit/test_nests.py has a Taylor test and a dot-product test of two grids
@pytest.mark.parametrize("engine", ["arrays", pytest.param("fused", marks=WITH_COMPILER)])
def test_derivatives_on_each_grid_and_across_borders(engine):
    """M is the tangent from a control to both gauges, M* its adjoint, in a run over two intervals of the uplift."""
    model = family(engine=engine)
    p = problem(model)
    base, units = p.observed(), np.eye(2)[:, None, :] * np.random.default_rng(1).standard_normal((1, STEPS, 1))
    after = nested.final(model, FB, STEPS, eta=nested.bump) if engine == "arrays" else {}
    for column, (name, grid) in enumerate({"town": "harbour", "sea": ""}.items() if after else ()):
        gauge = Gauges.at({name: PLACES[name]}, model.models[grid])
        np.testing.assert_allclose(base[-1, column], gauge.read(after[grid].eta)[0], rtol=1e-12)
    back = [p.observed_adjoint(None, y) for y in units]
    for what, x in directions(p.values).items():
        readings, image = p.observed_tangent(None, x)
        np.testing.assert_allclose(readings, base, rtol=0, atol=1e-14)
        for y, bars in zip(units, back, strict=True):
            forward = float(np.sum(image * y))
            assert forward != 0.0, what
            size = np.linalg.norm(image * (y != 0)) * np.linalg.norm(y)
            assert abs(forward - dot(x, bars, p.communicator)) < 1e-12 * size, what
    several = directions(p.values, seed=2)
    together = {name: x[name] for x in several.values() for name in x}
    together["initial.eta"] = together["initial.eta"] + several["offshore"]["initial.eta"]
    slope = np.array([dot(together, bars, p.communicator) for bars in back])

    def rest(h):
        moved = p.values | {
            name: jax.tree.map(lambda v, d: v + h * d, p.values[name], d) for name, d in together.items()
        }
        return np.abs(np.sum((p.observed(moved) - base) * units, axis=(1, 2)) - h * slope)

    ratios = rest(2e-3) / rest(1e-3)
    assert np.all((3.6 < ratios) & (ratios < 4.4)), ratios


def test_a_change_of_a_control_is_that_of_a_family_made_with_it():
    """Of the uplift and the depth, which nests interpolate, and of numbers; a nest keeps its own kind of drag."""
    one, other = (problem(family(scale, depth=lambda x, y, s=scale: 100.0 * s + 0.001 * x)) for scale in (1.0, 1.1))
    controls = {control.name: control for control in one.controls}
    moved, expected = one.dynamics(0), other.dynamics(0)
    for name in ("uplift", "depth"):
        value = other.values[name]
        moved, _ = controls[name].put(moved, None, (0.0 * value[1], value[1]) if name == "uplift" else value)
    for where in (lambda system: system.uplift.second, lambda system: system.depth):
        for grid, a, b in zip(one.stepped.names, moved.systems, expected.systems, strict=True):
            wet = one.stepped.models[grid].wet
            np.testing.assert_allclose(np.where(wet, where(a), 0), np.where(wet, where(b), 0), rtol=1e-12)
    nest = sw.Nest("harbour", options={"dissipation": (sw.Biharmonic(1e3),)}, **nested.HARBOUR)
    model = family(nests=[nest], dissipation=(sw.Laplacian(1.0),))
    gravity, viscosity = controls_of(model, ["gravity", "dissipation.0.viscosity"])
    assert gravity.nests[0] is not None and viscosity.nests == (None,)


def test_energy_counts_each_place_once_and_sections_lie_in_the_finest_grid():
    model = family(nests=None, depth=100.0)
    readers = BoxReader.over(None, None, 1.0, model).readers
    areas = [
        float(np.sum(reader.inside * one.grid.area_h)) for reader, one in zip(readers.values(), model.models.values())
    ]
    assert len(areas) == 3 and min(areas) > 0
    assert sum(areas) == pytest.approx(30e3 * 26e3, rel=1e-12)
    ends = {1: ((10e3, 9e3), (10e3, 17e3)), 0: ((10e3, 5e3), (10e3, 17e3)), 2: ((13e3, 12e3), (13e3, 14e3))}
    for grid, (start, end) in ends.items():
        assert list(SectionReader.between(start, end, model).readers) == [grid]


@dataclasses.dataclass
class Numbered:
    """Reads 1, 2, ... of its places in the order of PLACES, and for a second part as many tens."""

    names: list[str]

    def read(self, state, equations, time):
        own = np.array([1 + list(PLACES).index(name) for name in self.names])
        return jnp.asarray(np.concatenate([own, 10 * own]))


def test_readings_of_several_grids_are_in_the_order_of_the_places_part_by_part():
    """`town`, the first place, lies in the nest, whose State is the second one."""
    made = OnGrids.at(PLACES, family(), lambda own, one: Numbered(list(own)), parts=2)
    assert {k: reader.names for k, reader in made.readers.items()} == {0: ["sea"], 1: ["town"]}
    equations = SimpleNamespace(total_steps=(1, 3), systems=(None, None))
    assert made.read((None, None), equations, Time(4)).tolist() == [1, 2, 10, 20]
    model = family()
    current = adjoint.Current(PLACES["town"], np.array([24.0]), np.ones(1), np.ones(1))
    misfit = adjoint.JointMisfit([adjoint.VelocityMisfit({"town": current})])
    (part,) = tile_cost(misfit, model, 8.0, 0, STEPS).parts
    assert list(part.reader.readers) == [1]


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"nests": [sw.Nest("harbour", start=16.0, **nested.HARBOUR)]},
            "Problem: the nest 'harbour' starts after 16 s",
        ),
        ({"cost": adjoint.BoxContent("dye")}, "BoxContent: the model steps no tracer 'dye'"),
        ({"cost": TRACKS}, "TrackMisfit reads one grid, and a family has several"),
        ({"state": sw.ShallowWater(nested.GRID, 100.0).at_rest()}, "give family.states"),
    ],
)
def test_what_problems_of_nests_do_not_have_is_refused(options, message):
    model = family(nests=options.get("nests", [sw.Nest("harbour", **nested.HARBOUR)]))
    cost = options.get("cost", adjoint.GaugeElevation(PLACES))
    state = options.get("state", model.states())
    with pytest.raises((ConfigError, ValueError), match=message):
        adjoint.Problem(model, FB, state, 4, cost, options.get("controls", ["initial.eta"]))


def test_marks_near_a_border_are_read_in_the_finest_grid_that_holds_them():
    model, corners = nested.family(), ((8.1e3, 20.9e3, 350.0), (7.1e3, 19e3, 350.0))
    places = np.stack(np.meshgrid(*(np.arange(*ends) for ends in corners)), axis=-1).reshape(-1, 2)
    marks = {f"{k}": adjoint.Mark((float(x), float(y)), 1.0) for k, (x, y) in enumerate(places)}
    found, away = marks_in_water(marks, model)
    assert len(found) > 1200 and len(found) + len(away) == len(marks)
    assert all(model.finest(mark.place) == model.finest(marks[name].place) for name, mark in found.items())


@pytest.mark.verify
def test_derivatives_of_the_content_and_the_concentration_of_a_tracer():
    """Content counts each place once; an initial concentration enters all grids, and depths change the content."""
    smooth = sw.Tracer("dye", initial=lambda x, y: 1.0 + nested.bump(x, y), scheme=sw.Centred(), diffusivity=10.0)
    model = family(tracers=smooth, source=None)
    after = nested.final(model, FB, STEPS, eta=nested.bump)
    controls = ("initial.dye", "initial.eta", "depth", "tracer.0.diffusivity")
    content = problem(model, adjoint.BoxContent("dye"), controls[:2])
    np.testing.assert_allclose(content.value(), model.content("dye", after), rtol=1e-13)
    p = problem(model, adjoint.GaugeConcentration("dye", PLACES), controls)
    for verdict in verification.verify(p):
        assert verdict.passed, verdict


@pytest.mark.verify
def test_all_derivatives_of_a_nest_in_a_nest_of_energy():
    """With Hessian products, and with checkpoints that run steps again."""
    p = problem(family(nests=None), adjoint.BoxEnergy(), CONTROLS[:4], checkpoints=adjoint.Revolve(states=2, steps=2))
    for verdict in verification.verify(p):
        assert verdict.passed, verdict
