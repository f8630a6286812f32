"""Mistakes in parts of a user's own: `swmodel check` names the part, its file and line in one sentence."""

import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import swmodel as sw
from swmodel.cli.checks import check_experiment
from swmodel.errors import ConfigError
from swmodel.fields.field import Field

OWN = """from typing import Any
import numpy as np
import jax.numpy as jnp
import swmodel as sw


class Mine(sw.{}):
    {}
"""
BOX = """\
run = {{until = "5 min"}}
grid = {{type = "cartesian", nx = 8, ny = 6, x = [0, "80 km"], y = [0, "60 km"]}}
bathymetry = {{type = "flat", depth = "100 m"}}
stepper = {{type = "{}", dt = 40}}
"""
INVERSION = """\
dissipation = [{type = "linear_drag", rate = 1e-5}]
inversion.observations = {type = "gauges", positions = {a = ["30 km", "30 km"]}, window = ["1 min", "5 min"]}
inversion.twin = {}
inversion.controls = [{type = "own:Mine"}]
"""
FILES = {
    "Term": BOX.format("ab2") + "[[dissipation]]\ntype = 'own:Mine'\n",
    "OpenBoundary": BOX.format("ab2") + "[[boundary]]\ntype = 'own:Mine'\nsides = 'west'\n",
    "TimeStepper": BOX.format("own:Mine"),
    "TileCost": BOX.format("ab2") + "[adjoint]\ncontrols = ['depth']\n[adjoint.cost]\ntype = 'own:Mine'\n",
    "Prior": BOX.format("ab2") + INVERSION,
}
IN_CALL = [
    ("return None", "Mine.__call__ (own.py:8) returned None; return a pair, du/dt at u points and dv/dt at v points"),
    ("return 0.0, None", "returned None as dv/dt; return a pair"),
    ("return 0.0, 0.0, 0.0", "returned 3 values; return a pair"),
    ("return flow.v, flow.u", "returned a Field at v as du/dt; return a pair"),
    ("return np.ones((6, 8)), 0.0", "returned an array of shape (6, 8) as du/dt"),
    ("return np.nan, 0.0", "returned nan as du/dt"),
    ("return 1j, 0.0", "returned complex numbers, 1j as du/dt"),
    ("return 'u', 0.0", "returned 'u' as du/dt"),
    ("raise LookupError('no such thing')", "Mine.__call__ (own.py:8): LookupError: no such thing."),
    ("return 1 / 0, 0.0", "ZeroDivisionError: division by zero."),
    ("return flow.etta, 0.0", "LayerFlow has no 'etta'; did you mean 'eta'?"),
    ("return self.rte * flow.u, 0.0", "Mine has no 'rte'"),
    ("return flow.u + flow.v, 0.0", "a field at 'u' cannot be combined with one at 'v'; move one of them first"),
    ("return np.sin(flow.u), 0.0", "functions of values go through map, as in flow.u.map(jnp.sin)"),
    ("return flow.u.map(lambda u: u if u[0, 0] > 0 else -u), 0.0", "use jnp.where in place of if"),
    ("return flow.u.map(np.asarray), 0.0", "jnp in place of np"),
    ("raise SystemExit(3)", "Mine.__call__ (own.py:8): SystemExit: 3."),
    ("flow.u = 0", "Mine.__call__ (own.py:8) changed LayerFlow.u; the other parts read it, too"),
    ("self.n = 1", "a part cannot change; what changes in a run belongs to the state"),
]
CALL = "def __call__(self, flow, time): return 0.0, 0.0"
READ = """def read(self, state, equations, time): return {}
    def start(self): return jnp.zeros(())
    def update(self, acc, readings, first_step): return acc + {}
    def value(self, acc, final): return acc"""
STEP = "dt: Any = sw.time_step()\n    def step(self, equations, state, history, time): return {}"
TARGETS = "numbers = True\n    def targets(self): return {}\n    def transform(self, setting): return None"
ANY = "(self, state, equations, time)"
MISTAKES = [("Term", f"def __call__(self, flow, time): {body}", said) for body, said in IN_CALL] + [
    ("Term", "def __call__(self, flow): return 0.0, 0.0", "define it as __call__(self, flow, time)"),
    (
        "Term",
        "__call__ = None",
        "own.py:7: ConfigError: Mine.__call__ is None; define the method __call__(self, flow, ",
    ),
    ("Term", f"rates = 3\n    {CALL}", "ConfigError: Mine.rates is 3; define the method rates(self, site)"),
    ("Term", f"{CALL}\n    def continuity(self, flow, time): return flow.u", "returned a Field at u; return d eta/dt"),
    ("Term", f"{CALL}\n    def rates(self, site): return None", "Mine.rates (own.py:9) returned None; return a number"),
    (
        "Term",
        f"{CALL}\n    def rates(self, site): return np.ones(3)",
        "returned an array of shape (3,); return a number",
    ),
    ("Term", f"{CALL}\n    def __post_init__(self): raise ValueError('odd')", "(own.py:9): ValueError: odd."),
    ("Term", f"rate = sw.parameter()\n    {CALL}", "Mine: its parameters cannot be declared so: 'rate' is a field but"),
    ("Term", f"rate: Any = sw.parameter('z')\n    {CALL}", "own.py:8: ConfigError: parameter: position = 'z'"),
    (
        "OpenBoundary",
        "def outflow(self, inside, time): return None",
        "Mine.outflow (own.py:8) returned None; return the",
    ),
    (
        "OpenBoundary",
        "def outflow(self, inside, time): return inside.dpth",
        "Inside has no 'dpth'; did you mean 'depth'?",
    ),
    ("TimeStepper", STEP.partition("\n")[2].strip().format("state, history"), "Mine: the parameter dt is missing"),
    ("TimeStepper", STEP.format("state"), "Mine.step (own.py:9) returned a State; return the pair (state, history)"),
    ("TimeStepper", STEP.format("2.0 * state, history"), "Mine: it is stable at no time step"),
    ("TileCost", READ.format("state.etta", 0), "Mine.read (own.py:8): this State has no 'etta'; it holds u, v, eta."),
    ("TileCost", READ.format("jnp.sum(state.eta)", 0), "Mine.read (own.py:8) returned an array of shape (); return a"),
    ("TileCost", READ.format("state.eta[0]", "readings"), "Mine.update (own.py:10) returned an array of shape (1, 8)"),
    ("TileCost", f"def final{ANY}: return state.eta", "Mine.final (own.py:8) returned an array of shape (6, 8)"),
    ("TileCost", "pass", "own:Mine: it reads neither states nor the last one; define read or final"),
    ("Prior", TARGETS.format("('nothing',)"), "Mine: its targets: there is no control 'nothing'; known are depth,"),
    ("Prior", TARGETS.format("'depth'"), "Mine.targets (own.py:9) returned 'depth'; return a tuple of names"),
    (
        "Prior",
        TARGETS.format("('dissipation.0.rate',)"),
        "Mine.transform (own.py:10) returned None; return a Transform",
    ),
]


@pytest.mark.parametrize("base, body, said", MISTAKES)
def test_check_names_the_part_that_has_a_mistake(tmp_path, base, body, said):
    (tmp_path / "own.py").write_text(OWN.format(base, body))
    (tmp_path / "case.toml").write_text(FILES[base])
    with pytest.raises(ConfigError) as caught:
        check_experiment(str(tmp_path / "case.toml"), (), 1)
    (sentence,) = caught.value.mistakes
    assert said in sentence and any(name in sentence for name in ("own.py", "own:Mine", "Mine:"))


def test_methods_that_return_what_they_should_are_unchanged():
    class Pull(sw.Term):
        rate: Any = sw.parameter("h", "s-1")

        def __call__(self, flow, time):
            """The acceleration."""
            return -sw.to_u(self.rate) * flow.u, 0

    assert Pull.__call__.__doc__ == "The acceleration."
    assert list(inspect.signature(Pull.__call__).parameters) == ["self", "flow", "time"]
    along, across = Pull(2.0)(SimpleNamespace(u=Field(np.ones((2, 3)), "u", (0, 0, 0, 0))), None)
    assert across == 0 and (along.data == -2.0).all()
