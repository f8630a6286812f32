"""Operations in place: strips of arrays, and slots for the states of many steps."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.fields.field import Field, mean_xy
from swmodel.nests.interpolation import weights_of
from swmodel.parallel.fft import transposition
from swmodel.stencils import native
from swmodel.stencils.expressions import Layout, Source, stored
from swmodel.stencils.native import add_strips, cut, depends_on, empty, paste, push_slot, read_strips
from swmodel.stencils.stencil import run
from tests.selection import later, now

needs_compiler = pytest.mark.skipif(not native.usable(), reason="no C++ compiler here")

NY, NX = 9, 14
PLACES, SHAPES = [(0, 3), (7, 0), (2, 12)], [(2, 5), (1, 14), (6, 2)]


def random(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


def arrays_and_strips(count):
    strips = [random(10, count, *shape) for shape in SHAPES]
    return [random(k, NY, NX) for k in range(count)], strips


@pytest.mark.parametrize("count", now([1, 3], 3))
@pytest.mark.parametrize("compiler", [True, False])
def test_strips_go_where_they_belong_and_come_out_again(count, compiler, monkeypatch):
    monkeypatch.setattr("swmodel.stencils.native.primitives.usable", lambda: compiler and native.usable())
    arrays, strips = arrays_and_strips(count)
    pasted = jax.jit(lambda a, s: paste(a, s, PLACES))(arrays, strips)
    for k, (array, found) in enumerate(zip(arrays, pasted)):
        expected = np.array(array)
        for (row, column), (rows, columns), group in zip(PLACES, SHAPES, strips):
            expected[row : row + rows, column : column + columns] = group[k]
        np.testing.assert_array_equal(found, expected)
    without, out = jax.jit(lambda a: cut(a, PLACES, SHAPES))(arrays)
    for k, array in enumerate(arrays):
        expected = np.array(array)
        for (row, column), (rows, columns), group in zip(PLACES[::-1], SHAPES[::-1], out[::-1]):  # they overlap
            part = slice(row, row + rows), slice(column, column + columns)
            np.testing.assert_array_equal(group[k], expected[part])
            expected[part] = 0.0
        np.testing.assert_array_equal(without[k], expected)
    same, copies = jax.jit(lambda a: read_strips(a, PLACES, SHAPES))(arrays)
    sums = jax.jit(lambda a, s: add_strips(a, s, PLACES))(arrays, strips)
    for k, array in enumerate(arrays):
        np.testing.assert_array_equal(same[k], array)
        expected = np.array(array)
        for (row, column), (rows, columns), copied, group in zip(PLACES, SHAPES, copies, strips):
            part = slice(row, row + rows), slice(column, column + columns)
            np.testing.assert_array_equal(copied[k], np.asarray(array)[part])
            expected[part] += group[k]
        np.testing.assert_array_equal(sums[k], expected)


@pytest.mark.parametrize("compiler", [True, False])
def test_arrays_get_strips_of_their_own_from_one_row_of_values(compiler, monkeypatch):
    """And what comes back is the transpose, of all members at once."""
    monkeypatch.setattr("swmodel.stencils.native.primitives.usable", lambda: compiler and native.usable())
    strips = [*zip(PLACES[:2], SHAPES[:2])], [*zip(PLACES[2:], SHAPES[2:])]
    arrays, values = [random(k, 2, NY, NX) for k in range(2)], random(9, 2, 36)
    bars = [random(20 + k, 2, NY, NX) for k in range(2)]
    written, (array_bars, value_bars) = pulled(
        jax.vmap(lambda arrays, values: native.write_cells(arrays, values, strips)), bars, arrays, values
    )
    expected, begin = [np.array(x) for x in arrays], 0
    for array, of_array in enumerate(strips):
        for (row, column), (rows, columns) in of_array:
            end = begin + rows * columns
            strip = values[:, begin:end].reshape(2, rows, columns)
            expected[array][:, row : row + rows, column : column + columns] = strip
            begin = end
    np.testing.assert_array_equal(written, expected)
    left = sum(jnp.vdot(x, bar) for x, bar in zip(written, bars))
    right = jnp.vdot(values, value_bars) + sum(jnp.vdot(x, bar) for x, bar in zip(arrays, array_bars))
    np.testing.assert_allclose(left, right, rtol=1e-13)


def whole(x):
    return np.rint(8.0 * np.asarray(x))


def pulled(function, weights, *at):
    """(the function's results, what comes back of `weights`), in one program."""

    @jax.jit
    def both(weights, *at):
        results, pull = jax.vjp(function, *at)
        return results, pull(weights)

    return both(weights, *at)


@pytest.mark.parametrize("write, take", [(paste, cut), (add_strips, read_strips)], ids=["paste, cut", "add, read"])
def test_writing_and_taking_strips_are_each_others_transpose(write, take):
    """To the last bit: sums of products of whole numbers are exact in any order."""
    arrays, strips = jax.tree.map(whole, arrays_and_strips(2))
    weights = [whole(random(30 + k, NY, NX)) for k in range(2)]
    pasted, back = pulled(lambda a, s: write(a, s, PLACES), weights, arrays, strips)
    left = sum(jnp.vdot(x, w) for x, w in zip(pasted, weights))
    right = sum(jnp.vdot(x, y) for x, y in zip(*map(jax.tree.leaves, ((arrays, strips), back))))
    assert float(left) == float(right) != 0.0
    weights = jax.tree.map(lambda x: whole(jnp.cos(x)), take(arrays, PLACES, SHAPES))
    taken, back = pulled(lambda a: take(a, PLACES, SHAPES), weights, arrays)
    left = sum(jnp.vdot(x, w) for x, w in zip(*map(jax.tree.leaves, (taken, weights))))
    right = sum(jnp.vdot(x, y) for x, y in zip(arrays, *back))
    assert float(left) == float(right) != 0.0


@needs_compiler
def test_the_cotangents_of_strips_are_added_in_place():
    """Neither the strips nor their cotangents cost a pass over the array."""

    def steps(x):
        def body(k, x):
            (x,), (low, high) = read_strips([x], [(0, 0), (NY - 1, 0)], [(1, NX), (1, NX)])
            return paste([x], [jnp.sin(low * high)], [(3, 0)])[0]

        return jax.lax.fori_loop(0, 4, body, x)

    def back(x, bar):
        return jax.vjp(steps, x)[1](bar)[0]

    compiled = jax.jit(back, donate_argnums=1).lower(random(1, NY, NX), random(2, NY, NX)).compile()
    adding = [part for part in compiled.as_text().split("\n\n") if native.library.ADD in part]
    assert len(adding) == 1
    whole = [line for line in adding[0].splitlines() if f"= f64[{NY},{NX}]" in line]
    assert not [line for line in whole if " copy(" in line or " pad(" in line or " add(" in line or "fusion(" in line]


@needs_compiler
def test_what_is_stored_is_not_copied_once_more_before_it_is_written_over():
    layout = Layout((NY, NX), 2)

    def steps(x):
        def body(k, both):
            rooms, x = both
            rooms, (x,) = push_slot(rooms, [x], k)
            source = Source(x, layout.origin, (2,) * 4, x.dtype, prognostic=True)
            (new,), _ = run([mean_xy(mean_xy(stored(source, "h")))], layout, [x])
            return rooms, new

        return jax.lax.fori_loop(0, 5, body, ([empty((5, *x.shape), x.dtype)], x))

    f = random(3, NY + 4, NX + 4)
    x = layout.with_border(f, (2,) * 4)
    compiled = jax.jit(steps, donate_argnums=0).lower(x).compile()
    bodies = [part for part in compiled.as_text().split("\n\n") if "swmodel_fused_loop" in part]
    assert len(bodies) == 1 and " copy(" not in "".join(line for line in bodies[0].splitlines() if "f64[" in line)
    (rooms,), last = compiled(jnp.array(x))
    np.testing.assert_array_equal(rooms[0], x)
    one = mean_xy(mean_xy(Field(f, "h", (2,) * 4))).interior
    np.testing.assert_allclose(layout.own(rooms[1]), one, rtol=1e-14, atol=1e-15)
    assert not np.array_equal(rooms[4], last)


@needs_compiler
def test_a_loop_reads_its_numbers_of_one_type_from_one_array():
    layout = Layout((NY, NX), 2)

    def scaled(x, a, b, c):
        source = Source(x, layout.origin, (2,) * 4, x.dtype, prognostic=True)
        field = stored(source, "h")
        return layout.own(run([a * field + b, c * field], layout)[0][0])

    x, numbers = layout.with_border(random(3, NY, NX)), [jnp.float64(2.0), jnp.float64(-1.0), jnp.float64(3.0)]
    program = jax.jit(scaled).lower(x, *numbers)
    (call,) = re.findall(rf"@{native.library.TARGET}\(([^)]*)\)", program.as_text())
    assert call.count("%") == 2, "the array, and the numbers"
    found = program.compile()(x, *numbers)
    np.testing.assert_allclose(found, 2.0 * layout.own(x) - 1.0, rtol=1e-15, atol=1e-15)


def test_an_empty_room_has_no_tangent_and_is_one_for_all_members():
    """Until something is stored in it."""

    def kept(x):
        (buffer,), _ = push_slot([empty((2, *x.shape), x.dtype, [x])], [x], 0)
        return buffer[0]

    x = random(1, 3, 4)
    for found in jax.jvp(jax.jit(kept), (x,), (x,)):
        np.testing.assert_array_equal(found, x)
    many = jnp.stack([x, 2 * x])
    np.testing.assert_array_equal(jax.vmap(kept)(many), many)


@needs_compiler
def test_what_was_looked_at_is_not_copied_before_it_is_written_over():
    def steps(x, high):
        def body(k, both):
            x, high = both
            high = jnp.maximum(high, jnp.max(x))
            (x,) = depends_on([x], high)
            return paste([x], [jnp.full((1, 1, NX), k * 1.0)], [(2, 0)])[0], high

        return jax.lax.fori_loop(0, 4, body, (x, high))

    x = random(1, NY, NX)
    compiled = jax.jit(steps, donate_argnums=0).lower(x, 0.0).compile()
    bodies = [part for part in compiled.as_text().split("\n\n") if native.library.PASTE in part]
    assert len(bodies) == 1
    assert not [line for line in bodies[0].splitlines() if " copy" in line and f"[{NY},{NX}]" in line]
    slope = jax.grad(lambda x: jnp.sum(depends_on([x * x], jnp.sum(x))[0]))(x)
    np.testing.assert_array_equal(slope, 2 * x)


FACES = [(False, False), (False, True), (True, False)]


@pytest.mark.parametrize(
    "ratio, compiler",
    [
        pytest.param(2, True, marks=needs_compiler),
        (3, False),
        later(2, False),
        later(5, False),
        *(pytest.param(ratio, True, marks=[needs_compiler, pytest.mark.verify]) for ratio in (3, 5)),
    ],
)
def test_planes_are_interpolated_by_the_weights_of_their_axes(ratio, compiler, monkeypatch):
    """And what comes back is the transpose, in both directions, of all members at once."""
    monkeypatch.setattr("swmodel.stencils.native.primitives.usable", lambda: compiler)
    shapes, firsts = ((NY, NX), (NX, NY)), ((1, 2), (0, 3))
    ends = [(ratio * NY - 2, ratio * NX), (ratio * NX, 5)]
    fields = [  # each has cells of its own
        (faces, [(old, first, tuple(np.subtract(end, first) - k)) for old, first, end in zip(shapes, firsts, ends)])
        for k, faces in enumerate(FACES)
    ]
    x = random(0, 2, 3, 2 * NY * NX)

    def fine(x):
        return native.interpolate(x, ratio, fields)

    y, begin = jax.jit(jax.vmap(fine))(x), 0
    for k, (faces, boxes) in enumerate(fields):
        for box, old in zip(boxes, np.split(x[:, k], 2, axis=-1), strict=True):
            shape, first, new = box
            found = y[:, begin : begin + new[0] * new[1]].reshape(2, *new)
            begin += new[0] * new[1]
            along_y, along_x = (
                weights_of(np.arange(a, a + m), n, ratio, on_face)
                for a, m, n, on_face in zip(first, new, shape, faces, strict=True)
            )
            expected = [along_y @ plane.reshape(shape) @ along_x.T for plane in old]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    assert begin == y.shape[-1]
    bar = random(1, *y.shape[1:])
    back = jax.jit(lambda bar: jax.linear_transpose(fine, x[0])(bar)[0])
    np.testing.assert_allclose(jnp.vdot(bar, y[0]), jnp.vdot(back(bar), x[0]), rtol=1e-13)
    again = jax.jit(lambda x: jax.linear_transpose(back, bar)(x)[0])(x[0])
    np.testing.assert_allclose(again, y[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("compiler", [pytest.param(True, marks=needs_compiler), False])
def test_sums_over_blocks_have_their_transposes(compiler, monkeypatch):
    """Of blocks that lie in the box in part, or of their last row or column alone, of all members at once."""
    monkeypatch.setattr("swmodel.stencils.native.primitives.usable", lambda: compiler)
    corner, shape, lead, ratio = (2, 1), (5, 9), (1, 2), 3
    planes = ((0, (False, False)), (1, (False, True)), (0, (True, False)))
    blocks, weights = native.Blocks(corner, shape, ratio, lead, planes), random(5, 2, *shape)
    arrays = [random(k, 2, NY, NX) for k in range(3)]

    def sums(*arrays):
        return native.block_sums(arrays, weights, blocks)

    same, found = jax.jit(jax.vmap(sums))(*arrays)
    assert found.shape == (2, 3, *blocks.count) == (2, 3, 2, 4)
    for k, (number, last) in enumerate(planes):
        np.testing.assert_array_equal(same[k], arrays[k])
        expected = np.zeros(found.shape[2:])
        for j, i in np.ndindex(shape):
            at = [n + before for n, before in zip((j, i), lead, strict=True)]
            if all(n % ratio == ratio - 1 or not only for n, only in zip(at, last, strict=True)):
                product = weights[number, j, i] * arrays[k][1, j + corner[0], i + corner[1]]
                expected[at[0] // ratio, at[1] // ratio] += product
        np.testing.assert_allclose(found[1, k], expected, rtol=0, atol=1e-14)
    one = [x[0] for x in arrays]
    _, pull = jax.vjp(sums, *one)
    bars, bar = [random(8 + k, NY, NX) for k in range(3)], random(7, 3, *blocks.count)
    back = jax.jit(pull)((bars, bar))
    left = jnp.vdot(bar, found[0]) + sum(map(jnp.vdot, bars, one))
    np.testing.assert_allclose(left, sum(map(jnp.vdot, back, one)), rtol=1e-13)
    _, slopes = jax.jvp(sums, one, bars)
    np.testing.assert_allclose(jnp.vdot(slopes[1], bar), jnp.vdot(sums(*bars)[1], bar), rtol=1e-13)
    ((_, again),) = jax.linear_transpose(pull, (bars, bar))(tuple(one))
    np.testing.assert_allclose(again, found[0], rtol=0, atol=1e-14)


# -- transforms pack ---------------------------------------------------------------------------------------------------

# (shape, ranks, block, type); the last leaves a rank nothing
PACKED_SHAPES = [((6, 9), 2, 5, np.float32), ((2, 70, 41), 3, 14, complex), ((4, 3, 7), 3, 4, float)]


def numbers(shape, dtype=float, seed=0):
    random = np.random.default_rng((seed, *shape))
    x = random.standard_normal(shape)
    return jnp.asarray(x + 1j * random.standard_normal(shape) if np.dtype(dtype).kind == "c" else x, dtype)


def operations(shape, ranks, block, across):
    """(native, plain, shape of the operand, options) of the four."""
    whole = transposition._split_shape(shape, ranks, block, across)
    rows = tuple(shape[-3 if across else -2] - (k > 0) for k in range(ranks))
    joined = (*whole[1:-1], sum(rows))
    return [
        (transposition._split, transposition._split_plainly, shape, {"ranks": ranks, "block": block, "across": across}),
        (transposition._split_back, transposition._split_back_plainly, whole, {"width": shape[-1], "across": across}),
        (transposition._join, transposition._join_plainly, whole, {"rows": rows}),
        (transposition._join_back, transposition._join_back_plainly, joined, {"rows": rows}),
    ]


@needs_compiler
@pytest.mark.parametrize("shape, ranks, block, dtype", PACKED_SHAPES, ids=str)
def test_a_native_pass_is_what_slices_and_transposes_make(shape, ranks, block, dtype):
    for across in (False, True)[: len(shape) - 1]:
        for quick, plain, operand, options in operations(shape, ranks, block, across):
            x = numbers(operand, dtype)
            own, expected = jax.jit(lambda x: (quick(x, **options), plain(x, **options)))(x)  # noqa: B023
            np.testing.assert_array_equal(own, expected)


@needs_compiler
def test_large_arrays_go_past_the_cache_unchanged():
    x = numbers((1030, 513), complex)
    for quick, plain, operand, options in operations(x.shape, 2, 257, False):
        x = numbers(operand, complex)
        assert x.nbytes > 1 << 23
        np.testing.assert_array_equal(quick(x, **options), plain(x, **options))
