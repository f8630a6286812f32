"""The elliptic solver of an implicit time stepper: its name in [stepper], and its options."""

from typing import Annotated, Any

from .. import elliptic
from ..fields.parts import snake_case
from .parts import ClassNamed
from .reading import Section
from .sections import Count, Fraction, Surroundings

SOLVERS = ClassNamed(elliptic.Solver, dict.fromkeys(elliptic.names(), elliptic.Solver), ("auto",))
_KNOWN = elliptic.Diagonal, elliptic.FastPoisson, elliptic.Multigrid
PRECONDITIONERS = ClassNamed(elliptic.Preconditioner, {snake_case(each.__name__): each for each in _KNOWN})


class SolverKeys(Section):
    """The keys of an implicit scheme: the elliptic solver and its options."""

    solver: Annotated[Any, SOLVERS] = "auto"  # name of a solver; "auto": transforms if possible, else CG
    preconditioner: Annotated[Any, PRECONDITIONERS] | None = None  # of conjugate gradients
    tolerance: Fraction | None = None  # of conjugate gradients: residual over the right-hand side
    iterations: Count | None = None  # of conjugate gradients, at most

    def check(self) -> None:
        super().check()
        for name in ("preconditioner", "tolerance", "iterations"):
            if getattr(self, name) is not None and self.solver != "conjugate_gradients":
                raise ValueError(f'{name} belongs to solver = "conjugate_gradients", not to {self.solver!r}')

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        if self.solver == "auto":
            return {"solver": None}
        if isinstance(self.solver, type):
            return {"solver": self.solver()}
        options = {name: value for name, value in self if name in ("tolerance", "iterations") and value is not None}
        if self.preconditioner is not None:
            options["preconditioner"] = PRECONDITIONERS.made(self.preconditioner)
        return {"solver": elliptic.named(self.solver, **options)}
