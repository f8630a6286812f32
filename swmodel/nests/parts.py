"""What of the outermost model acts in a nest: taken over, left out, warned of or refused.

Terms and tracers are evaluated on the nest's own cells, as are formulas, maps and records of files. Left out are open
sides and sponges, which belong to sides that no nest reaches, and rivers, gates and levees that lie elsewhere. An array
of the outermost grid's cells is refused, since its values lie elsewhere on the nest's.

The frame of a nest has as many cells as a step of it reads around each cell. A step of s stages reads s times what one
stage reads. That follows from the form of momentum advection and from the terms, and is found by tracing a step with
these on a few cells.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..dynamics.boundaries import OpenBoundary
from ..dynamics.clock import Time
from ..dynamics.dissipation import Drag
from ..dynamics.forcing import WaterForcing
from ..dynamics.layer import DEFAULT, VorticityFlux
from ..dynamics.shores import FIXED, Shore, WettingDrying
from ..dynamics.terms import Forcing, Term
from ..dynamics.tracers import Tracer
from ..dynamics.transported import Transported
from ..errors import ConfigError, SwmodelError
from ..fields.field import Value
from ..fields.parts import as_pytree, numbers_of, positions_of
from ..fields.state import pytree
from ..grids.geometry import FPlane, RotatingSphere
from ..grids.grid import CartesianGrid, Grid, SphericalGrid
from ..grids.levees import NO_CREST, CrestDepths, Levee
from ..grids.water import cell_at, nearest_water
from ..grids.windows import GridValues, grid_values
from ..models.parts import named, one_or_more
from ..models.shallow_water import ShallowWater
from ..runtime.packages import is_shipped
from ..stepping.explicit import SSPRK3
from ..stepping.forward_backward import ForwardBackward
from .nest import Nest, Place

if TYPE_CHECKING:
    from ..dynamics.layer import LayerFlow

__all__ = [
    "OWN",
    "SHARED",
    "STAGES",
    "check_arrays",
    "check_options",
    "check_tracers",
    "forcing_in",
    "frame_of",
    "in_nest",
    "is_of_cells",
    "of_outermost",
    "shore_in",
    "walls_in",
    "warn_of_blend",
    "warn_of_sponges",
]

OWN = ("boundaries", "layout", "communicator")  # arguments of the outermost model alone
SAME = (*OWN, "dtype", "gravity", "coriolis", "linear", "layers")  # those that a nest cannot have of its own
SHARED = "forcing", "dissipation", "tracers"  # parts of the outermost grid that nests take over
FRAME = 6  # the least width of the frame, in cells of the nest
OF_STAGE = 3  # the same for a step of one stage, of which ForwardBackward reads 2
BORES = 5  # cells that a stage of MomentumConserving reads; a tracer reads one more
STAGES = 3  # of SSPRK3
CELLS = 24  # along a side of the grid on which a step is traced


def in_nest(name: str) -> str:
    """ " in the nest 'harbour'" for messages; "" for the outermost grid."""
    return f" in the nest {name!r}" if name else ""


def check_options(name: str, options: Mapping[str, object]) -> None:
    """Raise ConfigError for arguments of ShallowWater that grids of a family, or its nests, do not have."""
    for key, value in options.items():
        why = ""
        if key == "core" and not getattr(value, "steps_nests", False):
            why = "nests have finite differences alone; leave it out."
        if key in ("grid", "depth"):
            why = f"{key} is an argument of its own, or follows from the box; leave it out of `options`."
        if key in SAME and name:
            why = "all grids have that of the outermost one; leave it out there."
        if key in SHARED and any(getattr(part, "kind", "") == "boundary" for part in one_or_more(value)):
            why = "nests would have it along sides of their own; give it in boundaries, which the outermost grid has."
        if why:
            raise ConfigError(f"Family: {key} = {value!r}{in_nest(name)}: {why}")


def check_arrays(name: str, options: Mapping[str, object], grid: Grid) -> None:
    """Raise ConfigError for arrays of the outermost grid's cells in the parts that a nest takes over.

    Args:
        name: of the nest.
        options: the arguments of ShallowWater that it takes over.
        grid: the outermost grid.
    """
    for key in SHARED:
        for part in one_or_more(options.get(key, ())):
            for parameter, value in vars(part).items():
                if is_of_cells(value, grid):
                    raise ConfigError(
                        f"{type(part).__name__}.{parameter} is an array of the outermost grid's {grid.ny} x {grid.nx} "
                        f"cells, and the nest {name!r} has others; give a function of x and y, or the nest its own "
                        f"{key} in `options`."
                    )


def is_of_cells(value: object, grid: Grid) -> bool:
    """Whether a value is an array of the cells of a grid, or holds one, as records in time do."""
    if isinstance(value, Mapping):
        return any(is_of_cells(each, grid) for each in value.values())
    if dataclasses.is_dataclass(value):
        return any(is_of_cells(each, grid) for each in vars(value).values())
    return tuple(getattr(value, "shape", ()))[-2:] == grid.shape


def warn_of_sponges(nests: Iterable[tuple[Nest, Place]], grid: Grid, boundaries: Sequence[object]) -> None:
    """Say which sponges, and other terms along sides, of the outermost grid have no effect in nests.

    Args:
        nests: those in the outermost grid, and where they lie.
        grid: the outermost grid.
        boundaries: its boundaries.
    """
    warn = logging.getLogger("swmodel").warning
    for name, part in named("boundary", boundaries).items():
        for nest, place in () if isinstance(part, OpenBoundary) else nests:
            shares = cast(Term, part).share_along_sides(grid)
            if shares is None:
                warn(
                    "%s, %s: the nest %r does not have it, as nests reach no side", name, type(part).__name__, nest.name
                )
                continue
            sides = [side for side, share in shares.items() if place.of_outer(share)[place.covered].any()]
            if sides:
                warn(
                    "%s, %s: its layer along the %s side reaches into the nest %r, and has no effect there: move the "
                    "box out of it, or make the layer narrower",
                    name,
                    type(part).__name__,
                    " and ".join(sides),
                    nest.name,
                )


def warn_of_blend(nest: Nest, place: Place, own: np.ndarray, depth: np.ndarray) -> None:
    """Say that a nest has its own depth nowhere, where it passes to the outer one over more than half of a small box.

    Args:
        nest, place: the nest, and where it lies.
        own, depth: (ny, nx) [m] before, and after its own depth passes to the outer one.
    """
    sides = tuple(last - first for first, last in (place.columns, place.rows))
    changed = np.abs(depth - own)[tuple(slice(*x) for x in place.nest_box)]
    if min(sides) <= 2 * nest.blend and changed.max() > 0.1 * np.abs(own).max():
        logging.getLogger("swmodel").warning(
            "the nest %r has its own depth in no outer cell of its box of %d x %d, as it passes to the outer one over "
            "blend = %d cells from each side: widen the box to more than %d cells, or give a smaller blend",
            nest.name,
            *sides,
            nest.blend,
            2 * nest.blend,
        )


def shore_in(options: Mapping[str, Any]) -> Shore:
    """The Shore of a grid with these arguments of ShallowWater."""
    return options.get("wetting") or FIXED


def of_outermost(options: Mapping[str, Any], nests: Sequence[Nest]) -> dict[str, Any]:
    """The arguments of the outermost grid, without levees if its shore is fixed and that of a nest moves."""
    in_nests = shore_in(options) is FIXED and any(shore_in(nest.options) is not FIXED for nest in nests)
    return {**options, "levees": ()} if in_nests else dict(options)


def walls_in(nest: Nest, place: Place, grid: Grid, options: Mapping[str, Any]) -> dict[str, tuple[Levee, ...]]:
    """{"levees": those that cross a nest}, none if its shore is fixed.

    Args:
        nest, place: the nest, and where it lies.
        grid: its Grid.
        options: its arguments of ShallowWater, with all levees of the family.

    Raises:
        ConfigError: for a levee in the frame, or less than an outer cell inside of the border.
    """
    found, width = [], place.width + place.ratio
    inner = np.zeros(place.nest_shape, bool)
    inner[width:-width, width:-width] = True
    between = inner[:, :-1] & inner[:, 1:], inner[:-1] & inner[1:]
    levees = () if shore_in(options) is FIXED else one_or_more(options.get("levees", ()))
    for number, levee in enumerate(levees, 1):
        u, v = (np.asarray(CrestDepths([levee], grid, position)) < NO_CREST for position in "uv")
        if not (u.any() or v.any()):
            continue
        if (u[:, :-1] & ~between[0]).any() or (v[:-1] & ~between[1]).any():
            raise ConfigError(
                f"levee {repr(levee.name) if levee.name else number} comes nearer than a cell of the outer grid to the "
                f"border of the nest {nest.name!r}, or into its frame, {place.frame} such cells around the box, where "
                "values of the outer grid are interpolated; move the box."
            )
        found.append(levee)
    return {"levees": tuple(found)}


@pytree
class _Elsewhere(Forcing):
    """Has the place of a forcing that lies outside of a nest, so that the others keep their numbers; does nothing."""

    uses_time = False

    def __call__(self, flow: "LayerFlow", time: Time) -> tuple[Value, Value]:
        return 0.0, 0.0


def forcing_in(
    nest: Nest, place: Place, outer: tuple[Grid, GridValues], inner: tuple[Grid, np.ndarray], forcing: Sequence[Term]
) -> tuple[Term, ...]:
    """The forcing of a nest, without the rivers, gates and the like that lie outside of its box.

    Args:
        nest, place: the nest, and where it lies.
        outer, inner: (Grid, its wet cells) of the grid around it, and of its own.
        forcing: that of the family, or of the nest.

    Raises:
        ConfigError: for one that has cells in the box and others outside of it. Each grid computes the water that
            passes for itself, so that the nest would take another volume than the outer grid gives.
    """

    def in_box(cell):
        return all(first <= n < last for n, (first, last) in zip(cell, place.nest_box, strict=True))

    found = []
    for number, term in enumerate(forcing):
        points, who = term.points if isinstance(term, WaterForcing) else (), type(term).__name__
        inside = [_is_in(place.has, who, point, *outer) for point in points]
        if points and not any(inside):
            found.append(_Elsewhere())
            continue
        wet = grid_values(inner[1], inner[0])
        if not all(inside) or not all(_is_in(in_box, who, point, inner[0], wet) for point in points):
            raise ConfigError(
                f"forcing.{number}, {who}: some of its cells are in the box of the nest {nest.name!r} and others are "
                "not, so that the volumes of both grids would differ; move the box, or all cells to one side of it."
            )
        found.append(term)
    return tuple(found)


def _is_in(box, who, point, grid, wet):
    """Whether the water nearest to a point is in a cell (row, column) for which `box` is true."""
    cell = None if cell_at(point, grid) is None else nearest_water(who, point, grid, wet)
    return cell is not None and box(cell)


def check_tracers(name: str, own: Sequence[Transported], outer: Sequence[Transported]) -> None:
    """Raise ConfigError unless a nest's tracers have the names and layers of the outermost grid's, and fluxes."""
    ours, theirs = ([(x.name, x.layer) for x in each] for each in (own, outer))
    if ours != theirs:
        listed = [", ".join(name for name, _ in each) or "none" for each in (ours, theirs)]
        raise ConfigError(
            f"Family: the tracers{in_nest(name)} are {listed[0]}, and those of the outermost grid {listed[1]}; give "
            "all grids the same ones, in the same order and layers."
        )
    if lacking := [type(x).__name__ for x in own if type(x).fluxes is Transported.fluxes]:
        raise ConfigError(f"Family: {lacking[0]} has no method `fluxes`, which nests need to conserve it; add one.")


def frame_of(
    grid: Grid,
    forms: tuple[VorticityFlux, VorticityFlux | None] = (DEFAULT, None),
    parts: Sequence[Any] = (),
    tracers: Sequence[Any] = (),
    stages: int = STAGES,
) -> int:
    """The least width of the frame, in cells of the nest.

    Args:
        grid: the grid around the nest.
        forms: of momentum advection, and of the Coriolis force, None where that is the same.
        parts: the terms, or their sections in an experiment file.
        tracers: likewise.
        stages: the number of stages of a step.
    """
    form, of_coriolis = forms
    shipped: Any = Tracer
    least = FRAME if stages > 1 else OF_STAGE
    options: dict[str, Any] = {"momentum": form, "coriolis_form": of_coriolis, "dissipation": _plain(parts)}
    if form.conserves_momentum:
        least, options["wetting"] = max(FRAME, (BORES + bool(tracers)) * stages), WettingDrying()
    own = [each for each in tracers if not is_shipped(_class_of(each))]
    options["tracers"] = [*_plain(own), *([shipped(name="tracer")] if len(own) < len(tracers) else [])]
    stepper = ForwardBackward(dt=1.0) if stages == 1 and not form.conserves_momentum else SSPRK3(dt=1.0)
    try:
        return max(least, stages * _cells_read(grid.spherical, stepper, options))
    except (SwmodelError, ValueError, TypeError):  # the nest's own model has the better message
        return least


def _cells_read(spherical, stepper, options):
    """The cells that a stage of a stepper reads around each, in a model with these options."""
    if spherical:
        side = 0.0, float(CELLS)
        grid, coriolis = SphericalGrid(CELLS, CELLS, side, side), RotatingSphere()
    else:
        side = 0.0, 1e3 * CELLS
        grid, coriolis = CartesianGrid(CELLS, CELLS, side, side), FPlane(1e-4)
    model = ShallowWater(grid, 100.0, coriolis=coriolis, communicator="serial", engine="arrays", **options)
    return model.halo(stepper)


def _class_of(part):
    return getattr(part, "part", type(part))


def _plain(parts: Sequence[Any]) -> list[Any]:
    """The parts with numbers in place of fields and records, but for those that read no more than the flow does."""
    found = []
    for part in parts:
        cls = _class_of(part)
        if not is_shipped(cls) or not (issubclass(cls, Drag) or cls.kind == "forcing"):
            with contextlib.suppress(SwmodelError, ValueError, TypeError):
                found.append(_of_numbers(cls, part))
    return found


def _of_numbers(cls: type, part: Any) -> Any:
    """A part of a class that has the numbers and options of another one, or of its section, and 1 for its fields."""
    values, positions, rules = {}, positions_of(cls), numbers_of(cls)
    for field in dataclasses.fields(as_pytree(cls)):
        if field.init and not field.metadata.get("derived") and hasattr(part, field.name):
            value = getattr(part, field.name)
            is_field = field.name in positions and value is not None and not isinstance(value, (int, float))
            if is_field:
                value = float(np.clip(1.0, rules[field.name].minimum, rules[field.name].maximum))
            values[field.name] = value
    return cls(**values)
