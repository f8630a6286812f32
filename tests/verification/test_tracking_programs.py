"""Programs that track particles open the files of a run: Parcels by SGRID, OpenDrift by CF; the extra `tracking`."""

import datetime

import numpy as np
import pytest
import xarray as xr

import swmodel as sw

pytestmark = pytest.mark.verify

NAMES = ("eta", "u", "v", "velocity_x", "velocity_y")
DEGREES, METRES = ((10.0, 16.0), (40.0, 45.0)), ((0.0, 6e4), (0.0, 5e4))
GRIDS = {"sphere": (sw.SphericalGrid, DEGREES), "plane": (sw.CartesianGrid, METRES)}


def file_of(path, make, sides):
    """Two records of a flow, at first u = 1 + x' / 2 and v = y' m/s, with x' and y' from 0 to 1 across the grid."""
    model = sw.ShallowWater(make(12, 10, *sides), 100.0, communicator="serial", engine="arrays")
    (x0, x1), (y0, y1) = sides
    state = model.state(u=lambda x, y: 1 + (x - x0) / (x1 - x0) / 2, v=lambda x, y: (y - y0) / (y1 - y0))
    sw.Simulation(model, state, sw.RK4(1.0), start=datetime.datetime(2020, 1, 1)).write(path, NAMES, every=1.0).run(
        steps=1
    )
    return path


@pytest.mark.parametrize("make, sides", GRIDS.values(), ids=GRIDS)
def test_parcels_reads_the_c_grid_and_interpolates_as_it_does(tmp_path, make, sides):
    parcels = pytest.importorskip("parcels")
    with xr.open_dataset(file_of(tmp_path / "run.nc", make, sides)) as data:
        data = data[["u", "v", "grid"]].rename(u="U", v="V").fillna(0.0)
        data = data.assign_coords(lon=("xq", data.xq.values), lat=("yq", data.yq.values)).load()
    fields = parcels.FieldSet.from_sgrid_conventions(data, mesh="flat")
    (x0, x1), (y0, y1) = sides
    x, y = x0 + 0.41 * (x1 - x0), y0 + 0.57 * (y1 - y0)
    u, v = (float(np.squeeze(value)) for value in fields.UV.eval(*(np.array([at]) for at in (0.0, 0.0, y, x))))
    assert (u, v) == (pytest.approx(1.205, abs=2e-3), pytest.approx(0.57, abs=2e-3))


def test_opendrift_reads_the_velocity_at_the_centres(tmp_path):
    reader = pytest.importorskip("opendrift.readers.reader_netCDF_CF_generic")
    with xr.open_dataset(file_of(tmp_path / "run.nc", *GRIDS["sphere"])) as data:
        source = reader.Reader(data[["velocity_x", "velocity_y"]].load())
    names = ["x_sea_water_velocity", "y_sea_water_velocity"]
    values, *_ = source.get_variables_interpolated(
        names, lon=np.array([12.46]), lat=np.array([42.85]), z=np.zeros(1), time=source.start_time
    )
    assert [float(values[name][0]) for name in names] == pytest.approx([1.205, 0.57], abs=2e-3)


@pytest.fixture
def tracks(tmp_path):
    """The file of drifters in a current of 0.1 m/s to the north."""
    model = sw.ShallowWater(sw.SphericalGrid(8, 8, (10.0, 16.0), (40.0, 45.0)), 100.0, gravity=1e-25, linear=True)
    run = sw.Simulation(model, model.state(v=lambda x, y: 0.1 + 0.0 * x), sw.RK4(3600.0))
    run.drifters(tmp_path / "drifters.nc", 3600.0, [(12.0, 42.0), (13.0, 43.0)], release=(0.0, 7200.0)).run(steps=4)
    return tmp_path / "drifters.nc"


def test_opendrift_opens_the_file_of_drifters(tracks):
    opendrift = pytest.importorskip("opendrift")
    opened = opendrift.open(str(tracks))
    assert opened.num_elements_total() == 4 and opened.elements.lat == pytest.approx(
        [42.013, 43.013, 42.006, 43.006], abs=1e-3
    )


def test_trajan_computes_the_speed_of_drifters(tracks):
    pytest.importorskip("trajan")
    with xr.open_dataset(tracks) as data:
        assert data.traj.speed().values[0] == pytest.approx(0.1, rel=0.01)


def test_parcels_starts_from_drifters(tracks, tmp_path):
    parcels = pytest.importorskip("parcels")
    with xr.open_dataset(file_of(tmp_path / "run.nc", *GRIDS["sphere"])) as data, xr.open_dataset(tracks) as drifters:
        data = data[["u", "v", "grid"]].rename(u="U", v="V").fillna(0.0)
        data = data.assign_coords(lon=("xq", data.xq.values), lat=("yq", data.yq.values)).load()
        last = drifters.isel(time=-1).load()
    fields = parcels.FieldSet.from_sgrid_conventions(data, mesh="spherical")
    particles = parcels.ParticleSet(fields, x=last["lon"].values, y=last["lat"].values)
    assert len(particles) == 4 and np.asarray(particles.y) == pytest.approx(last["lat"].values, abs=1e-5)
