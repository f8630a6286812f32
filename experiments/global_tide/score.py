"""Compare the tide of a run with gauges, compute the power that moon and sun put in, and draw cotidal maps.

python score.py [harmonics.nc [gauges.csv]]      prints name=value of each constituent, and writes cotidal_map.png

Names of M2 have no suffix; those of other constituents end in theirs, as error_open_ocean_k1.

    error at a gauge    |A exp(-i g) - A' exp(-i g')| of the nearest wet cell within REACH [m]: amplitude A, phase lag g
    r.m.s. in time      that divided by sqrt 2, which papers often give
    open ocean          gauges around which 90 % of the area is deeper than 1000 m, within 1.5 degrees: oceanic islands
    phase lead          the angle by which the modelled tide would have to be turned back to fit the gauges best
    power               rho g < integral eta_eq d eta/dt dA > [W], eta_eq the equilibrium tide of a yielding Earth
    wave drag           rho < integral (kappa / 2) r^2 N |u|^2 dA > [W], on the faces where u and v lie
    friction            rho < integral C_D |u|^3 dA > [W], likewise
    budget              (wave drag + friction) / power - 1

Amplitudes in files are those of a nodal factor of 1. The run has f times as much, on which quadratic friction depends:
all powers are those of the run divided by f^2, so friction is f times that of the amplitudes in the file.
"""

import sys
import tomllib
from pathlib import Path

import numpy as np
import xarray as xr

import swmodel as sw
from swmodel.forcing.constituents import nodal
from swmodel.forcing.tides import middle_latitude
from swmodel.grids.regrid import field_records
from swmodel.postprocess.statistics import draw_phases

RHO, G, RADIUS = 1025.0, 9.81, 6.371e6
# Period [s], species, and amplitude of the equilibrium tide times 1 + k - h [m] (Arbic et al. 2004, table 1).
CONSTITUENTS = {
    "M2": (44714.16, 2, 0.242334 * 0.693),
    "S2": (43200.00, 2, 0.112743 * 0.693),
    "K1": (86164.09, 1, 0.141565 * 0.736),
    "O1": (92949.63, 1, 0.100661 * 0.695),
}
OCEANS = {"atlantic": (-70.0, 20.0), "indian": (20.0, 120.0), "pacific": (120.0, 290.0)}  # [degrees] of longitude
REACH, AROUND, DEEP, SHARE = 60e3, 1.5, 1000.0, 0.9  # [m], [degrees], [m], [1]
HERE = Path(__file__).parent


def experiment_of(harmonics):
    """The tables of the experiment that wrote a file of harmonics."""
    with xr.open_dataset(harmonics) as run:
        return tomllib.loads(run.attrs["config"])


def drags(experiment):
    """(C_D [1], kappa [m-1]) of the two drags of an experiment."""
    found = {part["type"]: part for part in experiment["dissipation"]}
    return found["quadratic_drag"]["coefficient"], found["internal_wave_drag"]["wavenumber"]


def distance(lon, lat, longitude, latitude):
    """Great-circle distance [m] between points in degrees."""
    a, b = np.deg2rad(lat), np.deg2rad(latitude)
    cosine = np.sin(a) * np.sin(b) + np.cos(a) * np.cos(b) * np.cos(np.deg2rad(lon - longitude))
    return RADIUS * np.arccos(np.clip(cosine, -1.0, 1.0))


def read_gauges(file, name="M2"):
    """(names, longitude, latitude, complex tide [m]) of the gauges that have a constituent."""
    columns = ("name", "latitude", "longitude", f"{name}_amplitude_m", f"{name}_phase_deg")
    rows = np.genfromtxt(file, delimiter=",", names=True, dtype=None, encoding="utf-8", usecols=columns)
    rows = rows[np.isfinite(rows[f"{name}_amplitude_m"]) & np.isfinite(rows[f"{name}_phase_deg"])]
    tide = rows[f"{name}_amplitude_m"] * np.exp(-1j * np.deg2rad(rows[f"{name}_phase_deg"]))
    return rows["name"], rows["longitude"], rows["latitude"], tide


def constituents_in(file):
    """The names of the constituents that a file of harmonics holds."""
    with xr.open_dataset(file) as run:
        return [name for name in CONSTITUENTS if f"eta_amplitude_{name}" in run]


def read_tide(file, name="M2"):
    """(longitude, latitude, complex tide [m], NaN on land) of a file of harmonics."""
    with xr.open_dataset(file) as run:
        size, lag = run[f"eta_amplitude_{name}"].values, run[f"eta_phase_{name}"].values
        return run["xh"].values, run["yh"].values, size.astype(float) * np.exp(-1j * np.deg2rad(lag))


def at_gauges(lon, lat, tide, longitude, latitude):
    """The tide in the nearest wet cell of each gauge; NaN where none is within REACH."""
    j, i = np.nonzero(np.isfinite(tide))
    found = np.full(longitude.size, np.nan + 0j)
    for k in range(longitude.size):
        near = np.abs(lat[j] - latitude[k]) < np.rad2deg(REACH / RADIUS)
        away = distance(lon[i[near]], lat[j[near]], longitude[k], latitude[k])
        if away.size and away.min() <= REACH:
            found[k] = tide[j[near], i[near]][np.argmin(away)]
    return found


def in_open_ocean(longitude, latitude, file):
    """Whether a share of the area around each gauge is deep."""
    with xr.open_dataset(file) as source:
        deep, lon, lat = source.elevation.values < -DEEP, source.lon.values, source.lat.values
    weight = np.cos(np.deg2rad(lat))
    found = np.zeros(longitude.size, bool)
    for k in range(longitude.size):
        rows = np.abs(lat - latitude[k]) <= AROUND
        east = (lon - longitude[k] + 180.0) % 360.0 - 180.0
        columns = np.abs(east) * np.cos(np.deg2rad(latitude[k])) <= AROUND
        box = deep[np.ix_(rows, columns)]
        found[k] = np.average(box.mean(1), weights=weight[rows]) >= SHARE
    return found


def terawatts(lon, lat, tide, name="M2"):
    """The mean power of the potential [TW]; with a constant tide all of it is dissipated."""
    period, species, equilibrium = CONSTITUENTS[name]
    step = np.deg2rad(lat[1] - lat[0]), np.deg2rad(lon[1] - lon[0])
    area = RADIUS**2 * step[0] * step[1] * np.cos(np.deg2rad(lat))[:, None]
    across = np.cos(np.deg2rad(lat)) ** 2 if species == 2 else np.sin(2 * np.deg2rad(lat))
    pattern = equilibrium * across[:, None] * np.exp(1j * species * np.deg2rad(lon))
    # eta_eq = Re(pattern e^(i theta)), eta = Re(tide e^(i theta))
    work = 0.5 * np.real(np.conj(pattern) * 1j * tide) * 2 * np.pi / period
    return float(RHO * G * np.nansum(work * area) / 1e12)


def grid_of(lon, lat):
    """The grid with these longitudes and latitudes of the centres of its cells [degrees]."""
    (west, east), (south, north) = ((x[0] - 0.5 * (x[1] - x[0]), x[-1] + 0.5 * (x[1] - x[0])) for x in (lon, lat))
    return sw.SphericalGrid(lon.size, lat.size, (west, east), (south, north))


def dissipation(harmonics, bottom=HERE / "bottom.nc", name="M2", phases=24):
    """The mean power [TW] that internal waves and friction take, {name: value}; empty without velocities."""
    experiment = experiment_of(harmonics)
    drag, wavenumber = drags(experiment)
    with xr.open_dataset(harmonics) as run:
        if f"u_amplitude_{name}" not in run:
            return {}
        lon, lat = run["xh"].values, run["yh"].values
        size, lag = ([run[f"{x}_{part}_{name}"].values for x in "uv"] for part in ("amplitude", "phase"))
        u, v = (np.nan_to_num(a * np.exp(-1j * np.deg2rad(g))) for a, g in zip(size, lag))
    grid = grid_of(lon, lat)
    factor, _ = nodal(name, experiment["run"].get("start"), middle_latitude(grid))
    rough, frequency = (  # as the model interpolates them
        np.asarray(field_records(bottom, x, grid, fill=True).values[0]) for x in ("roughness", "buoyancy")
    )
    u, v = u[:, -lon.size :], v[1:]  # on eastern and northern faces
    v_at_u = 0.25 * sum(np.roll(x, -1, 1) + x for x in (v, np.vstack([np.zeros_like(v[:1]), v[:-1]])))
    u_at_v = 0.25 * sum(np.roll(x, 1, 1) + x for x in (u, np.vstack([u[1:], np.zeros_like(u[:1])])))
    strength = 0.5 * wavenumber * rough**2 * frequency
    faces = (u, v_at_u, np.roll(strength, -1, 1)), (v, u_at_v, np.vstack([strength[1:], strength[-1:]]))
    side = np.deg2rad(lat[1] - lat[0])
    cell = RADIUS**2 * side * np.deg2rad(lon[1] - lon[0])
    waves = friction = 0.0
    for (along, across, beyond), south in zip(faces, (0.0, 0.5 * side)):  # faces of v are half a cell further north
        area = cell * np.cos(np.deg2rad(lat) + south)[:, None]
        waves += np.sum(0.5 * np.abs(along) ** 2 * 0.5 * (strength + beyond) * area)
        for phase in np.exp(2j * np.pi * np.arange(phases) / phases):
            here, there = np.real(along * phase), np.real(across * phase)
            friction += np.sum(np.hypot(here, there) * here**2 * area) / phases
    friction *= factor * drag
    return {f"m2_{of}_terawatts": float(RHO / 1e12 * x) for of, x in (("wave_drag", waves), ("friction", friction))}


def scores(harmonics, gauges=HERE / "gauges.csv", floor=HERE / "etopo5_global_15min.nc"):
    """{name: value} of all constituents: r.m.s. errors [cm], all gauges and open ocean, and the power [TW]."""
    found = {}
    for name in constituents_in(harmonics):
        found |= scores_of(name, harmonics, gauges, floor)
    return found


def scores_of(constituent, harmonics, gauges, floor):
    """The scores of one constituent."""
    lon, lat, tide = read_tide(harmonics, constituent)
    _, longitude, latitude, observed = read_gauges(gauges, constituent)
    model = at_gauges(lon, lat, tide, longitude, latitude)
    known, open_ocean = np.isfinite(model), in_open_ocean(longitude, latitude, floor)
    found = {f"{constituent.lower()}_terawatts": terawatts(lon, lat, tide, constituent)}
    suffix = "" if constituent == "M2" else f"_{constituent.lower()}"
    for name, chosen in (("open_ocean", known & open_ocean), ("all", known)):
        error, size = np.abs(model - observed)[chosen], np.abs(observed)[chosen]
        found |= {
            f"gauges_{name}{suffix}": int(chosen.sum()),
            f"error_{name}{suffix}": 100 * np.sqrt(np.mean(error**2)),
            f"median_error_{name}{suffix}": 100 * np.median(error),
            f"signal_{name}{suffix}": 100 * np.sqrt(np.mean(size**2)),
            f"mean_amplitude_ratio_{name}{suffix}": float(np.abs(model[chosen]).mean() / size.mean()),
            f"phase_lead_{name}{suffix}": phase_lead(model[chosen], observed[chosen]),
        }
    if constituent != "M2":
        return found
    for name, (west, east) in OCEANS.items():
        chosen = known & open_ocean & ((longitude - west) % 360.0 < east - west)
        if chosen.any():
            found |= {
                f"gauges_{name}": int(chosen.sum()),
                f"error_{name}": 100 * np.sqrt(np.mean(np.abs(model - observed)[chosen] ** 2)),
                f"mean_amplitude_ratio_{name}": float(np.abs(model[chosen]).mean() / np.abs(observed[chosen]).mean()),
            }
    lost = dissipation(harmonics)
    return found | lost | ({"m2_budget": sum(lost.values()) / found["m2_terawatts"] - 1.0} if lost else {})


def phase_lead(model, observed):
    """The angle by which complex tides run ahead of observed ones [degrees]; a degree of M2 is 2 minutes."""
    return float(np.rad2deg(np.angle(np.sum(model * np.conj(observed)))))


def draw(harmonics, gauges, path):
    """Cotidal maps: amplitudes in colour, phase lags every 30 degrees, open-ocean gauges by their errors."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = constituents_in(harmonics)
    rows = (len(names) + 1) // 2
    size = (11, 5.2) if len(names) == 1 else (15, 3.7 * rows)
    figure, panels = plt.subplots(rows, min(len(names), 2), figsize=size, layout="constrained", squeeze=False)
    for name, axes in zip(names, panels.flat):
        draw_one(figure, axes, name, harmonics, gauges)
    figure.savefig(path, dpi=120)


def draw_one(figure, axes, name, harmonics, gauges):
    """The map of one constituent."""
    lon, lat, tide = read_tide(harmonics, name)
    largest = {"M2": 1.5, "S2": 0.6, "K1": 0.6, "O1": 0.4}[name]
    axes.set_facecolor("0.75")
    image = axes.pcolormesh(lon, lat, np.abs(tide), vmin=0, vmax=largest, cmap="viridis", rasterized=True)
    draw_phases(axes, lon, lat, np.rad2deg(-np.angle(tide)) % 360.0, "white")
    _, longitude, latitude, observed = read_gauges(gauges, name)
    error = np.abs(at_gauges(lon, lat, tide, longitude, latitude) - observed)
    chosen = np.isfinite(error) & in_open_ocean(longitude, latitude, HERE / "etopo5_global_15min.nc")
    dots = axes.scatter(
        longitude[chosen], latitude[chosen], c=error[chosen], s=26, cmap="Reds", vmin=0, vmax=largest / 4,
        edgecolors="black", linewidths=0.5,
    )  # fmt: skip
    figure.colorbar(image, ax=axes, label="amplitude [m]", extend="max", pad=0.01)
    figure.colorbar(dots, ax=axes, label="error at gauges [m]", extend="max", pad=0.01)
    title = f"{name}: amplitude, and phase lags every 30 degrees (thick: 0)"
    axes.set(xlabel="longitude", ylabel="latitude", title=title)


def main(harmonics="output/global_tide/harmonics.nc", gauges=HERE / "gauges.csv"):
    for name, value in scores(harmonics, gauges).items():
        print(f"{name}={value:.4g}")
    path = Path(harmonics).with_name("cotidal_map.png")
    draw(harmonics, gauges, path)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
