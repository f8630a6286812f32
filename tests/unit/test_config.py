"""Experiment files: what is accepted, and that every mistake is reported at once, with its place and a remedy."""

import datetime
import textwrap
import tomllib
from types import SimpleNamespace

import numpy as np
import pytest

import swmodel as sw
from swmodel.cli.runs import _simulation
from swmodel.config import load, read
from swmodel.config.assembly import assemble, options_of
from swmodel.config.expressions import Expression
from swmodel.config.inversion import Candidates
from swmodel.config.toml import dump, key_lines, line_of
from swmodel.errors import ConfigError, DataError
from swmodel.fields.parameters import Number
from swmodel.stepping.stability import largest_time_step
from swmodel.units import QuantityError, conversion
from tests.studies import BUMP

GOOD = """\
[run]
until = "5 day"

[grid]
type = "cartesian"
nx = 32
ny = 16
x = [0, "320 km"]
y = [0, 160e3]

[bathymetry]
type = "flat"
depth = "1 km"

[stepper]
type = "rk4"
dt = "2 min"
"""

ANOTHER_GRID = """\
run = {until = 100, start = 2011-03-11T05:46:23}
grid = {type = "spherical", nx = 10, ny = 10, longitude = [140, 150], latitude = [30, 40]}
bathymetry = {type = "flat", depth = 100}
stepper = {type = "ab2"}
"""


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="case.toml"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return to_file


def mistakes(path, overrides=()):
    with pytest.raises(ConfigError) as caught:
        load(path, overrides)
    return caught.value.mistakes


def with_more(text, more):
    return text + textwrap.dedent(more)


# -- quantities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        (5, "s", 5.0),
        ("5 day", "s", 432000.0),
        ("1year", "s", 365.25 * 86400),
        ("300 km", "m", 300e3),
        ("-2.5e1 cm", "m", -0.25),
        ("0.1 N m-2", "N m-2", 0.1),
        ("0.1 N/m^2", "N m-2", 0.1),
        ("0.1 Pa", "N m-2", 0.1),
        ("1/day", "s-1", 1 / 86400),
        ("2 hours", "s", 7200.0),
        ("4e4 cm2 s-1", "m2 s-1", 4.0),
        ("5 arcmin", "degree", 5 / 60),
        ("3.141592653589793 rad", "degree", 180.0),
        ("1e-4 rad/s", "s-1", 1e-4),
        ("9.81 m s**-2", "m s-2", 9.81),
        ("1_000 m", "m", 1000.0),
        ("0.03 s m-1/3", "s m-1/3", 0.03),
        ("2 psu", "psu", 2.0),
    ],
)
def test_quantities_come_out_in_si(text, unit, value):
    assert Number(units=unit).read(text) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "unit", "said"),
    [
        ("3 m", "s", "is a length; expected a time"),
        ("3 hors", "s", "unknown unit 'hors'; did you mean 'hours'"),
        ("three days", "s", "expected a time in s, as a number or as in '5 day'"),
        (True, "s", "True is not a number; give a number in s"),
        ("nan", "m", "expected a length"),
        (float("inf"), "m", "not a finite number"),
        ("5 m s-1 !", "m s-1", "cannot read the units"),
        ("3 m", "psu", "cannot be converted to 'psu'; give a number in psu"),
    ],
)
def test_wrong_units_say_what_is_expected(text, unit, said):
    with pytest.raises(ValueError) as caught:
        Number(units=unit).read(text)
    assert said in str(caught.value)
    assert isinstance(caught.value, QuantityError if isinstance(text, str) else ConfigError)


@pytest.mark.parametrize(
    ("stated", "unit", "factor"),
    [
        ("metre second^-1", "m s-1", 1.0),
        ("m.s-1", "m s-1", 1.0),
        ("(degrees_north)", "degree", 1.0),
        ("Pa", "N m-2", 1.0),
        ("millibar", "hPa", 1.0),
        ("centimeter^2/sec", "m2 s-1", 1e-4),
        ("radian", "degree", 180.0 / np.pi),
        ("0.01 m", "m", 0.01),
        ("psu", "psu", 1.0),
        ("kg psu", "psu", None),
        ("Pa*10", "Pa", None),
        ("m", "s", None),
    ],
)
def test_files_state_units_in_any_spelling(stated, unit, factor):
    found = conversion(stated, unit)
    assert found is None if factor is None else found == pytest.approx(factor, rel=1e-15)


def test_a_coordinate_keeps_the_limits_of_its_rule():
    with pytest.raises(ConfigError, match="spacing: -1 is not positive; give a number in the grid's coordinates"):
        Candidates.read({"x": [0, 1], "y": [0, 1], "spacing": -1})


# -- formulas ---------------------------------------------------------------------------------------------------------


def test_a_formula_is_arithmetic_of_the_coordinates():
    y = np.linspace(0.0, 2e6, 5)[:, None]
    tau = Expression("-0.1 * cos(2 * pi * y / (2000 * km))")(np.zeros((1, 3)), y)
    np.testing.assert_allclose(tau, -0.1 * np.cos(np.pi * y / 1e6), rtol=1e-15)
    assert Expression("2 ^ 3 * x")(1.0, 0.0) == 8.0
    assert Expression("where(longitude > 1, 5, 6)")(0.0, 0.0) == 6.0


# -- where keys stand -------------------------------------------------------------------------------------------------

LOCATED = '''\
title = "a # no comment ] here"   # 1
"quoted key" = 1                  # 2
[grid]                            # 3
x = [                             # 4
    1,                            # 5 [a comment] "with a quote
    { deep = [ 2,                 # 6
               3 ] },             # 7
]
text = """
[not.a.table]
key = 1 \\""" still text
"""
literal = \'\'\'
[[neither]] \'\'\'
a.b.c = 1                         # 15
[[forcing]]                       # 16
type = "x"                        # 17
[forcing.inner]                   # 18
k = 1                             # 19
[[forcing]]                       # 20
type = 'y'                        # 21
inline = { p = 1, q.r = "}" }     # 22
[output . "dotted.name"]          # 23
every = 2011-03-11T05:46:23       # 24
'''


def test_keys_are_found_on_the_lines_where_they_were_written():
    tomllib.loads(LOCATED)
    lines = key_lines(LOCATED)
    wanted = {
        ("title",): 1, ("quoted key",): 2, ("grid",): 3, ("grid", "x"): 4, ("grid", "x", 0): 5,
        ("grid", "x", 1, "deep"): 6, ("grid", "x", 1, "deep", 1): 7, ("grid", "text"): 9, ("grid", "literal"): 13,
        ("grid", "a", "b", "c"): 15, ("forcing",): 16, ("forcing", 0): 16, ("forcing", 0, "type"): 17,
        ("forcing", 0, "inner", "k"): 19, ("forcing", 1): 20, ("forcing", 1, "type"): 21,
        ("forcing", 1, "inline", "q", "r"): 22, ("output", "dotted.name"): 23, ("output", "dotted.name", "every"): 24,
    }  # fmt: skip
    assert {path: lines.get(path) for path in wanted} == wanted
    assert not any("not" in path or "neither" in path for path in lines)


def test_a_missing_key_is_placed_at_its_table():
    lines = key_lines(LOCATED)
    assert line_of(lines, ("forcing", 1, "missing")) == 20
    assert line_of(lines, ("absent",)) is None


def _paths(value, path=()):
    yield from ([path] if path else [])
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _paths(one, (*path, key))


def test_every_key_of_a_file_has_a_line_and_no_other():
    assert set(key_lines(LOCATED)) == set(_paths(tomllib.loads(LOCATED)))


# -- what is read -----------------------------------------------------------------------------------------------------


def test_a_valid_file_gives_numbers_in_si(write):
    experiment = load(write(GOOD))
    assert experiment.run.until == 432000.0
    assert experiment.grid.x == (0.0, 320e3)
    assert experiment.bathymetry.depth == 1000.0
    assert experiment.stepper.dt == 120.0
    assert experiment.model.gravity == 9.81
    assert experiment.coriolis.type == "none"
    assert experiment.forcing == ()


def test_start_is_kept_in_utc(write):
    text = ANOTHER_GRID.replace("05:46:23", "14:46:23+09:00")
    assert load(write(text)).run.start == datetime.datetime(2011, 3, 11, 5, 46, 23)


def test_files_are_looked_for_beside_the_toml_file(write, tmp_path, monkeypatch):
    (tmp_path / "depth.nc").write_bytes(b"")
    text = GOOD.replace('type = "flat"\ndepth = "1 km"', 'type = "file"\nfile = "depth.nc"')
    path = write(text)
    monkeypatch.chdir("/")
    assert load(path).bathymetry.file == (tmp_path / "depth.nc").resolve()


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("dt = ", "dtt = ", 17, "stepper.dtt: unknown key; did you mean 'dt'?"),
        ("[stepper]", "[steper]", 15, "steper: unknown section; did you mean 'stepper'?"),
        ('"rk4"', '"rk5"', 16, "stepper.type: 'rk5' is unknown; did you mean 'rk4'?"),
        (
            '"rk4"',
            '"rk4"\nepsilon = 0.1',
            17,
            "it belongs to type 'ab2' or 'rigid_lid' or 'semi_implicit' or 'split_explicit', not 'rk4'",
        ),
        ("ny = 16", 'ny = 16\nprecision = "float32"', 8, "it belongs to [model]"),
        ("nx = 32", "nx = 32.5", 6, "grid.nx: 32.5 is not a whole number; give a whole number, 1 or more"),
        ("nx = 32\n", "", 4, "grid: nx is missing"),
        ('x = [0, "320 km"]', 'x = ["320 km", 0]', 8, "is not a range; give (low, high) in m, the smaller one first"),
        ('x = [0, "320 km"]', "x = [0]", 8, "too few values"),
        ('x = [0, "320 km"]', "x = 3", 8, "expected an array"),
        ('"5 day"', '"5 m"', 2, "run.until: '5 m' is a length; expected a time"),
        ('"1 km"', '"-1 km"', 13, "bathymetry.depth: -1000.0 is not positive; give a number in m, greater than 0"),
        ('"2 min"', "-3", 17, "stepper.dt: -3 is not positive; give a number in s, greater than 0"),
        ('"2 min"', '"6 day"', 2, "432000 s is shorter than the time step of 518400 s"),
        ('type = "flat"', 'type = "file"\nfile = "depth.nc"', 13, "depth.nc; paths are relative to the folder"),
        ('type = "flat"\n', "", 11, "bathymetry: type is missing; give one of flat, formula, file"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_line(write, old, new, line, said):
    assert old in GOOD
    path = write(GOOD.replace(old, new))
    found = mistakes(path)
    assert any(text.startswith(f"{path}:{line}: ") and said in text for text in found), found


@pytest.mark.parametrize("name", ["gauges", "means", "extremes", "restart"])
def test_an_interval_that_is_shorter_than_the_time_step_is_a_mistake(write, name):
    place = "\npositions.a = [0, 0]" if name == "gauges" else ""
    path = write(GOOD + f"\n[output.{name}]\nevery = 30{place}\n")
    expected = f"output.{name}.every: 30 s is shorter than the time step of 120 s; use a multiple of it"
    assert any(expected in text for text in mistakes(path))


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(write):
    text = GOOD.replace("nx = 32", "nxx = 32").replace("1 km", "1 kg").replace("rk4", "rk44")
    text = with_more(
        text,
        """
        [[forcing]]
        type = "wind_stress"
        x = "cosh(z)"
        [[boundary]]
        type = "sponge"
        sides = ["west", "est"]
        width = "3 km"
        rate = 1
        [output]
        [[output.fields]]
        file = "fields.nc"
        variables = ["eta", "voricity"]
        every = 600
    """,
    )
    found = mistakes(write(text))
    expected = ["nx is missing", *"grid.nxx bathymetry.depth stepper.type forcing[0].x sides[1] 'vorticity'".split()]
    assert len(found) == len(expected)
    assert all(part in sentence for part, sentence in zip(expected, found)), found


def test_a_missing_file_names_the_whole_path_and_the_nearest_file(write, tmp_path):
    (tmp_path / "etopo5.nc").write_bytes(b"")
    found = mistakes(write(GOOD.replace('type = "flat"\ndepth = "1 km"', 'type = "file"\nfile = "etopo.nc"')))
    assert f"there is no file {(tmp_path / 'etopo.nc').resolve()}; did you mean 'etopo5.nc'?" in found[0]


@pytest.mark.parametrize(
    ("text", "line"), [("[grid\n", 1), ("[grid]\nnx = = 3\n", 2), ("a = 1\na = 2\n", 2), ("[grid]\nnx = [1,\n", 3)]
)
def test_text_that_is_no_toml_is_refused_with_its_line(write, text, line):
    path = write(text)
    (found,) = mistakes(path)
    assert found.startswith(f"{path}:{line}: not valid TOML:")


def test_a_missing_experiment_file_and_a_folder_are_told_apart(tmp_path):
    with pytest.raises(DataError, match="there is no experiment file"):
        load(tmp_path / "none.toml")
    (tmp_path / "case.toml").write_text(GOOD)
    with pytest.raises(DataError, match="is a folder; name the file, .*case.toml"):
        load(tmp_path)


def test_an_empty_file_lacks_every_required_section(write):
    found = mistakes(write(""))
    required = ("grid", "bathymetry", "run")
    assert [name for name in required if any(f"[{name}] is missing" in f for f in found)] == list(required)
    assert len(found) == len(required)


@pytest.mark.parametrize(
    "model, stepper",
    [
        ("", "forward_backward"),
        ('core = "pseudo_spectral"', "rk4"),
        ("wetting = {}", "forward_backward_hancock"),
        ('momentum = "momentum_conserving"', "forward_backward_hancock"),
        ("[[nest]]\nmodel = {wetting = {}}", "forward_backward_hancock"),
    ],
)
def test_the_scheme_of_a_file_that_names_none_suits_its_model(write, model, stepper):
    rest = GOOD.partition("[stepper]")[0] + f"[model]\n{model}\n"
    draft = read(write(rest), ["stepper.fraction=0.5"])
    assert (draft.sections["stepper"].type, draft.sections["stepper"].fraction) == (stepper, 0.5)


@pytest.mark.parametrize(
    ("base", "model", "core"),
    [
        (GOOD, 'core = "finite_differences"', sw.FiniteDifferences()),
        (ANOTHER_GRID, 'core = "filtered_differences"', sw.FilteredDifferences()),
        (
            ANOTHER_GRID,
            'core = "filtered_differences"\npolar_filter = {latitude = 50}',
            sw.FilteredDifferences(latitude=50.0),
        ),
        (GOOD, 'core = "pseudo_spectral"', sw.PseudoSpectral()),
        (GOOD, 'core = "pseudo_spectral"\nspectral = {dealias = false}', sw.PseudoSpectral(dealias=False)),
    ],
)
def test_the_core_is_that_of_the_file(write, base, model, core):
    assert options_of(assemble(read(write(f"{base}[model]\n{model}\n"))))["core"] == core


def test_the_damping_of_unresolved_scales_is_that_of_the_file(write):
    model = '[model]\nmomentum = "momentum_conserving"\ndamping = 0.5\n'
    made = assemble(read(write(GOOD.replace('"rk4"', '"forward_backward_hancock"') + model)))
    momentum = options_of(made)["momentum"]
    assert (type(momentum).__name__, momentum.damping, type(momentum)().damping) == ("MomentumConserving", 0.5, 1.0)


FAULT = """
[[source.faults]]
longitude = 0
latitude = 0
depth = "20 km"
length = "100 km"
width = "50 km"
strike = 0
dip = 12
rake = 90
slip = "1 m"
"""
FLATHER = '[[boundary]]\ntype = "flather"\nsides = ["west"]\n'


@pytest.mark.parametrize(
    ("base", "more", "said"),
    [
        (GOOD.replace("[0, 160e3]", '[0, 160e3]\nperiodic = "x"'), FLATHER,
         "there is no west side: the grid is periodic in x"),
        (GOOD, FLATHER + FLATHER, "boundary[1].sides: the west side is open twice"),
        (GOOD, '[[boundary]]\ntype = "flather"\nsides = []\n', "() are not among west, east, south, north"),
        (GOOD, '[boundary]\ntype = "flather"\nsides = ["west"]\n', "write it with double brackets"),
        (GOOD, '[coriolis]\ntype = "rotating_sphere"\n', "needs a spherical grid"),
        (ANOTHER_GRID, '[coriolis]\ntype = "beta_plane"\nf0 = 1e-4\nbeta = 2e-11\n', "needs a cartesian grid"),
        (ANOTHER_GRID, '[[forcing]]\ntype = "wind_stress"\nx = "0.1 * y"\n',
         "uses y, which a spherical grid does not have"),
        (GOOD, '[[boundary]]\ntype = "clamped"\nsides = "west"\n[boundary.elevation]\n'
         'constituents.M2 = {amplitude = "0.1 * latitude", phase = 0}\n',
         "uses latitude, which a cartesian grid does not have"),
        (GOOD, '[initial]\ntype = "formula"\neta = "exp(-latitude)"\n', "uses latitude, which a cartesian grid"),
        (GOOD, '[initial]\ntype = "gaussian"\namplitude = 1\nradius = 5e3\ncentre = [0, "400 km"]\n',
         "is outside the grid"),
        (GOOD, "[output.gauges.positions]\nA = [1e3, 2e7]\n",
         "output.gauges.positions.A: (1000, 2e+07) is outside the grid"),
        (GOOD, '[output.gauges.positions]\nA = ["1 degree", 2]\n',
         "a coordinate in degree does not fit the cartesian grid"),
        (GOOD, "[output.gauges.positions]\nA = [1, 2, 3]\n", "too many values"),
        (GOOD, "[output.gauges.positions]\n", "output.gauges.positions"),
        (GOOD, '[output.gauges]\npositions.A = [1, 2]\nwindow.B = [0, 60]\n',
         "output.gauges.window.B: there is no gauge 'B'"),
        (GOOD, '[output.gauges]\npositions.A = [1, 2]\nwindow = ["2 min", "1 min"]\n', "(120.0, 60.0) is not a range"),
        (GOOD, '[output.gauges]\npositions.A = [1, 2]\narrival_fraction = 2\n', "output.gauges.arrival_fraction"),
        (GOOD, '[output.maxima]\nfile = "a.nc"\n[output.gauges]\nfile = "a.nc"\npositions.A = [1, 2]\n',
         "is written by output.gauges too"),
        (GOOD, '[output.maxima]\nfile = "a.txt"\n', "does not end in .nc"),
        (GOOD, '[output.maxima]\nfile = "a.zarr"\n', "only [[output.fields]] and [output.restart] can be Zarr"),
        (GOOD, '[output.restart]\nfile = "a.txt"\nevery = 1\n', "ends in neither .nc nor .zarr"),
        (GOOD, '[run.more]\n', "run.more: unknown key"),
        (GOOD.replace('"rk4"', '"rigid_lid"'), '[output.maxima]\n', "under a rigid lid the surface does not move"),
        (GOOD, FAULT.replace("dip = 12", "dip = 95"), "source.faults[0].dip: 95 is greater than 90; give a number in"),
        (GOOD, FAULT.replace('"1 m"', '"1 s"'), "source.faults[0].slip: '1 s' is a time; expected a length in m"),
        (GOOD, '[source]\nkajiura = true\n', "give either file (a table of faults) or [[source.faults]]"),
        (GOOD, '[model]\ncore = ["pseudo_spectral"]\n', "model.core: ['pseudo_spectral'] is unknown; did you mean"),
        (GOOD, '[model]\nlinear = "yes"\n', "model.linear: 'yes' is neither true nor false; give one of them"),
        (GOOD, '[model]\nmomentum = "energy"\n', "'energy' is unknown; did you mean 'energy_conserving'?"),
        (GOOD, '[model]\ndamping = 0.5\n', "model.damping: momentum is 'energy_conserving', which damps nothing"),
        (GOOD, '[[dissipation]]\ntype = "laplacian"\nviscosity = "300 m s-1"\n', "is a velocity; expected a viscosity"),
        (ANOTHER_GRID.replace("[30, 40]", "[30, 100]"), "", "goes beyond a pole"),
        (ANOTHER_GRID.replace("[30, 40]", '[30, 40], periodic = "x"'), "",
         "spans less than 360 degrees and cannot be periodic"),
        (ANOTHER_GRID.replace("2011-03-11T05:46:23", '"tomorrow"'), "", "expected a date and time in UTC"),
    ],
)  # fmt: skip
def test_sections_that_do_not_fit_together_are_refused(write, base, more, said):
    found = mistakes(write(with_more(base, "\n" + more)))
    assert any(said in text for text in found), found


def test_fields_and_restarts_may_be_stores(write):
    more = '[[output.fields]]\nfile = "a.zarr"\nvariables = ["eta"]\nevery = "1 h"\n'
    output = load(write(with_more(GOOD, more + '[output.restart]\nfile = "b.zarr"\nevery = "1 h"\n'))).output
    assert (output.fields[0].file, output.restart.file) == ("a.zarr", "b.zarr")


# -- overrides --------------------------------------------------------------------------------------------------------


def test_overrides_are_toml_values_and_bare_words(write):
    path = write(with_more(GOOD, '[[forcing]]\ntype = "wind_stress"\nx = 0.1\n'))
    changes = ["stepper.dt=300", "run.until=1year", "model.linear=true", "forcing.0.x=0.2", "forcing[0].y='0.1 Pa'"]
    experiment = load(path, [*changes, "grid.x=[0, 5e5]"])
    assert (experiment.stepper.dt, experiment.run.until) == (300.0, 365.25 * 86400)
    assert experiment.model.linear is True
    assert (experiment.forcing[0].x, experiment.forcing[0].y) == (0.2, 0.1)
    assert experiment.grid.x == (0.0, 5e5)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("stepper.dtt=3", "--set stepper.dtt=3: unknown key; did you mean 'dt'?"),
        ("stepper.dt=soon", "--set stepper.dt=soon: expected a time"),
        ("stepper.dt", "--set stepper.dt: expected KEY=VALUE"),
        ("stepper.dt.x=3", "--set stepper.dt.x=3: stepper.dt is a value, not a table"),
        ("grid.x.7=3", "--set grid.x.7=3: grid.x has entries 0 to 1"),
        ("grid.nx=3.5", "--set grid.nx=3.5: 3.5 is not a whole number"),
    ],
)
def test_overrides_are_validated_like_the_file(write, override, said):
    found = mistakes(write(GOOD), [override])
    assert any(text.startswith(said) for text in found), found


def test_the_text_kept_with_the_output_says_what_was_run(write):
    path = write(GOOD)
    assert read(path).effective_text == GOOD
    changed = read(path, ["stepper.dt=300", "run.start=2011-03-11T05:46:23", "output.gauges.positions.A=[1, 2]"])
    again = tomllib.loads(changed.effective_text)
    assert again == changed.raw and again["stepper"]["dt"] == 300


def test_dumped_tables_read_back_the_same():
    tables = tomllib.loads(LOCATED)
    tables |= {"numbers": [1, -2.5, 1e-300, float("inf"), True], "text": 'a "quote"\n\t\\ é', "empty": [], "none": {}}
    assert tomllib.loads(dump(tables)) == tables


@pytest.mark.parametrize("name, near", [("RK4", "rk4"), ("SSPRK3", "ssprk3"), ("ForwardBackward", "forward_backward")])
def test_names_in_capitals_have_a_hint(write, name, near):
    (sentence,) = read(write(GOOD.replace('"rk4"', f'"{name}"'))).sentences()
    assert sentence.endswith(f"stepper.type: '{name}' is unknown; did you mean '{near}'?")


def test_a_gauge_outside_the_grid_is_one_mistake(write):
    made = assemble(read(write(GOOD + "[output.gauges]\npositions = {A = [900e3, 0], B = [0, -1]}\n")))
    assert [sentence.partition("positions.")[2][:1] for sentence in made.sentences()] == ["A", "B"]


def test_an_automatic_step_heeds_the_speeds_at_the_start(study):
    """Quadratic drag limits the step to dt < 2 h / (c u); at rest gravity waves alone do, to twice as much."""
    bump = 'type = "gaussian", amplitude = "1 m", centre = ["60 km", "50 km"], radius = "30 km"'
    flow = BUMP.replace(bump, 'type = "formula", u = 4.0').replace("dt = 40", 'dt = "auto"')
    flow = flow.replace('type = "linear_drag", rate = 1e-5', 'type = "quadratic_drag", coefficient = 0.4')
    path, _ = study(flow.partition("[adjoint]")[0])
    made = assemble(read(path))
    simulation = _simulation(made, made.experiment(), SimpleNamespace(communicator="serial"), True)
    allowed = largest_time_step(simulation.model, simulation.scheme, simulation.state)
    assert simulation.dt <= allowed < 0.6 * largest_time_step(simulation.model, simulation.scheme)
