"""Layers of uniform density: what they keep, what one layer is of them, and what stops them."""

import functools
import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel import postprocess
from swmodel.adjoint.controls.controls import names_of
from swmodel.adjoint.costs.readers import BoxReader, SectionReader
from swmodel.cli.checks import check_experiment
from swmodel.config import read
from swmodel.config.adjoint import known_controls
from swmodel.config.assembly import assemble, model_of
from swmodel.config.initial import InitialFile
from swmodel.diagnostics import derived as diagnostics
from swmodel.dynamics.layer import divergence, gradient
from swmodel.dynamics.vertical_modes import modes
from swmodel.errors import ConfigError, PlotError, SwmodelError
from swmodel.fields.field import mean_x, mean_y
from swmodel.fields.variables import in_layer, layer_of, row_of
from swmodel.postprocess import budgets, layered
from swmodel.postprocess import spectra as figures_of_spectra
from swmodel.runtime.compilation import jit
from swmodel.stepping.split_explicit import conductances
from swmodel.verification.layers import FLAT, STABLE, mode_errors
from swmodel.verification.suite import all_cases
from tests.selection import later

from .cases import by_engine, plane, rough, take_steps, uniform


class Rain(sw.Forcing):
    """A term that raises eta, and does not say of which layer."""

    def __call__(self, flow, time):
        return 0.0, 0.0

    def continuity(self, flow, time):
        return 1e-6 * flow.geometry.wet


THREE = sw.Layers(thickness=(15.0, 25.0), densities=(1000.0, 1010.0, 1050.0))
FLOATING = sw.Layers(thickness=(15.0, 25.0), densities=(1000.0, 1010.0, 1050.0, 1060.0), deep_at_rest=True)


def sea(layers, **options):
    """Layers over a rough bottom of 70 m to 250 m, with islands."""
    grid = plane(periodic="x")
    depth = np.where(rough(grid) > 0, rough(grid) + 50.0, 0.0)
    return sw.ShallowWater(
        grid, depth, coriolis=sw.BetaPlane(1e-4, 1e-9), layers=layers, least_thickness=1.0, **options
    )


def random_state(model, size=1.0):
    names = [row.name for row in model.variables]
    return model.state(**{name: uniform(model.grid.shape, k, -size, size) for k, name in enumerate(names)})


@jit
def identities(dynamics, state):
    """(the tendency; {name: (rate along it, sum of absolute rates)} of energy and volumes; heights of interfaces)."""
    equations = dynamics.prepare()
    area = lambda flow: flow.geometry.wet_area  # noqa: E731

    def of(state):
        flow = equations.flow(state, 0.0)
        kinetic, potential = diagnostics.energies(flow)
        parts = {"energy": sum(kinetic) + sum(potential)}
        parts |= {in_layer("volume", layer.layer): layer.h for layer in flow.layers}
        return {name: (area(flow) * x).interior for name, x in parts.items()}, diagnostics.energy(flow)

    flow, change = equations.flow(state, 0.0), equations.tendency(state, 0.0)
    tops = [diagnostics.field(name, flow).interior for name in diagnostics.in_all_layers("interface_height", equations)]
    _, (parts, total) = jax.jvp(of, (state,), (change,))
    rates = {name: (jnp.sum(x), jnp.sum(jnp.abs(x))) for name, x in parts.items()}
    return change, rates | {"total energy": (total, rates["energy"][1])}, tops


@pytest.mark.parametrize(
    "layers, momentum",
    [(THREE, sw.EnergyConserving()), (FLOATING, sw.ArakawaLamb())],
    ids=("over the sea floor", "over a deep layer at rest"),
)
def test_layers_keep_energy_and_their_volumes_and_a_state_of_rest(layers, momentum):
    model = sea(layers, momentum=momentum)
    moving = random_state(model)
    _, rates, tops = identities(model.interval(2, 0, 1.0), moving)
    assert len(rates) == 2 + layers.count
    for name, (rate, absolute) in rates.items():
        assert abs(rate) < 1e-12 * absolute, name
    eta = moving.eta, moving.eta_2, moving.eta_3
    raised = [0.0, *(-x for x in eta)] if layers.deep_at_rest else [*eta, 0.0]
    for top, level, more in zip(tops, (0.0, -15.0, -40.0, -model.depth), raised, strict=True):
        assert np.abs(np.asarray(top - level - more)[model.wet]).max() < 1e-12
    still, *_ = identities(model.interval(2, 0, 1.0), model.at_rest())
    assert all(float(np.abs(x).max()) == 0.0 for _, x in still)


@pytest.mark.parametrize("engine", (pytest.param("arrays", marks=pytest.mark.verify), "fused"))
def test_layers_of_equal_density_that_move_together_are_one_layer(engine):
    """With their shares of the water everywhere alike, on a flat bottom, so that they keep them."""
    grid, share = plane(periodic="x"), 0.4
    model = {"coriolis": sw.FPlane(1e-4), "engine": engine, "dissipation": sw.Laplacian(500.0)}
    one = sw.ShallowWater(grid, 100.0, **model)
    two = sw.ShallowWater(grid, 100.0, layers=sw.Layers(thickness=(60.0,), densities=(1025.0, 1025.0)), **model)
    u, v, eta = (uniform(grid.shape, k, -0.3, 0.3) for k in range(3))
    ends = []
    for sea, more in ((one, {}), (two, {"u_2": u, "v_2": v, "eta_2": share * eta})):
        state = sea.state(u=u, v=v, eta=eta, **more)
        ends.append(by_engine(sea, sw.ForwardBackward(60.0), state, 60))
    for name, x in ends[0]:
        assert np.abs(ends[1][name] - x).max() < 1e-12 * np.abs(x).max()
    for name in ("u", "v"):
        assert np.abs(ends[1][in_layer(name, 1)] - ends[1][name]).max() < 1e-12


@pytest.mark.verify
def test_vertical_modes_travel_at_the_speeds_of_the_eigenproblem():
    coarse, fine = (np.abs(mode_errors(2, n)) for n in (8, 16))
    assert (fine < 7e-3).all() and np.allclose(np.log2(coarse / fine), 2.0, atol=0.05)


@pytest.mark.parametrize("case, sizes", [("internal_kelvin", (8, 16)), ("layer_adjustment", (20, 40))])
@pytest.mark.verify
def test_waves_of_layers_in_a_rotating_frame_converge_to_their_closed_solutions(case, sizes):
    assert all_cases()[case].measure(sizes).values[f"{case}_order"] > 1.85


@pytest.mark.verify
def test_disturbances_of_sheared_layers_grow_as_in_linear_theory_unless_beta_holds_them():
    """Small here; `make verify CASE=phillips` has more wavenumbers, finer grids and a limit of 2 %."""
    for shear, most in ((FLAT, 0.055), (STABLE, 0.01)):
        rate, theory = shear.growth(0.8 / shear.radius, 16)[0], shear.growing(0.8 / shear.radius)[0].imag
        assert abs(rate - theory) < most * FLAT.growing(0.8 / FLAT.radius)[0].imag


def test_terms_act_on_their_layer():
    grid = plane(periodic="xy")
    acts = {"forcing": sw.WindStress(x=1025.0), "dissipation": sw.InterfacialFriction(0.5)}
    model = sw.ShallowWater(grid, 100.0, layers=sw.Layers((20.0, 30.0), (1000.0, 1010.0, 1020.0)), **acts)
    change, *_ = identities(model.interval(2, 0, 1.0), model.state(u_2=1.0))
    expected = (1.0 + 0.5) / 20.0, -2 * 0.5 / 30.0, 0.5 / 50.0  # momentum goes from the middle layer to its neighbours
    for k, rate in enumerate(expected):
        assert np.allclose(change[in_layer("u", k)], rate, rtol=1e-12)
    drags = sw.ShallowWater(grid, 100.0, layers=THREE, dissipation=(sw.LinearDrag(0.1), sw.LinearDrag(0.2, layer=0)))
    change, *_ = identities(drags.interval(2, 0, 1.0), drags.state(u=1.0, u_2=1.0, u_3=1.0))
    assert [float(change[in_layer("u", k)][0, 0]) for k in range(3)] == pytest.approx([-0.2, 0.0, -0.1])


@jit
def readings(dynamics, state, readers):
    equations = dynamics.prepare()
    return [reader.read(state, equations, 0.0)[0] for reader in readers]


def test_a_section_reads_the_transport_of_all_layers_or_of_one_and_a_box_the_energy_of_all():
    model = sea(THREE)
    state = random_state(model)
    x, (south, north) = model.grid.x_edges[3], model.grid.y_edges[[1, -2]]
    sections = [SectionReader.between((x, south), (x, north), model, layer) for layer in (None, 0, 1, 2, -1)]
    box = BoxReader.over(None, None, 1000.0, model)
    every, *each, last, energy = readings(model.interval(2, 0, 1.0), state, [*sections, box])
    assert np.isclose(every, sum(each)) and last == each[-1] and len({float(x) for x in each}) == 3
    h = 25.0 + np.asarray(state.eta_2 - state.eta_3)
    faces = 0.5 * (h[1:-1, 2] + h[1:-1, 3]) * np.asarray(state.u_2)[1:-1, 2] * np.diff(model.grid.y_edges)[1:-1]
    assert np.isclose(each[1], faces.sum(), rtol=1e-4)
    assert np.isclose(energy, sw.energy(model, state, 1000.0))
    with pytest.raises(ConfigError, match="layer = 3, and the number of layers is 3.*-1 for the lowest"):
        SectionReader.between((x, south), (x, north), model, 3)


def test_the_time_step_is_limited_by_the_fastest_mode_and_by_the_thinnest_layer():
    model = sea(THREE, dissipation=sw.QuadraticDrag(0.5))
    stepper, flat = sw.RK4(1.0), sw.ShallowWater(plane(periodic="x"), 250.0, communicator="serial")
    (waves,) = (x for x in sw.limits(model, stepper) if x.name == "gravity waves")
    (alone,) = (x for x in sw.limits(flat, stepper) if x.name == "gravity waves")
    assert 0.8 < waves.dt / alone.dt < 1.2
    fast = model.state(u_3=1.0)
    (drag,) = (x for x in sw.limits(model, stepper, fast) if x.name == "QuadraticDrag")
    assert drag.dt < stepper.stable_interval("real") * 31.0 / 0.5


def test_a_layer_that_becomes_too_thin_stops_the_run_and_is_named():
    model = sea(THREE)
    state = model.state(eta_3=lambda x, y: 24.5 + 0.0 * x + 0.0 * y)
    with pytest.raises(SwmodelError, match="layer 2 from the top is only 0.5"):
        sw.Simulation(model, state, sw.ForwardBackward(5.0)).run(steps=1)


@pytest.mark.parametrize(
    "layers, engine",
    (later(THREE, "arrays"), (FLOATING, "fused")),
    ids=("over the sea floor", "over a deep layer at rest"),
)
def test_each_layer_keeps_its_own_content_of_a_tracer_and_a_constant_stays_constant(layers, engine):
    """What enters through the surface enters the top layer."""
    tracers = (
        sw.Tracer("dye", scheme=sw.Centred()),
        sw.Tracer("one", initial=1.0, diffusivity=50.0),
        sw.Tracer("heat", flux=2e-3),
        sw.Tracer("salt", flux=1e-3, layer=-1),
    )
    model, stepper = sea(layers, tracers=tracers, engine=engine), sw.ForwardBackward(5.0)
    names = [row.name for row in model.variables]
    assert names[9:] == [*"dye dye_2 dye_3 one one_2 one_3 heat heat_2 heat_3".split(), "salt"]
    layout = {name: uniform(model.grid.shape, k, -0.3, 0.3) for k, name in enumerate(names[:12])}
    start = model.state(**layout)
    run = sw.Simulation(model, start, stepper)
    end, shown = run.run(steps=40), run.shown()
    assert run.engine[0] == engine
    for name in names[9:12]:
        assert abs(float(end[name].sum() - start[name].sum())) < 1e-12 * float(np.abs(start[name]).sum())
    for name in names[12:15]:
        assert np.abs(np.asarray(shown[name])[model.wet] - 1.0).max() < 1e-12
    sums = [float(end[name].sum()) / model.wet.sum() / (40 * 5.0) for name in names[15:]]
    assert sums == pytest.approx([2e-3, 0.0, 0.0, 1e-3])


def test_files_hold_fields_along_layers_and_interfaces_and_a_restart_goes_on_with_all_of_them(tmp_path):
    xgcm = pytest.importorskip("xgcm")
    tracers = sw.Tracer("dye", initial=2.0), sw.Tracer("salt", layer=1)
    model, stepper = sea(THREE, tracers=tracers), sw.ForwardBackward(5.0)
    names = ("eta", "u", "v", "potential_vorticity", "depth", "interface_height", "thickness", "dye", "salt")

    def simulation(state):
        made = sw.Simulation(model, state, stepper).write(tmp_path / "fields.nc", names)
        made.gauges(tmp_path / "gauges.nc", {"here": (6e4, 5e4)}, variables=("eta_2", "speed_3", "dye_3"))
        return made.means(tmp_path / "means.nc", ("u_2", "u_2 thickness_2"))

    whole = simulation(random_state(model, 0.1)).restart(tmp_path / "restart.nc")
    whole.run(steps=3)
    shutil.copy(tmp_path / "restart.nc", tmp_path / "middle.nc")
    whole.run(steps=3)
    again = simulation(model.at_rest())
    again.resume(tmp_path / "middle.nc")
    again.run(steps=3)
    with xr.open_dataset(tmp_path / "fields.nc") as fields:
        assert fields.eta.dims == ("time", "layer", "yh", "xh") and list(fields.layer) == [1, 2, 3]
        assert fields.potential_vorticity.dims == ("time", "layer", "yq", "xq") and "layer" not in fields.depth.dims
        assert fields.dye.dims == fields.eta.dims and "layer" not in fields.salt.dims
        assert fields.interface_height.dims == ("time", "interface", "yh", "xh") and list(fields.interface) == [
            1,
            2,
            3,
            4,
        ]
        heights = np.concatenate(
            [[0.0, -15.0, -40.0] + fields.eta.transpose(..., "layer"), -fields.depth.values[..., None]], axis=-1
        )
        np.testing.assert_allclose(fields.interface_height.transpose(..., "interface"), heights, atol=1e-5)
        assert row_of("interface_height_4").long_name.startswith("height of the lower interface of layer 3")
        below = xgcm.Grid(fields).diff(fields.interface_height, "Z")  # of the metadata in the file alone
        np.testing.assert_allclose(-below.transpose(*fields.thickness.dims), fields.thickness, rtol=1e-5)
        for name, k in itertools.product(("eta", "dye"), range(3)):
            values = np.where(model.wet, np.asarray(whole.shown()[in_layer(name, k)]), np.nan)
            np.testing.assert_allclose(fields[name].isel(time=-1, layer=k), values, rtol=1e-5)
    with xr.open_dataset(tmp_path / "means.nc") as means, xr.open_dataset(tmp_path / "gauges.nc") as gauges:
        assert {"mean_u_2", "mean_u_2_thickness_2"} <= set(means) and {"eta_2", "speed_3", "dye_3"} <= set(gauges)
    section = InitialFile(type="file", file=tmp_path / "fields.nc")
    for name, x in section.state(model):
        np.testing.assert_allclose(x, whole.state[name], rtol=1e-5, atol=1e-6)
    for name, x in whole.state:
        np.testing.assert_array_equal(again.state[name], x)


@pytest.mark.parametrize("layers", (THREE, later(FLOATING)), ids=("over the sea floor", "over a deep layer at rest"))
def test_files_of_layers_have_the_energies_of_the_model_and_spectra_by_layer_and_by_mode(layers, tmp_path):
    model, start = sea(layers), random_state(sea(layers), 0.1)
    run = sw.Simulation(model, start, sw.ForwardBackward(1.0)).write(tmp_path / "f.nc", ("eta", "u", "v"), every=2.0)
    run.run(steps=2)
    with postprocess.open_output(tmp_path / "f.nc", layer=None) as file:
        file.load()
    sums, whole = layered.budgets(file, density=2.0), [sw.energy(model, state, 2.0) for state in (start, run.state)]
    assert list(sums.interface) == ([2, 3, 4] if layers.deep_at_rest else [1, 2, 3])
    assert (sums.kinetic_energy.sum("layer") + sums.potential_energy.sum("interface")).values == pytest.approx(
        whole, 1e-6
    )
    assert sums.conversion.sum("layer").values == pytest.approx(sums.release.sum("interface").values, 1e-6)
    loss = -np.diff(sums.potential_energy, axis=0)[0] / 2.0
    assert sums.release.mean("time").values == pytest.approx(loss, abs=1e-2 * np.abs(loss).max())
    flat = file.fillna(0.0).assign(depth=xr.full_like(file.depth, 100.0))
    found, sums, mass = layered.spectra(flat), layered.budgets(flat, density=1.0), 100.0 * float(file.area.sum())
    totals = found.sum("wavenumber") * found.ring_width
    for name in ("kinetic_energy", "potential_energy"):
        np.testing.assert_allclose(totals[f"{name}_spectrum"], sums[name] / mass, rtol=1e-6)
    by_mode = totals.potential_energy_of_modes.sum("mode").values
    assert by_mode == pytest.approx(totals.potential_energy_spectrum.sum("interface").values, 1e-6)
    _, velocities = layered.Column.of(flat).modes(100.0)
    second = {x: flat[x].isel(layer=0, drop=True) * xr.DataArray(velocities[:, 1], dims="layer") for x in "uv"}
    of_modes = layered.spectra(flat.assign(second), records=[1]).kinetic_energy_of_modes.sum("wavenumber").values[0]
    at_rest = float(sum((flat[x][1, 0] ** 2).sum() for x in "uv")) / flat.area.size / 2 / 100.0
    assert of_modes * found.ring_width == pytest.approx([0.0, at_rest, 0.0], 1e-6, 1e-9 * at_rest)
    if not layers.deep_at_rest:
        under_lid = layered.spectra(flat.assign_attrs(time_stepper="RigidLid"), records=[1]).sum("wavenumber")
        sums = under_lid.potential_energy_of_modes.values[0], under_lid.potential_energy_spectrum.values[0]
        assert sums[0][0] == sums[1][0] == 0.0 < min(sums[0][1:]) and sum(sums[0]) == pytest.approx(sum(sums[1]), 1e-6)
    for page, key in ((budgets, "gravity"), (figures_of_spectra, "variable"), (figures_of_spectra, "records")):
        with pytest.raises(PlotError, match=f"a figure of all layers has no {key}"):
            page.figure(flat, **{key: 1})
    with pytest.raises(PlotError, match="one layer alone"):
        layered.budgets(flat.isel(layer=0))


def test_modes_under_a_rigid_lid_have_the_speeds_of_internal_waves():
    """c^2 = g' H1 H2 / H of two layers; of three, as with a much larger gravity of the surface."""
    speeds, _ = layered.Column(np.array([9.81, 0.02]), np.array([100.0]), False, True).modes(400.0)
    assert np.isnan(speeds[0]) and speeds[1] == pytest.approx(np.sqrt(0.02 * 100 * 300 / 400), 1e-12)
    upper, g = np.array([100.0, 400.0]), np.array([9.81, 0.02, 0.01])
    under, velocities = layered.Column(g, upper, False, True).modes(4000.0)
    free, _ = modes(g * [1e6, 1.0, 1.0], np.array([100.0, 400.0, 3500.0]))
    assert np.isnan(under[0]) and under[1:] == pytest.approx(free[1:], 1e-5)
    np.testing.assert_allclose(velocities[:, 0], velocities[0, 0])
    np.testing.assert_allclose(velocities.T @ np.diag([100.0, 400.0, 3500.0]) @ velocities, np.eye(3), atol=1e-12)


@pytest.mark.verify
def test_members_of_an_ensemble_may_differ_in_their_layers():
    others = sw.Layers(thickness=(20.0, 22.0), densities=(1001.0, 1012.0, 1040.0))
    models, stepper = [sea(THREE), sea(others)], sw.ForwardBackward(5.0)
    starts = [random_state(models[0], 0.1), random_state(models[1], 0.2)]
    ensemble = sw.Ensemble(models, starts)
    both = sw.Simulation(ensemble, ensemble.initial, stepper).run(steps=6)
    for k, model in enumerate(models):
        alone, _ = take_steps(model, stepper, starts[k], 6)
        for name, x in alone:
            np.testing.assert_allclose(both[name][k], x, rtol=0, atol=1e-12 * np.abs(x).max())


TOML = """
grid = {type = "cartesian", nx = 8, ny = 6, x = [0.0, 8e4], y = [0.0, 6e4]}
bathymetry = {type = "flat", depth = 1000.0}
initial = {type = "formula", eta = [0.0, "10 * sin(x / 1e4)"], u = 0.1}
stepper = {type = "rk4", dt = 10.0}
run = {until = 100.0}
model = {precision = "float64"}
output = {fields = [{file = "a.nc", variables = ["eta", "thickness"], every = 100.0}]}
layers = {thickness = ["300 m"], densities = [1025.0, 1027.0]}
tracer = [{name = "dye", initial = 1.0, diffusivity = 10.0}, {name = "salt", layer = 1}]
dissipation = [{type = "linear_drag", rate = 1e-6, layer = 0}, {type = "interfacial_friction", coefficient = 1e-5}]
"""


def test_layers_in_an_experiment_file(tmp_path, capsys, untimed):
    file = tmp_path / "layers.toml"
    file.write_text(TOML)
    check_experiment(str(file), [], 1)
    lines = capsys.readouterr().out
    assert "2 layers, at rest 300 m thick" in lines and "long waves of their modes have 99.1, 2 m/s" in lines
    assert "a.nc: eta, thickness every 1 min 40 s, 2 records, 1.54 kB" in lines  # of two layers
    made = assemble(read(file))
    model = model_of(made, "serial")
    assert model.layers.celerities(9.81, 1000.0) == pytest.approx(
        sw.Layers((300.0,), (1025.0, 1027.0)).celerities(9.81, 1000.0)
    )
    state = made.experiment().initial.state(model)
    assert float(np.abs(state.eta).max()) == 0.0 and 9.0 < float(np.abs(state.eta_2).max()) <= 10.0
    names = {"initial.eta_2", "layers.densities", "layers.thickness", "initial.dye_2", "initial.salt"}
    assert set(names_of(model)) >= names and set(known_controls(made.draft.sections)) >= names
    assert float(state.dye_2[0, 0]) == pytest.approx(700.0 + float(state.eta_2[0, 0]))
    for change, message in (
        ("layers.densities=[1027.0, 1025.0]", "denser than the one below"),
        ("layers.thickness=[-1.0]", "layers.thickness"),
        ("initial.eta=[0.0, 0.0, 0.0]", "3 formulas"),
        ('output.fields.0.variables=["eta_2"]', "unknown variable 'eta_2'"),
    ):
        with pytest.raises(ConfigError, match=message):
            made = assemble(read(file, [change]))
            made.experiment().initial.state(model)


@pytest.mark.verify
@pytest.mark.usefixtures("optimised_loops")
def test_the_horizon_of_the_gyre_is_measured_and_drawn(tmp_path):
    gyre, command = Path(sw.__file__).parents[1] / "experiments" / "two_layer_gyre", [sys.executable]
    run = [*command, "-m", "swmodel", "run", gyre / "two_layer_gyre.toml", "--until", "1 day", "-o", tmp_path]
    subprocess.run([*run, "--set", "output.means.begin=0"], check=True)
    horizon = [*command, gyre / "horizon.py", tmp_path / "restart.nc", "--days", "6", "8"]
    lines = subprocess.run(horizon, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "horizon_days_3_percent=8" in lines and "horizon_days_10_percent=8" in lines  # a flow without eddies
    assert (tmp_path / "horizon.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    "options, message",
    [
        ({"thickness": (10.0,), "densities": (1000.0,)}, "has 1 numbers"),
        ({"thickness": (10.0,), "densities": (1000.0, 1010.0, 1020.0)}, "3 densities"),
        ({"thickness": (10.0,), "densities": (1010.0, 1000.0)}, "denser than the one below"),
        ({"thickness": (10.0,), "reduced_gravities": (0.1, 0.2)}, "one for each"),
        ({"thickness": (10.0,)}, "neither"),
        ({"thickness": (-1.0,), "densities": (1000.0, 1010.0)}, r"thickness\[0\] = -1.0"),
        ({"thickness": 10.0, "densities": (1000.0, 1010.0)}, "not a tuple of numbers"),
    ],
)
def test_layers_that_cannot_be_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        sw.Layers(**options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"boundaries": sw.Clamped(elevation=0.0)}, "Clamped"),
        ({"forcing": Rain()}, "give the class an attribute `layer`"),
        ({"core": sw.PseudoSpectral()}, "PseudoSpectral"),
        ({"momentum": sw.MomentumConserving()}, "MomentumConserving"),
        ({"tracers": sw.Tracer("dye_2")}, "'dye_2' is the name of a variable in layer 2"),
        ({"tracers": sw.Tracer("dye", layer=3)}, "layer = 3"),
        ({"depth": 40.5}, "0.5 m are left"),
        ({"dissipation": sw.LinearDrag(0.1, layer=3)}, "layer = 3"),
    ],
)
def test_what_layers_do_not_have_is_refused(options, message):
    depth = options.pop("depth", 100.0)
    with pytest.raises(ConfigError, match=message):
        sw.ShallowWater(plane(), depth, layers=THREE, **options)


def test_friction_between_layers_is_refused_where_there_is_one():
    with pytest.raises(ConfigError, match="acts between layers, and the model has one"):
        sw.ShallowWater(plane(), 500.0, dissipation=sw.InterfacialFriction(1e-4))


@pytest.mark.verify
@pytest.mark.parametrize(
    "layers",
    (THREE, FLOATING),
    ids=("over the sea floor", "over a deep layer at rest"),
)
def test_waves_of_each_mode_leave_through_open_sides(layers):
    """One mode after the other in a channel that is open at both ends; less than 3 % of the height returns."""
    n, length, depth = 80, 8e5, 100.0
    grid = sw.CartesianGrid(n, 3, (0.0, length), (0.0, 3e4), "y")
    model = sw.ShallowWater(grid, depth, layers=layers, boundaries=sw.Flather(("west", "east")), linear=True)
    rest = np.array(layers.rest(depth))
    speeds, velocities = modes(np.asarray(layers.gravities(9.81)), rest, layers.deep_at_rest)
    for c, shape in zip(speeds, velocities.T):
        fields = dict(enumerate(layers.sums(list(rest * shape / c))))
        bump = lambda x, y, a: a * np.exp(-(((x - 0.5 * length) / 8e4) ** 2)) + 0.0 * y  # noqa: E731
        start = model.state(**{in_layer("eta", k): functools.partial(bump, a=a) for k, a in fields.items()})
        stepper = sw.ForwardBackward(0.9 * sw.largest_time_step(model, sw.ForwardBackward(1.0)))
        end, _ = take_steps(model, stepper, start, int(1.1 * length / c / stepper.dt))
        for name in (in_layer("eta", k) for k in fields):
            assert np.abs(end[name]).max() < 0.03 * np.abs(start[name]).max()


@pytest.mark.verify
@pytest.mark.parametrize("engine", ("arrays", "fused"))
def test_a_tide_comes_in_through_open_sides_of_layers_and_sponges_act_on_their_layer(engine):
    """The tide moves all layers together; a uniform concentration stays uniform in each."""
    boundaries = sw.Flather(elevation=0.5), sw.Sponge("west", width=4e4, rate=1e-3, layer=2, elevation=0.5)
    grid, tracer = plane(), sw.Tracer("one", initial=1.0, outside=1.0)
    model = sw.ShallowWater(grid, 100.0, layers=THREE, boundaries=boundaries, engine=engine, tracers=tracer)
    run = sw.Simulation(model, model.at_rest(), sw.ForwardBackward(60.0))
    end = run.run(steps=400)
    assert run.engine[0] == engine
    assert np.abs(np.asarray(end.eta) - 0.5).max() < 0.02
    lowest = np.asarray(end.eta_3)  # the tide alone raises it by the share of its layer, 0.3 m
    assert lowest[:, 0].min() > 0.4 and abs(lowest[:, 8:].mean() - 0.3) < 0.03
    for name in ("one", "one_2", "one_3"):
        assert np.abs(np.asarray(run.shown()[name]) - 1.0).max() < 1e-12


def schemes(*quick):
    """`parametrize` with the implicit surfaces, of which `make test` has those in `quick`."""
    each = sw.SemiImplicit, sw.SplitExplicit, sw.RigidLid
    marked = [pytest.param(scheme, marks=[] if scheme in quick else pytest.mark.verify) for scheme in each]
    return pytest.mark.parametrize("scheme", marked)


@schemes(sw.SplitExplicit)
def test_internal_waves_under_an_implicit_surface_have_their_speed_with_steps_that_the_surface_would_not_allow(scheme):
    """The error of the phase is of second order in the step."""
    n, length, layers = 12, 1e6, sw.Layers(thickness=(300.0,), densities=(1020.0, 1030.0))
    grid = sw.CartesianGrid(n, 3, (0.0, length), (0.0, 3 * length / n), "xy")
    model, k = sw.ShallowWater(grid, 1000.0, layers=layers, linear=True), 2 * np.pi / length
    gravities = np.asarray(layers.gravities(9.81)) * [1e6 if scheme.rigid_lid else 1.0, 1.0]
    (_, slow), velocities = modes(gravities, np.array([300.0, 700.0]))
    heights = np.array([300.0, 700.0]) * velocities[:, 1] / slow
    fields = {in_layer("eta", j): x for j, x in enumerate(layers.sums(list(heights)))}
    fields |= {in_layer("u", j): x for j, x in enumerate(velocities[:, 1])}
    start = model.state(**{name: lambda x, y, a=a: a * np.cos(k * x) + 0.0 * y for name, a in fields.items()})
    frequency, errors = slow * 2 * n / length * np.sin(np.pi / n), []
    for steps in (10, 20):
        stepper = scheme(0.5 * np.pi / frequency / steps)
        assert stepper.dt > 5 * sw.largest_time_step(model, sw.ForwardBackward(1.0))
        end, _ = take_steps(model, stepper, start, steps)
        errors.append(np.angle(np.asarray(end.eta_2)[0] @ np.exp(-1j * k * grid.x_centres) / (-1j)))
    assert abs(errors[1]) < 3e-3 and np.log2(abs(errors[0] / errors[1])) > 1.7
    (limit,) = (x.dt for x in sw.limits(model, stepper) if x.name == "internal waves")
    assert 0.5 < limit * 2 * slow * np.sqrt(n**2 / length**2 + n**2 / length**2) < 1.0


@schemes(sw.SemiImplicit, sw.SplitExplicit)
def test_an_implicit_surface_keeps_the_water_of_each_layer_and_both_engines_agree(scheme):
    solver = {"solver": sw.elliptic.ConjugateGradients(sw.elliptic.Diagonal(), 1e-13)} if scheme.has_solver else {}
    stepper, ends = scheme(100.0, **solver), []
    for engine, tracers in (("arrays", (sw.Tracer("one", initial=1.0),)), ("fused", ())):
        model = sea(THREE, engine=engine, tracers=tracers, forcing=sw.WindStress(x=0.1))
        names = [row.name for row in model.variables[:9] if row.name != "eta"]
        start = model.state(**{name: uniform(model.grid.shape, k, -0.1, 0.1) for k, name in enumerate(names)})
        run = sw.Simulation(model, start, stepper)
        ends.append(run.run(steps=20))
        for names in (("eta_2", "eta_3"), ("one", "one_2", "one_3"))[: 1 + bool(tracers)]:
            for name in names:
                assert abs(float((ends[-1][name] - start[name]).sum())) < 1e-12 * float(np.abs(start[name]).sum())
        for name in ("one", "one_2", "one_3")[: 3 * bool(tracers)]:
            assert np.abs(np.asarray(run.shown()[name])[model.wet] - 1.0).max() < 1e-10
    assert run.engine[0] == "fused"
    for name, x in ends[1]:
        assert np.abs(ends[0][name] - x).max() < 1e-10 * np.abs(x).max()


@pytest.mark.parametrize(
    "stepper", (pytest.param(sw.SemiImplicit(600.0), marks=pytest.mark.verify), sw.SplitExplicit(480.0)), ids=str
)
def test_open_sides_let_out_under_an_implicit_surface_what_they_let_out_in_explicit_steps(stepper):
    """A high of an interface adjusts to balance over a day, and the level outside comes in."""
    grid, layers = plane(16, 16), sw.Layers(thickness=(500.0,), densities=(1025.0, 1027.0))
    options = {"coriolis": sw.FPlane(1e-4), "boundaries": sw.Flather(elevation=0.2), "layers": layers}
    model, ends = sw.ShallowWater(grid, 2000.0, tracers=sw.Tracer("one", initial=1.0), **options), []
    start = model.state(eta_2=lambda x, y: 20.0 * np.exp(-((x - 8e4) ** 2 + (y - 8e4) ** 2) / 3e4**2))
    for each in (sw.ForwardBackward(40.0), stepper):
        ends.append(take_steps(model, each, start, round(86400.0 / each.dt))[0])
    assert np.abs(np.asarray(ends[0].eta) - 0.2).max() < 0.05
    for name in ("eta", "eta_2", "u", "v_2"):
        explicit, implicit = (end[name][:-1, :-1] for end in ends)  # States of explicit steps have zeros on open faces
        assert np.abs(implicit - explicit).max() < 0.06 * np.abs(explicit).max(), name
    end = ends[1]
    for name, thickness in (("one", 500.0 + end.eta - end.eta_2), ("one_2", 1500.0 + end.eta_2)):
        assert np.abs(np.asarray(end[name] / thickness) - 1.0).max() < 1e-10


@pytest.mark.verify
def test_waves_of_the_surface_that_a_step_does_not_resolve_do_not_grow():
    """Without the mean over substeps they grow."""
    grid = sw.CartesianGrid(48, 3, (0.0, 9.6e5), (0.0, 6e4), "xy")
    layers = sw.Layers(thickness=(500.0,), densities=(1025.0, 1027.5))
    model = sw.ShallowWater(grid, 4000.0, layers=layers, coriolis=sw.FPlane(1e-4), linear=True)
    stepper = sw.SplitExplicit(1000.0, substeps=30)
    start = model.state(**{name: uniform(grid.shape, k, -1.0, 1.0) for k, name in enumerate(("eta", "eta_2"))})
    end, _ = take_steps(model, stepper, start, 800)
    assert np.abs(np.asarray(end.eta)).max() < 0.1 and np.abs(np.asarray(end.eta_2)).max() < 1.0


@pytest.mark.parametrize("count", [2, 9, 30])
def test_the_mean_surface_of_substeps_rises_by_the_flow_that_moves_the_layers(count):
    """<eta> = eta + M rise + c M^2 growth + g s^2 M^2 div(R grad h*), to rounding: so each layer keeps its water."""
    model = sea(THREE)
    stepper = sw.SplitExplicit(40.0, substeps=count)
    wet = np.asarray(model.state(eta=1.0).eta)
    eta, rise, growth = (uniform(wet.shape, k, -0.1, 0.1) * wet for k in range(3))

    @jit
    def both(dynamics, fields):
        e = stepper.system(dynamics)
        prepared, g = stepper.prepare(e), e.geometry
        surface, height = prepared.surface, sum(x.interior for x in e.at_rest(e.depth))
        eta, rise, growth, height = (e.evaluation.with_ghosts(e, x) for x in (*fields, height))
        across = conductances(e, surface.weight, height)
        end, _, mean = surface.solver.levels(e, surface, across, eta, rise, growth)
        along_x, along_y = gradient(mean, g)
        flux = divergence(mean_x(height) * (along_x * g.wet_u), mean_y(height) * (along_y * g.wet_v), g)
        sums = eta + count * rise + (surface.solver.centre * count**2) * growth + (surface.weight * count**2) * flux
        return end.interior, sums.interior

    found, expected = both(model.dynamics(stepper), [jnp.asarray(x) for x in (eta, rise, growth)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * count**2)
    assert np.abs(found - eta).max() > 1e-3


def test_schemes_that_cannot_step_these_layers_are_refused():
    with pytest.raises(ConfigError, match="over a deep layer at rest"):
        sea(FLOATING).halo(sw.SemiImplicit(60.0))
    with pytest.raises(ConfigError, match="stable at no time step with the internal waves"):
        sw.limits(sea(THREE), sw.SemiImplicit(60.0, theta=0.52))


def test_names_of_variables_and_layers_are_inverse():
    assert [layer_of(in_layer("u", k)) for k in range(3)] == [("u", k) for k in range(3)]
    assert layer_of("dye_1") == ("dye_1", 0)
