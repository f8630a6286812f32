"""The names of the variables of an experiment, which follow from several of its sections together."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..fields.variables import derived_units, factors, in_layer
from .mistakes import Mistake, nearest
from .tracers import control_names, stepped_names

__all__ = ["PARTS", "layer_count", "known_at_gauges", "known_variables", "transported_controls", "variable_mistakes"]

PARTS = ("forcing", "dissipation", "boundary", "tracer")  # sections of which there may be several


def known_variables(sections: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the variables that outputs of an experiment may hold.

    Args:
        sections: {name: valid section}.
    """
    from ..diagnostics.derived import FIELDS

    return (*FIELDS, *(tracer.name for tracer in sections.get("tracer", ())))


def known_at_gauges(sections: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the variables that gauges can read: those that are stepped, and of single runs the derived ones."""
    stepped = _stepped(sections)
    return stepped if sections.get("ensemble") is not None else (*stepped, *derived_units(layer_count(sections)))


def _stepped(sections):
    """The names of the variables of all layers that the experiment steps, and of its tracers."""
    of_layers = (in_layer(name, k) for k in range(layer_count(sections)) for name in ("eta", "u", "v"))
    return (*of_layers, *stepped_names(sections.get("tracer", ()), layer_count(sections)))


def layer_count(sections: Mapping[str, Any]) -> int:
    """The number of layers that move."""
    layers = sections.get("layers")
    return 1 if layers is None else len(layers.thickness) + 1


def transported_controls(sections: Mapping[str, Any]) -> list[str]:
    """The controls of an adjoint that belong to transported variables, such as tracers."""
    return control_names(sections.get("tracer", ()), layer_count(sections))


def variable_mistakes(sections: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes of outputs that name variables which the experiment does not have."""
    output = sections.get("output")
    if output is None or "tracer" not in sections:
        return
    written = known_variables(sections)
    prognostic = _stepped(sections)
    if output.means is not None:
        try:
            factors(output.means.fields, (*prognostic, *derived_units(layer_count(sections))))
        except ValueError as error:
            yield Mistake(("output", "means", "fields"), str(error))
    named: list[tuple[tuple[str | int, ...], Any, tuple[str, ...]]] = [
        (("output", "fields", k), fields.variables, written) for k, fields in enumerate(output.fields)
    ]
    if output.gauges is not None:
        named.append((("output", "gauges"), output.gauges.variables, known_at_gauges(sections)))
    if output.harmonics is not None:
        named.append((("output", "harmonics"), output.harmonics.variables, prognostic))
    for path, names, known in named:
        for name in names:
            if name not in known:
                yield Mistake((*path, "variables"), f"unknown variable {name!r}; {nearest(name, known)}")
