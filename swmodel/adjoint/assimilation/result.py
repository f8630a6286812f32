"""The result of an inversion: estimates, scores at the observations, draws from its error, and its file."""

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...fields.parameters import COORDINATES
from ...fields.variables import Variable
from ...models.parts import first_date
from ...output.metadata import Attribute, references
from ...output.studies import Estimate, write_inversion
from ..controls.controls import ControlDict
from ..costs.harmonics import HarmonicConstants
from ..problem import Problem
from .minimise import Space
from .observations import Observations, Score
from .posterior import Consistency, Posterior, members

Columns = dict[str, tuple[str, str, np.ndarray]]  # {column: (units, description, values)}


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of `Inversion.run`; arrays of the whole grid are on the root.

    Attributes:
        problem, observations, method: of the inversion.
        parameters: p, the control dict of the analysis.
        posterior: the Posterior: eigenpairs of the observations' part of the Hessian; `signal` is the number of
            degrees of freedom for signal.
        history: rows (number, J, misfit, background, products).
        reason: why the inversion ended.
        readings: {"background", "analysis", "withheld": (steps, gauges)}. The first is the first guess, the run with
            the parameters at their background. The last holds each gauge in the inversion of the others.
        spread: {the same keys: (steps, gauges)}: the expected error of each, in the units of the gauge; {} if no
            members were computed.
        consistency: a Consistency.
        controls: {control: Estimate}.
        initial: {Variable: array}: the first state of the analysis; tracers are concentrations.
    """

    problem: Problem
    observations: Observations
    method: str
    parameters: ControlDict
    posterior: Posterior
    history: np.ndarray
    reason: str | None
    readings: dict[str, np.ndarray]
    spread: dict[str, np.ndarray]
    consistency: Consistency
    controls: dict[str, Estimate]
    initial: dict[Variable, np.ndarray]

    def draws(self, count: int, seed: int = 0) -> Iterator[ControlDict]:
        """Yield `count` parameters p from the error of the analysis, N(p_a, (1 + A)^-1); collective."""
        space, pairs = Space(self.problem.communicator), (self.posterior.values, self.posterior.vectors)
        for away in members(count, self.parameters, self.problem.model, space, pairs, seed):
            yield space.add(self.parameters, 1.0, away)

    # -- at the observations ------------------------------------------------------------------------------------------

    def at(self, readings: np.ndarray) -> dict[str, np.ndarray]:
        """{label: (n,)}: the model at the observations, from its readings (steps, gauges) or harmonic constants."""
        problem = self.problem
        times = problem.dt * (problem.first_step + np.arange(1, problem.steps + 1))
        return self.observations.at(times, readings)

    def scores(self, role: str = "analysis", kinds: Sequence[str] | None = None) -> dict[str, Score]:
        """{name: Score} of the readings "background", "analysis" or "withheld"; names as in `Observations.pairs`."""
        return self.observations.scores(self.at(self.readings[role]), kinds)

    def expected_errors(self, role: str = "analysis", kinds: Sequence[str] | None = None) -> dict[str, float]:
        """{name: expected r.m.s. of eta - y where y is not used}, from the observation error and the spread."""
        pairs = self.observations.pairs(self.at(self.spread[role]), lambda record: record.error, kinds)
        return {name: float(np.sqrt(np.mean(own**2 + error**2))) for name, (own, error) in pairs.items()}

    def misfits(self, kinds: Sequence[str] | None = None) -> tuple[float, float]:
        """The sums of the used gauges' misfits before and after."""
        apart = (*self.observations.withheld, "withheld")
        parts = (self.scores(role, kinds) for role in ("background", "analysis"))
        before, after = (np.nansum([s.misfit for name, s in part.items() if name not in apart]) for part in parts)
        return float(before), float(after)

    @property
    def reduction(self) -> float:
        """The reduction of the misfit [%]."""
        before, after = self.misfits()
        return 100.0 * (1.0 - after / before)

    # -- the file -----------------------------------------------------------------------------------------------------

    def write(
        self,
        path: str | Path,
        start: datetime.datetime | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        """Write a netCDF file: controls before and after with their deviations, observations, the history; on the root.

        Args:
            path: of the file; an existing one is replaced.
            start: the date of the start of the run.
            attributes: further global attributes.

        Raises:
            SwmodelError: if it cannot be written.
        """
        problem, model, observations = self.problem, self.problem.model, self.observations
        about = {
            "of": ", ".join(self.controls),
            "method": self.method,
            "ended": self.reason,
            "observations": observations.source,
            "kind": ", ".join(observations.all_kinds),
            "misfit_reduction_percent": self.reduction,
            "withheld": ", ".join(observations.withheld) or "none",
        }
        more = {"computed_in": str(model.dtype), "references": references(model, problem.stepper)}
        write_inversion(
            path,
            model.grid,
            self.controls,
            {"observation": self._observation_table(), "loop": self._history_table(), **self.parameter_tables()},
            about=about | self.consistency.attributes(),
            seconds=(problem.first_step + problem.steps) * problem.dt,
            start=first_date(start, model),
            attributes={**(attributes or {}), **more},
            static={"depth": model.depth, "wet": model.wet},
            initial=self.initial,
        )

    def parameter_tables(self) -> dict[str, Columns]:
        """{name: Columns} of the parameters of unit sources and faults."""
        tables, communicator = {}, self.problem.communicator
        for name, part in getattr(self.problem.transforms[0].function, "parts", {}).items():
            on_tile = communicator.one_tile(part)
            p = np.asarray(self.parameters[name])
            if p.ndim == 1 and (found := on_tile.table(p)) is not None:
                tables[found[0]] = {
                    key: (self._units_of_places if units == COORDINATES else units, *rest)
                    for key, (units, *rest) in found[1].items()
                }
        return tables

    @property
    def _units_of_places(self):
        return "degrees" if self.problem.model.grid.spherical else "m"

    def _observation_table(self):
        """A row for each observation that is used or withheld."""
        observations, columns = self.observations, {}
        for label, record in observations.records.items():
            time, value, deviation = record.counted()
            texts = {"gauge": label, "kind": observations.kind(label), "units": record.units}
            row = {key: np.full(time.size, text) for key, text in texts.items()}
            row["used"] = np.full(time.size, label not in observations.withheld, np.int8)
            row |= {key: np.full(time.size, float(place)) for key, place in zip("xy", record.place)}
            row |= {"time": time, "observed": value, "deviation": deviation, "error": record.error}
            if "harmonics" in observations.all_kinds:
                row |= _constituents(record, time)
            for key, part in row.items():
                columns.setdefault(key, []).append(part)
        columns |= {role: list(self.at(readings).values()) for role, readings in self.readings.items()}
        columns |= {f"{role}_spread": list(self.at(spread).values()) for role, spread in self.spread.items()}
        words = self._words_of_observations()
        return {name: (*words[name], np.concatenate(parts)) for name, parts in columns.items()}

    def _words_of_observations(self):
        """{column: (units, description)} of the table of observations."""
        of_records, places = {record.units for record in self.observations.records.values()}, self._units_of_places
        units = of_records.pop() if len(of_records) == 1 else ""  # else the column `units` has those of each row
        quantity, kinds = "elevation" if units == "m" else "value", self.observations.all_kinds
        time = ("s", "time since the start")
        if "harmonics" in kinds:
            time = ("1", "number of the harmonic constant of the gauge")
            if len(kinds) > 1:
                time = ("", "time since the start [s]; of harmonic constants, the number of the constant")
        words = {
            "gauge": ("", "name of the gauge, or of another place"),
            "kind": ("", "type of the observation, as in the experiment file"),
            "units": ("", "units of the observation, of its errors and of the model there"),
            "x": (places, "place along x"),
            "y": (places, "place along y"),
            "time": time,
            "observed": (units, f"observed {quantity}"),
            "used": ("1", "1: used by the analysis, 0: withheld, and only compared"),
            "error": (units, "standard deviation of the observation's error"),
            "deviation": (units, "that of uncorrelated errors with as much information, as J has it"),
            "background": (units, f"{quantity} in the model before the inversion: the run of the first guess"),
            "analysis": (units, f"{quantity} in the model after the inversion"),
            "withheld": (units, f"{quantity} in the model after the inversion of all other gauges"),
            "constituent": ("", "tidal constituent"),
            "part": ("", "A cos g or A sin g, of the amplitude A and the Greenwich phase lag g"),
        }
        for role in ("background", "analysis", "withheld"):
            text = f"error to expect of {role}: r.m.s. difference of the members of an ensemble"
            words[f"{role}_spread"] = (units, text)
        return words

    def _history_table(self):
        words = (
            ("number", "number of the loop"),
            ("cost", "J"),
            ("misfit", "half the sum of squared departures"),
            ("background", "half the square of the parameters"),
            ("products", "products or evaluations"),
        )
        return {name: ("1", text, self.history[:, k]) for k, (name, text) in enumerate(words)}


def _constituents(record, numbers):
    """The constituent and the part, A cos g or A sin g, of the `numbers` of HarmonicConstants; "" of other records."""
    if not isinstance(record, HarmonicConstants):
        return {key: np.full(numbers.size, "") for key in ("constituent", "part")}
    whole = numbers.astype(int)
    names = [record.names[number // 2] for number in whole]
    return {
        "constituent": np.array(names, str),
        "part": np.array([("A cos g", "A sin g")[number % 2] for number in whole], str),
    }
