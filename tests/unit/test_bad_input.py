"""Bad input in experiment files and on the command line: one sentence that names file and line, nothing in silence."""

import math
import os
import re

import jax
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.controls import seafloor
from swmodel.config import load, read
from swmodel.config.expressions import FUNCTIONS, Expression, ExpressionError
from swmodel.errors import ConfigError, DataError, printable
from swmodel.grids import bathymetry
from swmodel.runtime import memory, paths
from tests.faults.inputs import FOREIGN
from tests.faults.texts import GYRE, PLANE, RUN, experiments
from tests.selection import later

GOOD = f"{RUN}\n{PLANE}\n{GYRE}"


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "case.toml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def refused(tmp_path):
    """The sentences that refuse GOOD with some text replaced; none holds a word of Python's."""

    def call(old="", new="", overrides=(), text=None):
        path = tmp_path / "case.toml"
        assert text is not None or old in GOOD
        path.write_text(GOOD.replace(old, new, 1) if text is None else text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load(path, overrides)
        sentences = [s.replace(str(path), "FILE") for s in caught.value.mistakes]
        assert not [s for s in sentences if FOREIGN.search(s) or len(s) > 700]
        return sentences

    return call


def line_of(text):
    return 1 + GOOD[: GOOD.index(text)].count("\n")


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    path = tmp_path / "case.toml"
    path.write_text("\ufeff" + GOOD, encoding="utf-8")
    assert load(path).grid.nx == 12


def test_text_in_another_encoding_is_refused_with_its_line(tmp_path):
    path = tmp_path / "case.toml"
    path.write_bytes(b"[run]\ntitle = 'caf\xe9'\n")
    with pytest.raises(DataError, match=r"case.toml:2: this is not text in UTF-8"):
        read(path)


@pytest.mark.parametrize("digits", [5000, 400, 20])
def test_a_whole_number_that_is_too_long_is_named_with_its_line(refused, digits):
    (sentence,) = refused("nx = 12", f"nx = 1{'0' * digits}")
    assert sentence.startswith(f"FILE:{line_of('nx = 12')}: ") and "digits" in sentence
    assert "digits" in refused(overrides=[f"grid.nx=1{'0' * digits}"])[0]


@pytest.mark.parametrize("depth", [20, 5000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a = ", "}")])
def test_deep_nesting_is_named_with_its_line(refused, depth, opening, closing):
    deep = opening * depth + ("1" if "{" in opening else "") + closing * depth
    (sentence,) = refused("nx = 12", f"nx = {deep}")
    assert sentence.startswith(f"FILE:{line_of('nx = 12')}: ") and "nested" in sentence


def test_what_a_user_wrote_is_shown_shortened_and_without_control_characters(refused):
    (sentence,) = refused('momentum = "enstrophy_conserving"', f'momentum = "\\u001b[2J{"m" * 5000}"')
    assert "\x1b" not in sentence and " [...] " in sentence
    assert printable("a\x1bb\u202ec") == "a\\x1bb\\u202ec"


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a\\u0000b.nc", "x" * 300 + ".nc", "y/" * 3000 + "z.nc"])
@pytest.mark.parametrize("key", ["file", "folder"])
def test_a_name_that_no_file_can_have_is_refused(refused, name, key):
    old = {"file": 'file = "fields.nc"', "folder": 'folder = "output"'}[key]
    (sentence,) = refused(old, f'{key} = "{name}"')
    assert sentence.startswith(f"FILE:{line_of(old)}: output.") and ("too long" in sentence or "character" in sentence)


def test_the_home_folder_is_expanded_everywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "case.toml"
    text = GOOD.replace('folder = "output"', 'folder = "~/out"').replace('"fields.nc"', '"~/fields.nc"')
    path.write_text(text)
    output = load("~/case.toml").output
    assert (output.folder, output.fields[0].file) == (f"{tmp_path}/out", f"{tmp_path}/fields.nc")
    assert paths.expanded("~/a") == tmp_path / "a"


def test_a_folder_that_one_may_not_enter_is_named(refused, monkeypatch, tmp_path):
    def closed(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    flat = 'type = "flat"\ndepth = "1000 m"'
    path = tmp_path / "case.toml"
    path.write_text(GOOD.replace(flat, 'type = "file"\nfile = "closed/depth.nc"'))
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda p, *a, **k: closed(p) if "closed" in str(p) else stat(p, *a, **k))
    with pytest.raises(ConfigError, match="bathymetry.file: .*closed/depth.nc cannot be used: permission denied"):
        load(path)


def test_output_goes_to_a_folder_or_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    for path in ("/dev/null", "/dev/null/inside", file, file / "inside"):
        with pytest.raises(DataError, match="is a file, and a folder is needed"):
            paths.make_folder(path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may do everything
    with pytest.raises(DataError, match="permission denied"):
        paths.make_folder(tmp_path)


# -- formulas ----------------------------------------------------------------------------------------------------------


PLAIN = sw.CartesianGrid(nx=4, ny=3, x=(0.0, 4e4), y=(0.0, 3e4))
HOLED = np.where(np.eye(3, 4) > 0, np.nan, 1.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"depth": lambda x: x}, "ShallowWater: the depth function <lambda> does not take two arguments; give"),
        ({"depth": lambda x, y: "deep"}, "depth function <lambda> returns values that are not numbers"),
        ({"depth": lambda x, y: np.ones((7, 2))}, r"the depth function returns shape \(7, 2\) for x of shape"),
        ({"dissipation": sw.Laplacian(lambda x, y: -1e3)}, r"Laplacian: viscosity, somewhere, = -1000.0 is negative"),
        ({"forcing": sw.WindStress(x=lambda: 1.0)}, "WindStress.x: the function <lambda> does not take two arguments"),
        ({"forcing": sw.WindStress(y=HOLED)}, "WindStress.y is not finite in 3 of 12 values; give numbers everywhere"),
        ({"forcing": sw.WindStress(y=lambda x, y: np.nan * x * y)}, "WindStress.y is not finite in 12 of 12 values"),
        ({"forcing": sw.WindStress(x=sw.Records(np.array([0.0, 9.0]), np.stack([HOLED, HOLED])))}, "in 6 of 24 values"),
    ],
)
def test_functions_and_arrays_of_a_model_give_numbers_everywhere(arguments, said):
    with pytest.raises(ValueError, match=said):
        sw.ShallowWater(PLAIN, **{"depth": 100.0, **arguments})
    with pytest.raises(ValueError, match="ShallowWater.state.*eta is not finite in 3 of 12 values"):
        sw.ShallowWater(PLAIN, depth=100.0).state(eta=HOLED)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_their_own_number_of_arguments(name):
    wanted = FUNCTIONS[name][1]
    assert Expression(f"{name}({', '.join(['x'] * wanted)})")(0.5, 0.5).shape == ()
    for count in {0, 1, 2, 3, 4} - {wanted}:
        with pytest.raises(ExpressionError, match=rf"gives {name} {count} argument.*takes {wanted}"):
            Expression(f"{name}({', '.join(['x'] * count)})")


def test_formulas_leave_the_coordinates_as_they_are():
    x, y = np.linspace(0.0, 1.0, 5)[None, :], np.linspace(2.0, 3.0, 4)[:, None]
    before = x.copy(), y.copy()
    for text in ("x", "sin(x) + abs(y)", "where(x > 0.5, y, -x)", "maximum(x, y) % 2", "-(x < y) | (y > 1)"):
        result = Expression(text)(x, y)
        assert result is not x
        np.testing.assert_array_equal((*x.ravel(), *y.ravel()), (*before[0].ravel(), *before[1].ravel()))


NOTHING = (
    "x < y < x", "sin + 1", "+".join(["x"] * 50_000), "-" * 3000 + "1", "(" * 250 + "x" + ")" * 250,
    "+".join(["x"] * 300), "x" + "**2" * 500, "1 / 0", "0 * log(-1)", "sin(*x)", "1e400",
    "__import__('os').system('true')", "x.__class__", "(lambda: 1)()", "[x for x in y]", "open('a')", "x if y else 1",
    "'text'", "x @ y", "cos", "cos(x, y, 1)", "cos(x=1)", "1 +", "unknown + 1", "9 ** 9 ** 9 ** 9", "f(x)", "True", "",
)  # fmt: skip


@pytest.mark.parametrize("text", NOTHING)
def test_what_is_no_arithmetic_or_cannot_be_evaluated_is_refused_at_once(text):
    with pytest.raises(ExpressionError):
        Expression(text)


def test_comparisons_count_as_numbers():
    assert Expression("-(x < 1) + (x < 1) * 3")(0.5, 0.0) == 2.0


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1e-300", "1e300", "inf", "nan", '"1e300 m s-2"', '"1e999 m s-2"', "5e-324"])
def test_numbers_beyond_single_precision_are_refused(refused, value):
    (sentence,) = refused("gravity = 0.02", f"gravity = {value}")
    assert sentence.startswith(f"FILE:{line_of('gravity = 0.02')}: model.gravity: ")
    assert "too small" in sentence or "too large" in sentence or "not a finite number" in sentence


# -- the command line --------------------------------------------------------------------------------------------------


def test_a_tilde_in_an_option_is_expanded(tmp_path, command, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "case.toml").write_text(GOOD)
    status, _, printed = command("run", "~/case.toml", "--output=~/case.toml", "--set", "run.communicator=serial")
    assert status == 2 and f"{tmp_path}/case.toml is a file, and a folder is needed" in printed


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def little(monkeypatch):
    """Let there be only so much memory."""
    return lambda number: monkeypatch.setattr(memory, "available", lambda: number)


@pytest.mark.parametrize("cells", [10**5, 10**6, 2 * 10**9])
def test_a_grid_that_no_memory_holds_is_refused_before_an_array_is_made(command, cells, good):
    for verb in ("check", "run"):
        status, _, printed = command(verb, good, *(f"--set=grid.{name}={cells}" for name in ("nx", "ny")))
        assert status == 2 and "of memory, and there are" in printed and "use fewer cells" in printed
        assert not FOREIGN.search(printed)


def test_models_ensembles_and_checkpoints_are_refused_by_their_sizes(little):
    grid = sw.CartesianGrid(10**6, 10**6, (0, 1e9), (0, 1e9))
    with pytest.raises(ConfigError, match=r"1,000,000 x 1,000,000 cells needs about .* TB of memory, and there are"):
        sw.ShallowWater(grid, 100.0, communicator="serial")
    grid = sw.CartesianGrid(40, 50, (0, 1e6), (0, 1e6))
    model = sw.ShallowWater(grid, 100.0, communicator="serial", engine="arrays")
    little(memory.of_model(2000, 2000, 8) * 1.5)
    sw.ShallowWater(grid, 100.0, communicator="serial", engine="arrays")
    with pytest.raises(ConfigError, match="an Ensemble of 1,000 members needs about .* of memory"):
        sw.Ensemble(model, [model.at_rest()] * 1000)
    little(memory.of_model(2000, 2000, 8) + 1e6)
    sw.ShallowWater(grid, 100.0, communicator="serial", engine="arrays")
    many = {"tracers": [sw.Tracer(f"dye{k}") for k in range(20)]}, {"layers": sw.Layers([5.0] * 9, range(1000, 1010))}
    for more in many:
        with pytest.raises(ConfigError, match="a grid of 40 x 50 cells needs about .* of memory"):
            sw.ShallowWater(grid, 100.0, communicator="serial", engine="arrays", **more)
    with pytest.raises(ConfigError, match="Spectra: .* needs about"):
        little(5e5)
        sw.Spectra(model)
    problem = adjoint.Problem(model, sw.RK4(100.0), model.at_rest(), 1000, adjoint.BoxEnergy(), ["initial.eta"])
    with pytest.raises(ConfigError, match=r"1,000 steps with StoreAll needs about 48 MB .*Nested"):
        print(problem.plan)


def test_gauges_count_too(little, tmp_path, command, good):
    grid = sw.CartesianGrid(40, 50, (0, 1e6), (0, 1e6))
    model = sw.ShallowWater(grid, 100.0, communicator="serial", engine="arrays", dtype="float32")
    points = {f"g{k}": (5e5, 1e4 + 9e2 * k) for k in range(1000)}
    run = sw.Simulation(model, model.at_rest(), sw.RK4(10.0))
    little(150e6)
    with pytest.raises(ConfigError, match="Simulation.gauges: the series of 1,000 gauges needs about 197 MB of memory"):
        run.gauges(tmp_path / "many.nc", points)
    run.gauges(tmp_path / "few.nc", dict(list(points.items())[:10]))
    needs = {}
    for count in (1, 2000):
        places = ", ".join(f"g{k} = [5e4, 5e4]" for k in range(count))
        little(2e9)
        printed, _ = command.ok("check", good, f"--set=output.gauges.positions={{{places}}}")
        needs[count] = float(re.search(r"about ([\d.]+) MB per rank", printed)[1])
    assert needs[2000] - needs[1] == pytest.approx(393, abs=2)
    little(6e8)
    status, _, err = command("check", good, f"--set=output.gauges.positions={{{places}}}")
    assert status == 2 and "with 2,000 gauges needs about" in err and "use fewer gauges" in err


def test_check_prints_how_many_cells_fill_the_memory(command, little, good):
    little(4e9)
    printed, _ = command.ok("check", good)
    largest = int(re.search(r"([\d,]+) cells fill 4 GB here", printed)[1].replace(",", ""))
    options = {"itemsize": 4, "kept": sw.AB2(1.0).states_kept}
    assert "in float32" in printed and "AB2" in printed
    assert largest == memory.largest_tile(4e9, **options)
    assert memory.of_model(largest, largest, **options) <= 4e9 < memory.of_model(largest + 1, largest + 1, **options)
    assert memory.largest_tile(1e8, 8) == 0


def test_unit_sources_are_counted_where_they_reach_the_grid(little):
    grid = sw.CartesianGrid(40, 30, (0, 4e5), (0, 3e5))
    model = sw.ShallowWater(grid, 100.0, communicator="serial", engine="arrays")
    few, many = (
        seafloor.UnitSources.on(model, (west, 3e5), (1e5, 2e5), 5e4).centres for west in (-1e5, -1e5 - 5e4 * 10**9)
    )
    assert few == many and min(x for x, _ in few) == 0.0
    little(1e3)
    with pytest.raises(ConfigError, match="the correlation of 21 unit sources needs about .*place them further apart"):
        seafloor.UnitSources.on(model, (-1e5, 3e5), (1e5, 2e5), 5e4)


def test_records_of_a_source_are_counted_and_named_with_their_line(tmp_path, command):
    path = tmp_path / "case.toml"
    path.write_text(experiments(tmp_path)["tsunami"].replace('every = "30 s"', 'every = "1e-10 s"'))
    status, _, err = command("check", path)
    assert status == 2 and re.match(rf"error: {path}:\d+: source: the motion of the source, 600,000,000,001 ", err), err


def test_a_scheme_that_is_stable_at_no_step_is_named_with_the_file_and_its_line(tmp_path, command):
    path = tmp_path / "case.toml"
    path.write_text(experiments(tmp_path)["turbulence"].replace("order = 4", "order = 100000"))
    for verb in ("check", "run"):
        assert re.match(rf"error: {path}:\d+: stepper: RK4: it is stable at no time step", command.refused(verb, path))


def test_ranks_of_one_machine_share_its_memory(little):
    little(10e9)
    memory.require(4e9, "this", "", ranks=2)
    with pytest.raises(ConfigError, match="4 GB of memory on each of the 3 ranks here, and there are 10 GB"):
        memory.require(4e9, "this", "do that", ranks=3)


def test_control_groups_limit_memory(monkeypatch):
    files = {
        "/proc/meminfo": ["MemTotal: 1 kB", "MemAvailable: 8000000 kB"],
        "/proc/self/cgroup": ["0::/job/step", "4:memory:/old", "3:cpu:/"],
        "/sys/fs/cgroup/job/step/memory.max": ["max"],
        "/sys/fs/cgroup/job/memory.max": ["3000000000"],
        "/sys/fs/cgroup/job/memory.current": ["1200000000"],
        "/sys/fs/cgroup/job/memory.stat": ["anon 1000", "inactive_file 200000000"],
        "/sys/fs/cgroup/memory/old/memory.limit_in_bytes": ["9223372036854771712"],
    }
    monkeypatch.setattr(memory, "_lines", lambda file: files.get(file, []))
    assert memory.available() == 2e9
    del files["/sys/fs/cgroup/job/memory.max"]
    assert memory.available() == 8192e6
    files["/sys/fs/cgroup/memory/old/memory.limit_in_bytes"] = ["500"]
    assert memory.available() == 500


# -- what check and the head of a run say ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        later('type = "ab2"\nepsilon = 0.1', 'type = "ssprk3"', "fused loops"),
        later('type = "ab2"\nepsilon = 0.1', 'type = "semi_implicit"', "fused loops"),
        later(
            '[stepper]\ntype = "ab2"\nepsilon = 0.1',
            '[[tracer]]\nname = "dye"\n\n[stepper]\ntype = "semi_implicit"',
            "arrays (XLA fuses): SemiImplicit has no loops for variables other than u, v and eta",
        ),
        ("start = 2011", 'engine = "arrays", start = 2011', "arrays (XLA fuses): engine = 'arrays' was chosen"),
    ],
)
def test_check_and_run_say_what_steps_run_as_and_why(tmp_path, command, old, new, says):
    path = tmp_path / "case.toml"
    path.write_text(GOOD.replace(old, new).replace('[output.spectra]\nevery = "1 hour"\n', ""))
    assert says in re.search("engine +(.*)", command.ok("check", path)[0])[1]
    status, printed, _ = command("run", path, "-o", tmp_path, "--until", "20 min", "--set", "run.communicator=serial")
    assert status == 0 and says in re.search("engine +(.*)", printed)[1]


def test_a_model_with_poles_says_that_arrays_run():
    grid = sw.SphericalGrid(12, 8, (0, 360), (-90, 90))
    model = sw.ShallowWater(grid, 100.0, communicator="serial")
    simulation = sw.Simulation(model, model.at_rest(), sw.RK4(10.0))
    assert model.engine == "arrays" == simulation.engine[0]
    assert "pole" in simulation.engine[1]


def test_a_term_that_no_loop_has_runs_as_arrays_and_is_named():
    class Sorted(sw.LinearDrag):
        def __call__(self, flow, time):
            return flow.u.map(lambda u: jax.lax.lgamma(u)), flow.v

    grid = sw.CartesianGrid(6, 5, (0.0, 6e4), (0.0, 5e4))
    model = sw.ShallowWater(grid, 100.0, communicator="serial", dissipation=Sorted(1e-6))
    engine, why = sw.Simulation(model, model.at_rest(), sw.RK4(10.0)).engine
    assert engine == "arrays" and "lgamma" in why
    dyed = sw.ShallowWater(grid, 100.0, communicator="serial", tracers=sw.Tracer("dye"))
    engine, why = sw.Simulation(dyed, dyed.at_rest(), sw.SemiImplicit(10.0)).engine
    assert engine == "arrays" and "SemiImplicit has no loops for variables other than u, v and eta" in why


@pytest.mark.parametrize("share", [0.9, 1.05])
def test_a_time_step_beyond_what_all_limits_together_allow_is_warned_of(tmp_path, command, share, good):
    _, printed, _ = command("check", good)
    longest = float(re.search(r"of the longest stable one, (\d+) s", printed)[1])
    for verb in ("check", "run")[: 1 + (share > 1)]:
        options = ("-o", tmp_path, "--overwrite", "--set", "run.communicator=serial") if verb == "run" else ()
        status, out, err = command(verb, good, "--set", f"stepper.dt={share * longest:.0f}", *options)
        assert ("are certainly stable" in out + err) == (share > 1) and status == 0


@pytest.mark.parametrize(
    ("name", "sign", "value"),
    [("depth", 1, math.inf), ("depth", 1, -math.inf), ("z", -1, math.inf), ("z", -1, -math.inf), ("z", -1, -9999.0)],
)
def test_depths_of_infinity_and_of_a_missing_value_are_refused(tmp_path, name, sign, value):
    lon, lat = np.arange(139.5, 153.0, 0.5), np.arange(29.5, 41.0, 0.5)
    axes = {"lat": ("lat", lat, {"units": "degrees_north"}), "lon": ("lon", lon, {"units": "degrees_east"})}
    depth = np.full((lat.size, lon.size), sign * 4000.0)
    depth[8:12, 8:12] = value
    xr.Dataset({name: (("lat", "lon"), depth, {"units": "m"})}, axes).to_netcdf(tmp_path / "depth.nc")
    with pytest.raises(DataError, match="(inf|-9999) m at 16 nodes: a missing value that the file does not"):
        bathymetry.onto_grid(tmp_path / "depth.nc", sw.SphericalGrid(12, 10, (140, 152), (30, 40)))


@pytest.mark.parametrize(
    ("until", "step", "says"),
    [("1e300", "600", "is too large"), ("1e12", "600", "beyond the year 9999"), ('"7000 year"', "60", "steps of 60 s")],
)
def test_a_run_of_more_steps_than_are_counted_is_refused(command, until, step, says, good):
    status, _, printed = command("check", good, "--set", f"run.until={until}", "--set", f"stepper.dt={step}")
    assert status == 2 and says in printed and printed.count("\n") == 1


@pytest.mark.parametrize(
    "keys, says",
    [
        ("[output.means]\nfields = []", "holds no name; give one or more"),
        ('[output.means]\nfields = ["eta", "eta"]', "holds 'eta' more than once; give each name once"),
        ('[output.means]\nfields = ["eta u", "u eta"]', "'u eta' is given twice; leave one out"),
        ('[output.means]\nfields = ["u dye"]', "'u dye' is not a field; give eta, u, v, thickness, speed, velocity_x,"),
        (
            '[output.harmonics]\nconstituents = ["M4"]\nvariables = ["speed"]',
            "there is no variable 'speed'; give names out of eta, u, v",
        ),
    ],
)
def test_sums_of_nothing_and_of_what_is_not_stepped_are_refused(refused, keys, says):
    assert any(says in sentence for sentence in refused(text=f"{GOOD}\n{keys}\n"))
