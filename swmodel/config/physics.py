"""The sections that say what is solved, where and how: grid, sea floor, model, terms, time stepping."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ..defaults import (
    AB2_EPSILON,
    AIR_DENSITY,
    EARTH_RADIUS,
    EARTH_ROTATION,
    GRAVITY,
    MINIMUM_DEPTH,
    THETA,
    WATER_DENSITY,
    WIND_DRAG,
)
from .cores import Spectral
from .quantities import Quantity, quantity
from .sections import Auto, Count, Flag, Formula, InputFile, NotNegative, Positive, Range, Section, Sides

__all__ = ["Grid", "Bathymetry", "Model", "Coriolis", "Stepper", "Forcing", "Dissipation", "Boundary"]


DRAG_LAWS = ("large_pond_1981", "trenberth_1990")


class CartesianGrid(Section):
    """Equal rectangles on a plane."""

    type: Literal["cartesian"]
    nx: Count
    ny: Count
    x: Range("m")
    y: Range("m")
    periodic: Literal["", "x", "y", "xy"] = ""


class SphericalGrid(Section):
    """Longitude-latitude cells."""

    type: Literal["spherical"]
    nx: Count
    ny: Count
    longitude: Range("degree")
    latitude: Range("degree")
    periodic: Literal["", "x"] | None = None
    radius: Positive("m") = EARTH_RADIUS

    @model_validator(mode="after")
    def _on_the_sphere(self):
        from ..grids.grid import SphericalGrid as Built

        Built(**self.model_dump(exclude={"type"}))
        return self


Grid = Annotated[CartesianGrid | SphericalGrid, Field(discriminator="type")]


class FlatBottom(Section):
    type: Literal["flat"]
    depth: Positive("m")


class DepthFormula(Section):
    """Depth from a formula of the coordinates, positive down; land where it is 0 or less."""

    type: Literal["formula"]
    depth: Formula("m")
    minimum_depth: NotNegative("m") = 0.0
    fill_lakes: Flag = False


class BathymetryFile(Section):
    """Elevation (or depth) from a netCDF file."""

    type: Literal["file"]
    file: InputFile
    variable: str | None = None
    method: Literal["average", "interpolate"] = "average"
    minimum_depth: NotNegative("m") = MINIMUM_DEPTH
    fill_lakes: Flag = False


Bathymetry = Annotated[FlatBottom | DepthFormula | BathymetryFile, Field(discriminator="type")]


class Model(Section):
    gravity: Positive("m s-2") = GRAVITY
    momentum: Literal["energy_conserving", "enstrophy_conserving", "arakawa_lamb"] = "energy_conserving"
    linear: Flag = False
    side: Literal["free_slip", "no_slip"] = "free_slip"
    precision: Literal["float32", "float64"] = "float32"
    core: Literal["finite_differences", "pseudo_spectral"] = "finite_differences"
    spectral: Spectral | None = None


class NoRotation(Section):
    type: Literal["none"]


class FPlane(Section):
    type: Literal["f_plane"]
    f0: Quantity("s-1")


class BetaPlane(Section):
    type: Literal["beta_plane"]
    f0: Quantity("s-1")
    beta: Quantity("m-1 s-1")
    y0: Quantity("m") = 0.0


class RotatingSphere(Section):
    type: Literal["rotating_sphere"]
    rate: Quantity("s-1") = EARTH_ROTATION


Coriolis = Annotated[NoRotation | FPlane | BetaPlane | RotatingSphere, Field(discriminator="type")]


class _Stepper(Section):
    dt: Auto("s") = "auto"
    fraction: Annotated[Quantity(""), Field(gt=0, le=1)] = 0.8  # of the longest stable step, for dt = "auto"


class AB2(_Stepper):
    type: Literal["ab2"]
    epsilon: Annotated[Quantity(""), Field(ge=0, lt=1)] = AB2_EPSILON


class AB3(_Stepper):
    type: Literal["ab3"]


class SSPRK3(_Stepper):
    type: Literal["ssprk3"]


class RK4(_Stepper):
    type: Literal["rk4"]


class IntegratingFactorRK4(_Stepper):
    type: Literal["integrating_factor_rk4"]


class ForwardBackward(_Stepper):
    type: Literal["forward_backward"]


class _Implicit(_Stepper):
    epsilon: Annotated[Quantity(""), Field(ge=0, lt=1)] = AB2_EPSILON
    solver: str = "auto"
    preconditioner: Literal["diagonal", "fast_poisson", "multigrid"] | None = None
    tolerance: Annotated[Quantity(""), Field(gt=0, lt=1)] | None = None
    iterations: Count | None = None

    @field_validator("solver")
    @classmethod
    def _known(cls, name):
        from ..elliptic import names

        if name not in (known := ["auto", *names()]):
            raise ValueError(f"expected {', '.join(map(repr, known))}, got {name!r}")
        return name

    @model_validator(mode="after")
    def _of_iterations(self):
        for name in ("preconditioner", "tolerance", "iterations"):
            if getattr(self, name) is not None and self.solver != "conjugate_gradients":
                raise ValueError(f'{name} belongs to solver = "conjugate_gradients", not to {self.solver!r}')
        return self


class SemiImplicit(_Implicit):
    """A free surface without a limit from gravity waves."""

    type: Literal["semi_implicit"]
    theta: Annotated[Quantity(""), Field(ge=0.5, le=1)] = THETA


class RigidLid(_Implicit):
    """No gravity waves; eta is the pressure on the lid."""

    type: Literal["rigid_lid"]


Stepper = Annotated[
    AB2 | AB3 | SSPRK3 | RK4 | IntegratingFactorRK4 | ForwardBackward | SemiImplicit | RigidLid,
    Field(discriminator="type"),
]


class WindStress(Section):
    """Stress on the surface: constants or formulas."""

    type: Literal["wind_stress"]
    x: Formula("N m-2") = 0.0
    y: Formula("N m-2") = 0.0
    density: Positive("kg m-3") = WATER_DENSITY


def _drag_law(value):
    if value in DRAG_LAWS:
        return value
    if isinstance(value, str) or not 0 < quantity(value, "") < 0.1:
        raise ValueError(
            f"expected {' or '.join(map(repr, DRAG_LAWS))}, or a coefficient between 0 and 0.1, got {value!r}"
        )
    return float(value)


class WindFile(Section):
    """Wind at 10 m from a netCDF file, steady, in time records, or the twelve months of a climatology."""

    type: Literal["wind_file"]
    file: InputFile
    u: str = "u10"
    v: str = "v10"
    drag: Annotated[str | float, BeforeValidator(_drag_law)] = WIND_DRAG
    air_density: Positive("kg m-3") = AIR_DENSITY
    density: Positive("kg m-3") = WATER_DENSITY


Forcing = Annotated[WindStress | WindFile, Field(discriminator="type")]


class LinearDrag(Section):
    type: Literal["linear_drag"]
    rate: NotNegative("s-1")


class QuadraticDrag(Section):
    type: Literal["quadratic_drag"]
    coefficient: NotNegative("")


class ManningDrag(Section):
    type: Literal["manning_drag"]
    roughness: Annotated[Quantity(""), Field(ge=0, lt=1)]  # [s m-1/3]


class Laplacian(Section):
    type: Literal["laplacian"]
    viscosity: NotNegative("m2 s-1")


class Biharmonic(Section):
    type: Literal["biharmonic"]
    viscosity: NotNegative("m4 s-1")


Dissipation = Annotated[LinearDrag | QuadraticDrag | ManningDrag | Laplacian | Biharmonic, Field(discriminator="type")]


class Flather(Section):
    type: Literal["flather"]
    sides: Sides
    elevation: Quantity("m") = 0.0


class Sponge(Section):
    type: Literal["sponge"]
    sides: Sides
    width: Positive("m")
    rate: Positive("s-1")


Boundary = Annotated[Flather | Sponge, Field(discriminator="type")]
