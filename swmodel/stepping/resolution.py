"""What sources bring in a step must be more than the rounding of what it is added to, or it is lost without a word.

A value s is rounded by at most eps |s| / 2, with the eps of the precision. Single precision rounds a level of 5 m by up
to 3e-7 m, more than 4 mm of evaporation a day take in a step of 2 s. It rounds the content of 4000 m of water of
20 degC by up to 5e-3 m degC, twenty times what 100 W m-2 bring in 10 s.
"""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ..dynamics.site import Site
from ..dynamics.terms import TimeVarying
from ..dynamics.tracers import Tracer
from ..dynamics.waters import WaterSource
from ..errors import ConfigError
from ..fields.parts import of_part

ROUGHEST = 0.01  # the largest share of what a step brings that rounding may take [1]


def check_resolved(sites: Sequence[Site], dt: float) -> None:
    """Raise ConfigError if rounding takes more than ROUGHEST of the water or the tracers that come; collective.

    Args:
        sites: those of a model's tiles on this process, with their States.
        dt: the time step [s].
    """
    model = sites[0].model
    waters = [(name, part) for name, part in model.named_parts("terms") if isinstance(part, WaterSource)]
    inflow = [(part, part.fastest(model.communicator), part.where(model)) for _, part in waters]
    for (name, part), one in zip(waters, inflow):
        with of_part(name):
            _check(type(part).__name__, sites, dt, lambda site, one=one: [(site.state.eta, _water(site, [one]))])
    for k, tracer in enumerate(model.tracers):
        if isinstance(tracer, Tracer):
            _check(f"Tracer {tracer.name}", sites, dt, functools.partial(_contents, k, inflow))


def _check(who, sites, dt, changes):
    """Of `changes(site)`, pairs (values, what a second brings to them at most), in each cell."""
    communicator, sums = sites[0].model.communicator, np.zeros(2)
    rounding = 0.5 * float(jnp.finfo(sites[0].model.dtype).eps)
    for site in sites:
        for values, rate in changes(site):
            brought = dt * site.wet * rate
            sums += np.sum(brought), np.sum(np.minimum(brought, rounding * np.abs(np.asarray(values, float))))
    brought, lost = communicator.host_sum(sums)
    if lost > ROUGHEST * brought:
        raise ConfigError(
            f"{who}: up to {lost / brought:.0%} of what comes or goes in a step of {dt:g} s would get lost, since it "
            "is less than the rounding of what is there, in this precision; compute in float64 (model.precision in a "
            "file), or with a longer step."
        )


def _water(site, inflow, name=None):
    """The water that comes or goes [m s-1], or of the tracer `name` its content."""
    shares = [1.0 if name is None else abs(dict(part.concentrations).get(name, 0.0)) for part, *_ in inflow]
    return sum(
        share * rate * site.model.decomposition.cut(where, site.rank)
        for share, (_, rate, where) in zip(shares, inflow)
        if share
    )


def _contents(k, inflow, site):
    """Of tracer number `k` in each of its layers."""
    model, tracer = site.model, site.tracers[k].bound(site.largest)
    source, flux = (_size(x) for x in (tracer.source, tracer.flux))
    for variable, layer in tracer.in_layers(model.layer_count).items():
        enters = flux * (tracer.layer is not None or layer == 0) + _water(site, inflow, tracer.name) * (layer == 0)
        yield site.state[variable], source * site.thicknesses[layer] + enters


def _size(value):
    """The magnitude of a source or flux in each cell, 0 of one that is not there or changes by a law of its own."""
    return 0.0 if value is None or isinstance(value, TimeVarying) else np.abs(np.asarray(value, float))
