"""Atlases of tides as their providers distribute them: all their constituents are read to their values in one line."""

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.config.assembly import assemble
from swmodel.config.experiment import read_text
from swmodel.errors import DataError
from swmodel.forcing.harmonic_files import atlas_constants
from tests.formats import example

LON, LAT = np.linspace(-6.0, 4.0, 21), np.linspace(48.0, 53.0, 11)
LAND = (LON[:, None] > 1.0) & (LAT > 51.0)  # (x, y), as in TPXO
SIDES = {"sides": "west"}


def tide(name):
    """A exp(-i g) [m] of a constituent, (x, y); 0 on land."""
    size, lag = {"M2": (1.0, 30.0), "S2": (0.4, 350.0)}[name]
    lags = lag + 20.0 * LON[:, None] + 10.0 * LAT
    return np.where(LAND, 0.0, size * (1 + 0.1 * (LAT - 50.0)) * np.exp(-1j * np.deg2rad(lags)))


def write_tpxo(path, names=("M2",), field="h", scale=1000.0, units="millimeter", end="z", wide=False):
    """A file of the atlas (one constituent, (x, y)), or of the global model (several, with axes of two dimensions)."""
    labels = np.array([[*name.lower().ljust(4)] for name in names], "S1")
    parts = {
        part: np.stack([scale * take(tide(name)) for name in names])
        for part, take in (("Re", np.real), ("Im", np.imag))
    }
    dims, lon, lat = ("nx", "ny"), (("nx",), LON), (("ny",), LAT)
    if wide:
        lon, lat = ((dims, np.broadcast_to(x, LAND.shape).copy()) for x in (LON[:, None], LAT))
    pick = (lambda x: (("nc", *dims), x)) if len(names) > 1 else (lambda x: (dims, x[0]))
    data = {f"{field}{part}": (*pick(values), {"units": units}) for part, values in parts.items()}
    data |= {"con": (("nc", "nct"), labels) if len(names) > 1 else (("nct",), labels[0])}
    data |= {f"lon_{end}": (*lon, {"units": "degree_east"}), f"lat_{end}": (*lat, {"units": "degree_north"})}
    xr.Dataset(data).to_netcdf(path)
    return path


def write_fes(path, name):
    wave = np.where(LAND, np.nan, tide(name)).T
    data = {"amplitude": (("lat", "lon"), 100 * np.abs(wave), {"units": "cm"})}
    data |= {"phase": (("lat", "lon"), -np.rad2deg(np.angle(wave)), {"units": "degrees"})}
    xr.Dataset(data, {"lon": LON % 360.0, "lat": LAT}).to_netcdf(path)
    return path


def grid(latitudes=(49.0, 52.0)):
    return sw.SphericalGrid(8, 6, (-5.0, 3.0), latitudes)


def waves(constants):
    return {name: np.asarray(a) * np.exp(1j * np.deg2rad(np.asarray(g))) for name, (a, g) in constants.items()}


def test_tpxo_of_one_file_or_several_and_fes_are_the_same_tide(tmp_path):
    tpxo = [write_tpxo(tmp_path / f"h_{name}_tpxo9_atlas.nc", (name,)) for name in ("M2", "S2")]
    whole = write_tpxo(tmp_path / "h_tpxo9.nc", ("M2", "S2"), scale=1.0, units="meter", wide=True)
    fes = [write_fes(tmp_path / f"{name.lower()}_fes2022.nc", name) for name in ("M2", "S2")]
    known = waves(atlas_constants(tpxo, grid(), **SIDES))
    assert list(known) == ["M2", "S2"]
    at = np.interp(-4.5, LON, LON), grid().y_centres
    for name, (size, lag) in {"M2": (1.0, 30.0), "S2": (0.4, 350.0)}.items():
        expected = size * (1 + 0.1 * (at[1] - 50.0)) * np.exp(1j * np.deg2rad(lag + 20.0 * at[0] + 10.0 * at[1]))
        np.testing.assert_allclose(known[name][:, 0], expected, rtol=1e-2)
        for other in (whole, fes):
            np.testing.assert_allclose(waves(atlas_constants(other, grid(), **SIDES))[name], known[name], atol=1e-6)
    assert list(atlas_constants(whole, grid(), names=["s2"], **SIDES)) == ["S2"]
    with pytest.raises(DataError, match="the atlas has no K1; it has M2, S2"):
        atlas_constants(whole, grid(), names=["K1"], **SIDES)


def test_land_of_tpxo_takes_the_nearest_water_and_is_never_mixed_with_zeros(tmp_path):
    file = write_tpxo(tmp_path / "h_m2.nc")
    east = waves(atlas_constants(file, grid(), sides="east"))["M2"][:, -1]
    np.testing.assert_allclose(np.abs(east), 1 + 0.1 * (np.minimum(grid().y_centres, 51.0) - 50.0), atol=0.06)
    assert np.abs(east).min() > 0.8  # half of it where a zero on land took part


def test_transports_of_tpxo_become_velocities_by_the_depths_of_its_grid(tmp_path):
    for scale, units in ((1e4 * 50.0, "centimeter^2/sec"), (50.0, "meter^2/s")):
        file = write_tpxo(tmp_path / "u_m2.nc", field="u", scale=scale, units=units, end="u")
        depths = tmp_path / "grid.nc"
        xr.Dataset({"hu": (("nx", "ny"), np.where(LAND, 0.0, 500.0))}).to_netcdf(depths)
        options = {"units": "m s-1", "velocity": "inward", **SIDES}
        speed = waves(atlas_constants(file, grid(), depths=depths, **options))["M2"]
        height = waves(atlas_constants(write_tpxo(tmp_path / "h.nc"), grid(), **SIDES))["M2"]
        np.testing.assert_allclose(speed, 0.1 * height, atol=1e-6)
    with pytest.raises(DataError, match="holds transports of TPXO, which need depths; name the file of its grid"):
        atlas_constants(file, grid(), **options)
    with pytest.raises(DataError, match="h.nc has no hu, the depths of TPXO's transports"):
        atlas_constants(file, grid(), depths=tmp_path / "h.nc", **options)


EXPERIMENT = """\
run = {until = "1 h", start = 2020-01-01}
grid = {type = "spherical", nx = 8, ny = 6, longitude = [-5, 3], latitude = [49, 52]}
bathymetry = {type = "flat", depth = 50}
stepper = {type = "forward_backward"}
initial = {type = "rest"}
[[boundary]]
type = "flather"
sides = "west"
[boundary.elevation]
atlas = "h_*.nc"
"""


def test_one_line_of_an_experiment_file_takes_all_constituents_of_an_atlas(tmp_path):
    for name in ("M2", "S2"):
        write_tpxo(tmp_path / f"h_{name}.nc", (name,))
    draft = read_text(EXPERIMENT, tmp_path / "tide.toml", tmp_path)
    assert not draft.mistakes and draft.sections["boundary"][0].elevation.controls()[1] == "amplitude.S2"
    made = assemble(draft)
    assert not made.mistakes
    text = EXPERIMENT.replace('atlas = "h_*.nc"', 'names = ["M2"]\nconstituents.M2 = {amplitude = 1, phase = 0}')
    draft = read_text(text, tmp_path / "tide.toml", tmp_path)
    assert "names and depths belong to an atlas, which is missing" in str(draft.mistakes)


DAMAGED = [
    (lambda data: data.drop_vars("con"), "is a file of TPXO without con; get it again"),
    (lambda data: data.drop_vars(["hRe", "hIm"]), "holds no tide of eta that is known: neither hRe and hIm as TPXO"),
    (lambda data: data.assign(con=("nct", np.array([*"xx  "], "S1"))), "'xx' begins with no constituent that is"),
    (lambda data: data.assign(hRe=data.hRe.assign_attrs(units="foot")), "hRe in .* is in 'foot'; give it in 'm'"),
    (lambda data: data.assign(hRe=data.hRe.drop_attrs()), "hRe in .* has no units; write them to the file"),
    (lambda data: data.assign(hRe=data.hRe.assign_attrs(units="meter")), "has a tide of .* and no tide is over"),
]


@pytest.mark.parametrize("change, sentence", DAMAGED)
def test_a_damaged_file_of_an_atlas_is_refused(tmp_path, change, sentence):
    change(xr.open_dataset(write_tpxo(tmp_path / "good.nc")).load()).to_netcdf(tmp_path / "m2.nc")
    with pytest.raises(DataError, match=sentence):
        waves(atlas_constants(tmp_path / "m2.nc", grid(), **SIDES))


@example("TPXO, real and imaginary parts")
def tpxo(folder):
    test_land_of_tpxo_takes_the_nearest_water_and_is_never_mixed_with_zeros(folder)
    good = xr.open_dataset(write_tpxo(folder / "good.nc")).load()
    for k, (change, sentence) in enumerate(DAMAGED):
        path = folder / f"{k}.nc"
        change(good).to_netcdf(path)
        if "no tide is over" not in sentence:
            yield lambda path=path: waves(atlas_constants(path, grid(), **SIDES)), sentence


@example("TPXO, transports")
def transports(folder):
    test_transports_of_tpxo_become_velocities_by_the_depths_of_its_grid(folder)
    file = write_tpxo(folder / "u.nc", field="u", end="u")
    options = {"units": "m s-1", "velocity": "inward", **SIDES}
    yield lambda: atlas_constants(file, grid(), **options), "holds transports of TPXO, which need depths"


@example("FES and EOT")
def fes(folder):
    test_tpxo_of_one_file_or_several_and_fes_are_the_same_tide(folder)
    file = write_fes(folder / "wave.nc", "M2")
    yield lambda: atlas_constants(file, grid(), **SIDES), "'wave' begins with no constituent that is known"
