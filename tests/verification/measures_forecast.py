"""Forecasts of Tohoku: banks against runs, bands against twins, each buoy from the others, a coast; hazard of Chile.

The bank of the experiment takes minutes; that of the twins is on cells three times as long.
"""

import functools
import subprocess
import sys
import tempfile

import jax
import numpy as np
import xarray as xr

import swmodel as sw
from swmodel.adjoint.assimilation import priors
from swmodel.adjoint.assimilation.departures import only_patch
from swmodel.adjoint.assimilation.linear_model import LinearModel
from swmodel.forecast import Bank, Errors
from swmodel.forecast.bank import problem_of
from swmodel.forecast.errors import correlation
from swmodel.forecast.inference import Posterior, Scales, prior_root
from swmodel.observed.folder import read_folder
from swmodel.verification import Case, Mark, Outcome
from tests.verification.experiments import FOLDER, output_of

BUOYS = "21418", "21401", "21413"
UNTIL = (15, 20, 30, 60)  # [min]
TWINS = 100
MEMBERS = 64  # nonlinear runs of scenarios
KNOWN = Errors(instrument=0.01, begin=0.0)


def green_errors(_: tuple = ()) -> Outcome:
    """The largest differences of sweeps from runs, over the largest reading, in both precisions."""
    found = {}
    before = jax.config.jax_enable_x64
    for precision in ("float32", "float64"):
        jax.config.update("jax_enable_x64", precision == "float64")
        grid = sw.CartesianGrid(40, 36, (0.0, 4e5), (0.0, 3.6e5))
        x, y = np.meshgrid(grid.x_centres, grid.y_centres)
        depth = np.where(np.hypot(x - 1e5, y - 2e5) < 5e4, 0.0, 500.0 + 5e-3 * x)
        model = sw.ShallowWater(grid, depth, boundaries=sw.Flather("east"), dtype=precision, communicator="serial")
        places = {"coast": (1.56e5, 2e5), "corner": (3e3, 3e3), "side": (3.97e5, 1.8e5), "sea": (2.5e5, 1e5)}
        sources = priors.UnitSources((1.5e5, 3.5e5), (5e4, 3e5), 5e4, 1.0)
        problem = problem_of(model, sw.ForwardBackward(30.0), places, sources, 200)
        _, patterns, target = only_patch(problem)
        linear = LinearModel(problem)
        runs = linear.run_each(patterns, target, 5)
        found[f"green_error_{precision}"] = np.abs(linear.swept(patterns, target, 5) - runs).max() / np.abs(runs).max()
    jax.config.update("jax_enable_x64", before)
    return Outcome(found)


def rupture_error(_: tuple = ()) -> Outcome:
    """A bank of sources that rise one after the other, against a run over a sea floor that moves so.

    The model moves the floor up to a step late (BottomMotion), so that its steps are short.
    """
    grid, stepper = sw.CartesianGrid(40, 36, (0.0, 4e5), (0.0, 3.6e5)), sw.ForwardBackward(2.5)
    place, begun, rise, velocity = {"coast": (1.56e5, 2e5), "sea": (2.5e5, 1e5)}, (1.5e5, 5e4), 240.0, 500.0
    sources = priors.UnitSources((1.5e5, 3e5), (5e4, 2e5), 5e4, 1.0)
    still = sw.ShallowWater(grid, 2000.0, boundaries=sw.Flather("east"), communicator="serial")
    given = Bank.of(still, stepper, place, sources, 6000.0, 30.0)
    _, patterns, _ = only_patch(problem_of(still, stepper, place, sources, 2))
    amplitudes = 1e-3 * np.random.default_rng(0).random(len(given.centres))
    late = np.hypot(*(given.centres - np.array(begun)).T) / velocity
    times = 30.0 * np.arange(int((late.max() + rise) / 30.0) + 2)
    share = np.clip((times[:, None] - late) / rise, 0.0, 1.0) * amplitudes
    inner = tuple(slice(-n, None) for n in grid.shape)  # without the padding of a tile
    moved = np.stack([np.asarray(patterns.field(row))[inner] for row in share])
    source = sw.BottomMotion(tuple(times), moved)
    model = sw.ShallowWater(grid, 2000.0, boundaries=sw.Flather("east"), communicator="serial", source=source)
    with tempfile.TemporaryDirectory() as folder:
        sw.Simulation(model, model.at_rest(), stepper).gauges(f"{folder}/a.nc", place, every=30.0).run(6000.0)
        with xr.open_dataset(f"{folder}/a.nc", decode_times=False) as run:
            level = run["eta"].transpose("gauge", "time").values[:, 1:]
    waves = given.ruptured(begun, velocity, rise).waves(amplitudes).values
    return Outcome({"rupture_error": float(np.abs(waves - level).max() / np.abs(level).max())})


@functools.cache
def bank(*changes: str) -> Bank:
    """The bank of the experiment, with these keys changed."""
    with output_of("tohoku_2011", "green", "forecast.toml", 1.0, changes) as folder:
        return Bank.read(folder / "bank.nc")


@functools.cache
def satake(places: tuple[tuple[str, tuple[float, float]], ...]) -> dict[str, xr.DataArray]:
    """{name: level over "time" [s]} of the published slip at these places, by the nonlinear model on cells of 5'."""
    changes = ["output.fields=[]", *(f"output.gauges.positions.{name}={list(place)}" for name, place in places)]
    with (
        output_of("tohoku_2011", "run", "tohoku.toml", 1.0, changes) as folder,
        xr.open_dataset(folder / "gauges.nc", decode_times=False) as run,
    ):
        names, time = [str(name) for name in run["gauge_name"].values], run["time"].values
        values = run["eta"].transpose("gauge", "time").values
        return {name: xr.DataArray(values[names.index(name)], {"time": time}, ("time",)) for name, _ in places}


def twin_coverage(_: tuple = ()) -> Outcome:
    """The share of the levels, at points without records and after the last sample at all, within bands of 90 %."""
    given, inside = bank("grid.nx=240", "grid.ny=180"), []
    scales = Scales.before(given, KNOWN)
    root, rows = prior_root(given.distances, scales), given.rows()
    rough = np.linalg.cholesky(correlation(given.times, KNOWN.memory))
    for seed in range(TWINS):
        noise = np.random.default_rng(seed)
        amplitudes = root @ noise.standard_normal(len(root))
        exact = Posterior(given, amplitudes, np.zeros((len(root), 1)), scales, 1.0, KNOWN, 0.0, {})
        wave = exact.draws(1, seed=seed, rough=False).isel(draw=0)  # which is late
        truth = wave * (1.0 + scales.model * (rough @ noise.standard_normal((given.times.size, len(rows)))).T)
        records = {name: truth.sel(point=name) + 0.01 * noise.standard_normal(truth.time.size) for name in BUOYS}
        waves = given.posterior(records, 1800.0, KNOWN).predict().sel(band=90.0)
        seen = (waves["deviation"] > 0.01).values
        seen[[list(given.places).index(name) for name in BUOYS]] &= given.times > 1800.0
        inside.append(((waves["low"] <= truth) & (truth <= waves["high"])).values[seen].mean())
    return Outcome({"forecast_twin_coverage_90": float(np.mean(inside))})


def tohoku(_: tuple = ()) -> Outcome:
    """Each buoy from the two others: shares within the bands, and CRPS beside that of the prior."""
    given, found = bank(), {}
    records = {
        name: xr.DataArray(record.value, {"time": record.time}, ("time",))
        for name, record in read_folder(FOLDER / "tohoku_2011" / "records", BUOYS).items()
    }
    errors = Errors(begin=900.0)
    crps = {}
    for minutes in (0, *UNTIL):
        each = []
        for name in BUOYS:
            others = {other: record for other, record in records.items() if other != name}
            posterior = given.posterior(others if minutes else {}, 60.0 * minutes, errors)
            each.append(posterior.scores({name: records[name]}, 900.0).isel(point=0))
        scores = xr.concat(each, "point")
        crps[minutes] = float(scores["crps"].mean())
        if minutes:
            found[f"forecast_inside_{minutes}"] = float(scores["inside"].mean())
            found[f"forecast_crps_share_{minutes}"] = crps[minutes] / crps[0]
    ratio = scores["spread"] / scores["error"]
    waves = satake(tuple((name, tuple(place)) for name, place in given.places.items()))
    errors_of_slip = []
    for name in BUOYS:
        here = records[name].dropna("time")
        here = here[(here["time"] >= 900.0) & (here["time"] <= 10800.0)]
        errors_of_slip.append(float(np.abs(waves[name].interp(time=here["time"]) - here).mean()))
    found["crps_share_of_satake"] = float(np.mean(errors_of_slip)) / crps[0]
    return Outcome(found | {"spread_ratio_offshore": float(ratio.mean())})


def hazard_curve(_: tuple = ()) -> Outcome:
    """Curves of 10,000 scenarios by the bank against those of 64 nonlinear runs, one from each of 64 blocks.

    A block of equal rates is the share p of scenarios over a level; the variance of a sample of one is w^2 p (1 - p).
    """
    coarse = [argument for name in ("nx", "ny") for argument in ("--set", f"grid.{name}=200")]
    with tempfile.TemporaryDirectory() as folder:
        there = "--set", f"output.folder={folder}"
        for command in (
            ("green", FOLDER / "chile_2010" / "forecast.toml", *coarse, *there),
            ("hazard", f"{folder}/bank.nc", "--rate", "0.05", "-o", f"{folder}/hazard.nc"),
            ("rerun", FOLDER / "chile_2010" / "forecast.toml", f"{folder}/hazard.nc", *coarse, *there),
        ):
            more = ("--count", str(MEMBERS)) if command[0] == "rerun" else ()
            subprocess.run(
                [sys.executable, "-m", "swmodel", *map(str, command), *more], check=True, capture_output=True
            )
        with xr.open_dataset(f"{folder}/hazard.nc") as hazard, xr.open_dataset(f"{folder}/rerun.nc") as runs:
            drawn, levels = hazard["highest"].values, hazard["level"].values
            highest = runs["eta"].max("time").transpose("member", "gauge").values
            weight, chosen = runs["rate"].values[:, None], runs["scenario"].values.astype(int)
    blocks, errors = np.array_split(np.arange(len(drawn)), MEMBERS), []
    for k in range(drawn.shape[1]):
        share = np.stack([(drawn[block, k, None] > levels).mean(axis=0) for block in blocks])
        deviation = np.sqrt(np.sum(weight**2 * share * (1.0 - share), axis=0))
        away = np.sum(weight * ((highest[:, k, None] > levels) - share), axis=0)
        known = (share.sum(axis=0) >= 2.0) & (deviation > 0)  # levels that two members or more exceed
        errors += list(away[known] / deviation[known])
    seen = drawn[chosen] > 0.01
    bias = [np.mean(highest[seen[:, k], k] / drawn[chosen][seen[:, k], k]) for k in range(drawn.shape[1])]
    found = {"hazard_curve_error": float(np.sqrt(np.mean(np.square(errors))))}
    return Outcome(found | {"hazard_least_ratio": float(min(bias)), "hazard_largest_ratio": float(max(bias))})


def inshore(_: tuple = ()) -> Outcome:
    """Forecasts by a bank on cells of 15' from records of a nonlinear run on 5', at the coast and at KPG1."""
    given = bank("grid.nx=240", "grid.ny=180")
    waves = satake(tuple((name, tuple(place)) for name, place in given.places.items()))
    records = {name: waves[name] for name in BUOYS}
    series = {name: wave for name, wave in waves.items() if name not in BUOYS}
    scores = given.posterior(records, 3600.0, Errors(begin=900.0)).scores(series, 900.0)
    ratio = scores["spread"] / scores["error"]
    coast = [name for name in series if name != "KPG1"]
    found = {
        "spread_ratio_inshore": float(ratio.sel(point=coast).mean()),
        "spread_ratio_kpg1": float(ratio.sel(point="KPG1")),
    }
    return Outcome(found | {"forecast_inside_inshore": float(scores["inside"].sel(point=coast).mean())})


Case(
    name="green",
    group="forecasts",
    title="Green's functions by sweeps of the transposed model",
    tests="the transposed linear model, on a coast, in a corner and at an open side",
    source="reciprocity of sources and gauges",
    doi="",
    equation="G by sweeps against G by runs, relative to the largest reading",
    measure=green_errors,
    marks=(
        Mark("green_error_float32", "of sweeps against runs in float32, relative", most=1e-5),
        Mark("green_error_float64", "of sweeps against runs in float64, relative", most=1e-10),
    ),
)
Case(
    name="rupture",
    group="forecasts",
    title="Sources that rise one after the other",
    tests="delays and means over rise times of a bank's responses",
    source="a run over a sea floor that moves",
    doi="",
    equation="largest difference of levels, relative to the largest",
    measure=rupture_error,
    marks=(Mark("rupture_error", "of the bank against the run, relative", most=0.02),),
)
Case(
    name="forecast_twin",
    group="forecasts",
    title="Bands of forecasts in twin experiments",
    tests="the posterior of the sources, of its scales and of the model's error",
    source="100 draws of the prior, with errors of records and model",
    doi="",
    equation="share of the levels within the bands of 90 percent, from records of 30 minutes",
    measure=twin_coverage,
    marks=(Mark("forecast_twin_coverage_90", "share within the bands of 90 %", least=0.87, most=0.93),),
)
Case(
    name="forecast_tohoku",
    group="forecasts",
    title="The Tohoku tsunami, each buoy from the two others",
    tests="forecasts from records of 15 to 60 minutes",
    source="records of three DART buoys (NOAA)",
    doi="",
    equation="share of the samples within the bands of 90 percent; CRPS over that of the prior",
    measure=tohoku,
    marks=(
        *(Mark(f"forecast_inside_{k}", f"share within the bands after {k} min", least=0.8, most=0.97) for k in UNTIL),
        *(Mark(f"forecast_crps_share_{k}", f"CRPS over that of the prior after {k} min", most=1.0) for k in UNTIL),
        Mark("crps_share_of_satake", "mean absolute error of the published slip over the CRPS of the prior"),
        Mark("spread_ratio_offshore", "expected over actual error after 60 min", least=0.7, most=1.4),
    ),
)
Case(
    name="hazard_curve",
    group="forecasts",
    title="Hazard curves off Chile, by the bank and by nonlinear runs",
    tests="the linear bank, the weights of scenarios, and runs from its sources in one program",
    source="10,000 scenarios on unit faults of SIFT, and 64 of them",
    doi="",
    equation="r.m.s. over points and levels of the difference of rates, over the Monte Carlo error of 64 members",
    measure=hazard_curve,
    marks=(
        Mark("hazard_curve_error", "of the bank's curves, in Monte Carlo errors of 64 runs", most=2.0),
        Mark("hazard_least_ratio", "of highest levels, runs over bank, the least of all points"),
        Mark("hazard_largest_ratio", "of highest levels, runs over bank, the largest of all points"),
    ),
)
Case(
    name="forecast_inshore",
    group="forecasts",
    title="Forecasts of a coast by a coarse bank",
    tests="the error of the model in the bands, where a coast is not resolved",
    source="a run of the Tohoku tsunami on cells of 5 arc-minutes, and a bank on 15",
    doi="",
    equation="expected over actual r.m.s. error at points without a record, after 60 minutes",
    measure=inshore,
    marks=(
        Mark("spread_ratio_inshore", "expected over actual error at the coast", least=0.7, most=1.4),
        Mark("spread_ratio_kpg1", "expected over actual error at KPG1"),
        Mark("forecast_inside_inshore", "share within the bands of 90 % at the coast"),
    ),
)
