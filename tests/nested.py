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
