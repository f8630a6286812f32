"""What sources bring in a step must be more than the rounding of what it is added to, or it is lost without a word.

A value s of the precision eps is rounded to eps |s| / 2. Single precision rounds a level of 5 m to 2.4e-7 m, more than
4 mm of evaporation a day take in a step of 2 s. It rounds the content of 4000 m of water of 20 degC to 5e-3 m degC,
twenty times what 100 W m-2 bring in 10 s.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ..dynamics.site import Site
from ..dynamics.terms import TimeVarying
from ..dynamics.tracers import Tracer
from ..dynamics.waters import WaterSource
from ..errors import ConfigError, of_part

ROUGHEST = 0.01  # the largest share of what a step brings that rounding may take [1]
REMEDY = "compute in float64 (model.precision in a file), or with a longer step"


def check_resolved(sites: Sequence[Site], dt: float) -> None:
    """Raise ConfigError if rounding takes more than ROUGHEST of the water or the tracers that come; collective.

    Args:
        sites: those of a model's tiles on this process, with their States.
        dt: the time step [s].
    """
    model = sites[0].model
    rounding = 0.5 * float(jnp.finfo(model.dtype).eps)
    waters = [(name, part) for name, part in model.named_parts("terms") if isinstance(part, WaterSource)]
    rates = [part.fastest(model.communicator) for _, part in waters]
    for (name, part), rate in zip(waters, rates):
        with of_part(name):
            _check_level(type(part).__name__, rate, sites, dt, rounding)
    for k, tracer in enumerate(model.tracers):
        if isinstance(tracer, Tracer):
            inflow = [
                (rate * abs(dict(part.concentrations).get(tracer.name, 0.0)), part.where(model))
                for (_, part), rate in zip(waters, rates)
            ]
            _check_tracer(k, sites, dt, rounding, inflow)


def _check_level(who, rate, sites, dt, rounding):
    """Of a source of water of up to `rate` [m s-1]."""
    communicator = sites[0].model.communicator
    highest = communicator.host_maximum(max(float(np.max(np.abs(site.state.eta), initial=0.0)) for site in sites))
    if communicator.agree(0.0 < ROUGHEST * rate * dt < rounding * highest):
        raise ConfigError(
            f"{who}: a step changes the level by {rate * dt:.2g} m at most, and levels up to {highest:.4g} m from 0 "
            f"are rounded to {2.0 * rounding * highest:.2g} m in this precision, so that water would get lost; "
            f"{REMEDY}."
        )


def _check_tracer(k, sites, dt, rounding, inflow):
    """Of tracer number `k`, of which water brings `inflow`, pairs (content [units m s-1], map of where)."""
    model, sums = sites[0].model, np.zeros(2)
    for site in sites:
        tracer = site.tracers[k].bound(site.largest)
        source, flux = (_size(x) for x in (tracer.source, tracer.flux))
        water = sum(rate * model.decomposition.cut(where, site.rank) for rate, where in inflow if rate)
        for variable, layer in tracer.in_layers(model.layer_count).items():
            enters = flux * (tracer.layer is not None or layer == 0) + water * (layer == 0)
            brought = dt * site.wet * (source * site.thicknesses[layer] + enters)
            content = np.abs(np.asarray(site.state[variable], float))
            sums += np.sum(brought), np.sum(np.minimum(brought, rounding * content))
    brought, lost = model.communicator.host_sum(sums)
    if lost > ROUGHEST * brought:
        raise ConfigError(
            f"Tracer {model.tracers[k].name}: up to {lost / brought:.0%} of what comes in a step of {dt:g} s would get "
            f"lost, since it is less than the rounding of its content in this precision; {REMEDY}."
        )


def _size(value):
    """The magnitude of a source or flux in each cell, 0 of one that is not there or changes by a law of its own."""
    return 0.0 if value is None or isinstance(value, TimeVarying) else np.abs(np.asarray(value, float))
