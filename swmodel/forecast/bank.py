"""`Bank`: the responses of points, such as buoys and harbours, to unit sources, at all times after the earthquake.

The level at a point p is eta_p(t) = sum over the sources k of G_pk(t) a_k, with the amplitudes a [m]. A sweep of the
transposed linear model gives G of one point from all sources, a run of it G of one source at all points; the bank takes
what costs less (adjoint/assimilation/linear_model.py). It is stored in one netCDF file after each sweep or run, so that
a bank that was interrupted can be continued.

`rerun` runs the whole model from sources of a bank, all in one program: what nonlinear terms, drag and shores change.
The members of an Ensemble start from sums of the bank's sources: the mean of a posterior and draws from it, or a sample
of the scenarios of a hazard.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..adjoint.assimilation.departures import only_patch
from ..adjoint.assimilation.linear_model import LinearModel, entered
from ..adjoint.assimilation.priors import Prior, Setting
from ..adjoint.controls.seafloor import distances_between, distances_on
from ..adjoint.controls.transforms import joined
from ..adjoint.costs.costs import Misfit
from ..adjoint.costs.records import Record
from ..adjoint.problem import Problem
from ..errors import ConfigError, DataError
from ..models.ensemble import Ensemble
from ..models.shallow_water import ShallowWater
from ..nests.family import Family
from ..output import replacing
from ..runtime.compilation import jit
from ..simulation.simulation import Simulation
from ..stepping.explicit import TimeStepper
from .errors import Errors, examined, samples_of
from .inference import Posterior, Scales, infer, prior_root

RUPTURE = "rise_time", "rupture_velocity", "epicentre"  # of sources that do not rise at once, in `about`
FAULTS = {"areas": "area", "tops": "top"}  # what faults have, and its variable in the file
KIND = "bank of Green's functions"


@dataclasses.dataclass(frozen=True, eq=False)
class Bank:
    """Responses of points to unit sources.

    Attributes:
        responses: G (points, times, sources) [m for each m of a source].
        times: since the earthquake, at equal intervals from one interval on [s], (times,).
        places: {name of the point: (x, y)}.
        centres: x and y of the sources (sources, 2).
        distances: between the centres [m], (sources, sources).
        deviation, length: of the amplitudes before there are records, where nothing better is known: their standard
            deviation [m] and correlation length [m].
        rises: whether sources only rise, so that amplitudes are positive.
        about: further attributes of the file, such as the model's fingerprint.
        areas: of the sources that are faults [m2], (sources,); None of others.
        tops: depths of their upper edges [m], (sources,); None of others.
    """

    responses: np.ndarray
    times: np.ndarray
    places: dict[str, tuple[float, float]]
    centres: np.ndarray
    distances: np.ndarray
    deviation: float
    length: float
    rises: bool = False
    about: dict[str, Any] = dataclasses.field(default_factory=dict)
    areas: np.ndarray | None = None
    tops: np.ndarray | None = None

    @staticmethod
    def of(
        model: ShallowWater | Family,
        stepper: TimeStepper,
        places: Mapping[str, tuple[float, float]],
        sources: Prior,
        until: float,
        interval: float = 30.0,
        *,
        begun: "Bank | None" = None,
        progress: Callable[[int, int, str], object] | None = None,
        store: "Callable[['Bank'], object] | None" = None,
        about: Mapping[str, Any] | None = None,
    ) -> "Bank":
        """Compute a bank. Collective.

        Args:
            model, stepper: of the runs, of which the linear model is taken. A Family of nested grids reads each point
                on the finest one that holds it.
            places: {name: (x, y)} of the points, in water.
            sources: a Prior of patterns of the surface at the start, such as `UnitSources`.
            until: the last time [s].
            interval: between two times [s]; the nearest multiple of the time step counts.
            begun: a bank whose responses that are not NaN need not be computed again.
            progress: called as progress(done, all, "sweeps" or "runs") after each sweep or run.
            store: called with the bank so far after each sweep or run.
            about: attributes for the file.

        Raises:
            ConfigError: for sources that are not patterns, and a run shorter than an interval.
        """
        dt = float(stepper.dt)
        every, steps = max(1, round(interval / dt)), round(until / dt)
        if steps < 2 * every:
            raise ConfigError(f"a bank of {until:g} s has no two times {interval:g} s apart; make it longer.")
        problem = problem_of(model, stepper, places, sources, steps)
        _, patterns, target = only_patch(problem)
        times = dt * every * (1.0 + np.arange(steps // every))
        centres = np.array(patterns.centres, float)
        empty = np.full((len(places), times.size, patterns.count), np.nan, model.dtype)
        first = float(getattr(sources, "deviation", 1.0)), float(getattr(sources, "length", 0.0))
        rises = float(getattr(sources, "uplift_only", 0.0)) > 0
        distances = distances_between(patterns.centres, problem.model.grid)
        faults = (np.array(getattr(patterns, name, ())) for name in FAULTS)
        of_faults = (each if each.size else None for each in faults)
        bank = Bank(empty, times, dict(places), centres, distances, *first, rises, dict(about or {}), *of_faults)
        if begun is not None:
            bank.responses[:] = begun.responses
        return bank._filled(LinearModel(problem), patterns, target, every, progress, store)

    def _filled(self, linear, patterns, target, every, progress, store):
        """This bank with the responses that are missing, by sweeps or runs, checked by a run."""
        progress, store = progress or (lambda *news: None), store or (lambda bank: None)
        points, sources = (np.flatnonzero(np.isnan(self.responses).any(axis=axes)) for axes in ((1, 2), (0, 1)))
        by_sweeps = points.size * linear.cost_of_sweep(every) < sources.size
        numbers, kind = (points, "sweeps") if by_sweeps else (sources, "runs")
        for done, k in enumerate(map(int, numbers)):
            if by_sweeps:
                self.responses[k] = linear.responses(patterns, target, k, every)
            else:
                self.responses[:, :, k] = linear.column(patterns, target, k, every).T
            progress(done + 1, numbers.size, kind)
            store(self)
        error = linear.check_swept(self.responses.transpose(2, 1, 0).astype(float), patterns, target, every)
        return dataclasses.replace(self, about=self.about | {"error_of_a_run": error})

    # -- files --------------------------------------------------------------------------------------------------------

    @property
    def dataset(self) -> xr.Dataset:
        """The bank as an xarray.Dataset, as the file has it."""
        x, y = np.array(list(self.places.values()), float).T
        attributes = {
            "swmodel_kind": KIND,
            "deviation": self.deviation,
            "length": self.length,
            "rises": int(self.rises),
        }
        metres = {"units": "m"}
        columns = zip(FAULTS.values(), (self.areas, self.tops), ("m2", "m"))
        own = {name: ("source", x, {"units": units}) for name, x, units in columns if x is not None}
        return xr.Dataset(
            own
            | {
                "response": (("point", "time", "source"), self.responses, {"long_name": "level for 1 m of a source"}),
                "distance": (("source", "source_2"), self.distances, {"long_name": "between sources", **metres}),
                "x": ("point", x, {"long_name": "coordinate of the point along x"}),
                "y": ("point", y, {"long_name": "coordinate of the point along y"}),
                "source_x": ("source", self.centres[:, 0], {"long_name": "centre of the source along x"}),
                "source_y": ("source", self.centres[:, 1], {"long_name": "centre of the source along y"}),
            },
            {
                "point": list(self.places),
                "time": ("time", self.times, {"long_name": "time since the earthquake", "units": "s"}),
            },
            attributes | self.about,
        )

    def write(self, path: str | Path) -> None:
        """Write the file; an older one stays until this one is complete."""
        with replacing(path) as part:
            self.dataset.to_netcdf(part)

    @staticmethod
    def read(path: str | Path) -> "Bank":
        """The bank of a file.

        Raises:
            DataError: if it cannot be read, or holds something else.
        """
        try:
            data = xr.load_dataset(path, decode_times=False)
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read as a bank ({error}); make one by swmodel green.") from None
        about = dict(data.attrs)
        if about.pop("swmodel_kind", None) != KIND:
            raise DataError(f"{path} holds no bank of Green's functions; make one by swmodel green.")
        first = float(about.pop("deviation")), float(about.pop("length")), bool(about.pop("rises"))
        places = {str(name): (float(x), float(y)) for name, x, y in zip(data.point.values, data.x, data.y)}
        centres = np.stack([data.source_x, data.source_y], axis=1)
        of_faults = (data[name].values if name in data else None for name in FAULTS.values())
        which = data.response.values, data.time.values, places, centres, data.distance.values
        return Bank(*which, *first, about, *of_faults)

    # -- what follows from it -----------------------------------------------------------------------------------------

    def rows(self, points: Sequence[str] | None = None) -> list[int]:
        """The rows of `responses` of these points, all of them unless given.

        Raises:
            ConfigError: if one is not in the bank, or has no responses yet.
        """
        names = list(self.places)
        unknown = [name for name in points or () if name not in self.places]
        if unknown:
            raise ConfigError(
                f"{', '.join(unknown)} is not in the bank, which has {', '.join(names)}; make another one."
            )
        found = [names.index(name) for name in points or names]
        lacking = [names[k] for k in found if np.isnan(self.responses[k]).any()]
        if lacking:
            raise ConfigError(
                f"the bank has no responses of {', '.join(lacking)} yet; complete it by swmodel green --resume, or "
                "leave them out."
            )
        return found

    def waves(self, amplitudes: np.ndarray, points: Sequence[str] | None = None) -> xr.DataArray:
        """The level [m] (point, time) that amplitudes (sources,) of the sources cause."""
        names = list(points or self.places)
        values = self.responses[self.rows(points)] @ amplitudes
        return xr.DataArray(values, {"point": names, "time": self.times}, ("point", "time"), attrs={"units": "m"})

    @property
    def radius(self) -> float | None:
        """Of the sphere [m] where x and y are degrees, by the distances of the sources; None where they are lengths."""
        if np.allclose(distances_on(self.centres, None), self.distances, rtol=1e-6):
            return None
        angles = distances_on(self.centres, 1.0)
        widest = np.unravel_index(np.argmax(angles), angles.shape)
        radius = float(self.distances[widest] / angles[widest])
        return radius if np.allclose(radius * angles, self.distances, rtol=1e-6) else None  # None: a periodic plane

    def ruptured(self, epicentre: tuple[float, float], velocity: float = np.inf, rise_time: float = 0.0) -> "Bank":
        """The bank of sources that rise, each in `rise_time`, when a rupture from the epicentre reaches them.

        The model does not change with time, so that responses are those of this bank, later and averaged over the rise:
        the mean of G(t - r / velocity - s) over 0 < s < rise_time. G keeps its first value from 0 to the first time.

        Args:
            epicentre: (x, y); the rupture begins at the source that is nearest to it.
            velocity: of the rupture [m s-1]; without it all sources begin at once.
            rise_time: of each source [s].

        Raises:
            ConfigError: for a velocity that is not positive, or a rise time that is negative or not finite.
        """
        if not velocity > 0 or not 0 <= rise_time < np.inf:
            raise ConfigError(
                f"a rupture of {velocity:g} m/s and a rise of {rise_time:g} s cannot be; give positive numbers."
            )
        interval, last = self.times[0], self.times.size - 1
        start = int(np.argmin(distances_on([epicentre], self.radius, self.centres)))
        count, column = max(1, int(np.ceil(4.0 * rise_time / interval))), np.arange(len(self.centres))
        total = np.zeros(self.responses.shape)
        for k in range(count):
            late = self.distances[start] / velocity + rise_time * (k + 0.5) / count
            place = (self.times[:, None] - late) / interval - 1.0  # (times, sources), 0 at the first time
            low = np.clip(np.floor(place), 0, max(last - 1, 0)).astype(int)
            first, second = self.responses[:, low, column], self.responses[:, np.minimum(low + 1, last), column]
            waves = first + np.clip(place - low, 0.0, 1.0) * (second - first)
            total += np.where(place >= -1.0 + 1e-9, waves, 0.0) / count
        rupture = (rise_time,) if np.isinf(velocity) else (rise_time, velocity, tuple(epicentre))
        about = self.about | dict(zip(RUPTURE, rupture))
        return dataclasses.replace(self, responses=total.astype(self.responses.dtype), about=about)

    def posterior(
        self, records: Mapping[str, xr.DataArray], until: float | None = None, errors: Errors | None = None
    ) -> Posterior:
        """The amplitudes of the sources, given the records.

        Args:
            records: {name of a point: level [m] over "time" [s since the earthquake]}, without tides; NaN are gaps.
            until: samples after this time [s] are not used; all are unless given.
            errors: Errors; as they are by default.

        Raises:
            ConfigError: for a point that is not in the bank, and for records that cannot be a tsunami's.
        """
        return infer(self, records, until, errors or Errors())

    def usable(
        self, records: Mapping[str, xr.DataArray], until: float | None = None, errors: Errors | None = None
    ) -> tuple[dict[str, xr.DataArray], dict[str, str]]:
        """(the records from which `posterior` and its scores follow, {name: why not} of the others)."""
        errors, found, refused = errors or Errors(), {}, {}
        prior = prior_root(self.distances, Scales.before(self, errors))
        for name, record in records.items():
            try:
                samples_of({name: record}, list(self.places), self.times, 0.0, np.inf)  # scores go on to its end
                examined(self, {name: record}, until, errors, prior)
                found[name] = record
            except ConfigError as error:
                refused[name] = str(error)
        return found, refused


def problem_of(
    model: ShallowWater | Family,
    stepper: TimeStepper,
    places: Mapping[str, tuple[float, float]],
    sources: Prior,
    steps: int,
) -> Problem:
    """The Problem whose cost reads all points, and whose controls are the sources."""
    dt = float(stepper.dt)
    ends = np.array([dt, steps * dt])
    records = {name: Record(place, ends, np.zeros(2)) for name, place in places.items()}
    outer, rest = (model.outer, model.states()) if isinstance(model, Family) else (model, model.at_rest())
    transform = sources.transform(Setting(outer, outer.at_rest(), dt))
    label = sources.label()
    (target,) = sources.targets()
    return Problem(model, stepper, rest, steps, Misfit(records), [joined({label: (target, transform)}, outer)])


def rerun(
    model: ShallowWater,
    stepper: TimeStepper,
    places: Mapping[str, tuple[float, float]],
    sources: Prior,
    amplitudes: np.ndarray,
    until: float,
    path: str | Path,
    interval: float = 30.0,
    varied: dict[str, Sequence] | None = None,
    title: str = "Runs from sources of a bank",
) -> None:
    """Run the model from each row of amplitudes; write the series at points to a file of gauges. Collective.

    Args:
        model, stepper, places, sources: those of the bank.
        amplitudes: of the sources (members, sources) [m].
        until: the end of the runs [s].
        path: of the netCDF file of gauges.
        interval: between two of its times [s].
        varied: {name: values, one a member}, coordinates of the file.
        title: of the file.

    Raises:
        ConfigError: for a model with a source of its own, which would come in addition.
    """
    if model.uplift is not None:
        raise ConfigError("the model has a source of its own, which would come in addition; leave [source] out.")
    _, patterns, _ = only_patch(problem_of(model, stepper, places, sources, 2))
    communicator, rest = model.communicator, model.at_rest()
    lifted = jit(communicator.spmd(lambda patterns, eta, a: eta + patterns.field(a)))
    rows = np.asarray(amplitudes, model.dtype)
    states = [rest.replace(eta=lifted(patterns, rest.eta, entered(row, communicator))) for row in rows]
    ensemble = Ensemble(model, states, varied)
    simulation = Simulation(ensemble, ensemble.initial, stepper, title=title)
    simulation.gauges(path, places, every=interval).run(until)


def chosen_scenarios(drawn: xr.Dataset, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, rates) of `count` scenarios, the middle one of each of as many blocks of equal size.

    Scenarios are in the order of magnitudes. Each one chosen has the rate [1/year] of all in its block.
    """
    blocks = np.array_split(np.arange(drawn.sizes["scenario"]), min(count, drawn.sizes["scenario"]))
    rate = drawn["rate"].values
    return np.array([block[block.size // 2] for block in blocks]), np.array([rate[block].sum() for block in blocks])
