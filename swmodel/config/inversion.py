"""The sections [inversion] and [green].

[inversion] has the controls to estimate, their prior uncertainty, and the observations to fit:

[inversion]
until = "2 hour"

[[inversion.controls]]
type = "unit_sources"
x = [141, 145.5]
y = [35, 41]
spacing = 0.5
deviation = "2 m"

[inversion.observations]
type = "gauges"
window = ["15 minute", "2 hour"]

[green] describes a bank of Green's functions, for forecasts:

[green]
until = "3 hour"

[green.sources]
type = "unit_sources"
x = [141, 145.5]
y = [35, 41]
spacing = 0.5
deviation = "2 m"
length = "50 km"

The points are the gauges of [output.gauges.positions], and those of a lattice in water, [green.candidates], for
`swmodel buoys`.
"""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import numpy as np

from ..adjoint.assimilation.priors import OfFaults, Prior
from ..errors import nearest
from ..fields.state import unchecked
from ..models.shallow_water import ShallowWater
from ..output.products.gauges import depth_at
from ..runtime.packages import is_shipped
from .adjoint import Memory, known_controls
from .observations import Observations, observation_mistakes
from .parts import PartSection, Shipped, section_about, sections_of
from .reading import OneOf
from .scenario import OutputFile
from .sections import (
    Count,
    Fraction,
    Names,
    NonNegativeMetres,
    NonNegativeSeconds,
    Place,
    PositiveCoordinate,
    PositiveSeconds,
    Section,
    Seed,
    Surroundings,
    not_empty,
)
from .source import FaultTable
from .toml import Mistake

OF_TRUTH = ("bathymetry", "model", "coriolis", "initial", "source", "forcing", "dissipation", "boundary")


class _WithFaults(PartSection, FaultTable):
    """The keys of a prior whose parameters include faults."""

    path = "inversion.controls"

    def parameters_from_keys(self, on: Surroundings) -> dict[str, Any]:
        """The parameters of the prior that follow from these keys."""
        return {"source": self.faults_on(on.grid)}


prior_section = functools.partial(section_about, keys={OfFaults: _WithFaults})
CONTROLS = sections_of(prior_section, Shipped(Prior))
Control = Annotated[Any, OneOf(CONTROLS, (Prior,), prior_section)]


class Twin(Section):
    """Observations from a run of the model itself, with random errors; used if there are no others."""

    truth: dict[str, Any] = {}  # keys in which the truth differs, such as "source.file"
    spin_up: NonNegativeSeconds = 0.0  # of the truth, and of the background: each with its own forcing, before the run
    seed: Seed = 0  # of the random numbers


class Inversion(Section):
    """The problem that `swmodel invert` solves."""

    controls: Annotated[tuple[Control, ...], not_empty]  # what is estimated
    observations: Observations  # what is fitted: one table, or several
    twin: Twin | None = None  # observations from a run of the model itself
    until: PositiveSeconds | None = None  # that of [run] unless given
    spin_up: NonNegativeSeconds = 0.0  # from the start with the first guess, without its effect on the observations
    method: Literal["auto", "green", "linear", "incremental", "descent"] = "auto"  # chosen by the controls unless given
    loops: Count = 20  # outer loops; iterations of descent
    products: Count = 40  # of an inner loop of 'incremental'
    residual: Fraction = 1e-3  # of an inner loop, relative
    uncertainty: Count | None = None  # products for the analysis error; default: those of the last inner loop
    decrease: Fraction = 1e-3  # of J between loops, relative, at which it ends
    withhold: bool | Names = False  # true: each gauge, one at a time; names: gauges that are only compared
    members: Seed = 20  # of the ensembles that give the spread at gauges
    memory: Memory | None = None  # bytes per rank, for states that are kept
    file: OutputFile = "inversion.nc"  # netCDF file to write
    restart: OutputFile = "inversion.restart.nc"  # netCDF file to write, from which `--resume` continues

    def check(self) -> None:
        if self.file == self.restart:
            raise ValueError(f"file and restart are one file, {self.file!r}; give them different names")

    @property
    def chosen(self) -> str:
        """The method. For "auto": 'green' for one patch of unit sources, 'linear' for faults, else 'incremental'."""
        if self.method != "auto":
            return self.method
        parts = [control.part for control in self.controls]
        if len(parts) == 1 and parts[0].patterns:
            return "green"
        return "linear" if all(part.numbers for part in parts) else "incremental"

    def mistakes_with(self, sections: Mapping[str, Any]) -> Iterator[Mistake]:
        """Mistakes in names and times that can be found from the file alone."""
        run = sections.get("run")
        yield from _control_mistakes(self, sections)
        for key in {} if self.twin is None else self.twin.truth:
            if key.partition(".")[0] not in OF_TRUTH:
                text = f"{key!r} is the same in the truth; give keys of {', '.join(OF_TRUTH)}"
                yield Mistake(("inversion", "twin", "truth"), text)
        yield from observation_mistakes(self, run, sections.get("output"))
        if self.twin is not None and self.spin_up:
            text = "is for observations; that of a twin is spin_up in [inversion.twin], leave one of them out"
            yield Mistake(("inversion", "spin_up"), text)
        if run is not None and self.spin_up >= (self.until or run.until):
            end = self.until or run.until
            text = f"{self.spin_up:g} s leaves nothing of the run, which ends at {end:g} s; shorten it"
            yield Mistake(("inversion", "spin_up"), text)
        if self.method == "green":
            if len(self.controls) > 1 or not all(control.part.patterns for control in self.controls):
                text = "'green' is for one sum of unit sources or unit faults; use 'linear' or 'incremental'"
                yield Mistake(("inversion", "method"), text)
        if self.method == "linear" and not all(control.part.numbers for control in self.controls):
            why = "'linear' is for the numbers of unit sources and faults"
            text = f"{why}; use 'incremental', which is for all controls"
            yield Mistake(("inversion", "method"), text)


def _control_mistakes(section, sections):
    """Mistakes of names that the model does not have, and of those that two controls change."""
    known, taken = known_controls(sections), {}
    for k, control in enumerate(section.controls):
        part = unchecked(control.part, dict(control))
        key, of = ("name", "") if is_shipped(control.part) else ("type", f"{control.part.__name__}: its targets: ")
        for name in part.targets():
            if name not in known:
                text = f"{of}there is no control {name!r}; {nearest(name, known)}"
                yield Mistake(("inversion", "controls", k, key), text)
            elif name in taken:
                text = f"{name} is changed by the control number {taken[name] + 1}, too; one has to do"
                yield Mistake(("inversion", "controls", k), text)
            taken.setdefault(name, k)


class Candidates(Section):
    """A lattice of points at which a buoy could be."""

    x: Place  # (low, high)
    y: Place  # (low, high)
    spacing: PositiveCoordinate  # between points
    least_depth: NonNegativeMetres = 1000.0  # of the water at a buoy

    def places(self, model: ShallowWater) -> dict[str, tuple[float, float]]:
        """{"X, Y": (x, y)} of the points in deep water."""
        found = {}
        for y in np.arange(self.y[0], self.y[1] + 1e-6 * self.spacing, self.spacing):
            for x in np.arange(self.x[0], self.x[1] + 1e-6 * self.spacing, self.spacing):
                point = {f"{x:g}, {y:g}": (float(x), float(y))}
                with contextlib.suppress(ValueError):  # outside the grid, or on land
                    found |= point if depth_at(point, model)[0] >= self.least_depth else {}
        return found


class Green(Section):
    """The bank that `swmodel green` makes."""

    sources: Control  # patterns of the surface at the start
    until: PositiveSeconds | None = None  # last time after the earthquake; that of [run] unless given
    interval: PositiveSeconds = 30.0  # between two times, to the nearest multiple of the time step
    candidates: Candidates | None = None  # for buoys, in addition to the gauges
    file: OutputFile = "bank.nc"  # netCDF file to write

    def mistakes_with(self, sections: Mapping[str, Any]) -> Iterator[Mistake]:
        if not self.sources.part.patterns:
            known = "give 'unit_sources' or 'unit_faults'"
            text = f"{self.sources.type!r} are not sums of fixed patterns of the surface; {known}"
            yield Mistake(("green", "sources", "type"), text)
        output = sections.get("output")
        if output is not None and (output.gauges is None or not output.gauges.positions):
            yield Mistake(("green",), "no point has a place; name buoys and harbours in [output.gauges.positions]")
