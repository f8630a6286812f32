"""Okada (1985): his table 2, the integral of his point sources, and derivatives where his formulas divide by zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.sources.okada import Rectangle, surface_displacement

# Table 2, p. 1149: x, y, depth of the lower edge, dip, length, width; for slip 1 along strike, up dip and opening,
# ux, uy, uz and their derivatives by x and y: uxx, uxy, uyx, uyy, uzx, uzy. Case 4 has dip = -90, which is the plane of
# dip 90 whose lower edge lies 2 deeper, seen from the other side: strike-slip is reversed.
TABLE_2 = {
    2: (
        (2, 3, 4, 70, 3, 2),
        (
            (-8.689e-3, -4.298e-3, -2.747e-3, -1.220e-3, 2.470e-4, -8.191e-3, -5.814e-4, -5.175e-3, 2.945e-4),
            (-4.682e-3, -3.527e-2, -3.564e-2, -8.867e-3, -1.519e-4, 4.057e-3, -1.035e-2, 4.088e-3, 2.626e-3),
            (-2.660e-4, 1.056e-2, 3.214e-3, -5.655e-4, 1.993e-3, -1.066e-3, 1.230e-2, -3.730e-4, 1.040e-2),
        ),
    ),
    3: (
        (0, 0, 4, 90, 3, 2),
        (
            (0, 5.253e-3, 0, 0, -1.864e-2, -2.325e-3, 0, 0, 2.289e-2),
            (0, 0, 0, 0, 2.748e-2, 0, 0, 0, -7.166e-2),
            (1.223e-2, 0, -1.606e-2, -4.182e-3, 0, 0, -2.325e-3, -9.146e-3, 0),
        ),
    ),
    4: (
        (0, 0, 6, 90, 3, 2),
        (
            (0, 1.303e-3, 0, 0, -2.726e-3, -7.345e-4, 0, 0, 4.422e-3),
            (0, 0, 0, 0, 5.157e-3, 0, 0, 0, -1.901e-2),
            (3.507e-3, 0, -7.740e-3, -1.770e-3, 0, 0, -7.345e-4, -1.843e-3, 0),
        ),
    ),
}
POINT_TABLE_2 = (  # case 1: x, y, d, dip = 2, 3, 4, 70
    (-9.447e-4, -1.023e-3, -7.420e-4),
    (-1.172e-3, -2.082e-3, -2.532e-3),
    (-3.572e-4, 3.531e-4, -2.007e-4),
)
NAMES = ("x", "y", "length", "width", "top", "dip", "strike-slip", "dip-slip", "opening", "poisson")


@jax.jit
def displacement(parameters):
    """(ux, uy, uz) of the ten parameters NAMES."""
    x, y, length, width, top, dip, strike_slip, dip_slip, opening, poisson = parameters
    return jnp.stack(
        surface_displacement(x, y, Rectangle(length, width, top, dip), (strike_slip, dip_slip, opening), poisson)
    )


forward = jax.jit(jax.jacfwd(displacement))
backward = jax.jit(jax.jacrev(displacement))


def derivative(parameters):
    return np.array(forward(jnp.array(parameters, float)))


def differences(parameters, step=1e-4):
    """The same by central differences of fourth order."""
    columns = []
    for k in range(len(NAMES)):

        def at(n, k=k):
            moved = np.array(parameters, float)
            moved[k] += n * step * (10 if NAMES[k] == "dip" else 1)
            return np.array(displacement(jnp.array(moved)))

        slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)
        columns.append(slope / (10 if NAMES[k] == "dip" else 1))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("component", range(3))
@pytest.mark.parametrize("case", TABLE_2)
def test_the_check_list_of_the_paper_with_its_derivatives(case, component):
    (x, y, depth, dip, length, width), table = TABLE_2[case]
    sin, cos = np.sin(np.deg2rad(dip)), np.cos(np.deg2rad(dip))
    slip = [float(component == k) for k in range(3)]
    parameters = [x, y - width * cos, length, width, depth - width * sin, dip, *slip, 0.25]
    got = np.concatenate([displacement(jnp.array(parameters, float)), derivative(parameters)[:, :2].ravel()])
    np.testing.assert_allclose(got, table[component], rtol=6e-4, atol=1e-15)


def point_source(x, y, d, dip, component):
    """Okada's eqs 8 to 10 with poisson 0.25: displacement for a slip times area of 1."""
    s, c, a = np.sin(dip), np.cos(dip), 0.5
    p, q, R = y * c + d * s, y * s - d * c, np.sqrt(x * x + y * y + d * d)
    i1 = a * y * (1 / (R * (R + d) ** 2) - x * x * (3 * R + d) / (R**3 * (R + d) ** 3))
    i2 = a * x * (1 / (R * (R + d) ** 2) - y * y * (3 * R + d) / (R**3 * (R + d) ** 3))
    i3 = a * x / R**3 - i2
    i4 = -a * x * y * (2 * R + d) / (R**3 * (R + d) ** 2)
    i5 = a * (1 / (R * (R + d)) - x * x * (2 * R + d) / (R**3 * (R + d) ** 2))
    vector, factor = np.array([x, y, d]), 3 * q / R**5
    if component == 0:
        return -(factor * x * vector + np.array([i1, i2, i4]) * s) / (2 * np.pi)
    if component == 1:
        return -(factor * p * vector - np.array([i3, i1, i5]) * s * c) / (2 * np.pi)
    return (factor * q * vector - np.array([i3, i1, i5]) * s * s) / (2 * np.pi)


@pytest.mark.parametrize("component", range(3))
def test_the_point_source_of_the_next_test_is_that_of_the_paper(component):
    np.testing.assert_allclose(point_source(2, 3, 4, np.deg2rad(70), component), POINT_TABLE_2[component], rtol=5e-4)


@pytest.mark.parametrize("component", range(3))
@pytest.mark.parametrize("dip", [0.0, 1e-3, 8.0, 45.0, 89.0, 89.9999, 90.0])
def test_a_rectangle_is_the_integral_of_point_sources(dip, component):
    rng = np.random.default_rng(int(dip * 10) + component)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    nodes, weights = (nodes + 1) / 2, weights / 2
    length, width, top, angle = 3.0, 2.0, 1.0, np.deg2rad(dip)
    along, down = np.meshgrid(nodes * length, nodes * width)
    area = np.outer(weights, weights) * length * width
    slip = [float(component == k) for k in range(3)]
    for x, y in [*rng.uniform(-6, 8, (6, 2)), (0.0, 0.0), (3.0, 1.0), (1.5, -1.0)]:
        whole = point_source(x - along, y + down * np.cos(angle), top + down * np.sin(angle), angle, component)
        want = np.sum(area * whole, axis=(1, 2))
        got = displacement(jnp.array([x, y, length, width, top, dip, *slip, 0.25]))
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


def test_every_derivative_agrees_with_finite_differences():
    rng = np.random.default_rng(5)
    for _ in range(12):
        place, top, dip, slip = rng.uniform(-4, 6, 2), rng.uniform(0.3, 2), rng.uniform(5, 85), rng.normal(size=3)
        parameters = [*place, 3.0, 2.0, top, dip, *slip, 0.3]
        np.testing.assert_allclose(derivative(parameters), differences(parameters), rtol=1e-7, atol=1e-9)


SINGULAR = {
    "dip 90": (1.3, 0.7, 90.0),
    "dip 90, in the plane of the fault (q = 0)": (1.3, 0.0, 90.0),
    "dip 90, above its corner (xi = q = 0)": (0.0, 0.0, 90.0),
    "dip 90, above its other corner": (3.0, 0.0, 90.0),
    "dip 90, in the plane, beyond the end": (5.0, 0.0, 90.0),
    "where the plane meets the surface (q = 0)": (1.3, 0.6 / np.tan(np.deg2rad(40.0)), 40.0),
    "there, in line with its side (xi = q = 0)": (0.0, 0.6 / np.tan(np.deg2rad(40.0)), 40.0),
    "there, beyond the end": (-2.0, 0.6 / np.tan(np.deg2rad(40.0)), 40.0),
    "in line with its side (xi = 0)": (0.0, -1.1, 40.0),
    "where eta = 0": (1.3, -0.6 * np.tan(np.deg2rad(40.0)), 40.0),
    "half way along, where the form of 1 / (R + xi) changes": (1.5, -0.4, 40.0),
    "dip 0": (1.0, 0.5, 0.0),
}


@pytest.mark.parametrize("place", SINGULAR)
def test_values_and_derivatives_are_right_where_the_formulas_of_the_paper_divide_by_zero(place):
    x, y, dip = SINGULAR[place]
    parameters = [x, y, 3.0, 2.0, 0.6, dip, 0.7, -1.1, 0.4, 0.25]
    nearby = np.array(parameters) + 1e-9
    value = displacement(jnp.array(parameters))
    np.testing.assert_allclose(value, displacement(jnp.array(nearby)), atol=1e-7)
    np.testing.assert_allclose(derivative(parameters), differences(parameters), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(backward(jnp.array(parameters)), derivative(parameters), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("x", [-1.0, 0.0, 1.0, 1.5, 3.0, 4.0])
@pytest.mark.parametrize("dip", [0.0, 8.0, 90.0])
def test_a_fault_that_reaches_the_surface_has_finite_values_and_derivatives_on_its_trace(dip, x):
    parameters = jnp.array([x, 0.0, 3.0, 2.0, 0.0, dip, 0.7, 1.0, 0.4, 0.25])
    assert np.isfinite(displacement(parameters)).all()
    assert np.isfinite(forward(parameters)).all()
    assert np.isfinite(backward(parameters)).all()


def test_across_the_trace_the_surface_jumps_by_the_slip_and_on_it_moves_with_the_hanging_side():
    dip = np.deg2rad(30.0)

    def at(y):
        return np.array(displacement(jnp.array([1.2, y, 3.0, 2.0, 0.0, 30.0, 0.7, 1.1, 0.0, 0.25])))

    jump = at(-1e-9) - at(1e-9)
    np.testing.assert_allclose(jump, [0.7, 1.1 * np.cos(dip), 1.1 * np.sin(dip)], atol=1e-7)
    np.testing.assert_allclose(at(0.0), at(-1e-9), atol=1e-7)


@pytest.mark.parametrize("dip", [8.0, 45.0, 89.9, 90.0])
def test_float32_keeps_a_hundred_thousandth_of_the_slip(dip):
    x, y = np.meshgrid(np.linspace(-4e5, 5e5, 41), np.linspace(-5e5, 4e5, 43))
    rectangle, slip = Rectangle(1e5, 5e4, 7e3, dip), (1.0, 1.0, 1.0)
    want = surface_displacement(jnp.asarray(x), jnp.asarray(y), rectangle, slip)
    got = surface_displacement(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), rectangle, slip)
    assert all(u.dtype == jnp.float32 for u in got)
    np.testing.assert_allclose(np.array(got), np.array(want), atol=1e-5)


@pytest.mark.verify
def test_float32_derivatives_by_dip_stay_right_near_the_vertical():
    def lifted(dip, dtype):
        x = jnp.linspace(-1.1e5, 2.1e5, 50).astype(dtype)
        slip = (1.0, 1.0, 0.0)
        return jnp.sum(surface_displacement(x, 0.3 * x, Rectangle(1e5, 5e4, 7e3, dip), slip)[2] ** 2)

    slope = jax.jit(jax.grad(lifted), static_argnums=1)
    for dip in (89.0, 89.99, 90.0):
        want = slope(dip, jnp.float64)
        got = slope(jnp.float32(dip), jnp.float32)
        np.testing.assert_allclose(got, want, rtol=2e-3)
