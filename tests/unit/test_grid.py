"""Grids: coordinates, exact areas, sides, poles, and what is refused."""

import numpy as np
import pytest

import swmodel as sw

R = 6.371e6


def test_cells_of_the_plane_are_equal_rectangles():
    grid = sw.CartesianGrid(4, 5, (0.0, 8.0), (-5.0, 10.0))
    assert grid.shape == (5, 4)
    metrics = grid.metrics(np.arange(5))
    assert all(metrics[f"dx_{p}"] == 2.0 and metrics[f"dy_{p}"] == 3.0 for p in "huvq") and metrics["area_h"] == 6.0
    np.testing.assert_allclose(grid.area_h, np.full((5, 1), 6.0))


def test_points_lie_where_the_c_grid_has_them():
    grid = sw.CartesianGrid(2, 2, (0.0, 4.0), (0.0, 2.0))
    wanted = {"h": ([1, 3], [0.5, 1.5]), "u": ([2, 4], [0.5, 1.5]), "v": ([1, 3], [1, 2]), "q": ([2, 4], [1, 2])}
    for position, (x, y) in wanted.items():
        found = grid.coordinates(position)
        np.testing.assert_allclose(found[0], [x])
        np.testing.assert_allclose(found[1], np.array([y]).T)


@pytest.mark.parametrize("latitude", ((-90.0, 90.0), (15.0, 60.0), (-90.0, -60.0)))
def test_areas_on_the_sphere_are_exact(latitude):
    grid = sw.SphericalGrid(7, 9, (100.0, 170.0), latitude)
    south, north = np.sin(np.deg2rad(latitude))
    np.testing.assert_allclose(7 * grid.area_h.sum(), R**2 * np.deg2rad(70.0) * (north - south), rtol=1e-14)


def test_sides_on_the_sphere_shrink_with_the_cosine_of_latitude():
    grid = sw.SphericalGrid(36, 6, (0.0, 360.0), (0.0, 60.0))
    metrics, step = grid.metrics(np.arange(6)), R * np.deg2rad(10.0)
    centres, edges = np.deg2rad(np.arange(5.0, 60.0, 10.0)), np.deg2rad(np.arange(10.0, 61.0, 10.0))
    for position in "hu":
        np.testing.assert_allclose(metrics[f"dx_{position}"][:, 0], step * np.cos(centres), rtol=1e-14)
    for position in "vq":
        np.testing.assert_allclose(metrics[f"dx_{position}"][:, 0], step * np.cos(edges), rtol=1e-14)
    assert all(np.allclose(metrics[f"dy_{position}"], step, rtol=1e-14) for position in "huvq")


def test_a_cell_has_no_side_and_no_area_beyond_a_pole():
    grid = sw.SphericalGrid(8, 4, (0.0, 360.0), (-90.0, 90.0))
    assert grid.poles == (True, True)
    metrics = grid.metrics(np.arange(-2, 6))
    assert metrics["dx_v"][1, 0] == metrics["dx_q"][5, 0] == 0.0
    np.testing.assert_allclose(metrics["area_h"][[0, 1, 6, 7], 0], 0.0, atol=1e-3)
    assert np.isfinite([m for m in metrics["dx_h"]]).all()


def test_a_turn_of_longitude_is_periodic_unless_told_otherwise():
    assert sw.SphericalGrid(8, 4, (-180.0, 180.0), (0.0, 40.0)).periodic_x
    assert not sw.SphericalGrid(8, 4, (0.0, 360.0), (0.0, 40.0), periodic="").periodic_x
    assert not sw.SphericalGrid(8, 4, (170.0, 190.0), (0.0, 40.0)).periodic_x


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: sw.CartesianGrid(0, 4, (0, 1), (0, 1)), "nx = 0 is less than 1"),
        (lambda: sw.CartesianGrid(4, 2.5, (0, 1), (0, 1)), "ny = 2.5 is not a whole number"),
        (lambda: sw.CartesianGrid(4, 4, (1, 0), (0, 1)), "x = .* is not a range"),
        (lambda: sw.CartesianGrid(4, 4, (0, 1), (0, np.nan)), "y = .* is not two finite numbers"),
        (lambda: sw.CartesianGrid(4, 4, (0, 1), (0, 1), "yx"), "periodic = 'yx' is unknown; did you mean 'y'"),
        (lambda: sw.SphericalGrid(4, 4, (0, 400), (0, 1)), "more than 360 degrees"),
        (lambda: sw.SphericalGrid(4, 4, (0, 40), (0, 91)), "goes beyond a pole"),
        (lambda: sw.SphericalGrid(4, 4, (0, 40), (0, 10), "x"), "cannot be periodic"),
        (lambda: sw.SphericalGrid(4, 4, (0, 360), (0, 10), "y"), "periodic = 'y' is unknown; known are"),
    ],
)
def test_impossible_grids_are_refused_in_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_the_coriolis_parameter_is_that_of_the_corners():
    plane = sw.CartesianGrid(3, 4, (0.0, 3.0), (0.0, 8.0))
    np.testing.assert_allclose(sw.BetaPlane(1.0, 0.5, y0=2.0).at(plane, [0, 3])[:, 0], [1.0, 4.0])
    sphere = sw.SphericalGrid(3, 2, (0.0, 30.0), (0.0, 60.0))
    expected = 2e-4 * np.sin(np.deg2rad([0, 30, 60]))
    np.testing.assert_allclose(sw.RotatingSphere(1e-4).at(sphere, [-1, 0, 1])[:, 0], expected)
    with pytest.raises(ValueError, match="use RotatingSphere"):
        sw.BetaPlane(1.0, 1.0).at(sphere, [0])
    with pytest.raises(ValueError, match="use FPlane or BetaPlane"):
        sw.RotatingSphere().at(plane, [0])
