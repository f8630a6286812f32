"""Faults by the thousand: their uplift by a lattice is that of every fault in every cell, with far fewer points."""

import dataclasses

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel.fields.state import replace
from swmodel.sources import Fault, SeaSurface, Source, motion
from swmodel.sources.fault import AzimuthalEqualArea
from swmodel.sources.motion import Lattice, cubic_weights
from tests.selection import later

GRID = sw.SphericalGrid(150, 130, (140.0, 145.0), (35.0, 39.3))  # cells of 2 arc-minutes, 3.7 km
DEPTH = 3000.0 + 1500.0 * np.sin(np.arange(130))[:, None] * np.cos(np.arange(150))


def rupture(along, down):
    """Subfaults of 6 km x 4 km on a plane that dips to the west, with slip and onsets of their own."""
    i, j = np.meshgrid(np.arange(along), np.arange(down))
    number = np.arange(i.size)
    place = {
        "longitude": 142.5 - 0.04 * j.ravel(),
        "latitude": 36.2 + 0.05 * i.ravel(),
        "depth": 5e3 + 800.0 * j.ravel(),
    }
    plane = {"length": 6e3, "width": 4e3, "strike": 190.0, "dip": 12.0, "rise_time": 10.0}
    slip = {"rake": 80.0 + number % 20, "slip": 2.0 + np.sin(number), "onset": 2.0 * (number % 7)}
    return Source([Fault(**place, **plane, **slip)], projection=AzimuthalEqualArea(GRID.radius))


@pytest.mark.parametrize("horizontal", (later(False), True))
def test_the_uplift_by_a_lattice_is_that_of_every_fault_in_every_cell(horizontal):
    source = rupture(4, 3)
    every = SeaSurface.of(GRID, DEPTH, horizontal=horizontal, kajiura=False, around=source)
    assert every.lattice is None and every.near is not None  # so few faults need none
    rows, columns = (4 * (-(-n // 4) + 13) for n in every.near)
    lattice = Lattice(4, every.window.shape, (rows, columns))
    times = np.array([0.0, 8.0, 30.0])
    expected, found = (
        jax.jit(lambda surface=surface: surface.records(source, times)[1])()
        for surface in (every, replace(every, lattice=lattice))
    )
    error = np.abs(np.asarray(found - expected)).max() / np.abs(np.asarray(expected)).max()
    assert 0 < error < 2e-4, error
    assert np.abs(np.asarray(expected)[1]).max() > 0.1  # of a motion on its way


def test_a_lattice_evaluates_far_fewer_points(monkeypatch):
    source, points = rupture(100, 80), []
    exact = motion.surface_displacement

    def counted(x, *others):
        points.append(x.size)
        return exact(x, *others)

    monkeypatch.setattr(motion, "surface_displacement", counted)
    grid = sw.SphericalGrid(900, 800, (138.0, 147.0), (33.0, 41.0))  # cells of 36 arc-seconds, 720,000 in all

    def of_one_fault(surface):
        points.clear()
        jax.eval_shape(lambda: surface._on_patch(source, np.zeros((1, 8000))))
        return sum(points) / 2  # eval_shape of a scan traces its body twice: for its type, and for its result

    surface = SeaSurface.of(grid, np.full(grid.shape, 4e3), horizontal=False, kajiura=False, around=source)
    assert surface.lattice is not None
    many = of_one_fault(replace(surface, lattice=None))
    few = of_one_fault(surface)
    assert many >= grid.nx * grid.ny and many > 15 * few, (many, few)
    assert few < 1.5 * surface.lattice.points


def test_cubics_are_interpolated_exactly_and_shared_nodes_exactly():
    nodes = np.arange(-6.0, 42.0, 6.0) / 10.0
    cubic = np.polynomial.Polynomial([1.0, -2.0, 0.5, 3.0])
    np.testing.assert_allclose(cubic_weights(30, 6) @ cubic(nodes), cubic(np.arange(30) / 10.0), rtol=1e-12)
    assert dataclasses.asdict(Lattice(6, (30, 30), (12, 18)))["block"] == (12, 18)
