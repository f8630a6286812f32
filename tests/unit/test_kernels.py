"""Fused loops: what they are made of, that they copy nothing, and what happens where they cannot be had."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel.dynamics.limiters import upstream
from swmodel.fields.field import Field, HaloError, difference_x, mean_x, mean_xy, mean_y, pointwise, sum_xy
from swmodel.fields.state import replace
from swmodel.parallel import SerialCommunicator
from swmodel.runtime.compilation import jit
from swmodel.simulation.program import Health, advance, start_carry
from swmodel.simulation.simulation import Simulation
from swmodel.stencils import Slot, evaluate, evaluate_storing, native
from swmodel.stencils.compiled import compares_rounded, loops_in
from swmodel.stencils.derivatives import tangent
from swmodel.stencils.expressions import Layout, Source, lift, stored
from swmodel.stencils.graph import Unsupported, trace_graph
from swmodel.stencils.native import library
from swmodel.stencils.pallas import parts
from swmodel.stencils.schedule import schedule
from swmodel.stencils.source import c_source, operations
from swmodel.stencils.stencil import run
from swmodel.stepping.fused import FusedStepLoop, InterpretedStepLoop
from swmodel.stepping.loop import pack_state
from swmodel.stepping.steps import ArrayStepLoop
from tests.selection import later, now

pytestmark = [
    pytest.mark.skipif(not native.usable(), reason="no C++ compiler here"),
    pytest.mark.usefixtures("large_tiles"),
]

NY, NX = 9, 14


def field(seed=0, halo=2, position="h", dtype=np.float64):
    data = np.random.default_rng(seed).standard_normal((NY + 2 * halo, NX + 2 * halo))
    return Field(jnp.asarray(data, dtype), position, (halo,) * 4)


def fused(make, *fields, ghosts=2):
    layout = Layout((NY, NX), ghosts)
    (array,), margin = jax.jit(lambda *f: run([make(*map(lift, f))], layout))(*fields)
    west, east, south, north = (width - ghosts for width in layout.border)
    return np.array(array)[south : array.shape[0] - north, west : array.shape[1] - east], int(margin)


@pytest.mark.parametrize(
    "make",
    [
        lambda f: f * 2.0 - 1.0 / (3.0 + f * f),
        lambda f: mean_y(difference_x(f)),
        lambda f: mean_xy(mean_xy(f)),
        lambda f: f.map(jnp.cbrt) + f.map(jnp.abs).map(jnp.sqrt),
        lambda f: f.map(lambda x: jnp.where(x > 0.3, jnp.maximum(x, 0.5), -(x**3))),
        lambda f: f.map(lambda x: jnp.exp(-x * x) + jnp.tanh(x)),
        lambda f: f.map(lambda x: (x > 0).astype(x.dtype)) * f,
    ],
)
def test_a_fused_loop_is_what_the_operators_say(make):
    f = field()
    array, margin = fused(make, f)
    expected = np.asarray(make(f).crop((margin,) * 4).data)
    cut = slice(2 - margin, array.shape[0] - 2 + margin), slice(2 - margin, array.shape[1] - 2 + margin)
    np.testing.assert_allclose(array[cut], expected, rtol=4e-15, atol=1e-15)
    array[cut] = 0.0
    assert not array.any()  # where nothing is known there are zeros


def test_single_precision_stays_single():
    f = field(dtype=np.float32)
    array, _ = fused(lambda f: 0.1 * f, f)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array[2:-2, 2:-2], np.asarray((0.1 * f).interior))


def test_masks_in_bytes_and_columns_along_x():
    rows = Field(jnp.arange(NY + 2.0)[:, None], "h", (1 << 20, 1 << 20, 1, 1))
    bytes_ = Field((field(1).data > 0).astype(np.uint8), "h", (2,) * 4)
    layout = Layout((NY, NX), 1)
    (array,), _ = run([lift(bytes_, np.float64) * lift(rows)], layout)
    np.testing.assert_array_equal(layout.own(array), np.asarray(bytes_.interior) * np.arange(1.0, NY + 1)[:, None])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, bool])
def test_results_may_be_whole_numbers(dtype):
    f = Field(jnp.asarray(np.random.default_rng(1).integers(0, 3, (NY + 2, NX + 2)), dtype), "h", (1,) * 4)
    layout, zero = Layout((NY, NX), 1), np.dtype(dtype).type(0)
    (same, some), _ = run([lift(f), lift(f).map(lambda x: x != zero)], layout)
    np.testing.assert_array_equal(layout.own(same), f.interior)
    np.testing.assert_array_equal(layout.own(some), f.interior != zero)


@pytest.mark.parametrize("interpret", [False, True], ids=["of a CPU", "of a GPU"])
def test_what_a_loop_does_not_need_is_not_in_its_derivative(interpret):
    """In a ghost that is never read."""
    f, g, random = field(1), field(2), np.random.default_rng(3).standard_normal((NY + 4, 1))

    def cost(data, other, rows):
        g, row = Field(other, "h", (2,) * 4), Field(rows, "h", (1 << 20, 1 << 20, 2, 2))
        made = mean_y(mean_y(lift(replace(f, data=data)))) * lift(g) * lift(row)
        return run([made], Layout((NY, NX), 2), (), interpret)[0][0].sum()

    slopes = jax.jit(jax.grad(cost, (0, 1)))
    for bad in (np.inf, np.nan):
        rows, spoilt = jnp.asarray(random).at[0].set(bad), g.data.at[:, :1].set(bad).at[:1].set(bad)
        for wanted, got in zip(*(slopes(f.data, other, rows) for other in (g.data, spoilt))):
            np.testing.assert_array_equal(got, wanted)


def test_a_result_may_overwrite_what_its_neighbours_read():
    """Many chunks, each in place, with a stencil that reaches up and down."""
    rows, columns = 900, 200
    layout = Layout((rows, columns), 2)
    f = Field(jnp.asarray(np.random.default_rng(3).standard_normal((rows + 4, columns + 4))), "h", (2,) * 4)

    def smoothed(f):
        return 0.5 * f + 0.5 * mean_xy(mean_xy(f))

    def in_place(data):
        source = Source(data, layout.origin, (2,) * 4, data.dtype, prognostic=True)
        (array,), _ = run([smoothed(stored(source, "h"))], layout, [data])
        return array

    data = layout.with_border(f.data, f.halo)
    compiled = jax.jit(in_place, donate_argnums=0).lower(data).compile()
    assert "copy" not in compiled.as_text().split("ENTRY")[1]
    expected = np.asarray(smoothed(f).interior)
    np.testing.assert_allclose(layout.own(compiled(data)), expected, rtol=1e-14, atol=1e-15)


def test_members_go_through_one_loop():
    many = jnp.stack([field(seed).data for seed in range(3)])
    scale = jnp.array([1.0, 2.0, 3.0])

    def one(data, scale):
        (array,), _ = run([scale * mean_xy(lift(Field(data, "h", (2,) * 4)))], Layout((NY, NX), 2))
        return array

    together = jax.jit(jax.vmap(one))(many, scale)
    for k in range(3):
        np.testing.assert_array_equal(together[k], one(many[k], scale[k]))


def test_a_stencil_that_reaches_too_far_is_an_error():
    with pytest.raises(HaloError, match="beyond the valid halo"):
        fused(lambda f: mean_xy(mean_xy(mean_xy(f))), field(halo=0), ghosts=0)


def test_the_same_operation_is_written_once():
    f = lift(field())
    graph, _, _ = trace_graph([mean_xy(f) + mean_xy(f), mean_xy(f)])
    names = [node.name for node in graph.nodes]  # the sum of two columns is one node, seen from two places
    assert names.count("load") == 1 and names.count("add") == 3 and len(graph.loads(0)) == 4


def test_what_several_neighbours_read_is_traced_once():
    calls = []

    def curved(x):
        calls.append(x)
        return x * x / (3.0 + x)

    graph, _, _ = trace_graph([mean_xy(mean_xy(lift(field())).map(curved))])
    assert len(calls) == 1 and len(graph.loads(0)) == 9


def test_factors_that_do_not_vary_along_a_row_are_put_together():
    f, scale = lift(field()), jnp.float64(3.0)
    graph, _, _ = trace_graph([difference_x(scale * f) * 0.5 * scale])
    varying = [node.name for node in graph.nodes if node.axes == 2]
    assert sorted(varying) == ["load", "mul", "sub"]  # (0.5 scale^2) times one difference


def test_what_several_cells_need_is_kept_from_row_to_row_and_computed_once():
    f = lift(field())
    smooth = mean_xy(f) * mean_xy(f) / (3.0 + mean_xy(f))
    graph, _, _ = trace_graph([mean_xy(smooth)])
    plan = schedule(graph)
    assert len(graph.reached[max(n for n, node in enumerate(graph.nodes) if node.name == "div")]) == 4
    assert [kept.rows for kept in plan.kept.values()].count(2) >= 1 and len(plan.passes) == 2
    assert plan.early >= 1 and plan.rows_in_all(0)[0] <= -1


def test_a_pass_over_many_rows_is_divided_and_its_results_overwrite_what_it_reads():
    """Between results that share no rows; also where one overwrites an array that a later loop reads."""
    arrays = [jnp.asarray(np.random.default_rng(k).standard_normal((NY, NX))) for k in range(18)]

    def sums(x):
        first, second = (functools.reduce(lambda x, y: x + y, x[k : k + 9]) for k in (0, 9))
        return [first * first + x[9] * 0.5, second * second + x[0] * 0.5]

    graph, _, _ = trace_graph(sums([lift(Field(x, "h", (0,) * 4)) for x in arrays]))
    assert len(schedule(graph).passes[-1].loops) == 2
    layout = Layout((NY, NX), 1)

    @jax.jit
    def overwritten(*arrays):
        sources = [stored(Source(x, layout.origin, (0,) * 4, x.dtype), "h") for x in arrays]
        return run(sums(sources), layout, over=[arrays[9], arrays[0]])[0]

    for x, y in zip(overwritten(*map(layout.with_border, arrays)), sums(arrays), strict=True):
        np.testing.assert_allclose(layout.own(x), y, rtol=1e-13)


def test_a_pass_begins_where_its_own_values_are_needed_and_no_two_passes_divide_by_the_same():
    """Of two values that a pass computes, one is needed further along x and the other one along y."""
    f, bend = lift(field()), lambda f: f * f / (3.0 + f)
    graph, _, _ = trace_graph([mean_x(bend(mean_y(bend(f)))) + mean_y(bend(mean_x(bend(f))))])
    plan = schedule(graph)
    assert len(plan.passes) == 3 and (plan.passes[0].right, plan.passes[0].early) == (1, 1)
    inverse = f.map(lambda x: 1.0 / (3.0 + x))
    graph, _, _ = trace_graph([inverse * mean_x(mean_x(inverse * f * f))])
    assert "div" in [graph.nodes[n].name for n in schedule(graph).kept]


def nonlinear(f, g, s):
    """Stencils within stencils, choices, roots, a number: what derivatives of loops must go through."""
    bent = g.map(lambda x: jnp.where(x > 0.3, jnp.maximum(x, 0.5), -(x**3)))
    ratio = mean_xy(f) * mean_xy(f) / (3.0 + mean_xy(g) * mean_xy(g))
    root = g.map(lambda x: jnp.sqrt(x * x + s) + jnp.cbrt(x))
    return mean_xy(ratio) * s, difference_x(mean_x(f * root) * mean_x(f)) + s * bent, f * mean_y(mean_y(root))


@pytest.fixture(scope="module")
def loops_and_arrays():
    """(values, tangents, cotangents, Hessian products) of `nonlinear` by loops, and by arrays."""

    def by_loops(fields, s):
        arrays, _ = run([*nonlinear(*map(lift, fields), s)], Layout((NY, NX), 2))
        return [Layout((NY, NX), 2).own(a) for a in arrays]

    def by_arrays(fields, s):
        return [x.interior for x in nonlinear(*fields, s)]

    at = (field(0), field(1)), jnp.float64(0.7)
    along = (field(2), field(3)), jnp.float64(0.3)
    weights = [jnp.asarray(np.random.default_rng(k).standard_normal((NY, NX))) for k in range(3)]

    def found(of):
        def cost(x):
            return sum(jnp.sum(w * y + y * y) for w, y in zip(weights, of(*x)))

        def everything(at, along):
            values, tangents = jax.jvp(lambda x: of(*x), (at,), (along,))
            (cotangents,) = jax.vjp(lambda x: of(*x), at)[1](weights)
            return values, tangents, cotangents, jax.jvp(jax.grad(cost), (at,), (along,))[1]

        return jit(everything)(at, along)

    return found(by_loops), found(by_arrays), along, weights


def test_tangents_cotangents_and_hessian_products_of_loops_are_those_of_arrays(loops_and_arrays):
    loops, arrays, *_ = loops_and_arrays
    for ours, theirs in zip(jax.tree.leaves(loops), jax.tree.leaves(arrays)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())


def by_loop(make):
    """The interior of `make(field)`, by a loop, of an array with two ghosts."""
    layout = Layout((NY, NX), 2)
    return lambda data: layout.own(run([make(lift(Field(data, "h", (2,) * 4)))], layout)[0][0])


def by_array(make):
    return lambda data: make(Field(data, "h", (2,) * 4)).interior


@pytest.mark.parametrize(
    "make",
    [
        lambda f: f.map(jax.lax.stop_gradient) * mean_xy(mean_xy(f)),
        lambda f: f.map(lambda x: (x * x + 1.0) ** -3),
        lambda f: f.map(lambda x: jnp.where((x + 0.5).astype(bool), x, 2.0 * x)),
    ],
)
def test_slopes_and_rows_of_jacobians_of_loops_are_those_of_arrays(make):

    def derivatives(of):
        rows = jax.jacfwd(lambda s: of(make)(s * field().data)[3:5])
        return jax.jit(lambda s, x: (rows(s), jax.grad(lambda x: jnp.sum(of(make)(x) ** 2))(x)))(1.5, field().data)

    for ours, theirs in zip(derivatives(by_loop), derivatives(by_array)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_what_is_divided_by_a_column_has_a_finite_slope_at_the_ends_of_it():
    column = Field(jnp.arange(1.0, NY + 1)[:, None], "h", (1 << 20, 1 << 20, 0, 0))
    slope = jax.grad(lambda x: jnp.sum(by_loop(lambda f: mean_y(mean_y(f)) / lift(column))(x)))(field().data)
    assert np.isfinite(slope).all()


def test_what_is_no_number_stays_none_in_a_maximum_and_small_factors_do_not_vanish():
    f = Field(jnp.full((NY + 4, NX + 4), jnp.nan), "h", (2,) * 4)
    assert np.isnan(by_loop(lambda f: f.map(lambda x: jnp.maximum(x, 0.1)))(f.data)).all()
    large = jnp.full((NY + 4, NX + 4), 1e20, np.float32)
    product = by_loop(lambda f: (f * np.float32(1e-30)) * (f * np.float32(1e-30)))(large)
    np.testing.assert_allclose(product, 1e-20, rtol=1e-6)


def test_comparisons_of_rounded_values_are_those_of_the_written_order():
    """Rounding alone decides them; a compiler that may reorder sums makes all of them false."""
    f = field()

    def is_rounded_up(g):
        return g.map(lambda x: ((x / 3.0 + 1.0) - 1.0 > x / 3.0).astype(x.dtype))

    found, _ = fused(is_rounded_up, f)
    expected = is_rounded_up(f).crop((0,) * 4).data
    assert 0.2 < np.mean(expected) < 0.8
    np.testing.assert_array_equal(found[2:-2, 2:-2], expected)


def test_loops_whose_comparisons_read_masks_or_arrays_alone_may_be_reordered():
    def compares(make):
        return compares_rounded(trace_graph([make(lift(field()))])[0])

    def wet(f):
        return f.map(lambda x: (x > 0).astype(x.dtype))

    assert not compares(lambda f: f.map(lambda x: jnp.maximum(x * x, 1.0)))
    assert not compares(lambda f: sum_xy(wet(f)).map(lambda n: (n > 3.5).astype(n.dtype)) * sum_xy(f))
    assert compares(lambda f: wet(f * f - 1.0))
    assert compares(lambda f: wet(0.3 * wet(f)))


@pytest.mark.parametrize(
    "make",
    [
        lambda f, g, extreme: f.map(lambda x: extreme(2.0 * x, x + x * x)),
        lambda f, g, extreme: f.map(lambda x: extreme(x + x * x, -x)),
        lambda f, g, extreme: f.map(lambda x: extreme(x, 0.5)),
        lambda f, g, extreme: pointwise(extreme, f, g),
        lambda f, g, extreme: pointwise(lambda a, b: extreme(extreme(a + b, 2.0 * a), 2.0 * b), f, g),
    ],
)
def test_what_is_no_number_on_either_side_stays_none_in_extremes(make):
    """Also where one comparison is enough, because one side is NaN wherever the other one is."""
    f, g = (Field(field(k).data.at[4 + k, 5 - k].set(jnp.nan).at[7, 7].set(jnp.inf), "h", (2,) * 4) for k in range(2))
    for extreme in (jnp.maximum, jnp.minimum):
        found, _ = fused(functools.partial(make, extreme=extreme), f, g)
        np.testing.assert_allclose(found[2:-2, 2:-2], make(f, g, extreme).interior, rtol=1e-13)
        assert np.isnan(found[2:-2, 2:-2]).any()


def test_two_halves_of_a_choice_are_one_operation():
    f, g, h = (lift(field(k)) for k in range(3))
    names = [node.name for node in trace_graph([upstream(f, g, h)])[0].nodes]
    assert names.count("select_n") == names.count("gt") == 1 and "add" not in names
    kept = trace_graph([pointwise(lambda a, b: jnp.where(a > 0, b, 0.0) + jnp.where(a > 0, 0.0, 2.0 * b), f, g)])[0]
    assert [node.name for node in kept.nodes].count("select_n") == 1


def test_members_may_differ_in_a_flag():
    def of(data, flag):
        return by_loop(lambda f: f.map(lambda x: jnp.where(flag, x, -x)))(data)

    data, flags = field().data, jnp.array([False, True, False])
    many = jax.jit(jax.vmap(of, (None, 0)))(data, flags)
    signs = np.where(np.asarray(flags)[:, None, None], 1.0, -1.0)
    np.testing.assert_array_equal(many, signs * np.asarray(data)[2:-2, 2:-2])


def energy_of_bumps(engine, wrap, heights):
    """After three times seven steps, each seven in `wrap`, as a function of three bumps' heights."""
    grid = sw.CartesianGrid(NX, NY, (0.0, 9e3), (0.0, 7e3), "x")
    model = sw.ShallowWater(grid, 100.0, engine=engine, communicator=SerialCommunicator())
    x, y = jnp.meshgrid(grid.x_centres, grid.y_centres)
    eta = sum(h * jnp.exp(-((x - 2e3 * k) ** 2 + (y - 3e3) ** 2) / 2e6) for k, h in zip((1, 2, 3), heights))
    segment = wrap(lambda state, history: sw.integrate(model.dynamics(sw.AB2(5.0)), sw.AB2(5.0), state, 7, history))
    state = model.at_rest()
    first = segment(sw.State(state.u, state.v, eta), sw.AB2(5.0).history(state))
    (last, _), _ = jax.lax.scan(lambda both, _: (segment(*both), None), first, length=2)
    return jnp.mean(last.u**2) * jnp.exp(jnp.mean(last.v**2))


@pytest.mark.verify
def test_loops_can_be_checkpointed_and_have_hessians_by_jax_itself():
    """jax.checkpoint round a segment alone and in a scan; jax.hessian, which puts one vmap into another."""
    heights = jnp.array([1.0, -0.5, 0.7])
    ways = ("arrays", lambda f: f), ("fused", jax.checkpoint), ("fused", lambda f: f)
    plain, checkpointed, loops = (functools.partial(energy_of_bumps, *way) for way in ways)
    wanted, found = (jax.jit(jax.value_and_grad(of))(heights) for of in (plain, checkpointed))
    for ours, theirs in zip(found, wanted):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    wanted, *found = (jax.jit(jax.hessian(of))(heights) for of in (plain, checkpointed, loops))
    for ours in found:
        np.testing.assert_allclose(ours, wanted, rtol=1e-11, atol=1e-12 * np.abs(wanted).max())


def test_what_a_loop_cannot_do_is_said_and_left_to_arrays(monkeypatch):
    f = lift(field())
    with pytest.raises(Unsupported, match="erf"):
        c_source(trace_graph([f.map(jax.scipy.special.erf)])[0], (("float64",), ("float64",)))

    class Odd(sw.LinearDrag):
        def __call__(self, flow, step):
            return flow.u.map(jax.scipy.special.erf) * -self.rate, -self.rate * flow.v

    grid = sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3))
    model = sw.ShallowWater(grid, 100.0, dissipation=Odd(1e-4), engine="fused")
    state = model.state(u=lambda x, y: np.sin(x / 1e3))
    final, _ = jit(sw.integrate, static_argnums=3)(model.dynamics(sw.AB2(1.0)), sw.AB2(1.0), state, 3)
    assert np.isfinite(final.u).all() and float(np.abs(final.u).max()) > 0


def test_without_a_compiler_arrays_are_taken_and_asking_for_loops_is_an_error(monkeypatch):
    grid = sw.CartesianGrid(8, 6, (0.0, 8e3), (0.0, 6e3))
    monkeypatch.setattr("swmodel.models.engine.why_not", lambda: "steps run on arrays: no compiler.")
    assert sw.ShallowWater(grid, 100.0).engine == "arrays"
    with pytest.raises(ValueError, match="needs a C\\+\\+ compiler"):
        sw.ShallowWater(grid, 100.0, engine="fused")
    with pytest.raises(ValueError, match="'auto', 'fused' or 'arrays'"):
        sw.ShallowWater(grid, 100.0, engine="fast")


def test_a_compiler_that_refuses_is_quoted(monkeypatch, tmp_path):
    monkeypatch.setattr("swmodel.runtime.cache.folder", lambda: tmp_path)
    with pytest.raises(library.CompileError, match="could not compile a fused loop .*error.*engine = 'arrays'"):
        library._compiled("this is not C++;", library.LOOP_OPTIONS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "make",
    [
        lambda f: mean_y(difference_x(f)),
        lambda f: f.map(lambda x: jnp.where(x > 0.3, jnp.maximum(x, 0.5), -(x**3))) * mean_xy(mean_xy(f)),
        lambda f: f.map(jnp.cbrt) + f.map(jnp.abs).map(jnp.sqrt),
    ],
)
def test_the_loop_of_a_gpu_gives_what_that_of_a_cpu_gives(make):
    f = field(4)
    layout = Layout((NY, NX), 2)
    run_on = jax.jit(lambda f, interpret: run([make(lift(f))], layout, (), interpret)[0][0], static_argnums=1)
    np.testing.assert_allclose(run_on(f, True), run_on(f, False), rtol=4e-15, atol=1e-15)


@pytest.mark.verify
def test_kernels_that_store_values_for_later_ones_give_what_one_kernel_gives(monkeypatch):
    """Values and cotangents of three results, with every node stored that several cells need."""

    def found(interpret):
        def of(f, g):
            arrays, _ = run(
                nonlinear(lift(Field(f, "h", (2,) * 4)), lift(Field(g, "h", (2,) * 4)), 0.7), layout, (), interpret
            )
            return sum(jnp.sum(a * a) for a in map(layout.own, arrays))

        layout = Layout((NY, NX), 2)
        return jax.jit(jax.value_and_grad(of, (0, 1)))(field(0).data, field(1).data)

    expected = found(False)
    monkeypatch.setattr("swmodel.stencils.pallas.OPERATIONS_A_NUMBER", 0.1)
    parts.cache_clear()
    several = found(True)
    graph, _, _ = trace_graph([*nonlinear(lift(field(0)), lift(field(1)), jnp.float64(0.7))])
    assert len(parts(graph)) > 2 and parts(graph)[0].further > 0
    parts.cache_clear()
    for ours, theirs in zip(jax.tree.leaves(several), jax.tree.leaves(expected)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())


def loops_of_steps(stepper, **options):
    model, state = basin(32, dtype="float32", **options)
    dynamics = model.dynamics(stepper, steps=2)
    program = jax.make_jaxpr(lambda state: sw.integrate(dynamics, stepper, state, 2)[0])(state)
    return [loop.params["graph"] for loop in loops_in(program.jaxpr)]


@pytest.mark.parametrize("stepper", [sw.AB2(5.0), sw.ForwardBackward(5.0)])
def test_a_step_over_deep_water_is_one_kernel_whose_sums_may_be_reordered(stepper):
    """Its arithmetic takes less time than its memory; the derivatives of quotients by one number share its inverse."""
    graphs = loops_of_steps(stepper)
    assert graphs and all(len(parts(graph)) == 1 and not compares_rounded(graph) for graph in graphs)
    graph = graphs[0]
    fields = tuple(k for k, is_column in enumerate(graph.columns) if not is_column)
    both = tangent(graph, fields, ())[1]
    assert [node.name for node in both.nodes].count("div") <= [node.name for node in graph.nodes].count("div")


@pytest.mark.verify
def test_laplacian_and_biharmonic_viscosity_share_the_laplacian():
    both, alone = (
        operations(loops_of_steps(sw.AB2(5.0), dissipation=terms)[0])
        for terms in ((sw.Laplacian(100.0), sw.Biharmonic(1e9)), sw.Biharmonic(1e9))
    )
    assert both - alone <= 4


# -- the step ---------------------------------------------------------------------------------------------------------


@functools.cache
def basin(cells=64, **options):
    grid = sw.CartesianGrid(cells, cells, (0.0, 5e3 * cells), (0.0, 5e3 * cells))
    depth = lambda x, y: np.where((x - 1e5) ** 2 + (y - 8e4) ** 2 < 4e8, 0.0, 3000.0 + 500.0 * np.sin(x / 5e4))  # noqa: E731
    options = {"dissipation": sw.Laplacian(100.0), **options}
    model = sw.ShallowWater(grid, depth, coriolis=sw.BetaPlane(1e-4, 2e-11), **options)
    return model, model.state(u=0.1, eta=lambda x, y: np.exp(-((x - 1e5) ** 2 + (y - 2e5) ** 2) / 1e9))


def assert_as_on_arrays(step_loop, stepper, cells, steps):
    model, state = basin(cells)
    dynamics, run = model.dynamics(stepper), jit(sw.integrate, static_argnums=3)
    ours, arrays = (run(replace(dynamics, step_loop=x), stepper, state, steps) for x in (step_loop, ArrayStepLoop))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(arrays)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max())


@pytest.mark.parametrize("kind", now([sw.AB2, sw.AB3, sw.RK4, sw.ForwardBackward], sw.ForwardBackward))
def test_every_stepper_gives_what_it_gives_on_arrays(kind):
    assert_as_on_arrays(FusedStepLoop, kind(5.0), 32, 14)


def test_steps_of_the_loops_of_a_gpu_are_those_of_arrays():
    assert_as_on_arrays(InterpretedStepLoop, sw.AB2(5.0), 64, 5)


@pytest.mark.parametrize("kind", [FusedStepLoop, later(InterpretedStepLoop)])
def test_a_value_that_is_no_number_is_seen_after_a_step_of_the_loops(kind):
    """It spreads as on arrays, where the health of a run looks for it; a maximum or a mask does not hide it."""
    model, state = basin(64)
    stepper, health = sw.AB2(5.0), Health.of(model, 5.0)
    dynamics = model.dynamics(stepper)
    state = state.replace(eta=state.eta.at[8, 8].set(jnp.nan))
    ends = [
        jit(sw.integrate, static_argnums=3)(replace(dynamics, step_loop=loop), stepper, state, 5)[0]
        for loop in (kind, ArrayStepLoop)
    ]
    for one, other in zip(*map(jax.tree.leaves, ends)):
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
    first, *_ = health.assess(Health.start(), lambda: ends[0], dynamics, lambda: None, jnp.int32(5))
    assert int(first[0]) == 5


@pytest.mark.parametrize(
    "scheme, kind, steps",
    [
        pytest.param(sw.AB2, FusedStepLoop, 3, marks=pytest.mark.verify),
        pytest.param(sw.AB2, InterpretedStepLoop, 3, marks=pytest.mark.verify),
        pytest.param(sw.ForwardBackward, InterpretedStepLoop, 3, marks=pytest.mark.verify),
        later(sw.ForwardBackward, FusedStepLoop, 3),
        later(sw.ForwardBackward, InterpretedStepLoop, 1),  # the interpreter's program compiles long for each step
    ],
)
def test_derivatives_of_a_run_are_those_of_arrays_in_both_modes(scheme, kind, steps):
    """Of the loops of CPUs and of those of GPUs."""
    model, state = basin(16)
    stepper = scheme(5.0)
    seed = jax.tree.map(lambda x: jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape), state)

    def products(kind):
        dynamics = replace(model.dynamics(stepper), step_loop=kind)

        def cost(state):
            final, _ = sw.integrate(dynamics, stepper, state, steps)
            return jnp.sum(final.eta**2) + jnp.sum(final.u * final.v)

        return jit(lambda s, t: (jax.grad(cost)(s), jax.jvp(cost, (s,), (t,))))(state, seed)

    arrays = jax.tree.leaves(products(ArrayStepLoop))
    for a, b in zip(jax.tree.leaves(products(kind)), arrays):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * float(np.abs(b).max()))


def advance_of(cells, kind=sw.AB2, **options):
    """The compiled program of a run's chunks, without its inputs' lifetime outside."""
    model, state = basin(cells, dtype="float32", **options)
    simulation = Simulation(model, state, kind(4.0))
    monitors = (Health.of(model, 4.0), {})
    dynamics = model.interval(simulation.halo, 0, 1.0)
    packed = pack_state(dynamics, simulation.stepper, (simulation.state, simulation.history))
    carry = start_carry(simulation, packed)
    return advance.lower(dynamics, simulation.stepper, carry, monitors, jnp.int32(0), jnp.int32(8)).compile()


def test_a_run_needs_at_most_16_arrays_of_the_tile_its_inputs_included():
    cells = 256
    memory = advance_of(cells).memory_analysis()
    alive = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    alive += memory.output_size_in_bytes - memory.alias_size_in_bytes
    assert alive / (4 * cells**2) < 16.0


@pytest.mark.parametrize("kind, options", [(sw.AB2, {}), later(sw.ForwardBackward, {"boundaries": sw.Flather()})])
def test_the_loop_over_steps_copies_no_array(kind, options):
    bodies = [part for part in advance_of(64, kind, **options).as_text().split("\n\n") if "swmodel_fused_loop" in part]
    whole = max(bodies, key=len)  # the other one takes the steps that are left over, one at a time
    assert len(bodies) == (1 if kind is sw.AB2 else 2)
    assert not [line for line in whole.splitlines() if " copy" in line and "f32[6" in line]


def test_a_loop_reads_a_slot_of_a_room_and_has_the_values_and_derivatives_of_one_on_a_copy():
    width = jnp.stack([field(seed).data for seed in range(3)])
    scale, t = jnp.asarray(0.7), jnp.cos(width)

    def loop(data, scale):
        f = lift(Field(data, "h", (2,) * 4))
        (array,), _ = run([scale * f * mean_xy(mean_xy(f))], Layout((NY, NX), 2))
        return array + data.max()  # which is no loop; a sum would depend on its order

    closed = jax.make_jaxpr(loop)(width[0], scale)

    def there(width, k, scale):
        return evaluate(closed, [Slot(width, k), scale])[0]

    @jax.jit
    def slopes(k):
        found = jax.jvp(lambda width, scale: there(width, k, scale), (width, scale), (t, 2.0 * scale))
        return found, jax.jvp(loop, (width[k], scale), (t[k], 2.0 * scale))

    compiled = jax.jit(there).lower(width, jnp.int32(1), scale).compile()
    for k in range(3):
        found, expected = slopes(jnp.int32(k))
        np.testing.assert_allclose(compiled(width, jnp.int32(k), scale), expected[0], rtol=1e-15)
        for own, other in zip(found, expected):
            np.testing.assert_allclose(own, other, rtol=1e-14)
    many = jax.jit(jax.vmap(there, in_axes=(None, 0, None)))(width, jnp.arange(3), scale)
    np.testing.assert_allclose(many, jax.jit(jax.vmap(loop, in_axes=(0, None)))(width, scale), rtol=1e-15)


def test_what_is_stored_is_not_copied_out_of_its_room_before_a_loop_reads_it():
    layout, width = Layout((NY, NX), 2), jnp.stack([field(seed).data for seed in range(4)])

    def loop(data):
        (array,), _ = run([mean_xy(mean_xy(lift(Field(data, "h", (2,) * 4))))], layout)
        return array

    closed = jax.make_jaxpr(loop)(width[0])

    def total(width):
        def body(k, found):
            return found + evaluate(closed, [Slot(width, k)])[0]

        return jax.lax.fori_loop(0, 4, body, jnp.zeros(layout.padded))

    compiled = jax.jit(total).lower(width).compile()
    assert "dynamic-slice" not in compiled.as_text()
    np.testing.assert_allclose(compiled(width), sum(map(loop, width)), rtol=1e-14)


@pytest.mark.parametrize("interpret", [False, True], ids=("compiled", "kernels"))
def test_of_a_result_in_strips_a_loop_stores_the_cells_of_strips_alone(interpret):
    """Also beside a result that overwrites what it reads, for members, and in both modes of differentiation."""
    layout = Layout((300, 40), 2)  # several chunks of rows
    strips = (((0, 3), (300, 1)), ((0, 0), (0, 0)), ((299, 0), (1, 40)), ((7, 30), (2, 10)))
    data, t, more = (jnp.asarray(np.random.default_rng(k).standard_normal(layout.padded)) for k in range(3))

    def loop(data, some=strips):
        f = stored(Source(data, layout.origin, (2,) * 4, data.dtype, prognostic=True), "h")
        results, _ = run(
            [f + mean_xy(mean_xy(f * f)), f * mean_xy(mean_xy(f))], layout, [data, None], interpret, strips=[None, some]
        )
        return results

    whole, flux = jax.jit(functools.partial(loop, some=None))(data)
    program = jax.jit(loop)
    found, cells = program(data)
    np.testing.assert_array_equal(found, whole)
    own = np.asarray(layout.own(flux))
    expected = [own[j : j + ny, i : i + nx].ravel() for (j, i), (ny, nx) in strips]
    np.testing.assert_allclose(cells, np.concatenate(expected), rtol=1e-15, atol=1e-15)
    many = jax.jit(jax.vmap(loop))(jnp.stack([data, t]))[1]
    np.testing.assert_allclose(many[0], cells, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(many[1], program(t)[1], rtol=1e-15, atol=1e-15)
    slopes = jax.jit(lambda *along: jax.jvp(loop, (data,), along)[1])(t)
    step = 1e-6
    expected = [(a - b) / (2 * step) for a, b in zip(program(data + step * t), program(data - step * t))]
    for one, other in zip(slopes, expected):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-7)
    weights = layout.own(more), jnp.asarray(np.random.default_rng(4).standard_normal(cells.shape))

    def measured(results):
        return jnp.vdot(layout.own(results[0]), weights[0]) + jnp.vdot(results[1], weights[1])

    gradient = jax.jit(jax.grad(lambda data: measured(loop(data))))(data)
    assert float(np.vdot(gradient, t)) == pytest.approx(float(measured(slopes)), rel=1e-12)


@pytest.mark.parametrize(
    "rows, ghosts, reads_before",  # in one chunk, in many, in less than one; whether something else reads it before
    now([(NY, 2, True), (700, 2, False), (1, 3, False), (2, 4, True)], (700, 2, False), (2, 4, True)),
)
def test_a_loop_stores_what_it_overwrites_whole_and_as_it_was(rows, ghosts, reads_before):
    layout = Layout((rows, 120), ghosts)
    width = jnp.asarray(np.random.default_rng(5).standard_normal((4, *layout.padded)))
    data, t = (jnp.asarray(np.random.default_rng(k).standard_normal(layout.padded)) for k in (6, 7))

    def loop(data, scale):
        more = data.max() if reads_before else 0.0
        source = Source(data, layout.origin, (ghosts,) * 4, data.dtype, prognostic=True)
        f = stored(source, "h")
        return (scale + more) * run([f + mean_xy(mean_xy(f))], layout, [data])[0][0]

    closed = jax.make_jaxpr(loop)(data, 0.5)

    def storing(width, data, scale, k):
        rooms, (result,) = evaluate_storing(closed.jaxpr, closed.consts, [data, scale], {0: width}, k)
        return rooms[0], result

    def apart(width, data, scale, k):
        return jax.lax.dynamic_update_index_in_dim(width, data, k, 0), loop(data, scale)

    found = jax.jit(storing, donate_argnums=(0, 1))(jnp.copy(width), jnp.copy(data), 0.5, jnp.int32(2))
    expected = apart(width, data, 0.5, 2)
    np.testing.assert_array_equal(found[0], expected[0])  # ghosts and width, too
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-15)

    @functools.partial(jax.jit, static_argnums=0)
    def slopes_and_members(f, data, t):
        slopes = jax.jvp(lambda d, s: f(width, d, s, 2), (data, 0.5), (t, 2.0))[1]
        return slopes, jax.vmap(f, (None, 0, None, None))(width, jnp.stack([data, t]), 0.5, 1)

    for both, rtol in zip(zip(*(slopes_and_members(f, data, t) for f in (storing, apart))), (1e-14, 1e-15)):
        for own, other in zip(*both):
            np.testing.assert_allclose(own, other, rtol=rtol)


def test_a_result_that_does_not_depend_on_what_is_differentiated_has_no_tangent():
    f, g = field(1), field(2)

    def loop(data):
        (a, b), _ = run([mean_xy(lift(replace(f, data=data))), mean_xy(lift(g))], Layout((NY, NX), 2))
        return a, b

    (a, b), (slope, none) = jax.jvp(loop, (f.data,), (g.data,))
    np.testing.assert_allclose(slope, b, rtol=1e-15)
    assert not np.any(none) and np.any(a)


# -- cube roots --------------------------------------------------------------------------------------------------------

ROWS, COLUMNS = 40, 50


def roots(values):
    """(cube roots, their derivatives) of an array (ROWS, COLUMNS), by loops."""

    def loop(x):
        (array,), _ = run([lift(Field(x, "h", (0,) * 4)).map(jnp.cbrt)], Layout((ROWS, COLUMNS), 0))
        return Layout((ROWS, COLUMNS), 0).own(array)

    return [np.asarray(x) for x in jax.jvp(loop, (jnp.asarray(values),), (jnp.ones_like(values),))]


def numbers(dtype):
    """Normal numbers of all magnitudes and both signs, spread over the logarithm, and their exact cube roots."""
    limits = np.finfo(dtype)
    least, most = np.log(float(limits.tiny)) + 1.0, np.log(float(limits.max)) - 1.0
    values = np.exp(np.linspace(least, most, ROWS * COLUMNS)).astype(dtype)
    values[::2] *= -1
    return values.reshape(ROWS, COLUMNS), np.cbrt(values.astype(np.longdouble)).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cube_roots_and_their_derivatives_are_exact_to_two_units_of_the_last_place(dtype):
    values, exact = numbers(dtype)
    found, slopes = roots(values)
    assert found.dtype == dtype
    assert np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(dtype))) < 2.0
    moderate = np.abs(values) < 1e30  # beyond, the square of a derivative in single precision is no normal number
    expected = (1 / (3 * exact**2))[moderate]
    assert np.max(np.abs(slopes[moderate] / expected - 1)) < 8 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_infinities_and_nan_are_their_own_cube_roots(dtype):
    values = np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -8.0], dtype), (ROWS, COLUMNS))
    expected = np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.0], dtype), (ROWS, COLUMNS))
    found, _ = roots(values)
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))
