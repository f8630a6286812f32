"""What a program sends is counted in its jaxpr: loops by their length, branches by the busiest, messages in pieces."""

import jax
import jax.numpy as jnp
import pytest

from swmodel.parallel.traffic import Count, Traffic, traffic
from tests.stacked import Pretended

X = jax.ShapeDtypeStruct((4, 6), "float32")


class InPieces(Pretended):
    """Messages go in pieces of 10 elements, of all ranks together."""

    size, layout = 6, (2, 3)

    def pieces(self, elements, dtype, ranks=1):
        return -(-elements // max(10 // ranks, 1))


class Whole(InPieces):
    """The same, without pieces."""

    def pieces(self, elements, dtype, ranks=1):
        return 1


ranks = Whole()
shift = lambda x: ranks.shift(x, "x", 1)  # noqa: E731
ONE = Count(1, 96, 0)


@pytest.mark.parametrize(
    ("verb", "count", "in_pieces"),
    [
        (lambda c: lambda x: c.shift(x, "y", 1), Count(1, 96), Count(3, 96)),
        (lambda c: lambda x: c.all_to_all(x.reshape(3, 8), "x"), Count(2, 64), Count(6, 64)),
        (lambda c: c.sum, Count(0, 96, 1), Count(0, 96, 3)),
        (lambda c: lambda x: c.sum(x, "x", ordered=True), Count(0, 96, 1), Count(0, 96, 8)),
        (lambda c: c.maximum, Count(0, 96, 1), Count(0, 96, 3)),
        (lambda c: c.replicated, Count(), Count()),
        (lambda c: c.broadcast, Count(5, 480), Count(15, 480)),
        (lambda c: lambda x: c.gather(x[:, :2], (8, 6)), Count(5, 160), Count(40, 160)),
        (lambda c: lambda x: c.scatter(x), Count(5, 80), Count(20, 80)),
    ],
)
def test_each_verb_counts_as_the_table_says(verb, count, in_pieces):
    assert traffic(verb(Whole()), X).total == count
    assert traffic(verb(InPieces()), X).total == in_pieces


def test_transposes_count_as_what_they_send():
    pulled = lambda verb: traffic(lambda x: jax.vjp(verb, x)[1](verb(x))[0], X).total  # noqa: E731
    assert pulled(shift) == Count(3, 3 * 96)  # the value twice, and the cotangent back
    assert pulled(ranks.sum) == Count(0, 2 * 96, 2)
    assert pulled(ranks.replicated) == Count(0, 96, 1)
    assert pulled(ranks.broadcast) == Count(10, 11 * 96, 1)


def test_members_of_a_batch_travel_together():
    batch = jax.ShapeDtypeStruct((5, 4, 6), "float32")
    assert traffic(jax.vmap(shift), batch).total == Count(1, 5 * 96)


def test_loops_count_as_often_as_they_run():
    loop = lambda n: lambda x: jax.lax.fori_loop(0, n, lambda i, x: shift(x), x)  # noqa: E731
    assert traffic(loop(7), X).total == ONE * 7
    assert traffic(jax.jit(loop(7)), X).total == ONE * 7
    nested = lambda x: jax.lax.scan(lambda c, _: (loop(3)(shift(c)), None), x, None, length=5)[0]  # noqa: E731
    assert traffic(nested, X).total == ONE * 20
    assert traffic(loop(0), X) == Traffic({})


@pytest.mark.parametrize("start", [0, 2])
def test_loops_whose_length_is_an_argument_count_what_was_given(start):
    @jax.jit
    def program(x, last):
        return jax.lax.fori_loop(start, last + 1, lambda i, x: shift(x), x)

    assert traffic(program, X, jnp.int32(9)).total == ONE * (10 - start)
    open_ended = traffic(program, X, jax.ShapeDtypeStruct((), "int32"))
    assert open_ended == Traffic({"shift": ONE}, open_loops=1, per_round={"shift": ONE})


def test_loops_that_end_by_a_condition_count_once_and_are_told():
    def program(x):
        busy = lambda c: (ranks.sum(jnp.sum(c[0])) > 1.0) & (c[1] < 100)  # noqa: E731
        return jax.lax.while_loop(busy, lambda c: (0.5 * shift(c[0]), c[1] + 1), (x, 0))

    counted = traffic(program, X)
    assert counted.by_verb == {"shift": ONE, "sum": Count(0, 4, 1)} and counted.open_loops == 1
    doubled = lambda x, n: jax.lax.while_loop(lambda c: c[1] < n, lambda c: (shift(c[0]), c[1] * 2), (x, 1))  # noqa: E731
    assert traffic(doubled, X, 9) == Traffic({"shift": ONE * 4})
    assert traffic(doubled, X, jax.ShapeDtypeStruct((), "int32")).open_loops == 1
    silent = lambda x: jax.lax.while_loop(lambda c: jnp.sum(c) < 9, lambda c: 2.0 * c, x)  # noqa: E731
    assert traffic(silent, X) == Traffic({})


def test_of_branches_the_busiest_counts():
    branches = [lambda x: x, lambda x: shift(shift(x)), lambda x: ranks.sum(x)]
    counted = traffic(lambda k, x: jax.lax.switch(k, branches, x), jnp.int32(0), X)
    assert counted.by_verb == {"shift": ONE * 2, "sum": Count(0, 96, 1)}


def test_derivative_rules_and_checkpoints_are_looked_into():
    @jax.custom_vjp
    def square(x):
        return shift(x) ** 2

    square.defvjp(lambda x: (square(x), x), lambda x, y: (2.0 * x * y,))
    assert traffic(square, X).total == ONE
    assert traffic(jax.checkpoint(lambda x: shift(x)), X).total == ONE
    solve = lambda b: jax.lax.custom_linear_solve(  # noqa: E731
        shift, b, solve=lambda matvec, b: matvec(matvec(b)), transpose_solve=lambda matvec, b: matvec(b)
    )
    assert traffic(solve, X).total == ONE * 2


def test_what_a_step_sends_is_the_difference_of_two_programs():
    steps = lambda n: lambda x: jax.lax.fori_loop(0, n, lambda i, x: shift(x), ranks.broadcast(x))  # noqa: E731
    assert (traffic(steps(6), X) - traffic(steps(5), X)).total == ONE
