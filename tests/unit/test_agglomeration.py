"""Multigrid on more ranks than its coarsest grid has cells: coarse grids are gathered, and no matrix grows with it."""

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel import elliptic
from swmodel.elliptic import Coefficients, ConjugateGradients, Domain, multigrid
from swmodel.elliptic.base import _program
from tests.stacked import StackedCommunicator


def eigenproblems(jaxpr):
    """The numbers of rows of all matrices whose eigenvectors a jaxpr computes."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "eigh":
            yield equation.invars[0].aval.shape[-1]
        for value in equation.params.values():
            if hasattr(value, "jaxpr") or hasattr(value, "eqns"):
                yield from eigenproblems(getattr(value, "jaxpr", value))


def problem(side, cells, periodic):
    """(grid, wet, b) of side x side tiles of cells x cells, with islands; b adds up to zero."""
    n = side * cells
    grid = sw.CartesianGrid(n, n, (0.0, 1e3 * n), (0.0, 1e3 * n), periodic)
    random = np.random.default_rng(0)
    wet = np.ones((n, n), bool)
    for j, i in random.integers(0, n - n // 8, (6, 2)):
        wet[j : j + n // 8, i : i + n // 16] = False
    return grid, wet, np.where(wet, random.standard_normal((n, n)), 0.0)


@pytest.mark.verify
@pytest.mark.parametrize(
    "side, cells, gathered, periodic", [(16, 5, 500, "x"), (16, 4, 1024, ""), (64, 4, 2**14, ""), (64, 4, 2**14, "x")]
)
def test_the_cycle_of_many_tiles_solves_as_fast_as_that_of_one(side, cells, gathered, periodic, monkeypatch):
    monkeypatch.setattr(multigrid, "GATHERED", gathered)
    grid, wet, b = problem(side, cells, periodic)
    solver, coefficients = ConjugateGradients(elliptic.Multigrid(precision="float64"), 1e-10), Coefficients(1.0, 1e-8)
    one = Domain.of(grid, sw.parallel.SerialCommunicator(), wet, float)
    wanted, alone = elliptic.solve(solver, one, coefficients, b)
    tiles = StackedCommunicator((side, side))
    many = Domain.of(grid, tiles, wet, float)
    parts = tiles.place(lambda rank: tiles.decomposition(grid.shape).cut(b, rank))
    program, given = _program(solver, tiles), (many, coefficients_of(tiles, coefficients), parts)
    rows = list(eigenproblems(jax.make_jaxpr(program)(*given).jaxpr))
    assert rows and max(rows) <= 200 < tiles.size, rows
    found, together = program(*given)[:2]
    found = np.asarray(found).swapaxes(1, 2).reshape(grid.shape)
    np.testing.assert_allclose(found, wanted, atol=1e-8 * np.abs(wanted).max())
    assert np.asarray(together.converged).all()
    assert np.asarray(together.iterations).max() <= int(alone.iterations) + 3


def coefficients_of(tiles, coefficients):
    return tiles.place(lambda rank: jax.tree.map(np.asarray, coefficients))
