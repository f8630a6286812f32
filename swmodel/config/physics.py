"""The sections of the model, its terms and its time stepping."""

from collections import ChainMap
from typing import Annotated, Any, Literal

from ..defaults import GRAVITY
from ..dynamics import pseudo_spectral
from ..dynamics.boundaries import OpenBoundary
from ..dynamics.conserving import MomentumConserving
from ..dynamics.cores import Discretisation, FilteredDifferences
from ..dynamics.dissipation import Slip
from ..dynamics.layer import VorticityFlux
from ..dynamics.layers import Layers as StackedLayers
from ..dynamics.shores import WettingDrying
from ..dynamics.terms import Term
from ..fields.parameters import Number
from ..fields.parts import numbers_of
from ..fields.state import State, replaced
from ..forcing.atmosphere import WindStress
from ..grids.geometry import Coriolis as CoriolisParameter
from ..models.shallow_water import ShallowWater
from ..stepping.explicit import TimeStepper
from .parts import ClassNamed, PartSection, Shipped, section_for, sections_of
from .reading import OneOf, Section
from .sections import (
    NonNegativeMetres,
    PositiveSeconds,
)

FORMS = ClassNamed(VorticityFlux, Shipped(VorticityFlux))
CORIOLIS_FORMS = ClassNamed(VorticityFlux, Shipped(VorticityFlux, conserves_momentum=False))
SLIPS = ClassNamed(Slip, Shipped(Slip))


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


CORES = ClassNamed(Discretisation, Shipped(Discretisation))
TABLES_OF_CORES = {"filtered_differences": "polar_filter", "pseudo_spectral": "spectral"}  # with their options


Damping = Annotated[float, numbers_of(MomentumConserving)["damping"]]


class Flow(Section):
    """Keys of [model] that may differ in a nest; unless given there they are those of [model]."""

    momentum: Annotated[Any, FORMS] = "energy_conserving"  # form of the vorticity flux q V
    coriolis_form: Annotated[Any, CORIOLIS_FORMS] | None = None  # that of f V, where it is another one
    damping: Damping = 1.0  # by momentum_conserving; longer steps with less
    wetting: Wetting | None = None  # lets shores move: cells dry and flood; needs momentum = "momentum_conserving"
    least_thickness: NonNegativeMetres | None = None  # a run stops where water is thinner; 1 m, or 0 if shores move
    side: Annotated[Any, SLIPS] = "free_slip"  # of walls and coasts

    @property
    def form(self) -> VorticityFlux:
        """The form of the vorticity flux."""
        form = FORMS.made(self.momentum)
        return replaced(form, {"damping": self.damping}) if "damping" in self.written else form

    @property
    def shore(self) -> dict[str, Any]:
        """The arguments of ShallowWater that let the shore move; none where it is fixed."""
        return {} if self.wetting is None else {"wetting": self.wetting.build(), "momentum": MomentumConserving()}

    def options(self) -> dict[str, Any]:
        """The arguments of ShallowWater that follow from these keys."""
        return self.shore | {
            "momentum": self.form,
            "coriolis_form": CORIOLIS_FORMS.made(self.coriolis_form),
            "least_thickness": self.least_thickness,
            "side": SLIPS.made(self.side),
        }


class Model(Flow):
    gravity: Annotated[float, Number(units="m s-2", above=0.0)] = GRAVITY  # or reduced gravity
    linear: bool = False  # leave out all terms that are not linear in u, v, eta
    precision: Literal["float32", "float64"] = "float32"  # of all fields
    core: Annotated[Any, CORES] = "finite_differences"  # how tendencies are computed
    spectral: Spectral | None = None  # options of the pseudo-spectral core
    polar_filter: PolarFilter | None = None  # options of the filtered differences

    def options(self) -> dict[str, Any]:
        table = getattr(self, TABLES_OF_CORES.get(self.core, ""), None)
        core = CORES.made(self.core) if table is None else table.build()
        more = {"gravity": self.gravity, "linear": self.linear, "core": core, "dtype": self.precision}
        return super().options() | more


class NoRotation(Section):
    type: Literal["none"]

    def build(self) -> None:
        """No part."""


class Rest(Section):
    type: Literal["rest"]

    def state(self, model: ShallowWater) -> State:
        """This tile's initial State; collective."""
        return model.at_rest()


CORIOLIS = sections_of(section_for, Shipped(CoriolisParameter))


class _Stepper(PartSection):
    dt: PositiveSeconds | Literal["auto"] = "auto"
    fraction: Annotated[float, Number(above=0.0, maximum=1.0)] = 0.8  # of the longest stable step, for dt = "auto"

    def stepper(self, dt: float = 1.0) -> TimeStepper:
        """The time stepper, with time step `dt` [s]."""
        return self.part(**self.arguments() | {"dt": dt})


def stepper_section(cls: type[TimeStepper], name: str) -> type[PartSection]:
    """The section of a TimeStepper."""
    if not cls.has_solver:
        return section_for(cls, name, _Stepper)
    from .solvers import SolverKeys

    return section_for(cls, name, type("Implicit", (SolverKeys, _Stepper), {}))


STEPPERS = sections_of(stepper_section, Shipped(TimeStepper))


def term_section(cls: type, name: str) -> type[PartSection]:
    """The section of a term or an open boundary."""
    if name not in WITH_FILES:
        return section_for(cls, name)
    from .from_files import section_with_files

    return section_with_files(cls, name)


WITH_FILES = "wind_file", "cyclone", "internal_wave_drag"  # whose parameters follow from files
FORCING = sections_of(term_section, {"wind_file": WindStress}, Shipped(Term, kind="forcing"))
DISSIPATION = sections_of(term_section, Shipped(Term, kind="dissipation"))
BOUNDARY = sections_of(section_for, Shipped(OpenBoundary), Shipped(Term, kind="boundary"))

Boundary = Annotated[Any, OneOf(BOUNDARY, (OpenBoundary, Term), section_for)]
Coriolis = Annotated[Any, OneOf(ChainMap(CORIOLIS, {"none": NoRotation}), (CoriolisParameter,), section_for)]
Dissipation = Annotated[Any, OneOf(DISSIPATION, (Term,), section_for)]
Forcing = Annotated[Any, OneOf(FORCING, (Term,), section_for)]
Stepper = Annotated[Any, OneOf(STEPPERS, (TimeStepper,), stepper_section)]
