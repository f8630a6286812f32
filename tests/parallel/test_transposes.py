"""The arrays engine's derivatives: <J x, y> = <x, J' y> over all ranks for every term, form, boundary and stepper.

J is the Jacobian of a tendency, or of three time steps, in the state, the depth and every parameter that is a field.
Its product with x comes from JAX's forward mode and that of its transpose with y from the reverse mode, through the
declared transposes of operators and messages. A wrong one breaks the identity; so that it cannot hold for nothing, each
parameter must have a share in the result.
"""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import swmodel as sw
from swmodel import elliptic
from swmodel.fields.state import State, replace
from swmodel.parallel import make_communicator
from swmodel.runtime.compilation import jit

from . import cases

DT, STEPS = 10.0, 3
LAYOUT = cases.LAYOUTS[-1]
pytestmark = pytest.mark.skipif(cases.RANKS > 2, reason="two ranks have both ends of every message")


def positive(seed, size):
    """A field of (NY, NX) around `size`."""
    return size * (1.0 + 0.3 * np.tanh(cases.random(seed)))


class Outside:
    """An elevation outside in time records, which a step falls between."""

    times, cycle = np.array([0.0, 300.0]), None
    values = np.stack([cases.random(21), cases.random(22)])


WIND = {"forcing": (sw.WindStress(x=cases.random(11), y=cases.random(12)),)}
RISE = {"source": sw.BottomMotion([0.0, 40.0], np.stack([0.0 * cases.random(3), cases.random(3)]))}
TERMS = {
    "WindStress": WIND,
    "LinearDrag": {"dissipation": (sw.LinearDrag(positive(13, 1e-3)),)},
    "QuadraticDrag": {"dissipation": (sw.QuadraticDrag(positive(14, 2.0)),)},
    "ManningDrag": {"dissipation": (sw.ManningDrag(positive(15, 0.5)),)},
    "Laplacian, no slip": {"dissipation": (sw.Laplacian(positive(16, 1e6)),), "side": sw.NoSlip()},
    "Laplacian, free slip": {"dissipation": (sw.Laplacian(positive(16, 1e6)),)},
    "Biharmonic": {"dissipation": (sw.Biharmonic(positive(17, 1e13)),)},
    "Flather": {"boundaries": (sw.Flather(elevation=Outside(), velocity=cases.random(18)),)},
    "Sponge": {
        "boundaries": (
            sw.Sponge(
                width=5e4,
                rate=positive(19, 1e-3),
                elevation=cases.random(20),
                velocity_x=cases.random(27),
                velocity_y=0.1,
            ),
        )
    },
    "BottomMotion": RISE,
}
# On two ranks all in one program, input by input all the same: each rank compiles on a part of a core.
ALL_TERMS = {
    **WIND,
    **RISE,
    "side": sw.NoSlip(),
    "dissipation": tuple(term for case in TERMS.values() for term in case.get("dissipation", ())),
    "boundaries": (*TERMS["Flather"]["boundaries"], *TERMS["Sponge"]["boundaries"]),
}
FORMS = {
    "EnergyConserving": {"momentum": sw.EnergyConserving()},
    "EnstrophyConserving": {"momentum": sw.EnstrophyConserving()},
    "ArakawaLamb": {"momentum": sw.ArakawaLamb()},
    "linear": {"linear": True},
    "both poles": {"grid": cases.globe(), "coriolis": sw.RotatingSphere(7e-3)},
    "periodic": {"grid": cases.plane("xy")},
}
SOLVER = elliptic.ConjugateGradients(elliptic.Diagonal(), 1e-14)
STEPPERS = {
    "AB2": sw.AB2,
    "AB3": sw.AB3,
    "SSPRK3": sw.SSPRK3,
    "RK4": sw.RK4,
    "ForwardBackward": sw.ForwardBackward,
    "SemiImplicit": functools.partial(sw.SemiImplicit, solver=SOLVER),
    "SemiImplicit between walls": functools.partial(sw.SemiImplicit, solver=SOLVER),
    "RigidLid": functools.partial(sw.RigidLid, solver=SOLVER),
}
TWO_RANKS = cases.RANKS > 1


def model_of(grid=None, coriolis=None, **options):
    communicator = make_communicator("auto", (cases.NY, cases.NX), LAYOUT)
    assert communicator.size == cases.RANKS
    options |= {"coriolis": coriolis or sw.FPlane(1e-3), "engine": "arrays", "communicator": communicator}
    return cases.sea(grid or cases.plane(), **options)


def fields_of(dynamics):
    """{name: tile array} of all that is a field and can be differentiated in: depth, uplift, parameters of terms."""
    leaves = jax.tree_util.tree_leaves_with_path((dynamics.terms, dynamics.open_boundaries, dynamics.uplift))
    found = {jax.tree_util.keystr(path): x for path, x in leaves if np.ndim(x) >= 2}
    return {"depth": dynamics.depth, **found}


def random_like(field, seed):
    """Of the whole grid: one field, or as many as a forcing has records."""
    if np.ndim(field) == 2:
        return cases.random(seed)
    return np.stack([cases.random(seed + k) for k in range(field.shape[0])])


def with_fields(dynamics, fields):
    def one(path, x):
        return fields.get(jax.tree_util.keystr(path), x)

    parts = jax.tree_util.tree_map_with_path(one, (dynamics.terms, dynamics.open_boundaries, dynamics.uplift))
    return replace(dynamics, depth=fields["depth"], terms=parts[0], open_boundaries=parts[1], uplift=parts[2])


def tendency(dynamics, stepper, state):
    return dynamics.interval(0).prepare().tendency(state, 1.5)


def three_steps(dynamics, stepper, state):
    return sw.integrate(dynamics, stepper, state, STEPS)[0]


@functools.partial(jit, static_argnums=0)
def both_modes(function, dynamics, stepper, state, x, y):
    """(J x of each of the stacked directions, J' y): `x` has the inputs' shape (state, fields), `y` the result's."""

    def of(state, fields):
        return function(with_fields(dynamics, fields), stepper, state)

    at = state, fields_of(dynamics)
    _, tangent = jax.linearize(of, *at)
    return jax.lax.map(lambda direction: tangent(*direction), x), jax.vjp(of, *at)[1](y)


def one_by_one(x):
    """Directions, stacked, of which each changes one of the inputs (state, fields): the state, then each field."""
    state, fields = x
    alone = [(state, jax.tree.map(jnp.zeros_like, fields))]
    for name in fields:
        others = {other: field if other == name else jnp.zeros_like(field) for other, field in fields.items()}
        alone.append((jax.tree.map(jnp.zeros_like, state), others))
    return jax.tree.map(lambda *parts: jnp.stack(parts), *alone)


def on_all_ranks(model, a, b):
    """(<a, b>, the sum of the absolute products) over all tiles."""
    parts = [np.asarray(p) * np.asarray(q) for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b))]
    sums = np.array([sum(p.sum() for p in parts), sum(np.abs(p).sum() for p in parts)])
    return model.communicator.host_sum(sums)


def check(model, function, stepper):
    """The identity, input by input."""
    dynamics, state = model.dynamics(stepper, steps=STEPS), cases.start(model)
    fields = fields_of(dynamics)
    x = (
        model.state(*map(cases.random, (31, 32, 33))),
        {name: model.scatter(random_like(field, 40 + 10 * k)) for k, (name, field) in enumerate(fields.items())},
    )
    y = State(*(model.scatter(cases.random(seed)) for seed in (34, 35, 36)))
    each, (by_state, by_field) = both_modes(function, dynamics, stepper, state, one_by_one(x), y)
    given = {"state": (x[0], by_state), **{name: (x[1][name], by_field[name]) for name in fields}}
    for k, (name, (direction, transposed)) in enumerate(given.items()):
        result = jax.tree.map(operator.itemgetter(k), each)
        (forward, size), (backward, _) = on_all_ranks(model, result, y), on_all_ranks(model, direction, transposed)
        assert size > 0, f"{name} has no share in the result"
        assert abs(forward - backward) <= 2e-12 * size, f"{name}: {forward} and {backward}"


@pytest.mark.parametrize("case", ["all of them"] if TWO_RANKS else TERMS)
def test_every_term_and_boundary_has_the_transpose_of_its_tangent(case):
    check(model_of(**(ALL_TERMS if TWO_RANKS else TERMS[case])), tendency, sw.AB2(DT))


@pytest.mark.parametrize(
    "case",
    [pytest.param(x, marks=pytest.mark.verify) for x in ("ArakawaLamb", "periodic")] + ["both poles"]
    if TWO_RANKS
    else FORMS,
)
def test_every_form_of_the_equations_has_the_transpose_of_its_tangent(case):
    check(model_of(**FORMS[case]), tendency, sw.AB2(DT))


@pytest.mark.verify  # test_ranks_agree.py and test_nests.py compare gradients
@pytest.mark.parametrize("name", ("RK4", "ForwardBackward", "SemiImplicit") if TWO_RANKS else STEPPERS)
def test_every_stepper_has_the_transpose_of_its_tangent(name):
    more = {} if name == "RigidLid" or "walls" in name else {"boundaries": (sw.Flather(("west", "north")),)} | RISE
    model = model_of(**WIND, dissipation=(sw.QuadraticDrag(positive(14, 2.0)),), **more)
    check(model, three_steps, STEPPERS[name](DT))
