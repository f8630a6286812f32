"""Tiles cover the grid once, differ by at most one cell, and are cut where the cut is shortest."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.parallel import Decomposition, SerialCommunicator, TileError, best_layout, make_communicator
from swmodel.parallel.halo import Sides, exchange, refresh

SHAPES, LAYOUTS = ((11, 13), (6, 7), (4, 9)), ((1, 1), (2, 3), (3, 2), (4, 1), (1, 5), (4, 4))


@pytest.mark.parametrize("shape, layout", list(itertools.product(SHAPES, LAYOUTS)))
def test_tiles_cover_the_grid_exactly_once_and_differ_by_at_most_one(shape, layout):
    parts = Decomposition(shape, layout)
    covered = np.zeros(shape, int)
    tiles = [parts.tile(rank) for rank in range(parts.size)]
    for tile in tiles:
        covered[tile.slices] += 1
    assert (covered == 1).all()
    for k in range(2):
        sizes = [tile.shape[k] for tile in tiles]
        assert max(sizes) - min(sizes) <= 1
        along = sizes[:: layout[1]] if k == 0 else sizes[: layout[1]]
        assert along == sorted(along, reverse=True)


def test_ranks_are_numbered_along_x_first():
    parts = Decomposition((4, 9), (2, 3))
    assert [parts.coordinates(rank) for rank in range(6)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert parts.tile(4).slices == (slice(2, 4), slice(3, 6))


@pytest.mark.parametrize("ranks", (1, 2, 4, 6, 12))
@pytest.mark.parametrize("shape", ((100, 30), (30, 100), (64, 64), (7, 50)))
def test_the_best_layout_cuts_the_least_and_rows_sooner_than_columns(shape, ranks):
    thin = lambda py, px: max(8 - min(shape[0] // py, shape[1] // px), 0)  # noqa: E731
    cut = lambda py, px: (thin(py, px), (py - 1) * shape[1] + 4 * (px - 1) * shape[0])  # noqa: E731
    possible = [
        (p, ranks // p) for p in range(1, ranks + 1) if ranks % p == 0 and p <= shape[0] and ranks // p <= shape[1]
    ]
    assert cut(*best_layout(shape, ranks)) == min(cut(*layout) for layout in possible)


def test_long_rows_are_kept_until_cuts_across_them_are_much_shorter():
    assert best_layout((40, 40), 2) == (2, 1)
    assert best_layout((40, 100), 2) == (2, 1)
    assert best_layout((40, 400), 2) == (1, 2)
    assert best_layout((400, 400), 64) == (16, 4)
    assert best_layout((11, 13), 6) == (2, 3)  # 6 x 1 would leave tiles of a single row


def test_more_ranks_than_cells_are_refused_with_the_most_possible():
    with pytest.raises(TileError, match="use at most 12 ranks"):
        best_layout((3, 4), 13)
    with pytest.raises(TileError, match="at least 2 x 2 cells; use at most 6 ranks"):
        best_layout((4, 6), 7, halo=2)
    with pytest.raises(TileError, match="5 tiles along y, where the grid has 4 cells"):
        Decomposition((4, 6), (5, 1))


def test_a_tile_thinner_than_the_halo_is_refused_with_the_most_ranks_possible():
    parts = Decomposition((8, 10), (4, 2))
    parts.check_halo(2)
    sentence = r"tiles of 5 x 2 cells, thinner than the halo of 3; use at most 6 ranks \(no more than 2 along y and 3"
    with pytest.raises(TileError, match=sentence):
        parts.check_halo(3)


def test_a_grid_thinner_than_the_halo_is_refused():
    with pytest.raises(TileError, match="the grid has 1 cells along y, fewer than the halo of 2"):
        Decomposition((1, 10), (1, 1)).check_halo(2)


def test_a_tile_is_cut_with_what_lies_beyond_each_edge():
    whole = np.arange(20.0).reshape(4, 5)
    tile = Decomposition((4, 5), (2, 1)).tile(1)
    np.testing.assert_array_equal(tile.cut(whole, 0, 0, 0), whole[2:])
    wrapped = tile.cut(whole, 1, "wrap", "wrap")
    np.testing.assert_array_equal(wrapped, np.pad(whole, 1, mode="wrap")[2:6])
    mixed = tile.cut(whole, 2, ("edge", 7.0), (-1.0, "edge"))
    np.testing.assert_array_equal(mixed[:4, 2:-2], whole)
    np.testing.assert_array_equal(mixed[4:, 2:], 7.0)
    np.testing.assert_array_equal(mixed[:, :2], -1.0)
    np.testing.assert_array_equal(mixed[:4, -2:], whole[:, [-1, -1]])
    np.testing.assert_array_equal(tile.cut(np.stack([whole, -whole]), 1, 0, "wrap")[1, 1:3, 1:-1], -whole[2:])


@pytest.mark.parametrize("layout", ["2x2", 4, (2,), (-2, -2), (2, 2, 1), (2.0, 2.0), (0, 4)])
@pytest.mark.parametrize("kind", ["auto", "sharded"])
def test_what_is_no_layout_is_refused_in_a_sentence(kind, layout):
    with pytest.raises(TileError, match="is not .py, px., tiles along y and x; give two whole numbers"):
        make_communicator(kind, (8, 8), layout)


def test_a_layout_of_more_tiles_than_ranks_is_refused_in_a_sentence():
    message = r"layout 2 x 3 \(y x x\) needs 6 ranks, and 1 was started; change the layout or start mpirun -n 6"
    with pytest.raises(TileError, match=message):
        make_communicator("serial", (8, 8), (2, 3))


def test_a_grid_of_three_dimensions_is_refused_in_a_sentence():
    for kind in ("auto", "sharded"):
        with pytest.raises(TileError, match=r"a grid of \(8, 8, 8\) is not \(ny, nx\); of three"):
            make_communicator(kind, (8, 8, 8))
    with pytest.raises(TileError, match="use 1 tile along y"):
        Decomposition((1, 8), (2, 1))


@pytest.mark.parametrize("border", [(1, 1, 1, 1), (3, 2, 1, 4), (1, 2, 4, 2)])
def test_ghosts_are_set_in_place_for_any_padding_of_an_array_on_each_side(border):
    """As `exchange` has them, on a torus: the tile's own cells from the other side."""
    grid, communicator = sw.CartesianGrid(6, 5, (0.0, 6.0), (0.0, 5.0), "xy"), SerialCommunicator()
    sides = Sides.of(grid, communicator, (), float)
    tile = np.random.default_rng(7).standard_normal(grid.shape)
    west, east, south, north = border
    whole = np.pad(tile, ((south, north), (west, east)), constant_values=np.nan)
    (found,) = refresh([jnp.asarray(whole)], 1, sides, communicator, border)
    inner = np.asarray(found)[south - 1 : south + 6, west - 1 : west + 7]
    np.testing.assert_array_equal(inner, np.pad(tile, 1, mode="wrap"))
    np.testing.assert_array_equal(inner, exchange([jnp.asarray(tile)], 1, sides, communicator)[0])
