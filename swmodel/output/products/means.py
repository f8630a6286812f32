"""Means of variables, and of products of two of them, during a run."""

import functools
from collections.abc import Iterator, Sequence
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ConfigError
from ...fields.parameters import Names, declared
from ...fields.state import State
from ...fields.variables import Variable, derived_units, factors, layer_of, units_of_product
from ..schedule import AbstractSimulation
from .base import Arrays, Product, Sample, Sampler, Samples, add_term, first_sample, interval, total, zero_sum

__all__ = ["Means"]


class Means(Product):
    """Means of variables and of products of two of them, at cell centres.

    They are "eta", "dye", "vorticity", "u v", "thickness u" and the like; and with the means of both factors the
    variance or covariance <a b> - <a> <b>, such as the flux of eddies of "u dye".
    """

    fields: tuple[str, ...] = declared(
        Names(),
        default=("eta", "u", "v"),
        static=True,
        doc='variables of fields but depth, tracers, products of two: "u eta"',
    )
    begin: float = first_sample("when the means begin")
    every: float | None = interval()

    @property
    def factors(self) -> list[list[str]]:
        """The factors of each field."""
        return [field.split() for field in self.fields]

    def prepared(self, simulation: AbstractSimulation) -> Self:
        stepped = [row.name for row in simulation.model.variables]
        for _, why in self.mistakes(0.0, stepped, list(derived_units(simulation.model.layer_count))):
            raise ConfigError(f"Means: {why}.")
        known = ("eta", *(name for name in stepped if name != "eta"), *derived_units(simulation.model.layer_count))
        return type(self)(tuple(" ".join(names) for names in factors(self.fields, known)), self.begin, self.every)

    def mistakes(self, until: float, stepped: Sequence[str], derived: Sequence[str]) -> Iterator[tuple[str, str]]:
        try:
            factors(self.fields, ("eta", *(name for name in stepped if name != "eta"), *derived))
        except ValueError as error:
            yield "fields", str(error)

    def settings(self) -> dict[str, object]:
        return {"fields": ["_".join(names) for names in self.factors]}

    def start(self, state: State) -> dict[str, jax.Array]:
        sums = [zero_sum("_".join(names), state.eta) for names in self.factors]
        return {name: array for one in sums for name, array in one.items()}

    def add(self, sums: Arrays, sample: Sample) -> Arrays:
        centred, more = sample.at_centres(sum(self.factors, [])), {}
        for names in self.factors:
            more |= add_term(sums, "_".join(names), functools.reduce(jnp.multiply, [centred[name] for name in names]))
        return more

    def finish(self, sums: dict[str, np.ndarray], samples: Samples) -> dict[Variable, np.ndarray]:
        fields, dtype = {}, next(iter(sums.values())).dtype
        units = {name: row.units for name, row in samples.rows.items()}
        units |= derived_units(sum(layer_of(name)[0] == "eta" for name in units))
        means = {tuple(names): total(sums, "_".join(names)) / len(samples.steps) for names in self.factors}

        def add(name, of, what, method, values):
            fields[Variable(name, "h", of, what, cell_methods=f"time: {method}")] = values.astype(dtype)

        for names, mean in means.items():
            of = functools.reduce(units_of_product, (units[name] for name in names))
            add(f"mean_{'_'.join(names)}", of, f"mean of {' times '.join(names)}", "mean", mean)
        for one, other in (names for names in means if len(names) == 2):
            if {(one,), (other,)} <= means.keys():
                of, values = units_of_product(units[one], units[other]), means[one, other] - means[one,] * means[other,]
                if one == other:
                    add(f"variance_{one}", of, f"variance of {one}", "variance", np.maximum(values, 0.0))
                else:
                    add(f"covariance_{one}_{other}", of, f"covariance of {one} and {other}", "mean", values)
        return fields

    def attributes(self, samples: Sampler) -> dict[str, str | float]:
        return {"product_comment": f"means {super().attributes(samples)['product_comment']}"}

    def content(self) -> str:
        return f"means of {', '.join(self.fields)}"
