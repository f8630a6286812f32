"""What `swmodel plot`, `adjoint` and `invert` refuse: each with one sentence, by the command line that a user types."""

import re

import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint.assimilation.restarts import read_inversion_restart
from swmodel.config import read
from swmodel.config.assembly import assemble, model_of
from swmodel.config.studies import transformed_of
from swmodel.errors import ConfigError, DataError
from tests.restarts import write_restart
from tests.selection import later
from tests.studies import BASIN, BUMP, FIELDS, GAUGES, PATCH, TWIN

xr = pytest.importorskip("xarray")
pytest.importorskip("matplotlib")


def one_sentence(err):
    """The text after "error: ", on one line; there is one error and nothing of Python's."""
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in err and "--debug" not in err, err
    return " ".join(err.partition("error: ")[2].split())


# -- plot --------------------------------------------------------------------------------------------------------------

X = {"xh": ("xh", 500.0 + 1e3 * np.arange(6), {"units": "m"}), "xq": ("xq", 1e3 * np.arange(7.0), {"units": "m"})}
Y = {"yh": ("yh", 500.0 + 1e3 * np.arange(5), {"units": "m"}), "yq": ("yq", 1e3 * np.arange(6.0), {"units": "m"})}
SHAPES = {"u": ("yh", "xq"), "v": ("yq", "xh")}


def fields(names, records=3, units="seconds since 2011-03-11", **attributes):
    """A dataset of waves at their places; `records` is None for fields without time."""
    coordinates, sizes = X | Y, {name: len(axis[1]) for name, axis in (X | Y).items()}
    data = {}
    for name in names:
        places = SHAPES.get(name, ("yh", "xh"))
        one = np.cos(np.add.outer(np.arange(sizes[places[0]]), np.arange(sizes[places[1]])))
        still = records is None or name in ("depth", "maximum_elevation")
        data[name] = (places, one) if still else (("time", *places), np.stack([one] * records))
    if records is not None:
        coordinates = coordinates | {"time": ("time", 3600.0 * np.arange(records), {"units": units})}
    return xr.Dataset(data, coordinates, attributes)


def gauges(count=5, series="eta"):
    return xr.Dataset(
        {series: (("time", "gauge"), np.zeros((count, 1)))},
        {
            "time": ("time", np.arange(float(count)), {"units": "s"}),
            "gauge_x": ("gauge", [5.0]),
            "gauge_y": ("gauge", [5.0]),
            "gauge_name": ("gauge", ["A"], {"cf_role": "timeseries_id"}),
        },
    )


FILES = {
    "eta": lambda: fields(["eta", "depth"]),
    "flow": lambda: fields(["eta", "u", "v"]),
    "once": lambda: fields(["eta"], 1),
    "still": lambda: fields(["eta", "u", "v", "depth"], None),
    "fortnights": lambda: fields(["eta"], units="fortnights since 2011-03-11"),
    "nowhere": lambda: fields(["eta"]).drop_vars(["xh", "yh"]),
    "column": lambda: fields(["eta"]).isel(xh=[0]).drop_vars(["xq"]),
    "members": lambda: xr.concat([fields(["eta"])] * 2, "member"),
    "numbers": lambda: xr.Dataset({"sensitivity_rate": 1.0}, attrs={"sensitivity_of": "J"}),
    "map": lambda: fields(["sensitivity_depth"], None, sensitivity_of="J"),
    "unobserved": lambda: fields(["depth_analysis"], None, inversion_of="depth"),
    "gauges": gauges,
    "series_of_none": lambda: gauges().rename(time="moment"),
    "other": lambda: xr.Dataset({"a": ("x", [1.0])}),
}
PLOTS = {
    "eta --kind sculpture": "plot: kind 'sculpture' is not one of auto, tsunami",
    "eta eta": "both hold fields; give one of them",
    "eta --member 1": "has no member 1; it holds 1, counted from 0",
    "members --member 2": "has no member 2; it holds 2, counted from 0",
    "missing": "missing.nc is no file",
    "folder.png": "open_output: folder.png is a folder; give the files in it, as folder.png/*.nc.",
    "text": "text.nc cannot be read as netCDF",
    "eta -o nowhere/a.png": "the folder nowhere of a.png does not exist; make it first",
    "eta -o eta.nc": "the figure eta.nc would replace",
    "eta -o picture.xyz": "does not end in a format that can be drawn",
    "eta -o folder.png": "folder.png cannot be written",
    "eta --kind gauges": "needs a file of gauges, which [output.gauges] of an experiment writes; the ones given",
    "eta --kind maximum": "needs a file of maxima, which [output.maxima] of an experiment writes; the ones given hold",
    "eta --observations .": "observations were given without a gauge file",
    "gauges --observations missing": "is no folder; give the one that holds a file per gauge",
    "gauges --observations .": "no file NAME.csv or NAME.nc in . is named after one of the gauges A",
    "eta --variable salinity": "has no variable 'salinity'; it has depth, eta",
    "eta --kind maps --variable xh": "'xh' in",
    "eta --kind maps --time 30day": "time 2.592e+06 s is not in eta.nc, which goes from 0 to 7200 s",
    "eta --kind tsunami --time 0s --time 1s --time 1h --time 2h --time 3s": "the page shows 4; choose among them",
    "once --kind animation": "'eta' has one record only; an animation needs two or more",
    "eta --kind animation -o a.avi": "does not end in .mp4 or .gif",
    "eta --kind animation -o folder.gif": "folder.gif cannot be written",
    "eta --kind circulation": "circulation: the file lacks u, v",
    "flow --kind circulation --time 0s --time 1h": "2 times were given, and it shows one",
    "eta --kind budgets": "budgets: the file lacks u, v",
    "still --kind budgets": "has no time; give a file with several records",
    "still --kind tsunami": "the fields' file has no eta over time",
    "still --kind spectrum": "has no time; give a file with several records",
    "fortnights --kind tsunami": "'fortnights since 2011-03-11', is not known",
    "nowhere": "has no coordinates xh and yh",
    "column --kind maps": "has one cell along x and no xq; write xq too",
    "eta --kind spectrum --variable eta": "the domain has 6 x 5 cells; 8 a side are needed",
    "eta --kind spectrum --box 0 2000 0 2000": "the box holds 2 cells along x",
    "gauges --kind spectrum": "gauge A has 5 values; 16 are needed",
    "series_of_none": "the file has no series over time and gauge",
    "numbers": "the file holds numbers alone and no map; read it with xarray",
    "map --variable rate": "there is no map of 'rate'; the file has sensitivity_depth",
    "unobserved": "the file has no observations; give one that `swmodel invert` has written",
    "restart": "is a restart, of which there is no figure",
    "other": "other.nc holds no field, maxima or gauges",
    "eta --kind maps --time noon": "--time: expected a time in s, as a number or as in '5 day', got 'noon'",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, make in FILES.items():
        make().to_netcdf(folder / f"{name}.nc")
    (folder / "text.nc").write_text("no netCDF")
    grid = sw.CartesianGrid(4, 3, (0.0, 1.0), (0.0, 1.0))
    write_restart(folder / "restart.nc", grid, {"state_eta": np.zeros((3, 4))}, {"step": 1})
    for name in ("folder.png", "folder.gif"):
        (folder / name).mkdir()
    return folder


@pytest.mark.parametrize("arguments", PLOTS)
def test_plot_refuses_in_one_sentence_what_it_cannot_draw(command, files, monkeypatch, arguments):
    monkeypatch.chdir(files)
    before = {path.name: path.stat().st_mtime_ns for path in files.iterdir()}
    words, known = arguments.split(), {*FILES, "missing", "text", "restart"}
    words = [
        f"{word}.nc" if word in known and not before.startswith("-") else word
        for before, word in zip(["", *words], words)
    ]
    status, out, err = command("plot", *words)
    assert status in (1, 2) and PLOTS[arguments] in one_sentence(err), err
    assert one_sentence(err).endswith(".")
    assert {path.name: path.stat().st_mtime_ns for path in files.iterdir()} == before


def test_plot_needs_matplotlib_before_a_long_run(command, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "case.toml").write_text(BUMP)
    status, _, err = command("run", tmp_path / "case.toml", "-o", tmp_path / "out", "--plot")
    assert status == 1 and "--plot needs matplotlib, which is not installed" in one_sentence(err)
    assert not (tmp_path / "out").exists()


# -- adjoint -----------------------------------------------------------------------------------------------------------

MISTAKES = {
    "adjoint.controls=['initial.eta', 'viscosity']": "adjoint.controls[1]: there is no control 'viscosity'",
    "adjoint.controls=['initial.eta', 'uplift']": "there is no uplift without a [source]",
    "adjoint.controls=['depth', 'depth']": "holds 'depth' more than once; give each name once",
    "adjoint.cost.type=arrival_time": "the arrival time counts steps and has no derivative; use 'gauge_maximum'",
    "adjoint.cost.gauges=B": "there is no gauge 'B'; known are 21418, A",
    "adjoint.cost.time=1500": "time and window exclude one another",
    "adjoint.cost.window=['20 min', '50 min']": "3000 s is after the end of the run, at 2400 s",
    "adjoint.cost={type='box_energy', time='1 year'}": "after the end of the run",
    "adjoint.cost={type='box_energy', y=['200 km', '300 km']}": "holds no wet cell of the grid",
    "adjoint.cost={type='section_transport', start=[0, 0], end=['50 km', '60 km']}": "give two points with the same x",
    "adjoint.cost={type='gauge_maximum', positions={C=['1 km', '900 km']}}": "is outside the grid",
    "adjoint.cost={type='misfit'}": "observations is missing: give a folder of NAME.csv",
    "adjoint.amplitude={depth='1 m'}": "'depth' is not a control",
    "adjoint.amplitude.'initial.eta'=": "amplitude",
    "adjoint.memory=2 GX": "unknown unit 'GX'",
    "adjoint.memory=two": "expected a size of memory in B, as a number or as in '2 GB', got 'two'",
    "adjoint.steps=10.5": "10.5 is not a whole number",
    "adjoint={controls='depth', cost={type='box_energy'}, steps=3, until=60}": "steps and until exclude one another",
    "ensemble={members=2, perturbation='1 cm', radius='20 km'}": "an [ensemble] has no adjoint of its own",
}
ADJOINT = {f"--set\n{change}": said for change, said in MISTAKES.items()} | {
    "--steps 3 --until 60": "--steps and --until exclude one another; give one of them",
    "--until noon": "--until: expected a time in s, as a number or as in '5 day', got 'noon'",
    "--set adjoint.cost={type='gauge_maximum',power=1}": "power",
    "--set adjoint.cost={type='section_transport',start=['60km','20km'],end=['60km','60km'],time=30}":
        "is not in the run, whose steps end from 40 to 2400 s",
    "--set adjoint.cost.window=['1210s','1230s']": "no step of 40 s ends in the window from 1210 to 1230 s; widen it",
    "--set adjoint.cost={type='misfit',observations='RECORDS',gauges=['21418']}": "lacks the column elevation_m",
    "--set adjoint.cost={type='misfit',observations='LATE',gauges='A'}": "has observations from 0 to 90000 s",
    "--set adjoint.memory=1kB": "is too little for 60 steps of this model",
    "--set adjoint.file=../case.toml": "file",
    "--overwrite --set adjoint.file=linked.nc": "is also the file of the experiment",
}  # fmt: skip


@pytest.fixture
def case(tmp_path):
    """The experiment's file, and folders of records that are wrong in one way each."""
    path = tmp_path / "case.toml"
    path.write_text(BUMP)
    (tmp_path / "linked.nc").hardlink_to(path)
    texts = {
        "RECORDS": "time_s\n1\n",
        "LATE": "time_s,elevation_m\n0,0.1\n90000,0.2\n",
        "WORDS": "time_s,elevation_m\n60,high\n",
    }
    for folder, text in texts.items():
        (tmp_path / folder).mkdir()
        for name in ("A", "21418", "near"):
            (tmp_path / folder / f"{name}.csv").write_text(text)
    return path


AT_VERIFY = {  # test_output_files.py has outputs that are inputs, and tests/adjoint/test_checkpointing.py the memory
    "--set adjoint.memory=1kB",
    "--overwrite --set adjoint.file=linked.nc",
    "--overwrite --set inversion.file=linked.nc",
    "--overwrite --set inversion.restart=linked.nc",
}


@pytest.mark.parametrize("options", [later(x) if x in AT_VERIFY else x for x in ADJOINT])
def test_adjoint_refuses_in_one_sentence_and_writes_nothing(command, case, options):
    status, _, err = command("adjoint", case, "-o", case.parent, *options.split("\n" if "\n" in options else None))
    assert status == 2 and ADJOINT[options] in one_sentence(err), err
    assert case.read_text() == BUMP and [path.name for path in case.parent.glob("*.nc")] == ["linked.nc"]


def test_adjoint_of_a_run_that_blows_up_has_the_status_of_a_blow_up_and_writes_nothing(command, case):
    status, _, err = command("adjoint", case, "-o", case.parent / "out", "--set", "initial.amplitude=-5 km")
    assert status == 3 and "the cost is nan, since the run does not stay finite" in one_sentence(err), err
    assert not (case.parent / "out" / "sensitivity.nc").exists()


# -- invert ------------------------------------------------------------------------------------------------------------

WHOLE = "".join((BASIN, PATCH, GAUGES, TWIN))
INVERT = {
    "--resume": "from which to resume an inversion; start it without --resume",
    "--withhold --set inversion.observations.gauges=['near']": "withhold is for two gauges or more",
    "--withhold --set inversion.method=descent": "withhold is not for the method 'descent'",
    "--set inversion.withhold=['near','far','north']": "all gauges are withheld, and none is left to use",
    "--observations WORDS": "'high' in elevation_m is not a number",
    "--observations EMPTY": "no file NAME.csv or NAME.nc in",
    "--observations ONE --set inversion.withhold=['far']": "there is no record of far, to be withheld",
    "--observations ONE --set inversion.withhold=['near']": "all gauges that have a record are withheld",
    "--observations FLAT --set inversion.observations.error=0.1": "that all are the same, of which no share is an",
    "--observations SHORT": "has 0 observations from 240 to 1800 s; widen the window, or leave the gauge out",
    "--set ensemble={members=2,perturbation='1cm',radius='20km'}": "an [ensemble] cannot be inverted",
    "--overwrite --set inversion.file=linked.nc": "is also the file of the experiment",
    "--overwrite --set inversion.restart=linked.nc": "is also the file of the experiment",
    "--set inversion.observations={type='tracks',file='tracks.csv',deviation=0.1}": "lacks the column elevation_m",
    "--set inversion.observations={type='tracks',file='words.csv'}": "has no column deviation_m",
    "--set inversion.observations={type='tracks',file='away.csv',deviation=0.1}": "lie outside the grid",
    "--set inversion.observations={type='tracks',file='none.csv',deviation=0.1}": "none.csv",
    "--set inversion.observations={type='tracks',deviation=0.1}": "tracks of the twin need deviation, every, apart and",
}


@pytest.fixture
def basin(case):
    case.write_text(WHOLE)
    time = np.arange(0.0, 1801.0, 60.0)
    series = {"ONE/near": np.sin(time / 300), "FLAT/near": 0.0 * time, "SHORT/near": np.sin(time / 300)}
    for name, values in series.items():
        path = case.parent / f"{name}.csv"
        path.parent.mkdir()
        times = time / 1e3 if name == "SHORT/near" else time
        np.savetxt(path, np.column_stack([times, values]), "%.4f", ",", header="time_s,elevation_m", comments="")
    (case.parent / "EMPTY").mkdir()
    (case.parent / "tracks.csv").write_text("x,y,time_s\n1,2,3\n")
    (case.parent / "words.csv").write_text("x,y,time_s,elevation_m\n1,2,3,0.1\n")
    (case.parent / "away.csv").write_text("x,y,time_s,elevation_m\n-9e9,2,60,0.1\n")
    return case


@pytest.mark.parametrize("options", [later(x) if x in AT_VERIFY else x for x in INVERT])
def test_invert_refuses_in_one_sentence_and_writes_nothing(command, basin, monkeypatch, options):
    monkeypatch.chdir(basin.parent)
    status, _, err = command("invert", basin, "-o", basin.parent, *options.split())
    assert status == 2 and INVERT[options] in one_sentence(err), err
    assert basin.read_text() == WHOLE and [path.name for path in basin.parent.glob("*.nc")] == ["linked.nc"]


@pytest.mark.parametrize(("old", "new", "said"), [
    later('type = "number"\nname = "dissipation.0.rate"',
          'type = "field"\nlength = "40 km"\nname = "dissipation.0.rate"',
     "dissipation.0.rate is a number in this model; use type = 'number'"),
    ('type = "field"\nname = "initial.eta"\ndeviation = 0.3\nlength = "40 km"',
     'type = "number"\nname = "initial.eta"\ndeviation = 0.3',
     "initial.eta is a field in this model; use type = 'field'"),
    ('length = "40 km"', 'length = "1 km"', "less than half a cell of 10000 m, which correlates nothing"),
    ("f0 = 1e-4", "f0 = 0.0", "the Coriolis parameter vanishes on this grid"),
])  # fmt: skip
def test_invert_refuses_controls_that_the_model_cannot_have(tmp_path, old, new, said):
    text = BASIN + FIELDS
    if "f0" in old:
        text = text.replace('type = "field"\nname = "initial.eta"', 'type = "balanced"')
    assert old in text
    (tmp_path / "case.toml").write_text(text.replace(old, new, 1))
    made = assemble(read(tmp_path / "case.toml"))
    model = model_of(made, "serial")
    with pytest.raises(ConfigError, match=re.escape(said)):
        transformed_of(made.section("inversion"), made, model, model.at_rest(), 60.0)


@pytest.mark.parametrize("method", ["green", later("descent")])
def test_invert_of_a_first_guess_that_blows_up_has_the_status_of_a_blow_up(command, basin, method):
    """It ended with a division by zero, or with an error without advice."""
    blown = "--set", "forcing=[{type='wind_stress', x=1e9}]", "--set", f"inversion.method={method}"
    records = basin.parent / "ONE"
    status, _, err = command("invert", basin, "-o", basin.parent / "out", "--observations", records, *blown)
    assert status == 3 and "the run of the first guess does not stay finite" in one_sentence(err), err
    assert "Warning" not in err and not (basin.parent / "out" / "inversion.nc").exists()


def test_what_is_no_restart_of_an_inversion_is_not_resumed(command, basin):
    grid = sw.CartesianGrid(18, 14, (0.0, 1.8e5), (0.0, 1.4e5))
    restart = basin.parent / "inversion.restart.nc"
    write_restart(restart, grid, {"state_eta": np.zeros((14, 18))}, {"step": 1})
    status, _, err = command("invert", basin, "-o", basin.parent, "--resume")
    assert status == 2 and "is not a restart of an inversion; give the one that" in one_sentence(err)
    model = sw.ShallowWater(grid, 100.0)
    write_restart(restart, grid, {}, {"swmodel_inversion": True}, {"about": "the file of an older inversion"})
    with pytest.raises(DataError, match="is of an older swmodel, which did not record model and observations"):
        read_inversion_restart(restart, model, {}, None)
    restart.write_bytes(restart.read_bytes()[:300])
    with pytest.raises(DataError, match="is damaged or cut short"):
        read_inversion_restart(restart, model, {}, None)
