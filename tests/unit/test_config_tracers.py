"""[[tracer]] sections: what they make, and one sentence for each mistake."""

import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.adjoint import BoxContent
from swmodel.config.assembly import assemble, model_of
from swmodel.config.experiment import read_text
from swmodel.errors import ConfigError, DataError

BASE = """\
run = {until = "1 hour"}
grid = {type = "cartesian", nx = 6, ny = 5, x = [0, "60 km"], y = [0, "50 km"]}
bathymetry = {type = "flat", depth = "100 m"}
stepper = {type = "ssprk3"}
"""
DYE = """
[[tracer]]
name = "dye"
"""


def draft_of(text, folder="."):
    return read_text(BASE + text, "e.toml", folder)


def built(text, folder="."):
    made = assemble(draft_of(text, folder))
    assert not made.sentences()
    return model_of(made, communicator="serial", engine="arrays")


def file_of(path, values):
    """A netCDF file of a variable dye(time, y, x) or dye(y, x) on the grid."""
    with netCDF4.Dataset(path, "w") as file:
        for name, n, size in (("x", 6, 1e4), ("y", 5, 1e4)):
            file.createDimension(name, n)
            file.createVariable(name, "f8", (name,))[:] = size * (0.5 + np.arange(n))
            file[name].units, file[name].axis = "m", name.upper()
        dimensions = ("time", "y", "x")[-values.ndim :]
        if values.ndim == 3:
            file.createDimension("time", None)
            file.createVariable("time", "f8", ("time",))[:] = 3600.0 * np.arange(len(values))
            file["time"].units, file["time"].axis = "seconds since 2000-01-01", "T"
        file.createVariable("dye", "f8", dimensions)[:] = values
    return path


def test_a_run_from_a_restart_has_its_flow_and_the_initial_tracer_of_its_own(tmp_path):
    """Restarts hold the content of a column, which is no concentration; and they belong to their grid."""
    model = built(DYE + "initial = 2.0\n")
    run = sw.Simulation(model, model.state(eta=0.5), sw.SSPRK3(60.0)).restart(tmp_path / "restart.nc")
    run.run(steps=1)
    text = 'initial = {type = "file", file = "restart.nc"}\n' + DYE + "initial = 3.0\n"
    made = assemble(draft_of(text, tmp_path))
    state = made.experiment().initial.state(model_of(made, communicator="serial", engine="arrays"))
    np.testing.assert_allclose(state.eta, run.state.eta, rtol=1e-6)
    np.testing.assert_allclose(state.dye, 3.0 * (100.0 + np.asarray(state.eta)), rtol=1e-6)
    wider = assemble(read_text(BASE.replace('"60 km"', '"90 km"') + text, "e.toml", tmp_path))
    with pytest.raises(DataError, match="belongs to another grid: x was .*; start from a file of the same grid"):
        wider.experiment().initial.state(model_of(wider, communicator="serial", engine="arrays"))


def test_a_section_makes_the_tracer_that_it_describes():
    model = built(
        DYE + 'units = "kg m-3"\nlong_name = "a dye"\ninitial = "1 + x / (60 * km)"\nscheme = "centred"\n'
        'diffusivity = "20 m2 s-1"\nsource = 1e-3\nflux = "y / km"\noutside = 2.0\n'
        '[[tracer]]\nname = "ink"\nlimiter = "superbee"\n'
    )
    dye, ink = model.tracers
    assert (dye.name, dye.units, dye.variable.long_name, dye.scheme) == ("dye", "kg m-3", "a dye", sw.Centred())
    assert ink.scheme == sw.FluxLimited(sw.Superbee()) and ink.source is None
    assert (float(dye.diffusivity), float(dye.source), float(dye.outside)) == pytest.approx((20.0, 1e-3, 2.0))
    x, y = model.grid.coordinates("h")
    np.testing.assert_allclose(dye.flux, np.broadcast_to(y / 1e3, (5, 6)), rtol=1e-6)
    np.testing.assert_allclose(model.at_rest().dye, np.broadcast_to(100.0 * (1 + x / 6e4), (5, 6)), rtol=1e-6)


def test_initial_values_and_records_come_from_files(tmp_path):
    steady, records = np.arange(30.0).reshape(5, 6), np.arange(90.0).reshape(3, 5, 6)
    file_of(tmp_path / "steady.nc", steady)
    file_of(tmp_path / "records.nc", records)
    model = built(
        DYE + 'initial = { file = "records.nc", variable = "dye", record = 1 }\n'
        'source = { file = "steady.nc", variable = "dye" }\noutside = { file = "records.nc", variable = "dye" }\n',
        tmp_path,
    )
    np.testing.assert_allclose(model.at_rest().dye, 100.0 * records[1], rtol=1e-6)
    np.testing.assert_allclose(model.tracers[0].source, steady, rtol=1e-6)
    assert len(model.tracers[0].outside.times) >= 2


ADJOINT = """
[adjoint]
controls = ['initial.dye']
[adjoint.cost]
type = "box_content"
tracer = 'dye'
x = ["20 km", "60 km"]
window = ["5 min", "10 min"]
"""


def test_a_cost_of_a_tracer_is_read_from_a_file():
    draft = draft_of(DYE + ADJOINT)
    assert not draft.sentences()
    cost = draft.sections["adjoint"].cost.build()
    assert cost == BoxContent("dye", x=(2e4, 6e4), window=(300.0, 600.0))
    assert cost.title() == "amount of dye in a box from 5 min to 10 min" and cost.last_time() == 600.0


MISTAKES = {
    "tracer[0]: name is missing": "[[tracer]]\n",
    "'a dye' is no name of a variable in files": '[[tracer]]\nname = "a dye"\n',
    "'eta' is already the name of another variable": '[[tracer]]\nname = "eta"\n',
    "'interface' is already the name of another variable": '[[tracer]]\nname = "interface"\n',
    "'time' is already the name of another variable": '[[tracer]]\nname = "time"\n',
    "two tracers are called 'dye'": DYE + DYE,
    "tracer[0].diffusivity: -1 is negative; give a number in m2 s-1, 0 or more": DYE + "diffusivity = -1\n",
    "tracer[0].scheme: 'upwind' is unknown": DYE + 'scheme = "upwind"\n',
    'limiter belongs to scheme = "flux_limited"': DYE + 'scheme = "centred"\nlimiter = "koren"\n',
    "tracer[0].initial: the formula uses longitude": DYE + 'initial = "longitude"\n',
    "tracer[0].initial.file: there is no file": DYE + 'initial = { file = "none.nc", variable = "dye" }\n',
    "initial: variable is missing": DYE + 'initial = { file = "d.nc" }\n',
    "tracer[0].source.record: unknown key": DYE + 'source = { file = "d.nc", variable = "dye", record = 1 }\n',
    "has no variable 'ink'": DYE + 'initial = { file = "d.nc", variable = "ink" }\n',
    "has 2 records; 5 is not among them": DYE + 'initial = { file = "d.nc", variable = "dye", record = 5 }\n',
    "the formula '1 / (x - 5 * km)' is not finite": DYE + 'initial = "1 / (x - 5 * km)"\n',
    "diffusivity, somewhere, = -60000.0 is negative": DYE + 'diffusivity = "-5 * km - x"\n',
    "tracer: write it with double brackets": '[tracer]\nname = "dye"\n',
    "tracer[0].name: 'pseudo_spectral' steps no tracers": DYE + '[model]\ncore = "pseudo_spectral"\n',
    "adjoint.cost.tracer: there is no tracer 'die'; did you mean 'dye'?": DYE + ADJOINT.replace("'dye'", "'die'"),
    "adjoint.cost: tracer is missing": DYE + ADJOINT.replace("tracer = 'dye'", ""),
    "adjoint.cost.tracer: there is no tracer 'dye'; add a section [[tracer]]": ADJOINT.replace("dye']", "eta']"),
    "unknown variable 'die'; did you mean 'dye'?": DYE
    + '[[output.fields]]\nfile = "f.nc"\nevery = 60\nvariables = ["die"]\n',
    "unknown variable 'spede'; did you mean 'speed'?": DYE
    + '[output.gauges]\nvariables = ["spede"]\npositions = { a = [1e3, 1e3] }\n',
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_each_mistake_gets_one_sentence(sentence, tmp_path):
    file_of(tmp_path / "d.nc", np.zeros((2, 5, 6)))
    (found,) = assemble(draft_of(MISTAKES[sentence], tmp_path)).sentences()
    assert sentence in found and found.startswith("e.toml:")


def test_constructors_refuse_what_makes_no_sense():
    for arguments, sentence in (
        (("a dye",), "Tracer: name = 'a dye' is no name"),
        ((), "Tracer: name = '' is no name"),
        (("speed",), "Tracer: name = 'speed' is already the name"),
        (("map",), "Tracer: name = 'map' is already the name"),
        (("dye", 1.0), "Tracer: units = 1.0 is not text"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            sw.Tracer(*arguments)
    with pytest.raises(ConfigError, match="Tracer: diffusivity = -1.0 is negative"):
        sw.Tracer("dye", diffusivity=-1.0)
    with pytest.raises(ConfigError, match=r"Tracer: scheme = 'centred' is a name, as experiment files have it"):
        sw.Tracer("dye", scheme="centred")
    with pytest.raises(ConfigError, match=r"FluxLimited: limiter = VanLeer is a class"):
        sw.FluxLimited(sw.VanLeer)
    grid = sw.CartesianGrid(6, 5, (0.0, 6e4), (0.0, 5e4))
    with pytest.raises(ValueError, match=r"Tracer dye: source has shape \(2, 3\), and the grid has \(5, 6\)"):
        sw.ShallowWater(grid, 100.0, tracers=sw.Tracer("dye", source=np.zeros((2, 3))))
    model = sw.ShallowWater(grid, 100.0, tracers=sw.Tracer("dye", initial=np.zeros((2, 3))))
    with pytest.raises(ValueError, match=r"dye has shape \(2, 3\), and the grid has \(5, 6\)"):
        model.at_rest()


def test_a_tracer_has_its_own_limit_on_the_time_step():
    grid = sw.CartesianGrid(6, 5, (0.0, 6e3), (0.0, 5e3))
    tracers = sw.Tracer("dye", diffusivity=1e5), sw.Tracer("ink", scheme=sw.Centred())
    model = sw.ShallowWater(grid, 1.0, gravity=0.01, tracers=tracers)
    found = {limit.name: limit.dt for limit in sw.limits(model, sw.SSPRK3(1.0))}
    assert found["dye"] == pytest.approx(2.5127 / (1e5 * 8e-6), rel=1e-3) and "ink" not in found
    moving = {limit.name: limit for limit in sw.limits(model, sw.SSPRK3(1.0), model.state(u=1.0, v=0.5))}
    assert moving["ink"].dt == pytest.approx(np.sqrt(3.0) / 1.5e-3, rel=1e-3)
    assert moving["dye"].dt == pytest.approx(1 / (2.0 * 1.5e-3 + 8e-6 * 1e5 / 2.5127), rel=1e-3)


# -- on the command line -----------------------------------------------------------------------------------------------

TEXT = """\
run = {until = "1 hour", engine = "arrays", communicator = "serial"}
grid = {type = "cartesian", nx = 8, ny = 6, x = [0, "80 km"], y = [0, "60 km"]}
bathymetry = {type = "flat", depth = "100 m"}
model = {precision = "float64", gravity = 0.1}
initial = {type = "formula", eta = "0.5 * cos(pi * x / (80 * km))"}
stepper = {type = "ssprk3", dt = 600}
tracer = [
    {name = "dye", units = "kg m-3", initial = "1 + x / (80 * km)", diffusivity = "1000 m2 s-1"},
    {name = "age", units = "s", source = 1, scheme = "centred"},
]
[output]
fields = [{file = "fields.nc", variables = ["dye", "age", "eta"], every = "30 min"}]
gauges = {variables = ["eta", "dye"], positions = { here = [25e3, 25e3] }}
restart = {every = "30 min"}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "e.toml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.verify
def test_a_run_writes_what_is_resumed_and_drawn(folder, command):
    command.ok("run", "e.toml", "--until", "30 min")
    command.ok("resume", "restart.nc", "--until", "1 hour")
    with netCDF4.Dataset("fields.nc") as file:
        assert file["dye"].units == "kg m-3" and file["dye"].dimensions == ("time", "yh", "xh")
        np.testing.assert_allclose(file["age"][:], file["time"][:][:, None, None] * np.ones((6, 8)), rtol=1e-6)
        content = (np.asarray(file["dye"][:], float) * (100.0 + file["eta"][:])).sum((1, 2))
        np.testing.assert_allclose(content, content[0], rtol=1e-6)
        resumed = np.asarray(file["dye"][-1])
    with netCDF4.Dataset("gauges.nc") as file:
        assert file["dye"].shape == (1, 7) and np.ptp(file["dye"][:]) > 0
    command.ok("run", "e.toml", "--overwrite")
    with netCDF4.Dataset("fields.nc") as file:
        np.testing.assert_array_equal(file["dye"][-1], resumed)
    status, out, _ = command("plot", "fields.nc", "--kind", "maps", "--variable", "dye", "-o", "dye.png")
    assert status == 0 and (folder / "dye.png").stat().st_size > 5000, out


def test_an_ensemble_varies_a_tracers_diffusivity(folder, command):
    (folder / "e.toml").write_text(TEXT + '[ensemble]\n"tracer.0.diffusivity" = [0, 1e4]\n')
    command.ok("run", "e.toml")
    with netCDF4.Dataset("fields.nc") as file:
        last = np.asarray(file["dye"][-1])
        assert np.var(last[1]) < 0.99 * np.var(last[0])
