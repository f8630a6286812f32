"""C-grid operators: where their results lie, how much halo they use, and what they are exact for."""

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.errors import TileError
from swmodel.fields import field as op
from swmodel.fields.field import WHOLE, Field
from swmodel.models import engine

HALO = 2
STEPS = {  # operator, from -> to, what is lost of (west, east, south, north)
    "x": {("h", "u"): (0, 1, 0, 0), ("u", "h"): (1, 0, 0, 0), ("v", "q"): (0, 1, 0, 0), ("q", "v"): (1, 0, 0, 0)},
    "y": {("h", "v"): (0, 0, 0, 1), ("v", "h"): (0, 0, 1, 0), ("u", "q"): (0, 0, 0, 1), ("q", "u"): (0, 0, 1, 0)},
}
OPERATORS = {"x": (op.west, op.east, op.difference_x, op.mean_x), "y": (op.south, op.north, op.difference_y, op.mean_y)}
CASES = [(axis, *move, lost) for axis, moves in STEPS.items() for move, lost in moves.items()]


def sample(position, function=lambda x, y: 3.0 * x + 5.0 * y, nx=5, ny=4, halo=HALO):
    """A function of cell numbers, cell centres at whole numbers, as a Field with halo."""
    x = np.arange(-halo, nx + halo) + 0.5 * (position in "uq")
    y = np.arange(-halo, ny + halo) + 0.5 * (position in "vq")
    return Field(jnp.asarray(function(x[None, :], y[:, None]) + np.zeros((y.size, x.size))), position, (halo,) * 4)


@pytest.mark.parametrize("axis, here, there, lost", CASES)
def test_results_lie_half_a_cell_away_and_cost_one_cell_of_halo(axis, here, there, lost):
    for operator in OPERATORS[axis]:
        result = operator(sample(here))
        assert result.position == there
        assert result.halo == tuple(HALO - n for n in lost)


@pytest.mark.parametrize("axis, here, there, lost", CASES)
def test_means_and_differences_are_exact_for_linear_functions(axis, here, there, lost):
    _, _, difference, mean = OPERATORS[axis]
    wanted = sample(there)
    np.testing.assert_allclose(mean(sample(here)).interior, wanted.interior, rtol=1e-14)
    np.testing.assert_allclose(difference(sample(here)).interior, 3.0 if axis == "x" else 5.0, rtol=1e-13)


@pytest.mark.parametrize("axis, here, there, lost", CASES)
def test_neighbours_are_the_values_on_that_side(axis, here, there, lost):
    low, high, *_ = OPERATORS[axis]
    half = 1.5 if axis == "x" else 2.5
    np.testing.assert_allclose(low(sample(here)).interior, sample(there).interior - half, rtol=1e-13)
    np.testing.assert_allclose(high(sample(here)).interior, sample(there).interior + half, rtol=1e-13)


def test_the_four_neighbours_are_summed():
    product = lambda x, y: x * y  # noqa: E731
    np.testing.assert_allclose(op.sum_xy(sample("h", product)).interior, 4 * sample("q", product).interior, rtol=1e-13)
    np.testing.assert_allclose(op.mean_xy(sample("u", product)).interior, sample("v", product).interior, rtol=1e-13)


def test_a_column_is_its_own_neighbour_along_x():
    column = Field(jnp.arange(6.0)[:, None], "h", (WHOLE, WHOLE, 1, 1))
    np.testing.assert_array_equal(op.mean_x(column).data, column.data)
    np.testing.assert_array_equal(op.east(column).data, column.data)
    np.testing.assert_array_equal(op.difference_x(column).data, 0 * column.data)
    assert op.mean_x(column).position == "u" and op.mean_x(column).halo == (WHOLE, WHOLE, 1, 1)


WIDTHS = [
    (sw.EnergyConserving(), (), sw.AB2(1.0), 1),
    (sw.EnstrophyConserving(), (), sw.RK4(1.0), 1),
    (sw.ArakawaLamb(), (), sw.AB2(1.0), 2),
    (sw.EnergyConserving(), (sw.Laplacian(1.0),), sw.AB2(1.0), 1),
    (sw.EnergyConserving(), (sw.Biharmonic(1.0),), sw.AB2(1.0), 2),
    (sw.EnergyConserving(), (), sw.ForwardBackward(1.0), 2),
    (sw.ArakawaLamb(), (), sw.ForwardBackward(1.0), 2),
    (sw.ArakawaLamb(), (sw.Biharmonic(1.0),), sw.ForwardBackward(1.0), 2),
    (sw.EnergyConserving(), (sw.QuadraticDrag(1.0), sw.ManningDrag(0.5), sw.LinearDrag(1.0)), sw.SSPRK3(1.0), 1),
]


@pytest.mark.parametrize("momentum, terms, stepper, width", WIDTHS)
def test_the_halo_of_a_step_is_as_wide_as_its_stencil_needs(momentum, terms, stepper, width):
    """Energy form 1, Arakawa-Lamb 2, Laplacian 1, biharmonic 2, by maximum;
    forward-backward needs eta one cell further."""
    grid = sw.CartesianGrid(8, 7, (0.0, 8.0), (0.0, 7.0))
    model = sw.ShallowWater(grid, 100.0, momentum=momentum, dissipation=terms, coriolis=sw.FPlane(1e-4))
    assert model.halo(stepper) == width


def test_the_halo_is_looked_for_by_what_stencils_lack_and_once_for_models_that_are_alike(monkeypatch):
    """A coast's limited fluxes of tracers reach far, and one trace with a halo of one cell finds by how much."""
    monkeypatch.setattr(engine, "_WIDTHS", {})
    monkeypatch.setattr(
        engine, "_missing", lambda *arguments, find=engine._missing: widths.append(arguments[2]) or find(*arguments)
    )

    def model(depth):
        grid = sw.CartesianGrid(16, 14, (0.0, 1.6e4), (0.0, 1.4e4))
        return sw.ShallowWater(
            grid, depth, wetting=sw.WettingDrying(), momentum=sw.MomentumConserving(), tracers=(sw.Tracer("dye"),)
        )

    widths = []
    coast = model(100.0)
    width = coast.halo(sw.SSPRK3(1.0))
    assert width > 1 and widths == [1] and set(coast._tiled) <= {width}
    widths.clear()
    other = model(50.0)
    assert other.halo(sw.SSPRK3(2.0)) == coast.halo(sw.SSPRK3(1.0)) and not widths
    with pytest.raises(TileError, match="fewer than the halo"):
        sw.ShallowWater(
            sw.CartesianGrid(16, 2, (0.0, 1.6e4), (0.0, 1.4e4)), 100.0, momentum=sw.MomentumConserving()
        ).halo(sw.SSPRK3(1.0))
