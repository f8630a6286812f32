"""Families of small grids that tests of nests share: random depths, coasts that cross the borders, nests in nests."""

import numpy as np

import swmodel as sw

NY, NX, DX = 26, 30, 1000.0
GRID = sw.CartesianGrid(nx=NX, ny=NY, x=(0, NX * DX), y=(0, NY * DX))
HARBOUR = {"x": (9e3, 20e3), "y": (8e3, 18e3), "ratio": 3}
QUAY = {"x": (12e3, 16e3), "y": (11e3, 15e3), "ratio": 2, "inside": "harbour"}
GATES = (  # outside of both nests, in the outer one, in both, and in the frame
    sw.Gate((2.5e3, 3.5e3), (5.5e3, 12.5e3), 200.0, -20.0),
    sw.Gate((10.5e3, 9.5e3), (18.5e3, 16.5e3), 200.0, -20.0, opening=5.0),
    sw.Culvert((13.5e3, 12.5e3), (14.5e3, 14.2e3), 200.0, -20.0, opening=5.0, length=50.0),
    sw.Gate((8.5e3, 8.5e3), (8.5e3, 16.5e3), 200.0, -20.0, one_way=True),
)


def depth():
    """(NY, NX) [m], with land in a tenth of the cells."""
    random = np.random.default_rng(0)
    depth = 50.0 + 200.0 * random.random((NY, NX))
    return np.where(random.random(depth.shape) < 0.1, 0.0, depth)


def bump(x, y):
    """An elevation [m] whose waves leave the nests."""
    return np.exp(-((x - 12e3) ** 2 + (y - 13e3) ** 2) / 3e3**2)


def tracers():
    """A dye that spreads, and a tracer whose concentration is 1 everywhere."""
    return sw.Tracer("dye", initial=bump, diffusivity=10.0), sw.Tracer("one", initial=1.0)


def largest_difference_from_one(family, states, thinnest=0.0):
    """Of the concentration of the tracer "one", in cells with more water than `thinnest` [m]."""
    found = []
    for name, state in states.items():
        model = family.models[name]
        thickness = np.asarray(state.eta) + np.asarray(model.sea_floor.water)
        there = model.wet & (thickness > thinnest)
        found.append(np.abs(np.asarray(state.one)[there] / thickness[there] - 1.0).max())
    return max(found)


def family(nests=None, **options):
    """A Family over `depth`, with a nest in a nest unless `nests` are given."""
    nests = [sw.Nest("harbour", **HARBOUR), sw.Nest("quay", **QUAY)] if nests is None else nests
    options = {"coriolis": sw.FPlane(1e-4), "engine": "arrays", "depth": depth()} | options
    return sw.Family(GRID, options.pop("depth"), nests, **options)


def final(family, stepper, steps, **fields):
    """{name: State} after `steps` steps."""
    return sw.NestedSimulation(family, family.states(**fields), stepper).run(steps=steps)


def members(communicator=None, engine="arrays", start=16.0):
    """(the Families of two members, their {name: State}): another wind, viscosity, uplift, depth of a nest, and bump.

    The nest in a nest starts later.
    """
    uplift = bump(*GRID.coordinates("h"))
    families, states = [], []
    for k in range(2):
        options = {"forcing": sw.WindStress(x=0.1 * k), "dissipation": sw.Laplacian(10.0 + 90.0 * k), "engine": engine}
        options["source"] = sw.BottomMotion([0.0, 30.0 + 6.0 * k], np.stack([0.0 * uplift, (1.0 - k) * uplift]))
        nests = [sw.Nest("harbour", depth=60.0 + 20.0 * k, **HARBOUR), sw.Nest("quay", start=start, **QUAY)]
        families.append(family(nests, communicator=communicator or "auto", tracers=tracers(), **options))
        states.append(families[k].states(eta=lambda x, y, k=k: k * bump(x, y)))
    return families, states


def _east(x):
    """Longitudes from -180 to 180."""
    return (x + 180.0) % 360.0 - 180.0


def hump(x, y):
    """An elevation [m] near longitude 4."""
    return np.exp(-(((_east(x) - 4.0) / 8.0) ** 2) - ((y - 1.0) / 8.0) ** 2)


def globe(west, **options):
    """A Family on a globe that begins at a longitude, with a nest in a nest around longitude 5 in the tropics."""
    grid = sw.SphericalGrid(nx=48, ny=20, longitude=(west, west + 360.0), latitude=(-75.0, 75.0))
    island = lambda x, y: 3400.0 * np.exp(-(((_east(x) - 14.0) / 4.0) ** 2) - ((y - 3.0) / 4.0) ** 2)  # noqa: E731
    x, y = grid.coordinates("h")
    options = {
        "depth": lambda x, y: 3000.0 + 500.0 * np.cos(np.deg2rad(3.0 * x)) + 20.0 * y - island(x, y),
        "coriolis": sw.RotatingSphere(),
        "tracers": sw.Tracer("dye", initial=hump),
        "source": sw.BottomMotion([1000.0, 1900.0], np.stack([0.0 * hump(x, y), 0.1 * hump(x, y)])),
        "forcing": (sw.River(1e3, (2.0, 2.0)), sw.WindStress(x=lambda x, y: 0.1 * (x % 360.0 > 21.0) + 0.0 * y)),
        "dtype": "float64",
    } | options
    nests = [
        sw.Nest("outer", x=(-22.5, 30.0), y=(-22.5, 30.0)),
        sw.Nest("inner", x=(-7.5, 15.0), y=(-7.5, 15.0), ratio=2, inside="outer", start=900.0),
    ]
    return sw.Family(grid, options.pop("depth"), nests, **options)
