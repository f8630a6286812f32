"""Tests 5 and 6 of Williamson et al. (1992): flow over a mountain, and the Rossby-Haurwitz wave of wavenumber 4.

Neither has an exact solution. The reference is extrapolated from the two finest of three resolutions, on the cells of
the middle one, as (4 fine - middle) / 3. It assumes that the errors of these two are of order 2; the order between the
coarse and the middle one is measured. The error of the finest run is thereby always a quarter of that of the middle
one. So the short form (`--quick`) sets no limit for its finest run, that of 144 cells. Majewski et al. (2002),
doi:10.1175/1520-0493(2002)130<0319:TOGIHG>2.0.CO;2, publish the errors of GME on 10,242 and 40,962 points. Here there
are 10,368 and 41,472 cells.
"""

from typing import Any

import numpy as np

from ...dynamics.momentum import ArakawaLamb
from ...fields.state import State
from ...models.shallow_water import ShallowWater
from ...stepping.explicit import RK4
from ..case import Case, Mark, Outcome, Panel, Twin
from ..norms import order
from .globe import DAY, OMEGA, RADIUS, WILLIAMSON, G, advanced, map_of, sphere_model, weighted_l2

__all__ = ["STARTS", "coarsened", "errors", "height"]

DAYS = {"w5": 15, "w6": 10}
H5, U5 = 5960.0, 20.0
H6, WAVE, K6 = 8000.0, 4, 7.848e-6


def mountain(longitude: Any, latitude: Any) -> np.ndarray:
    """The height of the mountain [m], a cone of 2000 m at 270 E, 30 N."""
    away = np.minimum(np.hypot(np.deg2rad(longitude) - 1.5 * np.pi, np.deg2rad(latitude) - np.pi / 6), np.pi / 9)
    return 2000.0 * (1.0 - away / (np.pi / 9))


def over_mountain(n: int) -> tuple[ShallowWater, State]:
    """The model and the first state of test 5."""
    model = sphere_model(n, lambda x, y: H5 - mountain(x, y), momentum=ArakawaLamb())
    level = lambda x, y: -(RADIUS * OMEGA * U5 + U5**2 / 2) / G * np.sin(np.deg2rad(y)) ** 2 + 0.0 * x  # noqa: E731
    return model, model.state(u=lambda x, y: U5 * np.cos(np.deg2rad(y)) + 0.0 * x, eta=level)


def rossby_haurwitz(n: int) -> tuple[ShallowWater, State]:
    """The model and the first state of test 6, equations 141 to 149."""
    r, k, w = WAVE, K6, K6

    def level(x, y):
        x, y = np.deg2rad(x), np.deg2rad(y)
        c = np.cos(y)
        a = 0.5 * w * (2 * OMEGA + w) * c**2 + 0.25 * k**2 * c ** (2 * r) * (
            (r + 1) * c**2 + (2 * r**2 - r - 2) - 2 * r**2 * np.where(c > 1e-6, c, 1.0) ** -2.0 * (c > 1e-6)
        )
        b = 2 * (OMEGA + w) * k / ((r + 1) * (r + 2)) * c**r * ((r**2 + 2 * r + 2) - (r + 1) ** 2 * c**2)
        d = 0.25 * k**2 * c ** (2 * r) * ((r + 1) * c**2 - (r + 2))
        return RADIUS**2 / G * (a + b * np.cos(r * x) + d * np.cos(2 * r * x))

    def u(x, y):
        x, y = np.deg2rad(x), np.deg2rad(y)
        c, s = np.cos(y), np.sin(y)
        return RADIUS * (w * c + k * c ** (r - 1) * (r * s**2 - c**2) * np.cos(r * x))

    def v(x, y):
        x, y = np.deg2rad(x), np.deg2rad(y)
        return -RADIUS * k * r * np.cos(y) ** (r - 1) * np.sin(y) * np.sin(r * x)

    model = sphere_model(n, H6)
    return model, model.state(u=u, v=v, eta=level)


STARTS = {"w5": over_mountain, "w6": rossby_haurwitz}
MEAN = {"w5": H5, "w6": H6}


def height(name: str, n: int) -> tuple[ShallowWater, np.ndarray]:
    """(the model, the height of the surface [m] (n / 2, n)) at the end of test 5 or 6."""
    model, state = STARTS[name](n)
    return model, np.asarray(advanced(model, state, DAYS[name] * DAY).eta) + MEAN[name]


def coarsened(values: np.ndarray, n: int) -> np.ndarray:
    """Means by area over the cells of a grid of n x n / 2."""
    ratio = values.shape[1] // n
    edges = np.sin(np.deg2rad(np.linspace(-90.0, 90.0, values.shape[0] + 1)))
    area = np.diff(edges)[:, None] * np.ones(values.shape)
    blocks = lambda x: x.reshape(n // 2, ratio, n, ratio).sum(axis=(1, 3))  # noqa: E731
    return blocks(values * area) / blocks(area)


def errors(name: str, resolutions: tuple) -> tuple[ShallowWater, np.ndarray, list[float]]:
    """(the finest model, its height of the surface [m], the l2 error at each of three resolutions n, 2 n, 4 n)."""
    models, found = zip(*(height(name, n) for n in resolutions))
    coarse, middle, _ = resolutions
    reference = (4.0 * coarsened(found[2], middle) - found[1]) / 3.0
    pairs = (
        (models[0], found[0], coarsened(reference, coarse)),
        (models[1], found[1], reference),
        (models[1], coarsened(found[2], middle), reference),
    )
    return models[2], found[2], [weighted_l2(*pair) for pair in pairs]


def _measure(name, resolutions):
    model, found, sizes = errors(name, resolutions)
    slope = [sizes[0] * (resolutions[0] / n) ** 2 for n in resolutions]
    drawn = Panel(
        "relative error",
        "errors",
        {"error": (resolutions, sizes), "order 2": (resolutions, slope)},
        labels=("cells round the equator", ""),
    )
    values = {f"{name}_l2_{n}": size for n, size in zip(resolutions, sizes)}
    values[f"{name}_order"] = order(resolutions[:2], sizes[:2])
    return Outcome(values, [map_of(f"height of the surface on day {DAYS[name]}", model, found, "m"), drawn])


def _case(name, title, tests, equation, gme):
    def twin():
        model, state = STARTS[name](16)
        return Twin(model, RK4(900.0), state)

    published = f"GME: {gme[0]:g} and {gme[1]:g} at 10,242 and 40,962 points, Majewski et al. (2002)"
    Case(
        name=name,
        group="sphere",
        title=title,
        tests=tests,
        **WILLIAMSON,
        equation=equation,
        measure=lambda resolutions: _measure(name, resolutions),
        marks=(
            Mark(f"{name}_l2_36", f"l2 error of h on day {DAYS[name]}, 36 x 18 cells"),
            Mark(f"{name}_l2_72", f"l2 error of h on day {DAYS[name]}, 72 x 36 cells"),
            Mark(
                f"{name}_l2_144",
                f"l2 error of h on day {DAYS[name]}, 10,368 cells",
                gme[0],
                published=published,
                quick=False,  # the finest run of its own reference
            ),
            Mark(f"{name}_l2_288", f"l2 error of h on day {DAYS[name]}, 41,472 cells", gme[1], published=published),
            Mark(f"{name}_order", "order of convergence between the two coarser resolutions"),
        ),
        resolutions=(72, 144, 288),
        quick=(36, 72, 144),
        norm=f"l2 of h, relative, on day {DAYS[name]}, against an extrapolation of this model",
        twin=twin,
    )


_case(
    "w5",
    "Zonal flow over a mountain",
    "nonlinear flow over topography",
    "u = 20 m/s cos(phi), a cone of 2000 m at 30 N",
    (1.37e-3, 7.2e-4),
)
_case(
    "w6",
    "Rossby-Haurwitz wave",
    "a nonlinear wave of wavenumber 4, which keeps its shape",
    "psi = - a^2 w sin(phi) + a^2 K cos^4(phi) sin(phi) cos(4 lambda)",
    (9.0e-3, 2.9e-3),
)
