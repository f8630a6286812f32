"""The sections of the core, which computes the tendencies, and mistakes of parts that do not fit it, or wetting."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from ..dynamics.boundaries import OpenBoundary
from ..dynamics.polar_filter import FilteredDifferences
from ..dynamics.spectral import core
from ..stepping.explicit import TimeStepper
from .mistakes import Mistake
from .parts import PartSection, section_for, shipped

__all__ = ["PolarFilter", "Spectral", "coast_mistakes", "core_mistakes"]

ELSEWHERE = "core = 'finite_differences' has it"


class _InModes(PartSection):
    left_out = ("series", "block", "at_rest")  # which follow from the grid

    hyperviscosity: Annotated[Any, section_for(core.HyperViscosity)] | None = None  # damping in the tendency
    filter: Annotated[Any, section_for(core.ExponentialFilter)] | None = None  # damping after each step


class _OnParallels(PartSection):
    left_out = ("plan", "ends", "weaker")


Spectral = Annotated[Any, section_for(core.PseudoSpectral, common=_InModes)]
PolarFilter = Annotated[Any, section_for(FilteredDifferences, common=_OnParallels)]


def core_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of an experiment whose parts do not fit its core."""
    model, stepper = sections.get("model"), sections.get("stepper")
    if model is None:
        return
    if model.core == "pseudo_spectral":
        yield from _not_spectral(sections, model, stepper)
        return
    if model.core == "filtered_differences":
        yield from _not_filtered(sections, stepper)
    if stepper is not None and stepper.part.needs_modes:
        yield Mistake(
            ("stepper", "type"),
            f"'{stepper.type}' carries waves mode by mode, and the finite-difference core has no modes; "
            "use model.core = 'pseudo_spectral', or 'rk4'",
        )


def _not_filtered(sections, stepper):
    grid, run = sections.get("grid"), sections.get("run")
    if grid is not None and grid.type != "spherical":
        yield Mistake(("model", "core"), f"'filtered_differences' filters parallels of a sphere; {ELSEWHERE}")
    if run is not None and run.engine == "fused":
        yield Mistake(("run", "engine"), "'fused' makes loops of differences, and the filter has none; use 'auto'")
    if stepper is not None and (stepper.part.needs_parts or stepper.part.is_implicit):
        yield Mistake(
            ("stepper", "type"),
            f"'{stepper.type}' needs parts of a tendency, and 'filtered_differences' filters it as a whole; "
            "use 'rk4', 'ssprk3', 'ab3' or 'ab2'",
        )


def _not_spectral(sections, model, stepper):
    grid, run = sections.get("grid"), sections.get("run")
    if grid is not None and grid.type == "spherical":
        yield Mistake(("model", "core"), f"'pseudo_spectral' needs a plane, and the grid is spherical; {ELSEWHERE}")
    walls = grid is not None and grid.type == "cartesian" and set("xy") - set(grid.periodic)
    if walls and model.side == "no_slip":
        yield Mistake(("model", "side"), f"'pseudo_spectral' has free-slip walls only; {ELSEWHERE}, or use 'free_slip'")
    if model.momentum != "energy_conserving":
        yield Mistake(
            ("model", "momentum"),
            "'pseudo_spectral' has a form of its own, and this is one of differences; leave it out",
        )
    if model.coriolis_form is not None:
        yield Mistake(
            ("model", "coriolis_form"),
            "'pseudo_spectral' has a form of its own, and this is one of differences; leave it out",
        )
    for k, boundary in enumerate(sections.get("boundary", ())):
        if issubclass(boundary.part, OpenBoundary):
            yield Mistake(("boundary", k, "type"), f"'pseudo_spectral' has no open sides; use a sponge, or {ELSEWHERE}")
    for k in range(len(sections.get("tracer", ()))):
        yield Mistake(("tracer", k, "name"), f"'pseudo_spectral' steps no tracers; leave it out, or {ELSEWHERE}")
    if run is not None and run.engine == "fused":
        yield Mistake(
            ("run", "engine"), "'fused' makes loops of differences, and 'pseudo_spectral' has none; use 'auto'"
        )
    if stepper is not None and (stepper.part.needs_parts or stepper.part.is_implicit):
        known = shipped(TimeStepper).items()
        others = [repr(name) for name, cls in reversed(known) if not (cls.needs_parts or cls.is_implicit)]
        yield Mistake(
            ("stepper", "type"),
            f"'{stepper.type}' needs parts of a tendency, and 'pseudo_spectral' computes it as a whole; "
            f"use {', '.join(others[:-1])} or {others[-1]}",
        )


def coast_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of an experiment with wetting, and of one whose other sections need it."""
    model, bathymetry = sections.get("model"), sections.get("bathymetry")
    if model is None:
        return
    if model.wetting is None:
        if bathymetry is not None and bathymetry.levees is not None:
            yield Mistake(
                ("bathymetry", "levees"),
                "water flows over levees only with model.wetting; give that, or leave this out",
            )
        return
    if model.momentum != "momentum_conserving":
        yield Mistake(
            ("model", "wetting"),
            f"wetting needs momentum = 'momentum_conserving', and momentum is {model.momentum!r}; change it",
        )
    for name in ("minimum_depth", "fill_lakes", "sound_speed"):
        if bathymetry is not None and name in bathymetry.written:
            yield Mistake(("bathymetry", name), "wetting keeps the topography as it is; leave this out")
    for k, tracer in enumerate(sections.get("tracer", ())):
        if tracer.scheme == "centred":
            yield Mistake(
                ("tracer", k, "scheme"),
                "takes more from a cell that falls dry than it holds; write 'flux_limited', or leave wetting out",
            )
    for k, entry in enumerate(sections.get("dissipation", ())):
        if entry.type == "manning_drag" and entry.roughness == 0.0:
            yield Mistake(("dissipation", k, "roughness"), "is 0 on land; give a roughness, or leave the drag out")
