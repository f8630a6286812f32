"""Parts of a user's own: what a class needs, in Python and in experiment files, and what is said of mistakes."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import jax
import numpy as np
import pytest

import swmodel as sw
from swmodel import adjoint
from swmodel.adjoint.assimilation.priors import Prior
from swmodel.adjoint.costs.costs import Cost
from swmodel.cli.checks import check_experiment
from swmodel.config import adjoint as adjoint_section
from swmodel.config import inversion, own, physics, read, read_text
from swmodel.config.assembly import assemble, model_of
from swmodel.config.parts import Shipped
from swmodel.config.studies import problem_of, transformed_of
from swmodel.dynamics.boundaries import OpenBoundary
from swmodel.dynamics.cores import Discretisation
from swmodel.dynamics.dissipation import Slip
from swmodel.dynamics.layer import VorticityFlux
from swmodel.dynamics.limiters import Limiter
from swmodel.dynamics.terms import Term
from swmodel.dynamics.tracers import AdvectionScheme
from swmodel.errors import ConfigError
from swmodel.fields.field import HaloError
from swmodel.fields.parts import code_of, control_names, shipped_parts, snake_case, units_of
from swmodel.grids.geometry import Coriolis
from swmodel.output.fingerprint import describe, differences, fingerprint
from swmodel.output.products.base import Product
from swmodel.stepping.explicit import TimeStepper
from tests import own_parts
from tests.selection import later

GRID = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4))
CASE = """\
run = {until = "10 min"}
grid = {type = "cartesian", nx = 8, ny = 6, x = [0, "80 km"], y = [0, "60 km"]}
bathymetry = {type = "flat", depth = "100 m"}
stepper = {type = "ralston:Ralston", dt = 60}
dissipation = [{type = "relaxation:Relaxation", rate = "1 day-1"}]
forcing = [
    {type = "wind_stress", x = 0.1},
    {type = "tide:TidalForce", strength = "1e-5 * exp(-x / 100e3)", period = "12.42 h"},
]
boundary = [{type = "tidal_opening:TidalOpening", sides = "west", amplitude = "50 cm", period = "12.42 h"}]
[adjoint]
controls = ["forcing.1.strength", "dissipation.0.rate", "boundary.0.amplitude"]
[adjoint.cost]
type = "unrest:Unrest"
"""


@pytest.fixture
def case(tmp_path):
    for name, text in own_parts.files().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "case.toml").write_text(CASE)
    return tmp_path / "case.toml"


# -- classes ----------------------------------------------------------------------------------------------------------


def test_a_plain_class_is_a_pytree_and_its_parameters_are_checked():
    class Friction(sw.Term):
        rate: Any = sw.parameter("h", "s-1", minimum=0.0)

        def __call__(self, flow, time):
            return -sw.to_u(self.rate) * flow.u, -sw.to_v(self.rate) * flow.v

    assert jax.tree.leaves(Friction(2.0)) == [2.0] and Friction(2.0) == Friction(rate=2.0)
    with pytest.raises(ConfigError, match="Friction: rate = -1 is negative; give a number in s-1, 0 or more"):
        Friction(-1)
    model = sw.ShallowWater(GRID, 100.0, dissipation=(sw.LinearDrag(1e-6), Friction(1e-5)))
    (control,) = adjoint.controls_of(model, ["dissipation.1.rate"])
    assert (control.units, control.position) == ("s-1", "scalar")


def test_a_frozen_dataclass_will_do_and_one_that_can_change_is_refused():
    @dataclasses.dataclass(frozen=True)
    class Frozen(sw.Term):
        rate: Any

        def __call__(self, flow, time):
            return -self.rate * flow.u, -self.rate * flow.v

    @dataclasses.dataclass
    class Loose(Frozen.__base__):
        rate: Any

        def __call__(self, flow, time):
            return 0.0, 0.0

    assert jax.tree.leaves(Frozen(2.0)) == [2.0]
    with pytest.raises(ConfigError, match="Loose: objects of a dataclass can change.*leave the decorator out"):
        Loose(1.0)


def test_what_a_class_lacks_is_said_in_one_sentence():
    class Empty(sw.Term):
        rate: Any = sw.parameter("h", "s-1")

    class Made(sw.Term):
        def __init__(self, rate):
            self.rate = rate

        def __call__(self, flow, time):
            return 0.0, 0.0

    class Stranger:
        def __call__(self, flow, time):
            return 0.0, 0.0

    class Older(sw.Term):
        rate: Any
        positions = {"rate": "h"}

        def __call__(self, flow, time):
            return 0.0, 0.0

    with pytest.raises(ConfigError, match="Older: `positions` is no longer used"):
        Older(1.0)
    with pytest.raises(ConfigError, match="Empty: the method __call__ is missing; define it as in sw.Term"):
        Empty(1.0)
    with pytest.raises(ConfigError, match="Made: parameters of a part are declared on its class.*leave __init__ out"):
        Made(1.0)
    with pytest.raises(ConfigError, match=r"dissipation\[0\].*one of a class that derives from sw.Term"):
        sw.ShallowWater(GRID, 100.0, dissipation=(Stranger(),))


class Neighbours(sw.Term):
    rate: Any = sw.parameter("h", "s-1", halo=False)

    def __call__(self, flow, time):
        return -sw.to_u(self.rate) * flow.u, 0.0


def test_fields_and_records_that_lack_ghost_cells_are_named():
    grid = sw.CartesianGrid(24, 20, (0.0, 24e3), (0.0, 20e3))
    for rate in (lambda x, y: 1e-5 + 0 * x * y, sw.Records([0.0, 600.0], np.full((2, *grid.shape), 1e-5))):
        model = sw.ShallowWater(grid, 100.0, dissipation=Neighbours(rate))
        with pytest.raises(HaloError, match="or dissipation.0.rate, declared with halo=False, is read at neighbouring"):
            model.halo(sw.AB2(10.0))


def test_parameters_of_any_term_may_be_time_records():
    """What a declaration allows works: a viscosity in records is that of the moment."""
    ramp = sw.Records([0.0, 600.0], np.stack([np.zeros(GRID.shape), np.full(GRID.shape, 2e4)]))
    model = sw.ShallowWater(GRID, 100.0, dissipation=(sw.Laplacian(ramp),), linear=True)
    x, y = GRID.coordinates("u")
    start = model.state(u=np.broadcast_to(np.sin(y / 1e4), GRID.shape))
    fixed = sw.ShallowWater(GRID, 100.0, dissipation=(sw.Laplacian(1e4),), linear=True)
    assert sw.limits(model, sw.RK4(60.0))[1].dt == pytest.approx(0.5 * sw.limits(fixed, sw.RK4(60.0))[1].dt)
    one, other = (sw.Simulation(m, start, sw.RK4(60.0)).run(steps=10) for m in (model, fixed))
    np.testing.assert_allclose(one.u, other.u, atol=2e-3 * float(np.abs(start.u).max()))  # the same impulse by then


def test_a_class_derived_from_a_part_has_the_parameters_of_both():
    class Friction(sw.Term):
        rate: Any = sw.parameter("h", "s-1", minimum=0.0)

        def __call__(self, flow, time):
            return -sw.to_u(self.rate) * flow.u, -sw.to_v(self.rate) * flow.v

    class Limited(Friction):
        share: float = sw.parameter(maximum=1.0, default=0.5)

    assert Limited(2.0) == Limited(rate=2.0, share=0.5) and Friction(1.0).rate == 1.0
    with pytest.raises(ConfigError, match="Limited: rate = -1"):
        Limited(-1.0)
    with pytest.raises(ConfigError, match="Friction: rate = -1"):
        Friction(-1.0)


# -- experiment files -------------------------------------------------------------------------------------------------


def test_a_file_names_parts_beside_it_and_the_model_has_them(case):
    made = assemble(read(case))
    model, stepper = model_of(made, "serial"), made.section("stepper").stepper(60.0)
    assert [type(term).__name__ for term in (*model.terms, *model.open_boundaries)] == [
        "WindStress",
        "TidalForce",
        "Relaxation",
        "TidalOpening",
    ]
    assert type(stepper).__name__ == "Ralston" and sw.limits(model, stepper)
    assert model.open_boundaries[0].amplitude == 0.5 and model.terms[1].strength.shape == GRID.shape


@pytest.mark.verify
def test_a_file_names_costs_and_controls_of_ones_own_parts(case):
    made = assemble(read(case))
    model, stepper = model_of(made, "serial"), made.section("stepper").stepper(60.0)
    section = made.section("adjoint")
    problem = problem_of(section, section.cost.build(), model, model.at_rest(), stepper, 2)
    assert problem.cost.units == "m2" and set(problem.value_and_gradient()[1]) == set(section.controls)
    assert set(read(case).sections["adjoint"].controls) < set(adjoint.names_of(model))


PRODUCT = """
[[output.products]]
type = "wave_energy:WaveEnergy"
file = "energy.nc"
level = "100 J m-2"
every = "2 min"
"""


@pytest.mark.parametrize(
    "change, said",
    [
        (("100 J m-2", "-1"), r"output.products\[0\].level: .*-1"),
        (("wave_energy:WaveEnergy", "energy"), "'energy' is no class of one's own; give its file and name"),
        (("wave_energy:WaveEnergy", "tide:TidalForce"), "'tide:TidalForce' does not derive from sw.Product"),
        (("2 min", "30 s"), "30 s is shorter than the time step of 60 s"),
    ],
)
def test_mistakes_of_a_product_are_named_with_their_keys(case, change, said):
    case.write_text(CASE + PRODUCT.replace(*change))
    assert re.search(said, "".join(read(case).sentences()))


@pytest.mark.parametrize(
    "change, said",
    [
        (('"over": over', '"over": energy'), "WaveEnergy.add: 'over' is float.*, and start made it int32"),
        later(('["speed"]', '["sped"]'), r"WaveEnergy.add \(wave_energy.py:\d+\): KeyError: 'sped'"),
        later(
            ('sums["over"] * samples', "samples"),
            "WaveEnergy.finish: time_over is an array of shape \\(\\) at 'h'; give one of shape",
        ),
        later(('"J m-2", "largest energy"', '"J m-2"'), r"WaveEnergy.finish \(wave_energy.py:\d+\): .*long_name"),
    ],
)
def test_mistakes_in_the_code_of_a_product_are_named_before_the_run(case, change, said):
    file = case.parent / "wave_energy.py"
    assert change[0] in file.read_text()
    file.write_text(file.read_text().replace(*change))
    case.write_text(CASE.partition("[adjoint]")[0] + PRODUCT)
    with pytest.raises(ConfigError, match=said):
        check_experiment(case, [], 1)


INVERSION = """
[inversion.observations]
type = "gauges"
positions = { a = ["30 km", "30 km"] }
window = ["1 min", "10 min"]
[inversion.twin]
[[inversion.controls]]
type = "friction_error:FrictionError"
error = 0.5
"""


def test_an_inversion_takes_a_control_of_ones_own(case):
    case.write_text(CASE + INVERSION)
    assert not read(case).sentences()
    made = assemble(read(case))
    model, section = model_of(made, "serial"), made.section("inversion")
    assert section.chosen == "linear"
    transformed = transformed_of(section, made, model, model.at_rest(), 60.0)
    assert {name: value.shape for name, value in transformed.parameters.items()} == {"friction_error": ()}
    found = transformed.function({"friction_error": np.array(2.0, model.dtype)})
    assert found == {"dissipation.0.rate": pytest.approx(np.e / 86400.0, rel=1e-5)}
    case.write_text(CASE + INVERSION.replace("error = 0.5", "error = -1"))
    assert any(
        "inversion.controls[0].error: -1 is not positive; give a number, greater than 0" in s
        for s in read(case).sentences()
    )
    case.write_text(CASE.replace("relaxation:R", "tide:R") + INVERSION.replace("friction_error:F", "unrest:F"))
    assert any("inversion.controls[0].type: the module 'unrest' has no class" in s for s in read(case).sentences())


TWICE = """
class RateError(FrictionError):
    term: float = sw.parameter(minimum=0.0, maximum=1.0, static=True, doc="the number of the term")

    def targets(self):
        return ("dissipation.0.rate" if self.term == 0 else "forcing.1.strength",)
"""


def test_each_control_of_one_class_has_parameters_of_its_own_in_an_inversion(case):
    file = case.parent / "friction_error.py"
    file.write_text(file.read_text() + TWICE)
    named = INVERSION.replace(":FrictionError", ":RateError") + "term = 0\n"
    case.write_text(CASE + named + named[named.index("[[inversion.controls]]") :].replace("term = 0", "term = 1"))
    made = assemble(read(case))
    model = model_of(made, "serial")
    transformed = transformed_of(made.section("inversion"), made, model, model.at_rest(), 60.0)
    assert set(transformed.parameters) == {"rate_error", "rate_error_1"}


DRAG = """
import swmodel as sw

SHARE = 1.0  # of the rate

class Drag(sw.Term):
    rate: float = sw.parameter(units="s-1")

    def __call__(self, flow, time):
        return -SHARE * self.rate * flow.u, -SHARE * self.rate * flow.v
"""


def test_a_restart_of_a_run_with_other_code_of_a_part_is_refused(case):
    """The code as it was imported: a file that is edited while a run lasts is not that of the run."""
    file = case.with_name("own_drag.py")
    case.write_text(CASE.replace("relaxation:Relaxation", "own_drag:Drag"))

    def made(text):
        file.write_text(text)
        model = model_of(assemble(read(case)), "serial")
        file.write_text("edited since")
        return fingerprint(model, 0, 60.0)

    first = made(DRAG)
    assert differences(first, made(DRAG.replace("  # of the rate", "\n\n# the share of the rate"))) == []
    (difference,) = differences(first, made(DRAG.replace("1.0", "100.0")))
    assert difference.name == "dissipation.0.code" and "dissipation.0.code is " in difference.text
    stepper = read(case).sections["stepper"].stepper(60.0)
    assert re.fullmatch(r"Ralston\(dt=60, code=[0-9a-f]{16}\)", describe(stepper))
    assert not code_of(sw.Laplacian) and not code_of(int)


WRONG = {
    ('rate = "1 day-1"', 'rate = "1 day"'): "case.toml:5: dissipation[0].rate: '1 day' is a time; expected a rate",
    ('rate = "1 day-1"', "rate = 1, speed = 1"): "dissipation[0].speed: unknown key",
    ("relaxation:Relaxation", "relaxation:Relaxtion"): "the module 'relaxation' has no class 'Relaxtion'; did you mean",
    ("relaxation:Relaxation", "none:Relaxation"): "and no installed module 'none'; correct the name",
    ("relaxation:Relaxation", "ralston:Ralston"): "'ralston:Ralston' does not derive from sw.Term",
    ("relaxation:Relaxation", "relaxing"): "dissipation[0].type: 'relaxing' is unknown; known are",
    ("relaxation:Relaxation", "broken:Relaxation"): "broken.py:2: ZeroDivisionError: division by zero",
    ("unrest:Unrest", "unrest:Rest"): "adjoint.cost.type: the module 'unrest' has no class 'Rest'; did you mean",
    ("ralston:Ralston", "relaxation:Relaxation"): "'relaxation:Relaxation' does not derive from sw.TimeStep",
}


@pytest.mark.parametrize("change", WRONG, ids=lambda change: change[1])
def test_what_is_wrong_with_a_part_is_one_mistake(case, change):
    case.with_name("broken.py").write_text("x = 1\ny = x / 0\n")
    case.write_text(CASE.replace(*change, 1).replace("dissipation.0.rate", "depth"))
    found = [sentence for sentence in read(case).sentences() if "control" not in sentence]
    assert WRONG[change] in found[0] and len(found) <= 2


@pytest.mark.parametrize(
    "name", ["{}/evil", "../evil", "..evil", "sub/../../evil", "evil", "antigravity", "subprocess"]
)
def test_code_comes_from_the_folder_of_the_file_or_is_installed(case, tmp_path_factory, name):
    """And not by a path, by a link that leads out of the folder, or from Python itself."""
    outside = tmp_path_factory.mktemp("outside")
    outside.joinpath("evil.py").write_text(f"open({str(outside / 'ran')!r}, 'w')\nclass Evil: pass\n")
    case.with_name("evil.py").symlink_to(outside / "evil.py")
    case.write_text(CASE.replace("relaxation:Relaxation", f"{name.format(outside)}:Evil"))
    sentences = [sentence for sentence in read(case).sentences() if "dissipation[0].type" in sentence]
    assert len(sentences) == 1
    assert any(said in sentences[0] for said in ("imported from the folder", "is a link", "belongs to Python"))
    assert not (outside / "ran").exists() and "antigravity" not in sys.modules


def test_check_says_what_it_imports_before_it_does_and_counts_a_product(case, capsys):
    case.write_text(CASE.replace("relaxation:Relaxation", "loud:Relaxation").partition("[adjoint]")[0] + PRODUCT)
    case.with_name("loud.py").write_text("print('loud runs')\n" + case.with_name("relaxation.py").read_text())
    check_experiment(str(case), (), 1)
    text = capsys.readouterr().out
    assert "energy.nc: Largest energy of the water per area, and how often it was exceeded" in text
    printed = text.splitlines()
    assert printed.index(f"importing {case.with_name('loud.py')}") == printed.index("loud runs") - 1


SCHEMES = """\
import dataclasses
from swmodel.dynamics.layer import EnstrophyConserving
from swmodel.dynamics.limiters import MinMod
from swmodel.dynamics.tracers import Centred, Limiter

@dataclasses.dataclass(frozen=True)
class Half(Limiter):
    def __call__(self, a, b):
        return 0.5 * MinMod()(a, b)

class Plain(Centred):
    pass

class Form(EnstrophyConserving):
    pass
"""
TRACERS = """
[model]
momentum = "schemes:Form"
[[tracer]]
name = "dye"
limiter = "schemes:Half"
[[tracer]]
name = "salt"
scheme = "schemes:Plain"
"""


def test_files_name_schemes_limiters_and_forms_of_ones_own(case):
    case.with_name("schemes.py").write_text(SCHEMES)
    case.write_text(CASE.partition("[adjoint]")[0] + TRACERS)
    model = model_of(assemble(read(case)))
    dye, salt = (tracer.scheme for tracer in model.tracers)
    assert type(dye.limiter).__name__ == "Half" and type(salt).__name__ == "Plain"
    assert type(model.momentum).__name__ == "Form"
    assert fingerprint(model, 0, 60.0)["tracers.salt.scheme.code"]
    case.write_text(case.read_text().replace('scheme = "schemes:Plain"', 'scheme = "schemes:Half"'))
    sentences = read(case).sentences()
    assert len(sentences) == 1 and sentences[0].endswith(
        "tracer[1].scheme: 'schemes:Half' does not derive from swmodel.dynamics.tracers.AdvectionScheme; let "
        "it, or name another class"
    )


CORE = """\
import swmodel as sw
from swmodel.dynamics.cores import FiniteDifferences
from swmodel.dynamics.dissipation import Slip
from swmodel.dynamics.layer import VorticityFlux


class Halved(FiniteDifferences):
    share: float = sw.parameter(None, default=0.5, minimum=0.0)

    def tendency(self, equations, state, time):
        return self.share * super().tendency(equations, state, time)


class Partial(Slip):
    factor = 1.0


class Still(VorticityFlux):
    def vorticity_flux(self, q, U, V):
        return 0.0 * sw.to_u(q), 0.0 * sw.to_v(q)

    def describe(self):
        return "none"
"""
OWN_MODEL = """\
run = {until = "10 min", engine = "arrays"}
grid = {type = "cartesian", nx = 8, ny = 6, x = [0, "80 km"], y = [0, "60 km"]}
bathymetry = {type = "flat", depth = "100 m"}
stepper = {type = "rk4", dt = 60}
initial = {type = "ridge:Ridge", height = "50 cm", width = "10 km"}
model = {MODEL}
"""


def own_model(case, keys, code=CORE):
    case.with_name("cores.py").write_text(code)
    case.write_text(OWN_MODEL.replace("{MODEL}", keys))
    sentences = read(case).sentences()
    assert not sentences, sentences
    made = assemble(read(case))
    model = model_of(made, "serial")
    return model, made.section("initial").state(model)


def test_a_core_of_ones_own_can_be_named_in_a_file(case):
    halved, start = own_model(case, '{core = "cores:Halved", momentum = "energy_conserving"}')
    plain, _ = own_model(case, '{core = "finite_differences"}')
    rates = [
        np.asarray(sw.integrate(model.dynamics(sw.AB2(1e-3), 1), sw.AB2(1e-3), start, 1)[0].u)
        for model in (halved, plain)
    ]
    assert np.abs(rates[1]).max() > 0
    np.testing.assert_allclose(rates[0], 0.5 * rates[1], rtol=1e-5)
    case.write_text(case.read_text().replace("finite_differences", "cores:Partial"))
    (sentence,) = read(case).sentences()
    assert "model.core: 'cores:Partial' does not derive from swmodel.dynamics.cores.Discretisation" in sentence
    assert read_text(case.read_text(), case, case.parent, own_parts=False).mistakes[0].path == ("model", "core")


def test_a_restart_notices_that_a_core_a_condition_or_a_form_of_ones_own_has_changed(case):
    keys = '{core = "cores:Halved", side = "cores:Partial", momentum = "cores:Still"}'
    before, after = (
        fingerprint(own_model(case, keys, code)[0], 0, 60.0)
        for code in (CORE, CORE.replace("minimum=0.0", "minimum=0.1"))
    )
    names = {each.name for each in differences(before, after)}
    assert names == {"core.code", "momentum", "side"}


def test_an_initial_state_of_ones_own_can_be_named_in_a_file(case):
    model, state = own_model(case, "{}")
    x = GRID.coordinates("h")[0]
    np.testing.assert_allclose(state.eta[0], 0.5 / np.cosh((np.ravel(x) - 40e3) / 10e3) ** 2, rtol=1e-5)
    case.write_text(case.read_text().replace('"50 cm"', '"50 s"'))
    (sentence,) = read(case).sentences()
    assert "initial.height: '50 s' is a time; expected a length in m" in sentence
    ridge = case.with_name("ridge.py")
    ridge.write_text(ridge.read_text().replace("return model.state(eta=ridge)", "return ridge"))
    with pytest.raises(ConfigError, match=r"Ridge.state \(ridge.py:\d+\) returned .*; return a State"):
        own_model(case, "{}")


def test_a_stepper_that_solves_takes_a_solver_of_ones_own(case):
    text = CASE.replace("ralston:Ralston", "semi_implicit").replace("dt = 60", 'dt = 60, solver = "jacobi:Jacobi"')
    case.write_text(text)
    assert type(read(case).sections["stepper"].stepper().solver).__name__ == "Jacobi"
    case.write_text(case.read_text().replace("jacobi:Jacobi", "tide:TidalForce"))
    assert any("'tide:TidalForce' does not derive from sw.Solver" in found for found in read(case).sentences())
    case.with_name("scaled.py").write_text("from swmodel.elliptic import Diagonal\nclass Scaled(Diagonal):\n    pass\n")
    case.write_text(text.replace('"jacobi:Jacobi"', '"conjugate_gradients", preconditioner = "scaled:Scaled"'))
    assert type(read(case).sections["stepper"].stepper().solver.preconditioner).__name__ == "Scaled"


def test_an_entry_point_gives_a_short_name(case, monkeypatch):
    point = EntryPoint("relaxing", "relaxation:Relaxation", own.GROUP)
    monkeypatch.setattr(own, "entry_points", lambda group: [point] if group == own.GROUP else [])
    case.write_text(CASE.replace("relaxation:Relaxation", "relaxing"))
    (section,) = read(case).sections["dissipation"]
    assert section.part.__name__ == "Relaxation" and section.rate == pytest.approx(1 / 86400)
    found = read_text(case.read_text(), case, case.parent, own_parts=False).sentences()
    assert any("'relaxing' is not a part of swmodel" in sentence for sentence in found)


BASES = Term, OpenBoundary, TimeStepper, Coriolis, VorticityFlux, Slip, Discretisation, AdvectionScheme, Limiter, Cost
OF_ONE_FOLDER = Product, Prior  # parts whose modules are all imported


def test_the_name_of_a_part_in_files_leads_to_its_class_whichever_module_has_it():
    for module in pkgutil.walk_packages(sw.__path__, "swmodel."):
        if module.name.split(".")[1] not in ("__main__", "cli", "postprocess"):
            importlib.import_module(module.name)
    for base in (*BASES, *OF_ONE_FOLDER):
        parts = shipped_parts(base)
        assert parts and dict(Shipped(base)) == parts
        for name, cls in parts.items():
            assert Shipped(base)[name] is cls and name not in Shipped(base, kind="another kind")
            offered = getattr(sw, cls.__name__, None), getattr(adjoint, cls.__name__, None)
            in_files = base not in OF_ONE_FOLDER and not (base is Cost and cls.kind != "cost")
            assert cls in offered or not in_files, f"{cls} is in no table of public names"


def test_a_file_loads_the_modules_of_its_own_parts_alone():
    others = "forcing.cyclones", "forcing.potential", "sources.fault", "nests.nest", "stepping.split_explicit"
    code = (
        "import sys; from swmodel.config import read_text; print(*read_text(sys.argv[1], 'gyre.toml', '.').mistakes);"
        "print(*({f'swmodel.{name}' for name in sys.argv[2:]} & set(sys.modules)))"
    )
    lines = [line for line in CASE.partition("boundary")[0].splitlines() if ":" not in line]
    text = "\n".join([*lines, 'dissipation = [{type = "laplacian", viscosity = 1e3}]'])
    done = subprocess.run([sys.executable, "-c", code, text, *others], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_part_that_the_package_offers_has_a_section_and_controls_with_units():
    known = physics.FORCING | physics.DISSIPATION | physics.BOUNDARY | physics.STEPPERS
    known |= adjoint_section.COSTS | inversion.CONTROLS
    kinds = {section.part.kind for section in known.values()}
    offered = [x for x in (getattr(sw, name) for name in sw.__all__) if getattr(x, "kind", None) in kinds - {None}]
    parts = [cls for cls in offered if not inspect.isabstract(cls)]
    assert len(parts) > 12
    for cls in parts:
        assert known[snake_case(cls.__name__)].part is cls
        assert all(units_of(cls, name) for name in control_names(cls)), cls


def test_a_restart_alone_imports_nothing_and_says_what_it_needs(case):
    case.with_name("relaxation.py").write_text("raise SystemExit('imported')")
    found = read_text(CASE, case, case.parent, own_parts=False).sentences()
    assert any("'relaxation:Relaxation' is not a part of swmodel" in s and "--experiment FILE.toml" in s for s in found)
    assert not any("imported" in sentence for sentence in found)


TILTED = """\
import swmodel as sw
from swmodel.grids.geometry import Coriolis


class Tilted(Coriolis):
    f0: float = sw.parameter(None, "s-1")
    slope: float = sw.parameter(None, "m-1 s-1", default=0.0)

    def at_y(self, y):
        return self.f0 + self.slope * y
"""


def test_a_rotation_of_ones_own_can_be_named_in_a_file(tmp_path):
    (tmp_path / "tilted.py").write_text(TILTED)
    text = CASE.partition("stepper")[0] + 'coriolis = {type = "tilted:Tilted", f0 = "1e-4 s-1", slope = 2e-11}\n'
    model = model_of(assemble(read_text(text, "case.toml", tmp_path)), "serial")
    np.testing.assert_allclose(model.domain.coriolis.at_y(np.array([0.0, 6e4])), [1e-4, 1e-4 + 1.2e-6], rtol=1e-12)
    entries = fingerprint(model, 0, 1.0, steps=1)
    assert entries["coriolis"] == "tilted:Tilted" and "coriolis.code" in entries
    assert read_text(text, "case.toml", tmp_path, own_parts=False).mistakes[0].path == ("coriolis", "type")
