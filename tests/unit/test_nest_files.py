"""Nests in experiment files: what is checked and run, and every mistake in one sentence."""

import netCDF4
import numpy as np
import pytest
import xarray as xr

from swmodel import Gate
from swmodel.config import read_text, scenario
from swmodel.config.families import assemble_family, family_of
from swmodel.errors import ConfigError
from tests.gridded import write_axes

REST = """\
run = {until = "3 min", engine = "arrays"}
grid = {type = "cartesian", nx = 30, ny = 26, x = [0, 30000], y = [0, 26000]}
bathymetry = {type = "formula", depth = "200 - 0.005 * x"}
model = {precision = "float64"}
stepper = {type = "forward_backward"}
output.gauges = {positions = {sea = [5000, 13000], town = [13000, 13000], pier = [14100, 13100]}}
output.restart = {every = "1 min"}
output.fields = [{file = "fields.nc", variables = ["eta"], every = "1 min"}]
"""
SEA = f'{REST}initial = {{type = "gaussian", amplitude = 1, centre = [8000, 13000], radius = "2 km"}}\n'
DYE = """
[[tracer]]
name = "dye"
initial = "exp(-((x - 14000)**2 + (y - 13000)**2) / 3000**2)"
"""
HARBOUR = """
[[nest]]
name = "harbour"
x = ["10.2 km", "20 km"]
y = [8e3, 18e3]
ratio = 3
"""
QUAY = """
[[nest]]
name = "quay"
x = [12e3, 16e3]
y = [11e3, 15e3]
ratio = 2
inside = "harbour"
start = "1 min"
output = {fields = [{file = "fields.nc", variables = ["eta", "dye"], every = "30 s"}], maxima = {}}
"""

GREEN = """
[green]
interval = "15 s"
sources = {type = "unit_sources", x = ["4 km", "20 km"], y = ["8 km", "17 km"], spacing = "3 km", deviation = "1 m"}
"""
WIND = '\n[[forcing]]\ntype = "wind_stress"\nx = {formula = "0.1 * t / 600", every = 60}\n'
INVERSION = """
[inversion]
loops = 2
members = 0
controls = [{type = "unit_sources", x = ["4 km", "10 km"], y = ["8 km", "17 km"], spacing = "3 km", deviation = "1 m"}]
[inversion.observations]
type = "gauges"
window = ["20 s", "3 min"]
deviation = "5 mm"
independent = 0
every = "10 s"
positions = {offshore = [3e3, 19e3], inshore = [8e3, 5e3]}
[inversion.twin.truth]
"initial.type" = "formula"
"initial.eta" = "cos(pi / 2 * minimum(abs(x - 7e3) / 3e3, 1))**2 * cos(pi / 2 * minimum(abs(y - 11e3) / 3e3, 1))**2"
"""
TRACKS = 'observations = {type = "tracks", deviation = "5 mm", every = "1 min", apart = "2 km", between = "8 km"}\n'
OF_TRACKS = f"{INVERSION.partition('[inversion.obs')[0]}{TRACKS}twin = {{}}\n"


@pytest.fixture
def sea(tmp_path):
    path = tmp_path / "sea.toml"
    path.write_text(SEA + DYE + HARBOUR + QUAY)
    return path


def test_check_shows_the_damping_that_a_nest_takes_over_and_another_form_of_momentum_takes_none(command, tmp_path):
    case = tmp_path / "case.toml"
    damped = SEA.replace('{precision = "float64"}', '{momentum = "momentum_conserving", damping = 0.5}')
    damped = damped.replace("forward_backward", "ssprk3") + HARBOUR
    case.write_text(damped)
    code, out, err = command("check", case)
    assert not code, err
    assert out.count("damping 0.5 by MomentumConserving") == 2
    case.write_text(damped + '[nest.model]\nmomentum = "energy_conserving"\n')
    code, out, err = command("check", case)
    assert "damping" not in err and out.count("damping 0.5 by MomentumConserving") <= 1
    case.write_text(damped + '[nest.model]\nmomentum = "energy_conserving"\ndamping = 0.5\n')
    assert "damps nothing" in " ".join(command("check", case)[2].split())


def test_check_describes_each_grid(command, sea):
    out, _ = command.ok("check", sea, "--set", "nest.1.ratio=4")
    assert "x 10000 to 20000 (the nearest faces to 10200 and 20000)" in out
    assert "4 x 4 of them in a cell of the nest harbour" in out and "starts after 1 min" in out
    assert "town of" not in out and "town, pier of [output.gauges] are read here, on the finest grid" in out
    assert "quay/maxima.nc: maximum elevation" in out and "harbour/restart.nc" in out
    shares = [int(line.split(" % of the cost")[0].split()[-1]) for line in out.splitlines() if "of the cost" in line]
    assert shares == [3, 17, 80]  # 780 x 18, 1296 x 3 x 18 and, from 1 min of 3 on, 3136 x 9 x 12 cells
    assert "eta, dye every 30 s, 5 records" in out and "every step, 1.73 kB" in out  # those from 1 min on
    assert "about 304 MB per rank" in out  # 300 MB, and about 700 bytes for each of 5212 cells of all grids


def test_a_nest_that_would_start_after_the_end_of_a_run_is_not_stepped_with_a_warning(command, sea, tmp_path):
    """It was refused, so that no run could be tried for a shorter time, or end before a later part."""
    warning = "the nest 'quay' is not stepped and writes no files, since it starts after 1 min and the run ends after"
    short = ("--set", "run.engine=arrays", "--until", "1 min")
    status, out, errors = command("check", sea, "--set", "run.until=1 min")
    assert not status and warning in " ".join((out + errors).split())
    assert "quay/maxima.nc" not in out and "quay/restart.nc" not in out
    out, errors = command.ok("run", sea, "-o", tmp_path / "out", "--plot", *short)
    assert warning in " ".join(errors.split())
    assert (tmp_path / "out" / "harbour" / "restart.nc").exists() and not list((tmp_path / "out" / "quay").glob("*"))
    command.ok("resume", tmp_path / "out" / "restart.nc", "-q", "--until", "90 s")
    with netCDF4.Dataset(tmp_path / "out" / "quay" / "fields.nc") as file:
        np.testing.assert_allclose(file["time"][:], [60.0, 90.0])


@pytest.mark.verify
def test_a_run_is_that_of_the_family_and_resumes_bit_for_bit(command, sea, tmp_path):
    """A nest that starts later has its files from then on, and the gauges that lie in it."""

    def values(folder, name):
        with xr.open_dataset(folder / name) as file:
            return {key: x.values for key, x in file.items() if x.dtype.kind == "f"}, file["time"].values

    command.ok("run", sea, "-o", tmp_path / "whole", "-q", "--plot")
    assert (tmp_path / "whole" / "fields.tsunami.png").exists()
    assert list((tmp_path / "whole" / "quay").glob("*.tsunami.png"))
    with netCDF4.Dataset(tmp_path / "whole" / "fields.nc") as file:
        assert file.nest_boxes == '{"harbour": [[10000.0, 20000.0], [8000.0, 18000.0]]}'
        assert not hasattr(file, "nest_box")
    with netCDF4.Dataset(tmp_path / "whole" / "quay" / "fields.nc") as file:
        assert file.nest_box == "[[12000.0, 16000.0], [11000.0, 15000.0]]"
    fields, times = values(tmp_path / "whole", "quay/fields.nc")
    assert (np.diff(times) / np.timedelta64(1, "s") == 30).all() if times.dtype.kind == "m" else len(times) == 5
    assert 0.05 < np.nanmax(fields["eta"]) < 1.0
    for folder, gauges in (("", ["sea"]), ("quay", ["town", "pier"])):
        with xr.open_dataset(tmp_path / "whole" / folder / "gauges.nc") as file:
            assert list(file["gauge_name"].values.astype(str)) == gauges
    assert not (tmp_path / "whole" / "harbour" / "gauges.nc").exists()
    command.ok("run", sea, "-o", tmp_path / "parts", "-q", "--until", "2 min")
    command.ok("resume", tmp_path / "parts" / "restart.nc", "-q", "--until", "3 min")
    assert 0.5 < values(tmp_path / "whole", "quay/fields.nc")[0]["dye"].max() <= 1.0 + 1e-12
    for name in ("fields.nc", "gauges.nc", "quay/fields.nc", "quay/gauges.nc", "quay/maxima.nc"):
        whole, parts = (values(tmp_path / folder, name)[0] for folder in ("whole", "parts"))
        for key in whole:
            np.testing.assert_array_equal(whole[key], parts[key], err_msg=f"{name}: {key}")


def test_a_file_of_depths_covers_the_frame_of_its_nest(command, tmp_path):
    x, y = np.arange(10e3, 20.1e3, 500.0), np.arange(8e3, 18.1e3, 500.0)
    with netCDF4.Dataset(tmp_path / "box.nc", "w") as file:
        write_axes(file, {"y": ("m", y), "x": ("m", x)})
        file.createVariable("depth", "f8", ("y", "x"))[:] = np.full((y.size, x.size), 100.0)
        file["depth"].setncatts({"units": "m", "positive": "down"})
    (tmp_path / "sea.toml").write_text(SEA + HARBOUR + '[nest.bathymetry]\ntype = "file"\nfile = "box.nc"\n')
    error = " ".join(command("check", tmp_path / "sea.toml")[2].split())
    assert "nest[0].bathymetry: " in error and "and the nest, with the frame around its box, needs x 9000 to" in error


ENSEMBLE = """
[ensemble]
"initial.amplitude" = [1.0, 2.0]
"""


@pytest.mark.verify
def test_members_of_an_ensemble_have_nests(command, tmp_path, monkeypatch):
    """Of the linear equations twice the bump is twice the wave, in all grids; a run resumes bit for bit."""
    path = tmp_path / "sea.toml"
    text = SEA.replace('"float64"', '"float64", linear = true').replace('"1 min"', '"30 s"')
    text = text.replace('"3 min"', '"1 min"')
    path.write_text(text + HARBOUR + ENSEMBLE)
    status, out, err = command("check", path)
    assert status == 0 and "ensemble" in out and "nest harbour" in out, err
    command.ok("run", path, "-o", tmp_path / "out", "-q")
    for folder in ("", "harbour"):
        with xr.open_dataset(tmp_path / "out" / folder / "gauges.nc", decode_times=False) as series:
            assert series.eta.dims == ("member", "gauge", "time") and list(series.initial_amplitude) == [1.0, 2.0]
            one, two = series.eta.isel(gauge=0).values
            assert np.abs(one).max() > 1e-3
            np.testing.assert_allclose(two, 2 * one, rtol=1e-6, atol=1e-9)
    command.ok("run", path, "-o", tmp_path / "parts", "-q", "--until", "30 s")
    command.ok("resume", tmp_path / "parts" / "restart.nc", "-q", "--until", "1 min")
    for name in ("gauges.nc", "harbour/gauges.nc"):
        both = [netCDF4.Dataset(tmp_path / folder / name) for folder in ("out", "parts")]
        np.testing.assert_array_equal(*(one["eta"][:] for one in both), err_msg=name)
    made, read_floors = assemble_family(read_text(text + HARBOUR + ENSEMBLE, "sea.toml", tmp_path)), []
    varied = read_text(text + HARBOUR + '[ensemble]\n"model.gravity" = [9.7, 9.8]\n', "sea.toml", tmp_path)

    def counted(*arguments):
        read_floors.append(arguments)
        return on(*arguments)

    on = scenario._Floor.on
    monkeypatch.setattr(scenario._Floor, "on", counted)
    family, _, _ = family_of(made, "serial", None, "arrays")
    first, second = family.models["harbour"].models
    assert first is second and not read_floors
    family, _, _ = family_of(assemble_family(varied), "serial", None, "arrays")
    assert [float(model.gravity) for model in family.models["harbour"].models] == [9.7, 9.8] and len(read_floors) == 2


def nest(**keys):
    return "\n[[nest]]\n" + "\n".join(
        f"{key} = {x}" for key, x in ({"name": '"a"', "x": [10e3, 20e3], "y": [8e3, 18e3]} | keys).items()
    )


@pytest.mark.parametrize(
    "text, sentence",
    [
        (nest(x=[25e3, 40e3]), "and must keep 2 cells away from the ends of the outer grid, at 0 and 30000"),
        (nest(x=[10e3, 12e3]), "which is 2 cells of the outer grid, and a nest needs 4"),
        (nest(ratio=2.5), "nest[0].ratio: "),
        (nest(ratio=11), "nest[0].ratio: "),
        (nest() + nest(name='"b"', x=[15e3, 24e3]), "nest[1]: the nests 'a' and 'b' overlap, or lie next to each"),
        (
            nest() + nest(name='"b"', inside='"a"', x=[9.5e3, 14e3], y=[11e3, 15e3]),
            "nest[1]: the nest 'b' reaches from 9500 to 14000 along x, and must keep 2 cells away from the ends of the "
            "box of 'a', at 10000 and 20000",
        ),
        (nest() + nest(), "nest: two nests have the name 'a'"),
        (nest(output='{folder = "./"}'), "nest[0].output.folder: '.' is the folder of the outermost grid, too"),
        (nest() + nest(name='"b"', x=[22e3, 26e3], output='{folder = "a"}'), "'a' is the folder of the nest 'a', too"),
        (nest() + nest(name='"A"', x=[22e3, 26e3]), "nest[1]: 'A' is the folder of the nest 'a', too"),
        (nest(name='"2 b"'), "is not a name"),
        (nest(inside='"b"'), "no nest before this one is called 'b'"),
        (
            nest() + '\n[[forcing]]\ntype = "self_attraction_loading"',
            "forcing[0].type: 'self_attraction_loading' needs the elevation all round the Earth, which a nest does not",
        ),
        (nest(bathymetry='{type = "file", file = "none.nc"}'), "nest[0].bathymetry.file: there is no file"),
        (nest(bathymetry='{type = "file", file = "small.nc"}'), "nest[0].bathymetry: "),
        (nest(model='{wetting = {}}'), "nest[0].model.wetting: wetting needs momentum = 'momentum_conserving'"),
        (nest(output='{gauges = {positions = {far = [1000, 1000]}}}'), "(1000, 1000) is outside the grid: x 9000"),
        (nest(output='{restart = {every = "2 min"}}'), "nest[0].output.restart.every: a run continues from"),
        (
            nest(output="{gauges = {positions = {pier = [15e3, 13e3]}}}"),
            "nest[0].output.gauges.positions.pier: 'pier' of [output.gauges] is read here, too",
        ),
        (nest() + '\n[ensemble]\nmembers = 2\nperturbation = 0.01\nradius = "3 km"', "the noise is drawn for"),
        (nest() + OF_TRACKS, "inversion.observations: tracks cross several grids"),
        (nest(start='"1 min"') + INVERSION, "nest[0].start: derivatives are those of all grids from the beginning"),
        (nest(start='"1 min"') + GREEN, "nest[0].start: responses are those of all grids from the beginning"),
        (nest() + WIND + GREEN, "forcing[0].x: linear responses of nested grids have no records in time"),
        (nest() + WIND + INVERSION, "leave it out, or use the method 'incremental'"),
        (
            nest(model='{wetting = {}, momentum = "momentum_conserving"}') + GREEN,
            "nest[0].model.wetting: linear responses of nested grids have no moving shores",
        ),
    ],
)  # fmt: skip
def test_each_mistake_is_one_sentence(text, sentence, tmp_path):
    with netCDF4.Dataset(tmp_path / "small.nc", "w") as file:
        write_axes(file, dict.fromkeys("yx", ("m", np.linspace(11e3, 12e3, 5))))
        depth = file.createVariable("depth", "f8", ("y", "x"))
        depth[:], depth.units, depth.positive = 100.0, "m", "down"
    (found,) = assemble_family(read_text(SEA + text, "sea.toml", tmp_path)).sentences()
    assert sentence in found and found.startswith("sea.toml:")


@pytest.mark.parametrize(
    "text, sentence",
    [
        (nest(steps=1), "nest[0]: in the nest 'a', with 1 of its steps in one of the outermost grid: the time step of"),
        (nest(bathymetry='{type = "formula", depth = "-1"}'), "nest[0].bathymetry: the depth is nowhere above 0"),
        (nest(x=[16e3, 22e3], bathymetry='{type = "formula", depth = "15900 - x"}'), "the nest 'a' lies on land alone"),
        (
            nest(bathymetry='{type = "formula", depth = "x - 14.5e3"}'),
            "output.gauges.positions: in the nest 'a': gauge 'town'",
        ),
        (nest(output='{means = {every = "7 s"}}'), ""),
        (
            nest(output='{fields = [{file = "f.nc", variables = ["eta"], every = "1 min", box = [0, 1, 0, 1]}]}'),
            "nest[0].output.fields",
        ),
    ],
)
def test_mistakes_that_need_the_model(text, sentence, tmp_path, command):
    path = tmp_path / "sea.toml"
    path.write_text(SEA + text)
    status, out, err = command("check", path)
    assert (status == 0) if not sentence else (status == 2 and sentence in err), out + err


def test_commands_without_nests_say_so(command, sea):
    assert "add --set nest=[] to leave [[nest]] out here" in command.refused("explain", sea)


def test_steps_are_what_the_limit_of_the_nest_allows(tmp_path):
    shallow = nest(bathymetry='{type = "flat", depth = "10 m"}', ratio=4, blend=0) + nest(
        name='"b"', x=[22e3, 26e3], ratio=4
    )
    family, _, _ = family_of(assemble_family(read_text(SEA + shallow, "sea.toml", tmp_path)), "serial", None, "arrays")
    assert family.steps == {"a": 1, "b": 3}


def test_a_nest_starts_not_before_the_one_around_it(tmp_path):
    late = nest(start='"2 min"') + nest(name='"b"', inside='"a"', x=[12e3, 16e3], y=[11e3, 15e3], start='"1 min"')
    family, _, _ = family_of(assemble_family(read_text(SEA + late, "sea.toml", tmp_path)), "serial", None, "arrays")
    assert [family.first_step(name, 10.0) for name in ("", "a", "b")] == [0, 12, 12]


def test_a_nest_fills_no_sea_that_continues_beyond_its_border(tmp_path):
    """Water on both sides of a spit is sea, which the box cuts in two; a pond in the spit is a lake in both grids."""
    spit = "where((abs(x - 15e3) < 1.6e3) * (y < 22e3), 0, 200) + where(abs(x - 14.5e3) + abs(y - 12.5e3) < 500, 9, 0)"
    text = SEA.replace('"200 - 0.005 * x"', f'"{spit}", fill_lakes = true').replace("output.gauges = ", "# ")
    family, _, _ = family_of(assemble_family(read_text(text + nest(), "sea.toml", tmp_path)), "serial", None, "arrays")
    outer, inner = (family.models[name].sea_floor.wet for name in ("", "a"))
    row = np.asarray(outer)[12]
    assert not row[13:17].any() and row[12] and row[17]
    np.testing.assert_array_equal(np.asarray(inner)[1::3, 1::3], family.places["a"].of_outer(outer))


def test_members_say_once_what_is_said_of_each(tmp_path, command):
    """The depths along the border of all members, and one of a member's own."""
    path, deeper = tmp_path / "sea.toml", nest(bathymetry='{type = "flat", depth = 60}', blend=0)
    for varied, count in (('"model.gravity" = [9.7, 9.8, 9.9]', 1), ('"nest.0.bathymetry.depth" = [60, 60, 50]', 2)):
        path.write_text(SEA + deeper + f"\n[ensemble]\n{varied}\n")
        status, _, err = command("check", path)
        assert status == 0 and err.count("the depth of the nest 'a' differs from that of the outer grid") == count, err


def test_gauges_of_the_file_keep_their_records_in_a_nest_with_gauges_of_its_own(tmp_path):
    (tmp_path / "records").mkdir()
    text = SEA.replace("output.gauges = {", 'output.gauges = {observations = "records", ')
    made = assemble_family(
        read_text(text + nest(output="{gauges = {positions = {own = [12e3, 12e3]}}}"), "s", tmp_path)
    )
    gauges = made.nests[0].made.section("output").gauges
    assert set(gauges.positions) == {"own", "town", "pier"} and gauges.observations == tmp_path / "records"


def test_check_says_where_a_sponge_has_no_effect_in_a_nest(tmp_path, command):
    path = tmp_path / "sea.toml"
    sponge = '\n[[boundary]]\ntype = "sponge"\nsides = ["west", "north"]\nwidth = "{} km"\nrate = 0.01\n'
    for width, says in ((12, True), (8, False)):
        path.write_text(SEA + sponge.format(width) + nest())
        _, err = command.ok("check", path)
        where = "boundary.0, Sponge: its layer along the west and north side reaches into the nest 'a', and has no"
        assert (err.count(where) == 1) == says and err.count("Sponge") == says, err


def test_levees_and_gates_are_in_the_nests_that_they_lie_in(tmp_path):
    rows = ("dike,13000,13000,2", "dike,16000,13000,2", "wall,2000,2000,2", "wall,2000,9000,2")
    (tmp_path / "levees.csv").write_text("\n".join(("levee,x,y,crest_m", *rows)))
    shores = SEA.replace('"float64"', '"float64", momentum = "momentum_conserving", wetting = {}')
    shores = shores.replace('type = "formula"', 'type = "formula", levees = "levees.csv"')
    shores = shores.replace('"forward_backward"', '"forward_backward_hancock"')
    text = shores + nest(x=[9e3, 21e3], y=[8e3, 20e3])
    family, _, _ = family_of(assemble_family(read_text(text, "sea.toml", tmp_path)), "serial", None, "arrays")
    found = {name: [levee.name for levee in model.sea_floor.levees] for name, model in family.models.items()}
    assert found == {"": ["dike", "wall"], "a": ["dike"]}
    gate = '\n[[forcing]]\ntype = "gate"\ninlet = [{}, 12e3]\noutlet = [{}, 14e3]\nwidth = 9\nsill = -2\n'
    ways = (2e3, 4e3), (14e3, 15e3), (4e3, 14e3)
    gates = [gate.format(*way) for way in ways]
    beside, across = (assemble_family(read_text(text + x + gates[1], "sea.toml", tmp_path)) for x in gates[::2])
    family, _, _ = family_of(beside, "serial", None, "arrays")
    acting = {name: [isinstance(x, Gate) for x in model.terms[:2]] for name, model in family.models.items()}
    assert acting == {"": [True, True], "a": [False, True]}
    with pytest.raises(ConfigError, match=r"nest\[0\]: forcing.0, Gate: some of its cells are in the box"):
        family_of(across, "serial", None, "arrays")


@pytest.mark.verify
def test_a_bank_has_the_responses_of_points_on_all_grids(command, tmp_path):
    """By sweeps of the transposed linear model, which equal its runs, and runs of all equations from a small source."""
    path = tmp_path / "sea.toml"
    path.write_text(SEA.replace("3 min", "5 min") + HARBOUR + GREEN)
    command.ok("green", path, "-o", tmp_path / "out", "-q")
    with xr.open_dataset(tmp_path / "out" / "bank.nc", decode_timedelta=False) as bank:
        assert bank.error_of_a_run < 1e-10 and bank.response.sizes["point"] == 3
        assert (np.abs(bank.response).max(("time", "source")) > 0.01).all()
        one = bank.response.isel(source=int(np.flatnonzero((bank.source_x == 4e3) & (bank.source_y == 11e3))[0])).load()
    # outside of the nest, on whose cells the bank interpolates sources
    eta = "1e-5 * cos(pi / 2 * minimum(abs(x - 4e3) / 3e3, 1))**2 * cos(pi / 2 * minimum(abs(y - 11e3) / 3e3, 1))**2"
    small = "--set", f'initial={{type = "formula", eta = "{eta}"}}'
    command.ok("run", path, "-o", tmp_path / "run", "-q", *small)
    for folder, names in (("", ["sea"]), ("harbour", ["town", "pier"])):
        with xr.open_dataset(tmp_path / "run" / folder / "gauges.nc", decode_times=False) as series:
            for name, eta in zip(names, series.eta, strict=True):
                expected = 1e-5 * one.sel(point=name).values
                at = [int(np.abs(series.time.values - t).argmin()) for t in one.time.values]
                np.testing.assert_allclose(eta.values[at], expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    found = (tmp_path / "out" / "bank.nc").read_bytes()
    nests = (f"nest.0.{other}" for other in ("ratio=2", "steps=6", "two_way=false", "blend=1", "x=[11e3, 20e3]"))
    for other in (*nests, "grid.y=[0, 26001]", "stepper.type='ssprk3'"):
        options = "-o", tmp_path / "out", "-q", "--resume", "--set", other
        status, _, err = command("green", path, *options)
        assert status != 0 and "is a bank of another model" in err, other
    assert found == (tmp_path / "out" / "bank.nc").read_bytes()


ADJOINT = """
[adjoint]
controls = ["initial.eta", "gravity"]
steps = 4
cost = {type = "gauge_elevation", gauges = ["sea", "town"]}
"""


@pytest.mark.verify
def test_a_source_is_found_from_gauges_in_a_nest_and_outside_of_it(command, sea, tmp_path):
    """That of a twin; the file has the boxes for figures, and an inversion continues with the same nest alone."""
    sea.write_text(REST + HARBOUR + INVERSION)
    out, err = command.ok("invert", sea, "-o", tmp_path / "out", "--plot")
    assert "town, pier of [output.gauges] are read here" in out + err and (tmp_path / "out" / "inversion.png").exists()
    with xr.open_dataset(tmp_path / "out" / "inversion.nc") as file:
        assert file.nest_boxes == '{"harbour": [[10000.0, 20000.0], [8000.0, 18000.0]]}'
        truth, found = (file[f"initial_eta_{role}"].values for role in ("truth", "analysis"))
        assert np.sqrt(np.mean((found - truth) ** 2)) < 0.3 * np.sqrt(np.mean(truth**2))
        np.testing.assert_array_equal(found, file["state_eta"].values)
        names, seen = file["observation_gauge"].values, file["observation_observed"].values
        for name in ("sea", "town", "pier", "offshore", "inshore"):
            off = (file["observation_analysis"].values - seen)[names == name]
            assert np.mean(off**2) < 2 * 5e-3**2 < 0.2 * np.var(seen[names == name]), name  # of errors of 5 mm
    analysed = f'[initial]\ntype = "level"\nfile = "{tmp_path}/out/inversion.nc"\nvariable = "state_eta"\n'
    made = assemble_family(read_text(REST + HARBOUR + analysed, "sea.toml", tmp_path))
    outer, nest = (np.asarray(state.eta) for state in family_of(made, "serial", None, "arrays")[1].values())
    np.testing.assert_allclose(outer, found, atol=1e-6)
    cells = len(nest) // 3  # of the outer grid, 10 of them in the box
    frame, means = (cells - 10) // 2, nest.reshape(cells, 3, cells, 3).mean(axis=(1, 3))
    there = found[8 - frame : 18 + frame, 10 - frame : 20 + frame]
    np.testing.assert_allclose(means, there, atol=0.1 * found.max())
    sea.write_text(REST + HARBOUR.replace("ratio = 3", "ratio = 2") + INVERSION)
    status, _, err = command("invert", sea, "-o", tmp_path / "out", "--resume")
    assert status == 2 and "nest.harbour.grid.nx is 36 in the restart and 28 in" in err.replace("\n", " "), err


@pytest.mark.verify
def test_sensitivities_are_those_of_the_family(command, sea, tmp_path):
    """Of a gauge on each grid; the forward check runs the nonlinear model, and the file has the boxes for figures."""
    sea.write_text(SEA + DYE + HARBOUR + QUAY + ADJOINT)
    assert "nest[1].start: derivatives are those of all grids from the beginning" in command.refused("check", sea)
    sea.write_text(SEA + HARBOUR + ADJOINT)
    out, err = command.ok("adjoint", sea, "-o", tmp_path / "out", "--plot")
    assert "town, pier of [output.gauges] are read here" in out + err
    checks = [line for line in (out + err).splitlines() if line.startswith("forward check of")]
    assert len(checks) == 2 and all(float(line.split("(")[-1].split(" %")[0]) < 2.0 for line in checks), checks
    with xr.open_dataset(tmp_path / "out" / "sensitivity.nc") as file:
        assert file.nest_boxes == '{"harbour": [[10000.0, 20000.0], [8000.0, 18000.0]]}'
        values = file["sensitivity_initial_eta"].squeeze().values
    assert values.shape == (26, 30) and abs(values[12:14, 12:14]).sum() > 0 < abs(values[12:14, 4:6]).sum()
