"""Marks of the benchmark problems of the National Tsunami Hazard Mitigation Program (docs/guide/coast.md).

Synolakis, Bernard, Titov, Kanoglu and Gonzalez (2007), NOAA Tech. Mem. OAR PMEL-135; NTHMP (2012), Proceedings and
results of the 2011 model benchmarking workshop. Problems 1 and 4: Synolakis (1987), doi:10.1017/S002211208700329X; 6:
Briggs et al. (1995), doi:10.1007/BF00874384; 7: Matsuyama and Tanaka (2001), data of Liu, Yeh and Synolakis (2008).
"""

import dataclasses
import tempfile
import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
import xarray as xr

import swmodel as sw
from swmodel.cli.starting import model_state_and_step, simulation_of
from swmodel.config import read
from swmodel.config.families import assemble_family
from swmodel.grids.topography import topography
from swmodel.verification import Case, Mark, Outcome
from swmodel.verification.shores import ROWS, STEPPERS, Stepper, by_stepper, model_of
from tests.verification.experiments import module_of

REPOSITORY = Path(__file__).parents[2]
BEACH_DATA = REPOSITORY / "tests" / "data" / "nthmp"
ISLAND_DATA = REPOSITORY / "experiments" / "conical_island"
MONAI_DATA = REPOSITORY / "experiments" / "monai_valley"
SLOPE = 1.0 / 19.85  # of the beach of problems 1 and 4


def table(file: Path) -> dict[str, np.ndarray]:
    """{column: values} of a csv file."""
    found = np.genfromtxt(file, delimiter=",", names=True, dtype=float)
    return {name: found[name] for name in found.dtype.names}


def records(simulation: sw.Simulation, until: float, gauges: dict | None = None, every: float | None = None) -> Any:
    """(the largest level in each cell [m], {gauge: its elevations}, their times [s]) of a run until a time [s]."""
    with tempfile.TemporaryDirectory() as folder:
        simulation.maxima(f"{folder}/maxima.nc")
        if gauges:
            simulation.gauges(f"{folder}/gauges.nc", gauges)
        simulation.run(until=until)
        with xr.open_dataset(f"{folder}/maxima.nc") as found:
            highest = found["maximum_elevation"].values
        if not gauges:
            return highest, {}, np.zeros(0)
        with xr.open_dataset(f"{folder}/gauges.nc", decode_times=False) as found:
            series = found["eta"].transpose(..., "time").values
            return highest, dict(zip(gauges, series)), found["time"].values


def run_up(highest: np.ndarray, depth: np.ndarray, film: float) -> float:
    """The largest level of water that was thicker than `film` [m]."""
    return float(np.where(highest + depth > film, highest, -np.inf).max())


def of_experiment(file: Path, *overrides: str) -> sw.Simulation | sw.NestedSimulation:
    """The run of an experiment file, without its files."""
    made = assemble_family(read(str(file), overrides))
    experiment = made.experiment()
    model, states, dt = model_state_and_step(made, experiment, "serial", None, "auto")
    return simulation_of(made, model, states, dt)


def _seconds(driver: Any, length: float) -> float:
    """The processor time of `length` seconds of model time, over that [1]; other programs hardly change it."""
    since, first = clock.process_time(), driver.time
    driver.run(until=first + length)
    return (clock.process_time() - since) / (driver.time - first)


def gain(nested: sw.NestedSimulation, uniform: sw.Simulation) -> float:
    """The processor time of a uniform run over that of a nested one, each the least of three turns [1]."""
    for driver in (nested, uniform):
        driver.run(steps=20)  # compiles
    turns = [[_seconds(driver, 0.4) for driver in (nested, uniform)] for _ in range(3)]
    return float(np.divide(*np.min(turns, axis=0)[::-1]))


# -- problems 1 and 4: a solitary wave on a beach ---------------------------------------------------------------------


def beach(height: float, spacing: float, still: float = 1.0, far: float = 75.0, **options: Any) -> tuple:
    """(the model, its state) of a solitary wave of a height [d] that comes towards a beach; the depth is 1 m.

    Args:
        spacing: of the cells [d].
        still: share of the linear velocity that the wave has.
        far: where the channel ends [d].
    """
    land = -4.0 if height < 0.1 else -14.0
    cells = int(round((far - land) / spacing))
    grid = sw.CartesianGrid(cells, ROWS, (land, far), (0.0, ROWS * spacing), periodic="y")
    model = model_of(grid, lambda x, y: np.minimum(SLOPE * x, 1.0) + 0.0 * y, **options)
    gamma = np.sqrt(0.75 * height)
    crest = 1.0 / SLOPE + np.arccosh(np.sqrt(20.0)) / gamma
    level = lambda x, y: height / np.cosh(gamma * (x - crest)) ** 2 + 0.0 * y  # noqa: E731
    return model, model.state(eta=level, u=lambda x, y: -np.sqrt(model.gravity) * level(x, y) * (x > 0))


def bp1(spacing: float = 0.05, stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """H/d = 0.019: the largest run-up and the profiles at t = 35 to 65 sqrt(d/g), against the analytic solution.

    The profile's error is the r.m.s. difference over the range of elevations, the largest of seven profiles.
    """
    model, state = beach(0.019, spacing)
    unit = 1.0 / np.sqrt(model.gravity)
    simulation = sw.Simulation(model, state, stepper(0.6 * spacing * unit))
    data, errors, highest = table(BEACH_DATA / "bp01_profiles.csv"), {}, 0.0
    x, depth = model.grid.x_centres, model.depth[0]
    exact = np.nanmax([data[f"t{t}"] for t in range(35, 75, 5)])
    for t in np.arange(20.0, 70.5, 0.5):
        simulation.run(until=t * unit)
        eta = np.asarray(simulation.state.eta)[0]
        highest = max(highest, run_up(eta, depth, 1e-3))
        if t >= 35 and t % 5 == 0:
            there = data[f"t{t:.0f}"]
            known = np.isfinite(there)
            misfit = np.interp(data["x_over_d"], x, eta)[known] - there[known]
            errors[t] = float(np.sqrt(np.mean(misfit**2)) / np.ptp(there[known]))
    return {"bp1_runup_error": highest / exact - 1.0, "bp1_profile_error": max(errors.values())}


def run_up_on_beach(
    height: float,
    spacing: float,
    roughness: float = 0.0,
    unit: float = 1.0,
    courant: float = 0.6,
    stepper: Stepper = sw.SSPRK3,
) -> float:
    """The largest run-up over the depth d of a solitary wave of a height [d].

    Args:
        roughness: Manning's n [s m-1/3], at a depth of `unit` [m].
    """
    drag = (sw.ManningDrag(roughness * unit ** (-1.0 / 6.0)),) if roughness else ()  # n^2 g / h^(4/3) L is alike
    model, state = beach(height, spacing, far=60.0 if height > 0.1 else 75.0, dissipation=drag)
    dt = courant * spacing / np.sqrt(model.gravity * (1.0 + height))
    highest, _, _ = records(sw.Simulation(model, state, stepper(dt)), 75.0 / np.sqrt(model.gravity))
    return run_up(highest, model.depth, 1e-3)


SMOOTH = 0.008  # Manning's n of Blasius's 0.0395 / (4 u h / nu)^(1/4) for smooth walls, in the tongue [s m-1/3]


def bp4(roughness: float = SMOOTH, stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """H/d = 0.0185 without friction against 2.831 sqrt(19.85) (H/d)^1.25, and 0.30, which breaks, against 0.55 in the
    laboratory, with 0.1562 m of water over a smooth beach.

    g n^2 / h^(1/3) equals Blasius's coefficient with n = 0.0078 s m-1/3 where h is 1 cm, 0.0083 where it is 5 cm, at
    1 m s-1.
    """
    low = 2.831 * np.sqrt(1.0 / SLOPE) * 0.0185**1.25
    return {
        "bp4_error_low": run_up_on_beach(0.0185, 0.1, stepper=stepper) / low - 1.0,
        "bp4_error_high": run_up_on_beach(0.30, 0.1, roughness, 0.1562, stepper=stepper) / 0.55 - 1.0,
    }


# -- problem 6: a conical island --------------------------------------------------------------------------------------

ISLAND = 0.32, (12.96, 13.80)  # depth of the basin, centre of the island [m]
LIU_RUN_UP = {270.0: 2.6 * 1.6, 90.0: 2.0 * 1.6}  # R/A of Liu et al. (1995) times A = 0.05 d, case a [cm]
FIRST_GAUGES = {"a": 5.76, "c": 7.56}  # x of gauges 1 to 4, which measure the wave that comes in [m]


def cone(x: Any, y: Any) -> np.ndarray:
    """The signed depth of the basin [m]: a cone of slope 1:4, 0.625 m high, with a flat top 2.2 m wide."""
    still, (x0, y0) = ISLAND
    return still - np.clip((3.6 - np.hypot(x - x0, y - y0)) / 4.0, 0.0, 0.625)


def incident(case: str) -> sw.Record:
    """The mean record of gauges 1 to 4 from 3 s before the crest on, until the island's reflection comes."""
    data = table(ISLAND_DATA / f"bp06_gauges_{case}.csv")
    level = np.mean([data[f"g{k}_m"] - data[f"g{k}_m"][:50].mean() for k in (1, 2, 3, 4)], axis=0)
    crest = data["time_s"][np.argmax(level * (data["time_s"] < 35.0))]
    kept = (data["time_s"] > crest - 3.0) & (data["time_s"] < crest + 2.0)
    return sw.Record(data["time_s"][kept] - data["time_s"][kept][0], level[kept])


def island(
    case: str, spacing: float = 0.05, until: float = 12.0, stepper: Stepper = sw.SSPRK3
) -> tuple[sw.ShallowWater, np.ndarray]:
    """(the model, the largest level in each cell [m]) round the half of the island north of its axis.

    The laboratory's wave comes in where it was measured, and what the island scatters leaves in the east. The northern
    side is a wall, along which the wave passes undiminished: through an open one it would leak, and run up a tenth less
    abreast of the island. What the wall reflects is not back before the end. n is that of concrete.
    """
    still, (_, y0) = ISLAND
    (west, east), north = (FIRST_GAUGES[case], FIRST_GAUGES[case] + 14.0), y0 + 7.0
    grid = sw.CartesianGrid(int(14.0 / spacing), int(7.0 / spacing), (west, east), (y0, north))
    wave = incident(case)
    maker = sw.WaveMaker(sides="west", elevation=wave, until=float(wave.times[-1]))
    sides = (maker, sw.WaveMaker(sides="east", elevation=0.0))
    model = model_of(grid, cone, boundaries=sides, dissipation=sw.ManningDrag(0.015), dtype="float32")
    dt = 0.65 * spacing / np.sqrt(2 * model.gravity * (still + wave.values.max()))
    return model, records(sw.Simulation(model, model.at_rest(), stepper(dt)), until)[0]


def run_up_round(model: sw.ShallowWater, highest: np.ndarray, angle: float, half_width: float = 3.0) -> float:
    """The run-up on the island at an angle [m], as the laboratory counts it: 270 degrees face the waves, 90 the lee."""
    _, (x0, y0) = ISLAND
    x, y = model.grid.coordinates("h")
    towards_lee = np.rad2deg(np.arctan2(x - x0, np.abs(y - y0)))  # 90 in the lee, -90 in front
    off = np.abs(towards_lee - np.rad2deg(np.arcsin(np.sin(np.deg2rad(angle)))))
    return run_up(np.where(off <= half_width, highest, -np.inf), model.depth, 1e-3)


def island_marks(case: str, spacing: float = 0.05, stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """The run-up in front of and behind the island against the laboratory's, as the NTHMP gives it, and for case a as
    Liu et al. (1995), doi:10.1017/S0022112095004095, give it for the same wave."""
    model, highest = island(case, spacing, stepper=stepper)
    data = table(ISLAND_DATA / f"bp06_runup_{case}.csv")
    measured = {"": dict(zip(data["angle_deg"], data["runup_cm"]))}
    if case == "a":
        measured["liu_"] = LIU_RUN_UP
    found = {270.0: "front", 90.0: "lee"}
    return {
        f"bp6{case}_{source}{name}_error": 100.0 * run_up_round(model, highest, angle) / run_ups[angle] - 1.0
        for source, run_ups in measured.items()
        for angle, name in found.items()
    }


def bp6a(stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """Case a: a wave of 0.045 of the depth."""
    return island_marks("a", stepper=stepper)


def bp6c(stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """Case c: a wave of 0.181 of the depth, which breaks."""
    return island_marks("c", stepper=stepper)


WAVES = {"a": ("1.44 cm", "4 s"), "c": ("5.79 cm", "2.5 s")}  # height and time of the crest in the experiment's file


def island_nested(case: str) -> dict[str, float]:
    """The run-up on the island in a nest of 5 cm, in a basin of 10 cm, over that of 5 cm everywhere, less 1."""
    wave = [f"boundary.0.elevation.{key}={x!r}" for key, x in zip(("height", "peak"), WAVES[case], strict=True)]
    files = [(ISLAND_DATA / file, *wave) for file in ("island_nested.toml", "conical_island.toml")]
    inside, everywhere = (_finest(of_experiment(*given)) for given in files)
    found = {}
    for name, angle in (("front", 270.0), ("lee", 90.0)):
        nested, whole = (run_up_round(model, highest, angle) for model, highest in (inside, everywhere))
        found[f"island_nested_{case}_{name}"] = nested / whole - 1.0
    return found | {f"island_nested_{case}_gain": gain(*(of_experiment(*given) for given in files))}


def _finest(driver: Any) -> tuple[sw.ShallowWater, np.ndarray]:
    """(the model of the finest grid, the largest level in each of its cells [m]) of a run of 12 s."""
    simulation = driver["island"] if isinstance(driver, sw.NestedSimulation) else driver
    with tempfile.TemporaryDirectory() as folder:
        simulation.maxima(f"{folder}/maxima.nc")
        driver.run(until=12.0)
        with xr.open_dataset(f"{folder}/maxima.nc") as file:
            return simulation.model, file["maximum_elevation"].values


def island_nested_a() -> dict[str, float]:
    """The island in a nest, case a."""
    return island_nested("a")


def island_nested_c() -> dict[str, float]:
    """The island in a nest, case c."""
    return island_nested("c")


# -- problem 7: Monai valley ------------------------------------------------------------------------------------------

GULLY = (slice(5.0, 5.3), slice(1.7, 2.05))  # x and y of the place of the highest run-up [m]


def monai_model(spacing: float = 0.014, **options: Any) -> sw.ShallowWater:
    """The tank of the laboratory: the level at x = 0 is that of the record, the other sides are walls."""
    cells = (int(length / spacing + 1e-6) for length in (5.488, 3.402))
    grid = sw.CartesianGrid(*cells, (0.0, 5.488), (0.0, 3.402))
    data = table(MONAI_DATA / "bp07_incident.csv")
    maker = sw.WaveMaker(sides="west", elevation=sw.Record(data["time_s"], data["eta_m"]), total=True)
    floor = topography(MONAI_DATA / "bp07_depth.nc", grid, "interpolate" if spacing < 0.02 else "average")
    drag = sw.ManningDrag(0.01)
    return model_of(grid, floor, boundaries=maker, dissipation=drag, dtype="float32", **options)


def monai(spacing: float = 0.014, stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """The highest run-up in the gully, and the mean of the r.m.s. misfits of three gauges over the range of each."""
    model = monai_model(spacing)
    dt = 0.7 * spacing / np.sqrt(2 * model.gravity * 0.16)
    simulation = sw.Simulation(model, model.at_rest(), stepper(dt))
    laboratory = module_of("monai_valley", "laboratory")
    highest, series, times = records(simulation, laboratory.END, laboratory.GAUGES)
    x, y = model.grid.coordinates("h")
    gully = (x > GULLY[0].start) & (x < GULLY[0].stop) & (y > GULLY[1].start) & (y < GULLY[1].stop)
    return {
        "monai_runup_m": run_up(np.where(gully, highest, -np.inf), model.depth, 5e-4),
        "monai_gauge_error": laboratory.misfit(times, series),
    }


def monai_inverse() -> dict[str, float]:
    """The wave at x = 0 that 4D-Var finds from gauges 5, 7 and 9: its error over the published wave, until 16.5 s.

    The gauges are the laboratory's; `twin` are those of a run with the published wave, with errors of 1 mm.
    """
    module = module_of("monai_valley", "incoming_wave")
    errors = (module.invert(0.084, twin, 10)[1] for twin in (False, True))
    return dict(zip(("monai_inverse_error", "monai_inverse_twin_error"), errors))


def monai_nested() -> dict[str, float]:
    """The gauges with the basin at 42 mm and the valley in a nest at 14 mm, and how much faster that is.

    The gain is the time of 14 mm everywhere over that of the nested run.
    """
    laboratory = module_of("monai_valley", "laboratory")
    alike = "grid.nx=392", "grid.ny=243", "model.damping=0.1", "stepper.fraction=0.9"
    files = (MONAI_DATA / "monai_nested.toml",), (MONAI_DATA / "monai_valley.toml", *alike)
    nested: Any = of_experiment(*files[0])
    with tempfile.TemporaryDirectory() as folder:
        nested["valley"].gauges(f"{folder}/gauges.nc", laboratory.GAUGES)
        nested.run(until=laboratory.END)
        with xr.open_dataset(f"{folder}/gauges.nc", decode_times=False) as found:
            series = dict(zip(laboratory.GAUGES, found["eta"].transpose(..., "time").values))
            error = laboratory.misfit(found["time"].values, series)
    return {"monai_nested_error": error, "monai_nested_gain": gain(*(of_experiment(*given) for given in files))}


# -- steady flow over a bump ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BumpFlow:
    """Steady flow of a discharge [m2 s-1] over a bump 0.2 m high at x = 10 m of a channel 25 m long.

    `outlet` is the thickness [m] at x = 25 m; None where the flow is supercritical behind the bump.
    """

    discharge: float = 4.42
    outlet: float | None = 2.0
    gravity: float = 9.81

    def bed(self, x: np.ndarray) -> np.ndarray:
        """The height of the bump [m]."""
        return np.maximum(0.2 - 0.05 * (x - 10.0) ** 2, 0.0)

    def _thickness(self, head, bed, fast):
        """The sub- or supercritical root h of h + q^2 / (2 g h^2) = head - bed."""
        roots = np.roots([1.0, bed - head, 0.0, self.discharge**2 / (2 * self.gravity)])
        found = np.sort(roots[np.abs(roots.imag) < 1e-6].real)[::-1]
        return float(found[1] if fast else found[0])

    @property
    def _heads(self):
        """The heads of critical flow over the crest, and at the outlet [m]."""
        critical = 1.5 * (self.discharge**2 / self.gravity) ** (1 / 3) + 0.2
        outlet = (
            -np.inf if self.outlet is None else self.outlet + self.discharge**2 / (2 * self.gravity * self.outlet**2)
        )
        return critical, outlet

    @property
    def shock(self) -> float | None:
        """The position x of the hydraulic jump [m]; None without one."""
        critical, outlet = self._heads
        if self.outlet is None or outlet >= critical:
            return None

        def mismatch(x):
            bed = float(self.bed(np.asarray(x)))
            momentum = lambda h: self.discharge**2 / (self.gravity * h) + 0.5 * h**2  # noqa: E731
            return momentum(self._thickness(critical, bed, True)) - momentum(self._thickness(outlet, bed, False))

        place: Any = scipy.optimize.brentq(mismatch, 10.2, 11.99)
        return float(place)

    def thickness(self, x: np.ndarray) -> np.ndarray:
        """h [m] at x [m]."""
        critical, outlet = self._heads
        shock = self.shock
        found = []
        for place, bed in zip(np.atleast_1d(x), self.bed(np.atleast_1d(x))):
            if shock is None and self.outlet is not None:
                found.append(self._thickness(outlet, bed, False))
            elif shock is not None and place > shock:
                found.append(self._thickness(outlet, bed, False))
            else:
                found.append(self._thickness(critical, bed - 1e-12, place > 10.0))
        return np.array(found)


BUMPS = {"sub": BumpFlow(), "trans": BumpFlow(1.53, None), "shock": BumpFlow(0.18, 0.33)}


def bump(name: str, cells: int = 200, seconds: float = 40.0, stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """The largest relative errors of the discharge and of the thickness, outside three cells on each side of a jump.

    Continuity alone makes the discharge constant in a steady state; the thickness is that of the right energy head.
    """
    flow = BUMPS[name]
    grid = sw.CartesianGrid(cells, ROWS, (0.0, 25.0), (0.0, ROWS * 25.0 / cells), periodic="y")
    ends = flow.thickness(np.array([0.0, 25.0]))
    datum = float(ends.max()) + 0.1  # so that no level outside is 0, as one that is left out would be
    sides = tuple(
        sw.WaveMaker(sides=side, elevation=h - datum, velocity=sign * flow.discharge / h)
        for side, h, sign in (("west", ends[0], 1.0), ("east", ends[1], -1.0))
    )
    model = model_of(grid, lambda x, y: datum - flow.bed(x) + 0.0 * y, boundaries=sides)
    faces = grid.x_edges[1:]
    state = model.state(
        eta=np.broadcast_to(flow.thickness(grid.x_centres) + flow.bed(grid.x_centres) - datum, grid.shape),
        u=np.broadcast_to(flow.discharge / flow.thickness(faces), grid.shape) * (faces < 25.0),
    )
    dt = 0.5 * 25.0 / cells / (2 * np.sqrt(flow.gravity * datum))
    end = sw.Simulation(model, state, stepper(dt)).run(until=seconds)
    h = model.depth[0] + np.asarray(end.eta)[0]
    discharge = np.asarray(end.u)[0, :-1] * 0.5 * (h[1:] + h[:-1])
    smooth = lambda x: np.abs(x - (np.inf if flow.shock is None else flow.shock)) > 3.5 * 25.0 / cells  # noqa: E731
    largest = lambda ratio, x: float(np.abs(ratio - 1.0)[smooth(x)].max())  # noqa: E731
    return {
        f"bump_{name}_discharge_error": largest(discharge / flow.discharge, grid.x_edges[1:-1]),
        f"bump_{name}_thickness_error": largest(h / flow.thickness(grid.x_centres), grid.x_centres),
    }


def bump_sub(stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """Subcritical flow."""
    return bump("sub", stepper=stepper)


def bump_trans(stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """Flow that is critical over the crest, and supercritical behind it."""
    return bump("trans", stepper=stepper)


def bump_shock(stepper: Stepper = sw.SSPRK3) -> dict[str, float]:
    """The same with a hydraulic jump behind the crest."""
    return bump("shock", stepper=stepper)


MARKS = {  # {case: {its marks: the largest sizes that they may have}}
    bp1: {"bp1_runup_error": 0.05, "bp1_profile_error": 0.05},
    bp4: {"bp4_error_low": 0.05, "bp4_error_high": 0.10},
    bp6a: {name: 0.10 for name in ("bp6a_front_error", "bp6a_lee_error", "bp6a_liu_front_error", "bp6a_liu_lee_error")},
    bp6c: {"bp6c_front_error": 0.10, "bp6c_lee_error": 0.10},
    monai: {"monai_runup_m": 0.01, "monai_gauge_error": 0.10},  # of the run-up its distance from 0.09 m
    monai_inverse: {"monai_inverse_error": 0.6, "monai_inverse_twin_error": 0.6},
    island_nested_a: {"island_nested_a_front": 0.02, "island_nested_a_lee": 0.02, "island_nested_a_gain": 1.5},
    island_nested_c: {"island_nested_c_front": 0.02, "island_nested_c_lee": 0.02, "island_nested_c_gain": 1.5},
    monai_nested: {"monai_nested_error": 0.085, "monai_nested_gain": 3.0},
    bump_sub: {"bump_sub_discharge_error": 0.01, "bump_sub_thickness_error": 0.01},
    bump_trans: {"bump_trans_discharge_error": 0.01, "bump_trans_thickness_error": 0.01},
    bump_shock: {"bump_shock_discharge_error": 0.01, "bump_shock_thickness_error": 0.02},
}
ALONE = (island_nested_a, island_nested_c, monai_inverse, monai_nested)  # measured with one stepper
LIMITS = {name: limit for marks in MARKS.values() for name, limit in marks.items()}


def mark(name: str, limit: float) -> Mark:
    """The Mark of a name: an error, or the run-up of Monai valley, 0.09 m as measured."""
    if name.startswith("monai_runup_m"):
        return Mark(name, "highest run-up in the gully [m]", least=0.09 - limit, most=0.09 + limit)
    if name.endswith("_gain"):
        return Mark(name, "processor time of the run on fine cells everywhere over that of the nested one", least=limit)
    return Mark(name, "relative error", most=limit)


def register(function: Any, marks: dict[str, float], suffix: str, measured: Callable[[Any], Outcome]) -> None:
    """Register a Case; `suffix` is added to the names of `function` and of its marks, `measured` is the Case's own."""
    title = (function.__doc__ or function.__name__).splitlines()[0].rstrip(".")
    Case(
        name=function.__name__ + suffix,
        group="coasts",
        title=title + (", in one stage" if suffix else ""),
        tests="run-up, and waves behind obstacles",
        source="Synolakis et al. (2007), NOAA Tech. Mem. OAR PMEL-135",
        doi="",
        equation="measured in a laboratory, or a closed solution",
        measure=measured,
        marks=tuple(mark(name + suffix, limit) for name, limit in marks.items()),
    )


for each_case, its_marks in MARKS.items():
    if each_case not in ALONE:
        for its_suffix, its_measure in by_stepper(each_case, STEPPERS):
            register(each_case, its_marks, its_suffix, its_measure)
for alone in ALONE:
    register(alone, MARKS[alone], "", lambda _, case=alone: Outcome(case()))
