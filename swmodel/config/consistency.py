"""Conditions between sections that can be checked from the file alone.

Each check has the sections that it compares as parameters. It is left out where one of them has mistakes of its own or
is not given; a section with a default may be missing. `sections` are all that are valid.
"""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..dynamics.boundaries import OpenBoundary
from ..fields.parameters import POINT, Moment
from ..grids.geometry import Coriolis
from ..grids.grid import turned
from ..stepping.explicit import TimeStepper
from .expressions import COORDINATES, Expression
from .parts import Shipped, variable_mistakes
from .reading import Section, leaves
from .series import TideSection
from .toml import Mistake, mistakes_of_names

if TYPE_CHECKING:
    from .physics import Model
    from .scenario import Run


def mistakes_between(sections: Mapping[str, Any]) -> list[Mistake]:
    """Mistakes in the relations between `sections`, a dict without the sections that have mistakes of their own."""
    checks = (
        _coriolis,
        _formulas,
        _boundaries,
        _places,
        _windows,
        _files,
        _intervals,
        _products,
        _potential,
        _dates_of_tides,
        _sums,
        core_mistakes,
        coast_mistakes,
        variable_mistakes,
        *_of_nests(sections),
    )
    own = (one.mistakes_with(sections) for one in sections.values() if isinstance(one, Section))
    return [mistake for found in (*(_checked(check, sections) for check in checks), *own) for mistake in found]


def _of_nests(sections):
    """The checks of an experiment with nests."""
    if not sections.get("nest"):
        return ()
    from .nests import mistakes_with_nests, nest_mistakes

    return nest_mistakes, mistakes_with_nests


def _checked(check, sections):
    """The mistakes that a check finds in the sections that its parameters name; none without one that it needs."""
    parameters, known = inspect.signature(check).parameters, {**sections, "sections": sections}
    given = {name: known[name] for name in parameters if known.get(name) is not None}
    needed = {name for name, parameter in parameters.items() if parameter.default is parameter.empty}
    return check(**given) if needed <= given.keys() else ()


def _coriolis(coriolis, grid):
    spherical = grid.type == "spherical"
    wanted = None if coriolis.type == "none" else coriolis.part.spherical
    if wanted is not None and wanted != spherical:
        kind = "spherical" if wanted else "cartesian"
        others = [name for name, cls in Shipped(Coriolis).items() if cls.spherical == spherical]
        others += [name for name, cls in Shipped(Coriolis).items() if wanted and cls.spherical is None]
        use = " or ".join(map(repr, sorted(others, reverse=True)))
        yield Mistake(("coriolis", "type"), f"{coriolis.type!r} needs a {kind} grid; use {use}")


def _potential(forcing, grid):
    for index, entry in enumerate(forcing):
        if entry.type == "tidal_potential" and grid.type != "spherical":
            yield Mistake(("forcing", index, "type"), "the tidal potential needs a spherical grid; leave it out")


def _dates_of_tides(run, boundary=(), forcing=(), dissipation=(), inversion=None, adjoint=None):
    """Mistakes of tides in a run without a date, on which the positions of the moon and the sun depend."""
    if run.start is not None:
        return
    missing = (
        "needs the date of the start, on which the moon and the sun depend; give run.start, as 2024-01-01T00:00:00Z"
    )
    for group, entries in (("boundary", boundary), ("forcing", forcing), ("dissipation", dissipation)):
        for index, entry in enumerate(entries):
            for name, value in entry:
                if isinstance(value, TideSection):
                    yield Mistake((group, index, name), f"a tide {missing}")
            if "start" in _dates_in(entry.part):
                yield Mistake((group, index, "type"), f"{entry.type!r} {missing}")
    for k, table in enumerate(() if inversion is None else inversion.observations):
        if table.type == "harmonics":
            yield Mistake(("inversion", "observations", k, "type"), f"a phase lag {missing}")
    if adjoint is not None and "start" in _dates_in(adjoint.cost.part):
        yield Mistake(("adjoint", "cost", "type"), f"a phase lag {missing}")


def _dates_in(part):
    """The names of the parameters of a class that are dates."""
    return [field.name for field in dataclasses.fields(part) if isinstance(field.metadata.get("rule"), Moment)]


def _sums(output, ensemble):
    for path, section in output.named_products():
        if not section.part.of_ensembles:
            yield Mistake(path, "not available for an ensemble; leave the section out")
    for k, fields in enumerate(output.fields):
        if fields.file.endswith(".zarr"):
            yield Mistake(
                ("output", "fields", k, "file"),
                f"{fields.file!r} is a Zarr store, and the fields of an ensemble are written as netCDF; give a name "
                "that ends in .nc",
            )


def _products(stepper, output):
    for path, section in output.named_products():
        if not stepper.part.may_have(section.part):
            yield Mistake(path, f"under a rigid lid the surface does not move: there are no {path[1]}; leave it out")


def _formulas(grid, sections):
    spherical = grid.type == "spherical"
    for path, formula in leaves(dict(sections)):
        if isinstance(formula, Expression) and (unknown := formula.unknown_on(spherical)):
            yield Mistake(
                path,
                f"the formula uses {', '.join(sorted(unknown))}, which a {grid.type} grid does not have; its "
                f"coordinates are {' and '.join(COORDINATES[spherical])}",
            )


def _boundaries(boundary, grid=None):
    open_sides = set()
    for index, entry in enumerate(boundary):
        is_open = issubclass(entry.part, OpenBoundary)
        for side in getattr(entry, "sides", ()):
            path = ("boundary", index, "sides")
            if is_open and side in open_sides:
                yield Mistake(path, f"the {side} side is open twice; name it in one {entry.type} entry")
            if grid is not None and (reason := _no_side(grid, side)):
                yield Mistake(path, f"there is no {side} side: {reason}; take it out of sides, or change the grid")
        open_sides |= set(entry.sides) if is_open else set()


def _no_side(grid, side):
    axis = "x" if side in ("west", "east") else "y"
    if axis in _periodic(grid):
        return f"the grid is periodic in {axis}"
    if grid.type == "spherical" and axis == "y" and abs(grid.latitude[side == "north"]) == 90.0:
        return "the grid ends at a pole"
    return None


def _periodic(grid):
    if grid.periodic is not None:
        return grid.periodic
    return "x" if abs(grid.longitude[1] - grid.longitude[0] - 360.0) < 1e-9 else ""


def _places(grid, output=None, initial=None, adjoint=None, source=None):
    places = []
    if output is not None and output.gauges is not None:
        places += [(("output", "gauges", "positions", name), at) for name, at in output.gauges.positions.items()]
    for path, section in () if output is None else output.named_products():
        given = getattr(section, "positions", None) if "positions" in section.part.keys() else None
        places += [((*path, "positions", k), at) for k, at in enumerate(given or ())]
    if initial is not None and initial.type == "gaussian":
        places.append((("initial", "centre"), initial.centre))
    cost = None if adjoint is None else adjoint.cost
    places += [(("adjoint", "cost", "positions", name), at) for name, at in getattr(cost, "positions", {}).items()]
    for field in () if cost is None else dataclasses.fields(cost.part):
        if field.metadata.get("rule") == POINT:
            places.append((("adjoint", "cost", field.name), getattr(cost, field.name)))
    for index, fault in enumerate(() if source is None else source.faults):
        places.append((("source", "faults", index, "longitude"), (fault.longitude, fault.latitude)))
    for path, place in places:
        if why := _not_on(grid, place):
            yield Mistake(path, why)


def _not_on(grid, place):
    spherical = grid.type == "spherical"
    unit = "degree" if spherical else "m"
    wrong = [c.unit for c in place if c.unit not in (None, unit)]
    if wrong:
        return f"a coordinate in {wrong[0]} does not fit the {grid.type} grid; give {unit}"
    (x, y), (xs, ys) = place, (grid.longitude, grid.latitude) if spherical else (grid.x, grid.y)
    x = turned(x, 0.5 * (xs[0] + xs[1])) if spherical else x
    if xs[0] <= x <= xs[1] and ys[0] <= y <= ys[1]:
        return None
    names = COORDINATES[spherical]
    return (
        f"({place[0]:g}, {place[1]:g}) is outside the grid: {names[0]} {xs[0]:g} to {xs[1]:g}, "
        f"{names[1]} {ys[0]:g} to {ys[1]:g} [{unit}]"
    )


def _windows(output):
    """Mistakes of windows for gauges that do not exist."""
    if (gauges := output.gauges) is not None:
        yield from mistakes_of_names(gauges.windows, gauges.positions, ("output", "gauges", "window"), keys=True)


def _files(output):
    seen = {}
    for path, section in sorted(output.files(), key=lambda file: hasattr(file[1], "part")):  # products last
        if (file := section.file) in seen:
            text = f"{file!r} is written by {seen[file]} too; give each output a file of its own"
            yield Mistake((*path, "file"), text)
        seen.setdefault(file, ".".join(map(str, path)))


def _intervals(stepper, output=None, run=None):
    if stepper.dt == "auto":
        return
    intervals: list[tuple[tuple[str | int, ...], float]] = []
    for path, section in () if output is None else output.files():
        if (every := getattr(section, "every", None)) is not None:
            intervals.append(((*path, "every"), every))
    if run is not None:
        intervals.append((("run", "until"), run.until))
    for path, seconds in intervals:
        if seconds < stepper.dt:
            yield Mistake(
                path, f"{seconds:g} s is shorter than the time step of {stepper.dt:g} s; use a multiple of it"
            )


# -- cores and coasts --------------------------------------------------------------------------------------------------

ELSEWHERE = "core = 'finite_differences' has it"


def core_mistakes(
    model: "Model",
    stepper: Any = None,
    run: "Run | None" = None,
    grid: Any = None,
    boundary: tuple = (),
    tracer: tuple = (),
) -> Iterator[Mistake]:
    """Mistakes of an experiment whose parts do not fit its core; a core of the user's own finds its own."""
    if not isinstance(model.core, str):
        return
    spectral = model.core == "pseudo_spectral"
    if stepper is not None and stepper.part.needs_modes and not spectral:
        yield Mistake(
            ("stepper", "type"),
            f"'{stepper.type}' carries waves mode by mode, and the finite-difference core has no modes; "
            "use model.core = 'pseudo_spectral', or 'rk4'",
        )
    if model.core == "finite_differences":
        return
    if spectral:
        yield from _not_spectral(model, grid, boundary, tracer)
    elif grid is not None and grid.type != "spherical":
        yield Mistake(("model", "core"), f"'filtered_differences' filters parallels of a sphere; {ELSEWHERE}")
    if run is not None and run.engine == "fused":
        yield Mistake(("run", "engine"), f"'fused' makes loops of differences, and '{model.core}' has none; use 'auto'")
    if stepper is not None and _takes_parts(stepper.part):
        known = {name: cls for name, cls in Shipped(TimeStepper).items() if spectral or not cls.needs_modes}
        plain = [name for name, cls in known.items() if not (_takes_parts(cls) or cls.needs_momentum_form)]
        others = [repr(name) for name in reversed(plain)]
        yield Mistake(
            ("stepper", "type"),
            f"'{stepper.type}' needs parts of a tendency, and '{model.core}' computes it as a whole; "
            f"use {', '.join(others[:-1])} or {others[-1]}",
        )


def _takes_parts(stepper):
    return stepper.needs_parts or stepper.is_implicit


def _not_spectral(model, grid, boundary, tracer):
    if grid is not None and grid.type == "spherical":
        yield Mistake(("model", "core"), f"'pseudo_spectral' needs a plane, and the grid is spherical; {ELSEWHERE}")
    walls = grid is not None and grid.type == "cartesian" and set("xy") - set(grid.periodic)
    if walls and model.side != "free_slip":
        yield Mistake(("model", "side"), f"'pseudo_spectral' has free-slip walls only; {ELSEWHERE}, or use 'free_slip'")
    for name, own in (("momentum", "energy_conserving"), ("coriolis_form", None)):
        if getattr(model, name) != own:
            text = "'pseudo_spectral' has a form of its own, and this is one of differences; leave it out"
            yield Mistake(("model", name), text)
    for k, entry in enumerate(boundary):
        if issubclass(entry.part, OpenBoundary):
            yield Mistake(("boundary", k, "type"), f"'pseudo_spectral' has no open sides; use a sponge, or {ELSEWHERE}")
    for k in range(len(tracer)):
        yield Mistake(("tracer", k, "name"), f"'pseudo_spectral' steps no tracers; leave it out, or {ELSEWHERE}")


def coast_mistakes(
    model: "Model", bathymetry: Any = None, tracer: tuple = (), dissipation: tuple = ()
) -> Iterator[Mistake]:
    """Mistakes of an experiment with wetting, and of one whose other sections need it."""
    if model.momentum != "momentum_conserving" and "damping" in model.written:
        text = f"momentum is {model.momentum!r}, which damps nothing; write 'momentum_conserving', or leave this out"
        yield Mistake(("model", "damping"), text)
    moving = model.wetting is not None
    for name in () if bathymetry is None else bathymetry.unused(moving):
        remedy = "wetting keeps the topography as it is;" if moving else "needs model.wetting; give that, or"
        yield Mistake(("bathymetry", name), f"{remedy} leave this out")
    if not moving:
        return
    if model.momentum != "momentum_conserving":
        yield Mistake(
            ("model", "wetting"),
            f"wetting needs momentum = 'momentum_conserving', and momentum is {model.momentum!r}; change it",
        )
    for k, entry in enumerate(tracer):
        if entry.scheme == "centred":
            yield Mistake(
                ("tracer", k, "scheme"),
                "takes more from a cell that falls dry than it holds; write 'flux_limited', or leave wetting out",
            )
    for k, entry in enumerate(dissipation):
        if entry.type == "manning_drag" and entry.roughness == 0.0:
            yield Mistake(("dissipation", k, "roughness"), "is 0 on land; give a roughness, or leave the drag out")
