"""The sections of grid, sea floor, model, terms and time stepping, and mistakes of parts that do not fit together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..defaults import AIR_DENSITY, GRAVITY, MINIMUM_DEPTH, SOUND_SPEEDS, WATER_DENSITY, WIND_DRAG
from ..dynamics import pseudo_spectral
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.conserving import MomentumConserving
from ..dynamics.cores import FilteredDifferences
from ..dynamics.dissipation import FreeSlip, NoSlip
from ..dynamics.forcing import WindStress
from ..dynamics.layers import Layers as StackedLayers
from ..dynamics.momentum import Coriolis as CoriolisParameter
from ..dynamics.momentum import VorticityFlux
from ..dynamics.terms import Term
from ..dynamics.wetting import WettingDrying
from ..elliptic import Solver, names
from ..fields.parameters import Choice, Number
from ..forcing.cyclones import Cyclone
from ..forcing.potential import InternalWaveDrag
from ..forcing.wind_laws import DRAG_LAWS, RELATIONS
from ..grids import grid
from ..grids.subgrid import FINEST
from ..stepping.explicit import TimeStepper
from .expressions import Expression, quantity
from .own import ClassNamed
from .parts import PartSection, arguments_of, section_for, sections_of, shipped
from .reading import Read, Section, one_of
from .sections import (
    Count,
    Formula,
    FormulaInMetres,
    Fraction,
    InputFile,
    InputFiles,
    MapFile,
    Metres,
    NonNegativeMetres,
    Polygons,
    PositiveMetres,
    PositiveSeconds,
)
from .toml import Mistake

if TYPE_CHECKING:
    from .scenario import Run


class _Grid(PartSection):
    def check(self) -> None:
        self.part(**arguments_of(self))


GRIDS = {
    "cartesian": section_for(grid.CartesianGrid, "cartesian", _Grid),
    "spherical": section_for(grid.SphericalGrid, "spherical", _Grid),
}
Grid = Annotated[Any, one_of(*GRIDS.values())]


SoundSpeed = Annotated[float, Number(units="m s-1", minimum=SOUND_SPEEDS[0], maximum=SOUND_SPEEDS[1])]


SubgridRatio = Annotated[int, Number(minimum=2, maximum=FINEST, whole=True)]


class _Floor(Section):
    mask: Polygons | MapFile | None = None  # cells of water, or that may be wet: a map that is 1/2 or more; a coast
    subgrid: SubgridRatio | None = None  # fine cells along a cell's side, of which it gets tables; needs model.wetting
    levees: InputFile | None = None  # CSV of levee, x, y, crest_m: lines that water overflows; needs model.wetting


class FlatBottom(_Floor):
    type: Literal["flat"]
    depth: PositiveMetres  # of the water at rest


class _Varying(_Floor):
    minimum_depth: NonNegativeMetres = 0.0  # shallower water is this deep
    fill_lakes: bool = False  # water apart from the largest body is land
    sound_speed: SoundSpeed | None = None  # about 1500 m/s, for the slower waves of compressible water


class DepthFormula(_Varying):
    """Depth from a formula of the coordinates, positive down; land where it is 0 or less."""

    type: Literal["formula"]
    depth: FormulaInMetres  # positive down


class Elevations(Section):
    """A file of elevations, with the parameters of `swmodel.grids.patches.Patch`."""

    file: InputFile  # of elevation or depth, in any of the formats of docs/files.md
    variable: str | None = None  # its name in the file; found by its metadata unless given
    positive: Literal["up", "down"] | None = None  # elevation or depth, where the file does not say
    datum: Metres = 0.0  # level of the water at rest, above the zero of the file
    land_datum: Metres = 0.0  # zero of the file's heights of land, above that of its depths
    coarsen: Count = 1  # read every n-th node along each axis

    def elevations(self) -> dict[str, Any]:
        """{name: value} of the keys on the file."""
        return {name: getattr(self, name) for name in Elevations.schema()}


class BathymetryFile(Elevations, _Varying):
    """Elevation (or depth) from a file, and from patches that take precedence where they have values."""

    type: Literal["file"]
    patches: tuple[Elevations, ...] = ()  # files that take precedence, the first one before the others
    margin: Annotated[int, Number(minimum=0, whole=True)] = 0  # cells over which a file passes into the next one
    method: Literal["average", "harmonic", "interpolate"] = "average"  # mean over each cell, or value at its centre
    minimum_depth: NonNegativeMetres = MINIMUM_DEPTH  # shallower water is this deep


Bathymetry = Annotated[Any, one_of(FlatBottom, DepthFormula, BathymetryFile)]


FORMS = ClassNamed(VorticityFlux, shipped(VorticityFlux))
CORIOLIS_FORMS = ClassNamed(
    VorticityFlux, {name: form for name, form in FORMS.classes.items() if form is not MomentumConserving}
)
SLIPS = {"free_slip": FreeSlip, "no_slip": NoSlip}


Layers = Annotated[Any, section_for(StackedLayers)]
Wetting = Annotated[Any, section_for(WettingDrying)]


class _InModes(PartSection):
    left_out = ("series", "block", "at_rest")  # which follow from the grid

    hyperviscosity: Annotated[Any, section_for(pseudo_spectral.HyperViscosity)] | None = None  # damping in the tendency
    filter: Annotated[Any, section_for(pseudo_spectral.ExponentialFilter)] | None = None  # damping after each step


class _OnParallels(PartSection):
    left_out = ("plan", "ends", "weaker")


Spectral = Annotated[Any, section_for(pseudo_spectral.PseudoSpectral, common=_InModes)]
PolarFilter = Annotated[Any, section_for(FilteredDifferences, common=_OnParallels)]


Core = Literal["finite_differences", "filtered_differences", "pseudo_spectral"]
TABLES_OF_CORES = {"filtered_differences": "polar_filter", "pseudo_spectral": "spectral"}  # with their options


class Flow(Section):
    """Keys of [model] that may differ in a nest; unless given there they are those of [model]."""

    momentum: Annotated[Any, FORMS] = "energy_conserving"  # form of the vorticity flux q V
    coriolis_form: Annotated[Any, CORIOLIS_FORMS] | None = None  # that of f V, where it is another one
    damping: Annotated[float, Number(minimum=0.0, maximum=1.0)] = 1.0  # by momentum_conserving; longer steps with less
    wetting: Wetting | None = None  # lets cells fall dry and be flooded; needs momentum = "momentum_conserving"
    least_thickness: NonNegativeMetres | None = None  # a run stops where water is thinner; 1 m, or 0 with wetting
    side: Annotated[str, Choice(tuple(SLIPS))] = "free_slip"  # of walls and coasts


class Model(Flow):
    gravity: Annotated[float, Number(units="m s-2", above=0.0)] = GRAVITY  # or reduced gravity
    linear: bool = False  # leave out all terms that are not linear in u, v, eta
    precision: Literal["float32", "float64"] = "float32"  # of all fields
    core: Core = "finite_differences"  # how tendencies are computed
    spectral: Spectral | None = None  # options of the pseudo-spectral core
    polar_filter: PolarFilter | None = None  # options of the filtered differences


class NoRotation(Section):
    type: Literal["none"]


CORIOLIS = sections_of(CoriolisParameter)


class _Stepper(PartSection):
    dt: PositiveSeconds | Literal["auto"] = "auto"
    fraction: Annotated[float, Number(above=0.0, maximum=1.0)] = 0.8  # of the longest stable step, for dt = "auto"


SOLVERS = ClassNamed(Solver, dict.fromkeys(names(), Solver), ("auto",))


class _Implicit(_Stepper):
    """The keys of an implicit scheme: the elliptic solver and its options."""

    solver: Annotated[Any, SOLVERS] = "auto"  # name of a solver; "auto": transforms if possible, else CG
    preconditioner: Literal["diagonal", "fast_poisson", "multigrid"] | None = None  # of conjugate gradients
    tolerance: Fraction | None = None  # of conjugate gradients: residual over the right-hand side
    iterations: Count | None = None  # of conjugate gradients, at most

    def check(self) -> None:
        super().check()
        for name in ("preconditioner", "tolerance", "iterations"):
            if getattr(self, name) is not None and self.solver != "conjugate_gradients":
                raise ValueError(f'{name} belongs to solver = "conjugate_gradients", not to {self.solver!r}')


def stepper_section(cls: type[TimeStepper], name: str) -> type[PartSection]:
    """The section of a TimeStepper."""
    return section_for(cls, name, _Implicit if cls.has_solver else _Stepper)


STEPPERS = {name: stepper_section(cls, name) for name, cls in shipped(TimeStepper).items()}


def _drag_law(value, reading):
    if isinstance(value, str) and value in DRAG_LAWS:
        return value
    if isinstance(value, str) or not 0 < quantity(value, "") < 0.1:
        raise ValueError(
            f"expected {', '.join(map(repr, DRAG_LAWS))}, or a coefficient between 0 and 0.1, got {value!r}"
        )
    return float(value)


class WindPatch(Section):
    """Winds that take precedence where and when they have values."""

    file: InputFiles | None = None  # netCDF or OWI; that of the wind unless given
    u: str | None = None  # variable of the eastward wind; that of the wind unless given
    v: str | None = None  # variable of the northward wind; that of the wind unless given
    units: str | None = None  # of the wind, where the file does not give them: "m s-1"


class WindFile(PartSection):
    """Wind at 10 m from a netCDF file, steady, in time records, or the twelve months of a climatology."""

    part = WindStress

    type: Literal["wind_file"]
    file: InputFiles  # netCDF file of the wind at 10 m, or several of consecutive times, as "era5_*.nc"
    u: str = "u10"  # variable of the eastward wind
    v: str = "v10"  # variable of the northward wind
    units: str | None = None  # of the wind, where the file does not give them: "m s-1"
    missing: Literal["refuse", "nearest"] = "nearest"  # what is done about missing values
    drag: Annotated[str | float, Read(_drag_law)] = WIND_DRAG  # law of the drag coefficient, or its value
    air_density: Annotated[float, Number(units="kg m-3", minimum=0.1, maximum=10.0)] = AIR_DENSITY  # of the air
    density: Annotated[float, Number(units="kg m-3", minimum=500.0, maximum=2e4)] = WATER_DENSITY  # of the water
    patches: tuple[WindPatch, ...] = ()  # finer winds over parts of it, the first before the others


Averaging = Annotated[float, Number(above=0.5, maximum=1.0)]


class _CycloneTrack(PartSection):
    """A cyclone along the track in a file."""

    left_out = ("coriolis",)  # a track lies on the sphere

    track: InputFile  # ATCF, HURDAT2, IBTrACS (CSV or netCDF), JMA or CSV
    storm: str | None = None  # identifier or name of one storm in a file of several
    agency: str | None = None  # of IBTrACS, as "tokyo"; unless given "usa", and "wmo" where that has no values
    wind_pressure: Annotated[str, Choice(tuple(RELATIONS))] | None = None  # relation for points without a pressure
    quadrants: bool = False  # radii of maximum wind in each quadrant, by the radii of winds of 34, 50 and 64 knots
    wind_averaging: Averaging = 1.0  # from a track's winds to 10-minute means; 0.93 at sea


class RoughBottom(Section):
    """Elevations from which roughness and buoyancy frequency are computed, as by `sw.rough_bottom`."""

    file: InputFile  # netCDF file of elevation or depth, finer than the grid
    variable: str | None = None  # its name in the file; found by its metadata unless given
    positive: Literal["up", "down"] | None = None  # elevation or depth, where the file does not say
    reach: Count = 2  # nodes on either side of a node over which the roughness is computed
    shallow: NonNegativeMetres = 500.0  # the least depth with internal waves
    surface: Annotated[float, Number(units="s-1", above=0.0)] = 5.24e-3  # buoyancy frequency at the sea surface
    scale: PositiveMetres = 1300.0  # depth over which it falls by a factor of e


HEIGHT = Number(units="m", minimum=0.0)


class _InternalWaves(PartSection):
    """Linear drag by internal waves that a rough bottom radiates."""

    roughness: Annotated[float | Expression, Formula(HEIGHT)] | MapFile | None = None  # r.m.s. height of the bottom
    rough_bottom: RoughBottom | None = None  # in place of roughness and buoyancy, which follow from it

    def check(self) -> None:
        super().check()
        if (self.roughness is None) == (self.rough_bottom is None):
            raise ValueError("the roughness must be known, and once; give either roughness or rough_bottom")
        if self.rough_bottom is not None and "buoyancy" in self.written:
            raise ValueError("buoyancy follows from rough_bottom; leave one of them out")


CYCLONE = section_for(Cyclone, "cyclone", _CycloneTrack)
FORCING = {**sections_of(Term, "forcing"), "wind_file": WindFile, "cyclone": CYCLONE}
INTERNAL_WAVES = section_for(InternalWaveDrag, "internal_wave_drag", _InternalWaves)
DISSIPATION = {**sections_of(Term, "dissipation"), "internal_wave_drag": INTERNAL_WAVES}
BOUNDARY = sections_of(OpenBoundary) | sections_of(Term, "boundary")

Boundary = Annotated[Any, one_of(*BOUNDARY.values(), bases=(OpenBoundary, Term), make=section_for)]
Coriolis = Annotated[Any, one_of(NoRotation, *CORIOLIS.values())]
Dissipation = Annotated[Any, one_of(*DISSIPATION.values(), bases=(Term,), make=section_for)]
Forcing = Annotated[Any, one_of(*FORCING.values(), bases=(Term,), make=section_for)]
Stepper = Annotated[Any, one_of(*STEPPERS.values(), bases=(TimeStepper,), make=stepper_section)]


# -- between sections --------------------------------------------------------------------------------------------------

ELSEWHERE = "core = 'finite_differences' has it"


def core_mistakes(
    model: "Model",
    stepper: Any = None,
    run: "Run | None" = None,
    grid: Any = None,
    boundary: tuple = (),
    tracer: tuple = (),
) -> Iterator[Mistake]:
    """Mistakes of an experiment whose parts do not fit its core."""
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
        known = {name: cls for name, cls in shipped(TimeStepper).items() if spectral or not cls.needs_modes}
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
    if walls and model.side == "no_slip":
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
    if model.wetting is None:
        if bathymetry is not None and bathymetry.levees is not None:
            yield Mistake(
                ("bathymetry", "levees"),
                "water flows over levees only with model.wetting; give that, or leave this out",
            )
        if bathymetry is not None and bathymetry.subgrid is not None:
            yield Mistake(("bathymetry", "subgrid"), "needs model.wetting; give that, or leave this out")
        return
    if model.momentum != "momentum_conserving":
        yield Mistake(
            ("model", "wetting"),
            f"wetting needs momentum = 'momentum_conserving', and momentum is {model.momentum!r}; change it",
        )
    for name in ("minimum_depth", "fill_lakes", "sound_speed"):
        if bathymetry is not None and name in bathymetry.written:
            yield Mistake(("bathymetry", name), "wetting keeps the topography as it is; leave this out")
    for k, entry in enumerate(tracer):
        if entry.scheme == "centred":
            yield Mistake(
                ("tracer", k, "scheme"),
                "takes more from a cell that falls dry than it holds; write 'flux_limited', or leave wetting out",
            )
    for k, entry in enumerate(dissipation):
        if entry.type == "manning_drag" and entry.roughness == 0.0:
            yield Mistake(("dissipation", k, "roughness"), "is 0 on land; give a roughness, or leave the drag out")
