"""Turbulence of two layers beside pyqg-jax: energy of eddies, their spectra, and their flux of thickness."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

import swmodel as sw
from swmodel.dynamics.clock import Time
from swmodel.dynamics.layer import LayerFlow
from swmodel.fields.field import Value, mean_y
from swmodel.verification import Case, Mark, Outcome
from swmodel.verification.case import Panel

from .turbulence import BOX, DRAG, RADIUS, SPEED, TIME, F, Statistics

DEPTH, GRAVITY = 1000.0, 9.81  # of each layer [m]; of the surface
REDUCED = 2.0 * (RADIUS * F) ** 2 / DEPTH  # of the interface [m s-2]
REFERENCE = Path(__file__).with_name("pyqg.json")
TIMES, SPIN_UP = 1000, 60  # the energy varies slowly: means over 240 differ by 10 %


@sw.pytree
class MeanShear(sw.Forcing):
    """What balances a uniform flow U of the upper layer, in one layer: the pressure, and the slopes of eta of both.

    They are left out of eta, so that the domain may be periodic: dv_1/dt = f U, and deta_k/dt = - sum of v_j dh_j/dy
    over the layers j below the interface k, with the slopes of the thickness dh_2/dy = f U / g' and
    dh_1/dy = - f U / g' - f U / g. Terms of the order of the Rossby number are left out.
    """

    speed: Any = sw.parameter(None, "m s-1", doc="U")
    layer: int = sw.parameter(None, "1", static=True, doc="the layer that it acts on")

    def __call__(self, flow: LayerFlow, time: Time) -> tuple[Value, Value]:
        return 0.0, F * self.speed if flow.layer == 0 else 0.0

    def continuity(self, flow: LayerFlow, time: Time) -> Value:
        lower = F * self.speed / REDUCED
        slopes = (-lower - F * self.speed / GRAVITY, lower)
        return -sum(slopes[k] * mean_y(flow.layers[k].v) for k in range(flow.layer, 2))


def statistics(cells: int, times: int = TIMES) -> Statistics:
    """Those of a run on cells x cells, from a random interface."""
    length, spacing = BOX * RADIUS, BOX * RADIUS / cells
    model = sw.ShallowWater(
        sw.CartesianGrid(cells, cells, (0.0, length), (0.0, length), "xy"),
        depth=2.0 * DEPTH,
        gravity=GRAVITY,
        layers=sw.Layers(thickness=(DEPTH,), reduced_gravities=(REDUCED,)),
        coriolis=sw.FPlane(F),
        forcing=(MeanShear(SPEED, layer=0), MeanShear(SPEED, layer=1)),
        dissipation=(sw.LinearDrag(DRAG / TIME), sw.Biharmonic(0.02 * SPEED * spacing**3)),
        communicator="serial",
        dtype="float64",
    )
    steps = int(np.ceil(TIME * RADIUS * F / (0.25 * spacing)))
    stepper = sw.SemiImplicit(TIME / steps)
    dynamics = model.dynamics(stepper, steps=steps)
    run = jax.jit(lambda state: sw.integrate(dynamics, stepper, state, steps)[0])
    phases = np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, (25, 2))

    def interface(x, y):
        waves = [(a, b) for a in range(1, 6) for b in range(1, 6)]
        turns = [
            (2 * np.pi * a * x / length + p, 2 * np.pi * b * y / length + q) for (a, b), (p, q) in zip(waves, phases)
        ]
        return 5.0 * sum(np.sin(along) * np.sin(across) for along, across in turns)

    state, result = model.state(u=lambda x, y: SPEED + 0.0 * x, eta_2=interface), Statistics()
    for _ in range(times):
        state = run(state)
        # no water is gained over the slopes that are left out
        state = state.replace(**{name: state[name] - np.mean(state[name]) for name in ("eta", "eta_2")})
        u, v = (np.stack([state[name], state[f"{name}_2"]]) for name in ("u", "v"))
        v_upper = 0.5 * (v[0] + np.roll(v[0], -1, axis=0))
        result.add(u - u.mean(axis=(1, 2), keepdims=True), v, v_upper * np.asarray(state["eta_2"]) * REDUCED / F)
    return result


def measure(resolutions: tuple) -> Outcome:
    reference, lines = json.loads(REFERENCE.read_text()), {}
    (cells,) = resolutions
    ours = statistics(cells).after(SPIN_UP)
    for name, means in {"swmodel": ours, "pyqg-jax": reference}.items():
        for layer, spectrum in zip(("upper", "lower"), means["spectra"]):
            lines[f"{name}, {layer} layer"] = (np.arange(1, 21), np.array(spectrum[:20]))
    panel = Panel("energy of eddies [U^2]", "errors", lines, labels=("wavelengths in the domain", ""))
    values = {
        "phillips_eke_ratio": ours["energy"][0] / reference["energy"][0],
        "phillips_eke_ratio_error": float(
            np.hypot(*(means["energy"][1] / means["energy"][0] for means in (ours, reference)))
        ),
        "phillips_flux_ratio": ours["flux"][0] / reference["flux"][0],
    }
    return Outcome(values, [panel])


Case(
    name="two_layer_turbulence",
    group="planar",
    title="Turbulence of two layers under a mean shear",
    tests="the exchange of energy between layers, and its cascade to large and small scales",
    source="Salmon (1980)",
    doi="10.1080/03091928008241178",
    equation="quasi-geostrophic turbulence by pyqg-jax 0.8.1 (benchmarks/pyqg/reference.py)",
    measure=measure,
    marks=(
        Mark("phillips_eke_ratio", "kinetic energy of eddies over that of pyqg-jax", least=0.9, most=1.1),
        Mark("phillips_eke_ratio_error", "standard error of that ratio, by parts of both runs in time"),
        Mark("phillips_flux_ratio", "eddy flux of thickness over that of pyqg-jax"),
    ),
    resolutions=(96,),
    norm="means over 940 times the deformation radius over the mean flow",
)  # fmt: skip
