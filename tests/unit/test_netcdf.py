"""Claims about the netCDF files of a run: what xarray, xgcm and a CF checker find in them, and that they survive."""

import datetime
import functools
import os
import resource
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.errors import DataError, SwmodelError
from swmodel.fields.variables import VARIABLES
from swmodel.grids.grid import CartesianGrid, SphericalGrid
from swmodel.output.metadata import shape
from swmodel.output.netcdf import GaugeFile, write_fields
from swmodel.output.records import FieldFile
from tests.selection import later, now

netCDF4 = pytest.importorskip("netCDF4")
START = datetime.datetime(2011, 3, 11, 5, 46, 23)
FIELDS = ("eta", "u", "v", "vorticity")
SNAPSHOTS = [name for name, row in VARIABLES.items() if row.cell_methods == "time: point"]
GRIDS = {
    "closed": CartesianGrid(7, 5, (0.0, 7e5), (-1e5, 4e5)),
    "channel_x": CartesianGrid(7, 5, (0.0, 7e5), (-1e5, 4e5), "x"),
    "channel_y": CartesianGrid(7, 5, (0.0, 7e5), (-1e5, 4e5), "y"),
    "periodic": CartesianGrid(7, 5, (0.0, 7e5), (-1e5, 4e5), "xy"),
    "ocean": SphericalGrid(7, 5, (170.0, 184.0), (20.0, 30.0)),
    "globe": SphericalGrid(8, 6, (0.0, 360.0), (-90.0, 90.0)),
}


@pytest.fixture(params=GRIDS)
def grid(request):
    return GRIDS[request.param]


def wet_cells(grid):
    """An island, a headland on the west side, and land in two corners."""
    wet = np.ones(grid.shape, bool)
    wet[1:4, 3:5] = False
    wet[2, 0] = wet[0, 0] = wet[-1, -1] = False
    return wet


def random_fields(grid, names, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape(grid, VARIABLES[name].position)) for name in names}


def static_fields(grid):
    wet = wet_cells(grid)
    return {"depth": np.where(wet, 4000.0, 0.0), "wet": wet.astype(float)}


def write_run(path, grid, seconds=(0.0, 60.0, 120.0), names=FIELDS, **options):
    with FieldFile(path, grid, names, **{"overwrite": True, **options}) as file:
        for k, time_now in enumerate(seconds):
            file.append(time_now, random_fields(grid, names, seed=k))


def times_of(path):
    with netCDF4.Dataset(path) as dataset:
        return np.asarray(dataset["time"][...]).tolist()


def run_python(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# -- what readers find ------------------------------------------------------------------------------------------------


def test_xarray_gives_back_fields_and_dates(tmp_path, grid):
    write_run(tmp_path / "run.nc", grid, start=START, dtype="float64")
    with xr.open_dataset(tmp_path / "run.nc") as dataset:
        seconds = (dataset.time.values - np.datetime64(START)) / np.timedelta64(1, "s")
        np.testing.assert_array_equal(seconds, [0.0, 60.0, 120.0])
        for k in range(3):
            for name, array in random_fields(grid, FIELDS, seed=k).items():
                np.testing.assert_array_equal(dataset[name].isel(time=k), array)


def test_points_are_missing_where_all_cells_around_them_are_land(tmp_path, grid):
    write_run(tmp_path / "run.nc", grid, static=static_fields(grid))
    wet = wet_cells(grid)

    def is_wet(j, i):
        j, i = j % grid.ny if grid.periodic_y else j, i % grid.nx if grid.periodic_x else i
        return 0 <= j < grid.ny and 0 <= i < grid.nx and wet[j, i]

    # the cells that meet at face or corner number (j, i) of the file; without the west and south side in a periodic one
    dj, di = int(grid.periodic_y), int(grid.periodic_x)
    around = {
        "eta": lambda j, i: [(j, i)],
        "u": lambda j, i: [(j, i - 1 + di), (j, i + di)],
        "v": lambda j, i: [(j - 1 + dj, i), (j + dj, i)],
        "vorticity": lambda j, i: [(j + a + dj, i + b + di) for a in (-1, 0) for b in (-1, 0)],
    }
    with xr.open_dataset(tmp_path / "run.nc") as dataset:
        for name, cells in around.items():
            expected = [
                [not any(is_wet(*c) for c in cells(j, i)) for i in range(dataset[name].shape[2])]
                for j in range(dataset[name].shape[1])
            ]
            np.testing.assert_array_equal(np.isnan(dataset[name][1]), expected, err_msg=name)
        assert np.isnan(dataset.depth.values[~wet]).all() and (dataset.depth.values[wet] == 4000.0).all()
        np.testing.assert_array_equal(dataset.wet, wet)


def test_cf_xarray_finds_the_axes(tmp_path, grid):
    pytest.importorskip("cf_xarray")
    write_run(tmp_path / "run.nc", grid, dtype="float64")
    with xr.open_dataset(tmp_path / "run.nc") as dataset:
        axes = {axis: set(names) for axis, names in dataset.cf.axes.items()}
    assert axes == {"X": {"xh", "xq"}, "Y": {"yh", "yq"}, "T": {"time"}}


def test_xgcm_moves_fields_as_the_c_grid_does(tmp_path, grid):
    xgcm = pytest.importorskip("xgcm")
    write_run(tmp_path / "run.nc", grid, dtype="float64")
    fields = random_fields(grid, FIELDS, seed=2)
    closed = {"X": "periodic" if grid.periodic_x else "extend", "Y": "periodic" if grid.periodic_y else "extend"}
    with xr.open_dataset(tmp_path / "run.nc") as dataset:
        last, mesh = dataset.isel(time=2), xgcm.Grid(dataset, padding=closed)
        u, v = (
            np.concatenate([fields[name].take([-1], axis), fields[name]], axis) if periodic else fields[name]
            for name, axis, periodic in (("u", 1, grid.periodic_x), ("v", 0, grid.periodic_y))
        )
        np.testing.assert_allclose(mesh.diff(last.u, "X"), u[:, 1:] - u[:, :-1], rtol=1e-14)
        np.testing.assert_allclose(mesh.interp(last.v, "Y"), 0.5 * (v[1:] + v[:-1]), rtol=1e-14)
        assert mesh.diff(last.u, "X").dims == mesh.interp(last.v, "Y").dims == ("yh", "xh")
        east = mesh.interp(last.eta, "X").values[:, 0 if grid.periodic_x else 1]
        np.testing.assert_allclose(east, 0.5 * (fields["eta"][:, 0] + fields["eta"][:, 1]), rtol=1e-14)


@pytest.mark.parametrize("grid", now(list(GRIDS), "globe"), indirect=True)
def test_xgcm_finds_the_vorticity_of_the_model_from_the_metrics_in_the_file(tmp_path, grid):
    xgcm = pytest.importorskip("xgcm")
    model = sw.ShallowWater(grid, 4000.0, communicator="serial", engine="arrays")
    rng = np.random.default_rng(3)
    state = model.state(u=rng.standard_normal(grid.shape), v=rng.standard_normal(grid.shape))
    simulation = sw.Simulation(model, state, sw.AB2(0.1)).write(tmp_path / "run.nc", ("u", "v", "vorticity"), every=0.1)
    simulation.run(steps=1)
    with xr.open_dataset(tmp_path / "run.nc") as dataset:
        mesh = xgcm.Grid(
            dataset,
            padding={"X": "periodic" if grid.periodic_x else "fill", "Y": "periodic" if grid.periodic_y else "fill"},
        )
        turning = mesh.diff(dataset.v * dataset.dy_v, "X") - mesh.diff(dataset.u * dataset.dx_u, "Y")
        inside = {"xq": slice(1 - grid.periodic_x, -1), "yq": slice(1, -1), "time": 1}
        found, wanted = (x.isel(inside) for x in (turning / dataset.area_q, dataset.vorticity))
        np.testing.assert_allclose(found.transpose(*wanted.dims), wanted, rtol=0, atol=1e-6 * float(abs(wanted).max()))
        assert (dataset.area_q > 0).all() and dataset.dx_v.dims == ("yq",)


def test_readers_of_comodo_find_the_same_axes_on_the_sphere(tmp_path):
    xgcm = pytest.importorskip("xgcm")
    for name in ("ocean", "globe"):
        write_run(tmp_path / "run.nc", GRIDS[name])
        with xr.open_dataset(tmp_path / "run.nc") as dataset:
            axes = xgcm.Grid(dataset.drop_attrs(deep=False)).axes  # without Conventions, which names SGRID
            assert dict(axes["X"].coords) == dict(xgcm.Grid(dataset).axes["X"].coords)


def test_bounds_meet_and_areas_add_up_to_the_domain(tmp_path, grid):
    write_run(tmp_path / "run.nc", grid)
    with xr.open_dataset(tmp_path / "run.nc") as dataset:
        for axis, edges in (("x", grid.x_edges), ("y", grid.y_edges)):
            bounds = dataset[f"{axis}h_bnds"].values
            np.testing.assert_array_equal(bounds[1:, 0], bounds[:-1, 1])
            np.testing.assert_array_equal([bounds[0, 0], bounds[-1, 1]], edges[[0, -1]])
            np.testing.assert_allclose(dataset[f"{axis}h"], bounds.mean(1), rtol=1e-14)
            np.testing.assert_array_equal(dataset[f"{axis}q"][-1], edges[-1])
        x, y = grid.x_edges[[0, -1]], grid.y_edges[[0, -1]]
        if grid.spherical:
            exact = grid.radius**2 * np.deg2rad(x[1] - x[0]) * (np.sin(np.deg2rad(y[1])) - np.sin(np.deg2rad(y[0])))
        else:
            exact = (x[1] - x[0]) * (y[1] - y[0])
        np.testing.assert_allclose(dataset.area.sum(), exact, rtol=1e-13)


def test_a_run_without_a_date_says_that_its_dates_are_nominal(tmp_path):
    write_run(tmp_path / "run.nc", GRIDS["closed"])
    with xr.open_dataset(tmp_path / "run.nc") as dataset:
        assert "nominal" in dataset.time.attrs["comment"]
        assert dataset.time.values[1] == np.datetime64("2000-01-01T00:01:00")


def test_a_start_in_another_time_zone_is_written_in_utc(tmp_path):
    zone = datetime.timezone(datetime.timedelta(hours=9))
    write_run(tmp_path / "run.nc", GRIDS["closed"], start=datetime.datetime(2011, 3, 11, 14, 46, 23, tzinfo=zone))
    with xr.open_dataset(tmp_path / "run.nc") as dataset:
        assert dataset.time.values[0] == np.datetime64(START)


def test_global_attributes_reproduce_the_run(tmp_path):
    grid, config = GRIDS["ocean"], '[grid]\nnx = 7\ntitle = "Tōhoku"\n'
    write_run(tmp_path / "run.nc", grid, attributes={"title": "T", "config": config, "ranks": 4, "nothing": None})
    with xr.open_dataset(tmp_path / "run.nc") as dataset:
        about = dataset.attrs
        assert about["Conventions"] == "CF-1.11, SGRID-0.3" and about["title"] == "T" and about["ranks"] == 4
        assert about["config"] == config and list(about)[-1] == "config" and "nothing" not in about
        assert {"source", "history", "version"} <= set(about) and about["radius"] == grid.radius


# -- what a CF checker finds ------------------------------------------------------------------------------------------

# SGRID requires this attribute, and xgcm looks for it; CF checkers know the roles of CF's own chapter 9 alone.
OF_SGRID = "grid_topology is not a valid cf_role value. It must be one of timeseries_id, profile_id, trajectory_id"
# CF: bounds have one more dimension than their coordinate, which here is a scalar. The checker wants two at least.
OF_SCALAR_TIME = "Boundary variable time_bnds specified by time should have at least two dimensions"


@functools.cache
def checkers():
    suite = pytest.importorskip("compliance_checker.suite").CheckSuite()
    suite.load_all_available_checkers()
    return suite


def cf_findings(path):
    """Every message, errors and warnings alike, of the IOOS compliance checker for CF-1.11."""
    suite = checkers()
    dataset = suite.load_dataset(str(path))
    groups, broken = suite.run_all(dataset, ["cf:1.11"])["cf:1.11"]
    dataset.close()
    assert not broken and groups
    return sorted(message for group in groups for message in messages(group))


def messages(result):
    """What did not get full marks; checks that passed have remarks too."""
    if result.children:
        for child in result.children:
            yield from messages(child)
    elif result.value in (False, None) or (isinstance(result.value, tuple) and result.value[0] < result.value[1]):
        yield from result.msgs


@pytest.mark.filterwarnings("ignore")  # the checker's own
@pytest.mark.parametrize("name", now(["closed", "periodic", "ocean", "globe"], "ocean"))
def test_a_cf_checker_finds_nothing_in_fields_but_that_sgrid_is_not_cf(tmp_path, name):
    grid = GRIDS[name]
    write_run(tmp_path / "run.nc", grid, names=SNAPSHOTS, static=static_fields(grid), start=START)
    assert cf_findings(tmp_path / "run.nc") == [OF_SGRID]


@pytest.mark.verify
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["closed", "ocean"])
def test_a_cf_checker_finds_nothing_in_maxima_but_that_sgrid_is_not_cf(tmp_path, name):
    grid = GRIDS[name]
    fields = random_fields(grid, ("maximum_elevation", "arrival_time"))
    write_fields(tmp_path / "max.nc", grid, fields, seconds=7200.0, since=0.0, start=START, static=static_fields(grid))
    scalar_time, *others = cf_findings(tmp_path / "max.nc")
    assert scalar_time.startswith(OF_SCALAR_TIME) and others == [OF_SGRID]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", now(["closed", "ocean"], "ocean"))
def test_a_cf_checker_finds_nothing_in_gauges(tmp_path, name):
    with GaugeFile(tmp_path / "g.nc", {"a": (171.0, 22.0), "b": (172.0, 23.0)}, GRIDS[name], depth=[1.0, 2.0]) as file:
        file.append(np.arange(3.0), np.zeros((3, 2)))
    assert cf_findings(tmp_path / "g.nc") == []


# -- records that survive ---------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_file_can_be_read_while_the_run_writes_it(tmp_path):
    path = tmp_path / "run.nc"
    reader = "import sys, xarray as xr; print(xr.open_dataset(sys.argv[1]).eta.values[-1].sum())"
    code = """
        import sys, subprocess, os
        import numpy as np
        from swmodel.grids.grid import CartesianGrid
        from swmodel.output.records import FieldFile
        file = FieldFile(sys.argv[1], CartesianGrid(7, 5, (0.0, 1.0), (0.0, 1.0)), ("eta",))
        plain = {name: value for name, value in os.environ.items() if name != "HDF5_USE_FILE_LOCKING"}
        for k in range(2):
            file.append(float(k), {"eta": np.full((5, 7), k + 1.0)})
            subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]], env=plain, check=True)
        """
    output, error = run_python(code, path, reader).communicate()
    assert output.split() == ["35.0", "70.0"], error


@pytest.mark.parametrize("room, compression", [(1_234_567, 0), later(3_000_000, 1)])
def test_a_full_disk_stops_the_run_with_one_sentence_and_keeps_the_records(tmp_path, room, compression):
    grid, rng = CartesianGrid(200, 200, (0.0, 1.0), (0.0, 1.0)), np.random.default_rng(0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = FieldFile(tmp_path / "run.nc", grid, ("eta",), compression=compression)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))  # what a quota does
    try:
        with pytest.raises(SwmodelError) as stopped:
            for count in range(1000):
                file.append(float(count), {"eta": rng.standard_normal(grid.shape)})
        file.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    message = str(stopped.value)
    assert "\n" not in message
    assert "cannot grow by" in message and "records so far are safe" in message and str(tmp_path / "run.nc") in message
    assert count >= 2
    rng = np.random.default_rng(0)
    with xr.open_dataset(tmp_path / "run.nc", decode_times=False) as dataset:
        np.testing.assert_array_equal(dataset.time, np.arange(float(count)))
        for k in range(count):
            np.testing.assert_array_equal(dataset.eta[k], rng.standard_normal((200, 200)).astype(np.float32))


# -- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", now(list(GRIDS), "channel_x"), indirect=True)
def test_a_resumed_run_drops_what_came_after_its_restart(tmp_path, grid):
    path = tmp_path / "run.nc"
    write_run(path, grid, seconds=(0.0, 60.0, 120.0, 180.0, 240.0), static=static_fields(grid), start=START)
    with FieldFile(path, grid, FIELDS, append=True, resume_time=120.0, static=static_fields(grid), start=START) as file:
        assert times_of(path) == [0.0, 60.0, 120.0]
        file.append(180.0, random_fields(grid, FIELDS, seed=99))
    write_run(tmp_path / "straight.nc", grid, seconds=(0.0, 60.0, 120.0), static=static_fields(grid), start=START)
    with xr.open_dataset(path) as dataset, xr.open_dataset(tmp_path / "straight.nc") as straight:
        xr.testing.assert_equal(dataset.isel(time=slice(0, 3)), straight)
        there, after = dataset.wet.values > 0, random_fields(grid, FIELDS, seed=99)["eta"].astype(np.float32)
        np.testing.assert_array_equal(dataset.eta[3].values[there], after[there])


@pytest.mark.parametrize("resume_time", [120.0, None])
def test_a_record_that_a_run_could_not_complete_is_dropped(tmp_path, resume_time):
    """The time of a record is written after its fields: a run that fails in between leaves one with no time."""
    grid, path = GRIDS["closed"], tmp_path / "run.nc"
    write_run(path, grid)
    with netCDF4.Dataset(path, "a") as file:
        file["eta"][3] = 1.0
        assert file["time"][:].mask.tolist() == [False, False, False, True]
    with FieldFile(path, grid, FIELDS, append=True, resume_time=resume_time) as file:
        assert times_of(path) == [0.0, 60.0, 120.0]
        file.append(180.0, random_fields(grid, FIELDS))
    assert times_of(path) == [0.0, 60.0, 120.0, 180.0]


def test_a_run_that_resumes_after_its_last_record_keeps_the_file_as_it_is(tmp_path):
    grid, path = GRIDS["closed"], tmp_path / "run.nc"
    write_run(path, grid)
    inode = path.stat().st_ino
    with FieldFile(path, grid, FIELDS, append=True, resume_time=150.0) as file:
        file.append(180.0, random_fields(grid, FIELDS))
    assert times_of(path) == [0.0, 60.0, 120.0, 180.0] and path.stat().st_ino == inode


def test_the_record_of_the_restart_can_be_written_again(tmp_path):
    grid, path = GRIDS["closed"], tmp_path / "run.nc"
    write_run(path, grid)
    with FieldFile(path, grid, FIELDS, append=True, resume_time=60.0) as file:
        file.append(60.0, random_fields(grid, FIELDS, seed=7))
        file.append(120.0, random_fields(grid, FIELDS, seed=8))
    assert times_of(path) == [0.0, 60.0, 120.0]
    with xr.open_dataset(path) as dataset:
        np.testing.assert_array_equal(dataset.u[1], random_fields(grid, FIELDS, seed=7)["u"].astype(np.float32))


def test_time_never_goes_back(tmp_path):
    grid = GRIDS["closed"]
    with FieldFile(tmp_path / "run.nc", grid, FIELDS) as file:
        file.append(60.0, random_fields(grid, FIELDS))
        with pytest.raises(ValueError, match="time must increase"):
            file.append(30.0, random_fields(grid, FIELDS))
    with GaugeFile(tmp_path / "g.nc", GAUGES, GRIDS["ocean"]) as file:
        file.append(np.array([10.0, 10.0]), np.ones((2, 2)))
        with pytest.raises(ValueError, match="time must increase"):
            file.flush()


def test_a_continued_file_tells_its_history_and_what_changed(tmp_path):
    grid, path = GRIDS["closed"], tmp_path / "run.nc"
    write_run(path, grid, attributes={"ranks": np.int32(1), "config": "old"})
    now = {"ranks": np.int32(4), "config": "old"}
    FieldFile(path, grid, FIELDS, append=True, resume_time=60.0, attributes=now).close()
    with xr.open_dataset(path) as dataset:
        about = dataset.attrs
    assert about["ranks"] == 1 and about["ranks_from_60_s"] == 4
    assert not any(name.startswith("config_from") for name in about)
    first, second = about["history"].splitlines()
    assert "written by" in first and "continued at 60 s by" in second


@pytest.mark.parametrize(
    "changed, printed",
    [
        ({"grid": CartesianGrid(7, 5, (0.0, 8e5), (-1e5, 4e5))}, "xh"),
        ({"start": START}, "since 2011"),
        ({"names": (*FIELDS, "speed")}, "speed"),
        ({"names": ("eta",)}, "vorticity"),
        ({"dtype": "float64"}, "float32"),
    ],
)
def test_a_file_of_another_run_is_not_continued(tmp_path, changed, printed):
    path = tmp_path / "run.nc"
    write_run(path, GRIDS["closed"])
    before = path.read_bytes()
    with pytest.raises(DataError, match=f"cannot be continued: .*{printed}.*--output"):
        write_run(path, **{"grid": GRIDS["closed"], "overwrite": False, "append": True, **changed})
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["run.nc"]


def test_a_file_that_is_no_netcdf_is_not_continued(tmp_path):
    (tmp_path / "run.nc").write_text("notes")
    with pytest.raises(DataError, match="is not a complete netCDF file"):
        FieldFile(tmp_path / "run.nc", GRIDS["closed"], FIELDS, append=True)
    assert (tmp_path / "run.nc").read_text() == "notes"


# -- whose file it is -------------------------------------------------------------------------------------------------


def test_a_file_that_is_there_is_not_lost_unless_asked(tmp_path):
    grid, path = GRIDS["closed"], tmp_path / "run.nc"
    path.write_text("precious")
    with pytest.raises(DataError, match=r"run.nc exists already.*--overwrite"):
        FieldFile(path, grid, FIELDS)
    assert path.read_text() == "precious" and os.listdir(tmp_path) == ["run.nc"]
    FieldFile(path, grid, FIELDS, overwrite=True).close()
    assert times_of(path) == [] and os.listdir(tmp_path) == ["run.nc"]


def test_two_live_runs_cannot_write_one_file(tmp_path):
    grid, path = GRIDS["closed"], tmp_path / "run.nc"
    with FieldFile(path, grid, FIELDS) as file:
        for other in (path, tmp_path / "." / "run.nc"):
            with pytest.raises(SwmodelError, match=rf"is being written by another run \(process {os.getpid()} on "):
                FieldFile(other, grid, FIELDS, overwrite=True)
        file.append(0.0, random_fields(grid, FIELDS))
    assert times_of(path) == [0.0]
    FieldFile(path, grid, FIELDS, overwrite=True).close()


@pytest.mark.verify
def test_of_many_runs_that_start_at_once_one_writes_and_its_lock_is_gone_when_it_is_killed(tmp_path):
    code = """
        import sys
        from swmodel.errors import SwmodelError
        from swmodel.grids.grid import CartesianGrid
        from swmodel.output.records import FieldFile
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            file = FieldFile(sys.argv[1], CartesianGrid(3, 3, (0, 1), (0, 1)), ("eta",), overwrite=True)
        except SwmodelError as error:
            print("refused", flush=True)
        else:
            print("writes", flush=True)
            sys.stdin.readline()
        """
    runs = [run_python(code, tmp_path / "run.nc") for _ in range(4)]
    assert [run.stdout.readline() for run in runs] == ["ready\n"] * 4
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()
    printed = sorted(run.stdout.readline().strip() for run in runs)
    for run in runs:
        run.kill()
        run.communicate()
    assert printed == ["refused", "refused", "refused", "writes"]
    FieldFile(tmp_path / "run.nc", GRIDS["closed"], FIELDS, overwrite=True).close()


def test_folders_are_made_and_folders_that_cannot_be_are_named(tmp_path):
    FieldFile(tmp_path / "new" / "folder" / "run.nc", GRIDS["closed"], FIELDS).close()
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file/run.nc cannot be written"):
        FieldFile(tmp_path / "file" / "run.nc", GRIDS["closed"], FIELDS)
    with pytest.raises(DataError, match="new is a folder"):
        FieldFile(tmp_path / "new", GRIDS["closed"], FIELDS, overwrite=True)


def test_wrong_fields_are_told_by_name(tmp_path):
    grid = GRIDS["closed"]
    with pytest.raises(ValueError, match="no variable 'salt'; choose from eta, u"):
        FieldFile(tmp_path / "run.nc", grid, ("salt",))
    with FieldFile(tmp_path / "run.nc", grid, ("eta", "u")) as file:
        with pytest.raises(ValueError, match="holds eta, u"):
            file.append(0.0, {"eta": np.zeros(grid.shape)})
        with pytest.raises(ValueError, match=r"u has shape \(5, 7\), and the file needs \(5, 8\)"):
            file.append(0.0, {"eta": np.zeros(grid.shape), "u": np.zeros(grid.shape)})
    assert times_of(tmp_path / "run.nc") == []


# -- gauges -----------------------------------------------------------------------------------------------------------

GAUGES = {"DART 21418": (178.7, 22.5), "Ōarai": (181.0, 25.25)}


def test_gauges_are_series_by_name_and_place(tmp_path):
    values = np.random.default_rng(0).standard_normal((10, 2))
    with GaugeFile(tmp_path / "g.nc", GAUGES, GRIDS["ocean"], start=START, depth=[5000.0, 20.0]) as file:
        for part in (slice(0, 1), slice(1, 7), slice(7, 10)):
            file.append(2.5 * np.arange(10)[part], values[part])
    with xr.open_dataset(tmp_path / "g.nc") as dataset:
        assert dataset.attrs["featureType"] == "timeSeries" and dataset.attrs["Conventions"] == "CF-1.11"
        assert [str(name) for name in dataset.gauge_name.values] == list(GAUGES)
        assert dataset.gauge_name.attrs["cf_role"] == "timeseries_id"
        np.testing.assert_array_equal(np.stack([dataset.longitude, dataset.latitude], 1), list(GAUGES.values()))
        np.testing.assert_array_equal(dataset.eta, values.T.astype(np.float32))
        assert dataset.eta.dims == ("gauge", "time") and dataset.depth.values.tolist() == [5000.0, 20.0]
        assert "set_index(gauge='gauge_name')" in dataset.gauge_name.attrs["comment"]
        named = dataset.set_index(gauge="gauge_name")
        np.testing.assert_array_equal(named.eta.sel(gauge="Ōarai"), dataset.eta[1])
        assert dataset.time.values[4] == np.datetime64(START + datetime.timedelta(seconds=10))


def test_waiting_records_are_on_disk_after_a_flush(tmp_path):
    with GaugeFile(tmp_path / "g.nc", GAUGES, GRIDS["ocean"]) as file:
        file.append(np.arange(5.0), np.ones((5, 2)))
        assert times_of(tmp_path / "g.nc") == []
        file.flush()
        assert times_of(tmp_path / "g.nc") == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_resumed_gauges_have_no_gap_and_no_overlap(tmp_path):
    series = np.random.default_rng(0).standard_normal((9000, 2)).astype(np.float32)
    with GaugeFile(tmp_path / "g.nc", GAUGES, GRIDS["ocean"]) as file:
        file.append(0.5 * np.arange(9000), series)
    with GaugeFile(tmp_path / "g.nc", GAUGES, GRIDS["ocean"], append=True, resume_time=3000.0) as file:
        file.append(0.5 * np.arange(6001, 9000), series[6001:])
    with xr.open_dataset(tmp_path / "g.nc", decode_times=False) as dataset:
        np.testing.assert_array_equal(dataset.time, 0.5 * np.arange(9000))
        np.testing.assert_array_equal(dataset.eta, series.T)


@pytest.mark.parametrize(
    "others",
    [
        {"DART 21418": (178.7, 22.5), "b": (181.0, 25.25)},
        {"DART 21418": (178.7, 22.5), "Ōarai": (181.0, 25.0)},
        {"DART 21418": (178.7, 22.5)},
    ],
)
def test_series_of_other_gauges_are_not_continued(tmp_path, others):
    GaugeFile(tmp_path / "g.nc", GAUGES, GRIDS["ocean"]).close()
    with pytest.raises(DataError, match="cannot be continued: its (gauge_name|latitude)"):
        GaugeFile(tmp_path / "g.nc", others, GRIDS["ocean"], append=True)


def test_a_plane_has_gauges_in_metres_and_a_run_may_have_none(tmp_path):
    with GaugeFile(tmp_path / "g.nc", {"pier": (1e5, 2e5)}, GRIDS["closed"]) as file:
        file.append(0.0, np.ones((1, 1)))
    with xr.open_dataset(tmp_path / "g.nc") as dataset:
        assert dataset.x.attrs["units"] == "m" and float(dataset.y[0]) == 2e5
    with GaugeFile(tmp_path / "none.nc", {}, GRIDS["closed"]) as file:
        file.append(np.arange(2.0), np.ones((2, 0)))
    assert times_of(tmp_path / "none.nc") == [0.0, 1.0]


# -- fields of a whole run --------------------------------------------------------------------------------------------


def test_maxima_say_over_which_time_they_are(tmp_path, grid):
    fields = random_fields(grid, ("maximum_elevation", "arrival_time"))
    fields["arrival_time"][0, 1] = np.nan
    write_fields(tmp_path / "max.nc", grid, fields, seconds=7200.0, since=0.0, start=START, static=static_fields(grid))
    wet = wet_cells(grid)
    with xr.open_dataset(tmp_path / "max.nc") as dataset:
        bounds = (dataset.time_bnds.values - np.datetime64(START)) / np.timedelta64(1, "s")
        np.testing.assert_array_equal(bounds, [0.0, 7200.0])
        np.testing.assert_array_equal(dataset.maximum_elevation, np.where(wet, fields["maximum_elevation"], np.nan))
        np.testing.assert_array_equal(dataset.arrival_time, np.where(wet, fields["arrival_time"], np.nan))
        assert dataset.arrival_time.attrs["units"] == "s"


def test_maxima_that_cannot_be_written_leave_the_older_ones(tmp_path):
    grid, path = GRIDS["closed"], tmp_path / "max.nc"
    fields = random_fields(grid, ("maximum_elevation",))
    write_fields(path, grid, fields, seconds=1.0)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="shape"):
        write_fields(path, grid, {**fields, "arrival_time": np.zeros((2, 2))}, seconds=2.0)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["max.nc"]
    write_fields(path, grid, fields, seconds=2.0)
    assert times_of(path) == 2.0


# -- size ------------------------------------------------------------------------------------------------------------


def test_records_are_stored_in_slices_of_a_few_megabytes(tmp_path):
    grid = CartesianGrid(2000, 1500, (0.0, 1.0), (0.0, 1.0))
    with FieldFile(tmp_path / "run.nc", grid, ("eta", "u")) as file:
        zeros = {"eta": np.zeros(grid.shape), "u": np.zeros((1500, 2001))}
        file.append(0.0, zeros)
    with netCDF4.Dataset(tmp_path / "run.nc") as dataset:
        assert dataset["eta"].chunking() == [1, 500, 2000] and dataset["u"].chunking() == [1, 500, 2001]
    assert (tmp_path / "run.nc").stat().st_size < 2e6
