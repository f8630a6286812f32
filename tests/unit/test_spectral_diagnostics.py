"""Spectra hold all of the energy and enstrophy, and their transfers are what the equations do to them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel import elliptic
from swmodel.diagnostics import derived as diagnostics
from swmodel.errors import ConfigError, DataError
from swmodel.parallel import SerialCommunicator
from swmodel.postprocess.spectra import of_fields
from swmodel.runtime.compilation import jit
from tests.selection import now

NX, NY = 13, 10
FORMS = (sw.EnergyConserving(), sw.ArakawaLamb(), sw.EnstrophyConserving())


def ocean(periodic="xy", nx=NX, ny=NY, depth=None, lengths=(1.3e5, 2.0e5), **options):
    grid = sw.CartesianGrid(nx, ny, (0.0, lengths[0]), (-lengths[1], 0.0), periodic)
    options = {"coriolis": sw.FPlane(1e-4), "communicator": SerialCommunicator(), **options}
    return sw.ShallowWater(grid, rough(ny, nx) if depth is None else depth, **options)


def rough(ny=NY, nx=NX):
    return np.random.default_rng(1).uniform(500.0, 1500.0, (ny, nx))


def moving(model, seed=0):
    """A random State, far from balance."""
    random = np.random.default_rng(seed)
    return model.state(*(size * random.standard_normal(model.grid.shape) for size in (1.0, 1.0, 20.0)))


@jit
def _energy_and_vorticity(dynamics, state):
    flow = dynamics.prepare().flow(state, 0.0)
    return diagnostics.energy(flow) / flow.geometry.area_h, flow.vorticity.interior


def energy_and_vorticity(model, state, halo=2):
    """(the mean energy of a State over the mean depth [m2 s-2], its vorticity at corners [s-1])."""
    energy, vorticity = _energy_and_vorticity(model.interval(halo, 0, 1.0), state)
    return energy / (NX * NY) / model.depth.mean(), vorticity


def sums(spectra, found):
    """{name: integral over all wavenumbers}."""
    return {name: spectra.width * values.sum(axis=-1) for name, values in found.items()}


SIDES = [(p, sw.FreeSlip()) for p in ("xy", "x", "y", "")] + [("x", sw.NoSlip())]


@pytest.mark.parametrize("periodic, side", now(SIDES, SIDES[2], SIDES[4]))
def test_the_sum_over_wavenumbers_is_the_energy_that_the_equations_keep(periodic, side):
    """Parseval, over rough depth, with free and no slip: exactly the model's own energy, and enstrophy at sea."""
    model = ocean(periodic, side=side)
    state, spectra = moving(model), sw.Spectra(model, transfers=False)
    found = sums(spectra, spectra.of(state))
    cells, mean_depth = NX * NY, model.depth.mean()
    energy, zeta = energy_and_vorticity(model, state)
    both = found["kinetic_energy_spectrum"] + found["potential_energy_spectrum"]
    np.testing.assert_allclose(both, energy, rtol=1e-13)
    potential = 0.5 * model.gravity * np.mean(np.square(state.eta)) / mean_depth
    np.testing.assert_allclose(found["potential_energy_spectrum"], potential, rtol=1e-13)
    zeta = np.asarray(zeta)[: NY - ("y" not in periodic), : NX - ("x" not in periodic)]
    np.testing.assert_allclose(found["enstrophy_spectrum"], 0.5 * np.sum(zeta**2) / cells, rtol=1e-13)


@pytest.mark.verify
def test_under_a_lid_the_depth_is_the_thickness_and_pressure_does_no_work(tmp_path):
    """Energy is that of the model with eta left out, and all kinetic; a run's file and one of fields agree."""
    model = ocean("x", momentum=sw.ArakawaLamb())
    stepper = sw.RigidLid(300.0, solver=elliptic.ConjugateGradients(tolerance=1e-13))
    simulation = sw.Simulation(model, moving(model), stepper)
    simulation.run(steps=3)
    simulation.spectra(tmp_path / "spectra.nc").write(tmp_path / "fields.nc", ("eta", "u", "v", "depth")).run(steps=2)
    state = simulation.state
    energy, _ = energy_and_vorticity(model, state.replace(eta=0.0 * state.eta))
    with xr.open_dataset(tmp_path / "spectra.nc") as data, xr.open_dataset(tmp_path / "fields.nc") as fields:
        assert not any("potential" in name for name in data) and "rigid lid" in data.attrs["comment"]
        total = {name: float(data[name][-1].sum()) * data["wavenumber"].attrs["ring_width"] for name in data}
        found = of_fields(fields, records=[len(fields.time) - 1])
        assert not any("potential" in name for name in found)
        np.testing.assert_allclose(found["kinetic_energy_spectrum"][0], data["kinetic_energy_spectrum"][-1], rtol=1e-4)
    np.testing.assert_allclose(total["kinetic_energy_spectrum"], energy, rtol=1e-12)
    works = {name.removeprefix("kinetic_energy_transfer_"): x for name, x in total.items() if "energy_transfer" in name}
    largest = float(np.abs(data["kinetic_energy_transfer_pressure"]).max())
    assert largest > 0 and set(works) == {"advection", "coriolis", "pressure"}
    assert all(abs(work) < 1e-9 * largest for work in works.values())


@pytest.mark.parametrize("m, n", [(5, 0), (0, 3), (4, 2), (6, 5)])
def test_a_wave_is_found_at_its_wavenumber_whatever_the_shape_of_cells(m, n):
    """On 20 x 12 cells of 5 x 20 km: up to the shortest waves, whose energy a mean to centres would take away."""
    model = ocean(nx=20, ny=12, depth=1000.0, lengths=(1e5, 2.4e5))
    k = 2 * np.pi * np.array([m / 1e5, n / 2.4e5])
    spectra = sw.Spectra(model, transfers=False)
    found = spectra.of(model.state(u=lambda x, y: 0.3 * np.cos(k[0] * x + k[1] * y)))["kinetic_energy_spectrum"]
    ring = int(found.argmax())
    assert spectra.bounds[ring, 0] < np.hypot(*k) < spectra.bounds[ring, 1]
    shortest = 2 if (m, n) == (0, 6) else 1
    np.testing.assert_allclose(found[ring] * spectra.width, 0.25 * 0.3**2 * shortest, rtol=1e-12)
    assert np.delete(found, ring).max() < 1e-25


def test_the_mean_flow_is_in_the_first_ring_alone():
    model = ocean(depth=1000.0, lengths=(9e5, 1e5))  # waves along x are longer than the rings are wide
    spectra = sw.Spectra(model, transfers=False)
    found = spectra.of(model.state(u=2.0))["kinetic_energy_spectrum"]
    assert found[0] * spectra.width == pytest.approx(2.0, rel=1e-13) and np.abs(found[1:]).max() < 1e-25
    found = spectra.of(model.state(u=lambda x, y: np.cos(2 * np.pi * x / 9e5) + 0 * y))["kinetic_energy_spectrum"]
    assert found[1] * spectra.width == pytest.approx(0.25, rel=1e-12) and found[0] < 1e-25


TERMS = {
    "forcing": (sw.WindStress(x=lambda x, y: 0.1 * np.cos(y / 2e4)),),
    "dissipation": (sw.Laplacian(100.0), sw.Laplacian(50.0), sw.QuadraticDrag(2.5e-3)),
    "boundaries": (sw.Sponge(sides=("north",), width=5e4, rate=1e-4),),
}


CORES = {
    "differences": dict(momentum=sw.ArakawaLamb()),
    "series": dict(core=sw.PseudoSpectral(sw.HyperViscosity(1e-5, 2))),
    "linear series": dict(
        core=sw.PseudoSpectral(), linear=True, dissipation=(*TERMS["dissipation"][:2], sw.LinearDrag(1e-6))
    ),
}


@pytest.fixture(scope="module", params=now(list(CORES), "differences"))
def channel(request):
    """(model, state, spectra, what they found) of a channel with all kinds of terms, one of which moves water."""
    model = ocean("x", **{**TERMS, **CORES[request.param]})
    state, spectra = moving(model), sw.Spectra(model)
    return model, state, spectra, spectra.of(state)


def test_the_transfers_add_up_to_the_rate_of_change_of_each_spectrum(channel):
    model, state, spectra, found = channel

    @jit
    def rates(dynamics, state, rings):
        equations = dynamics.prepare()
        alone = sw.Spectra(model, transfers=False)
        return jax.jvp(lambda s: alone.traced(equations, s, rings), (state,), (equations.tendency(state, 0.0),))[1]

    for name, rate in rates(model.interval(2, 0, 1.0), state, spectra.rings).items():
        parts = [values for part, values in found.items() if part.startswith(name.replace("spectrum", "transfer"))]
        largest = max(np.abs(part).max() for part in parts)
        assert len(parts) > 1 and np.abs(rate).max() > 0
        np.testing.assert_allclose(sum(parts), rate, rtol=0, atol=1e-12 * largest, err_msg=name)


def test_a_term_has_its_own_transfers_those_of_one_kind_together(channel):
    model, state, spectra, found = channel
    dissipation = {*model.core.dissipation}
    advection = set() if model.linear else {"advection"}
    drag = "linear_drag" if model.linear else "quadratic_drag"
    transfers = [name.split("_energy_transfer_") for name in found if "_energy_transfer_" in name]
    kinetic, potential = ({term for of, term in transfers if of == energy} for energy in ("kinetic", "potential"))
    terms = {"coriolis", "pressure", "wind_stress", "laplacian", "sponge"}
    assert kinetic == terms | {drag} | advection | dissipation and potential == {"pressure", "sponge"} | dissipation
    total = sums(spectra, found)
    for name in ("laplacian", drag, "sponge", *dissipation):
        assert total[f"kinetic_energy_transfer_{name}"] < 0
    for name in ("sponge", *dissipation):
        assert total[f"potential_energy_transfer_{name}"] < 0


@pytest.mark.parametrize("momentum", now(FORMS, FORMS[1]))
def test_advection_and_rotation_move_energy_from_scale_to_scale_and_make_none(momentum):
    """To rounding over rough depth in divergent flow, by the schemes that keep energy; and pressure trades it."""
    model = ocean(momentum=momentum)
    spectra = sw.Spectra(model)
    found = spectra.of(moving(model))
    total = sums(spectra, found)
    size = {name: spectra.width * np.abs(values).sum() for name, values in found.items()}
    kinetic, potential = (f"{energy}_transfer_pressure" for energy in ("kinetic_energy", "potential_energy"))
    assert abs(total[kinetic] + total[potential]) < 1e-13 * size[kinetic] < 1e-10 * abs(total[kinetic])
    for part in ("advection", "coriolis"):
        made = abs(total[f"kinetic_energy_transfer_{part}"]) / size[f"kinetic_energy_transfer_{part}"]
        assert made > 1e-3 if isinstance(momentum, sw.EnstrophyConserving) else made < 1e-13
    flux = -spectra.width * np.cumsum(found["kinetic_energy_transfer_advection"])
    np.testing.assert_allclose(found["kinetic_energy_flux"], flux, rtol=0, atol=1e-12 * np.abs(flux).max())


@pytest.mark.verify
@pytest.mark.parametrize("periodic", now(("xy", "x", ""), ""))
def test_series_trade_energy_by_pressure_and_move_it_by_rotation_exactly(periodic):
    """Of a resolved state over rough depth: what pressure gives to one it takes from the other, and f takes nothing."""
    model = ocean(periodic, core=sw.PseudoSpectral())
    state, spectra = moving(model), sw.Spectra(model)
    found = spectra.of(state)
    total = sums(spectra, found)
    energy, _ = energy_and_vorticity(model, state, 1)
    both = total["kinetic_energy_spectrum"] + total["potential_energy_spectrum"]
    np.testing.assert_allclose(both, energy, rtol=1e-13)
    kinetic, potential = (total[f"{energy}_transfer_pressure"] for energy in ("kinetic_energy", "potential_energy"))
    assert abs(kinetic + potential) < 1e-13 * abs(kinetic)
    if periodic == "xy":  # between walls sines and cosines do not turn into each other
        turned, moved = (found[f"kinetic_energy_transfer_{name}"] for name in ("coriolis", "advection"))
        assert np.abs(turned).max() < 1e-12 * np.abs(moved).max()


@pytest.mark.parametrize("momentum", now(FORMS, FORMS[1]))
def test_advection_without_divergence_makes_enstrophy_only_where_the_scheme_does(momentum):
    model = ocean(depth=1000.0, momentum=momentum)
    psi = np.random.default_rng(3).standard_normal((NY, NX))
    u = -(psi - np.roll(psi, 1, 0)) / 2.0  # of cells twice as long along y
    v = psi - np.roll(psi, 1, 1)
    spectra = sw.Spectra(model)
    found = spectra.of(model.state(u=u, v=v))
    share = abs(found["enstrophy_transfer_advection"].sum()) / np.abs(found["enstrophy_transfer_advection"]).sum()
    assert share > 1e-3 if isinstance(momentum, sw.EnergyConserving) else share < 1e-13


A, B, C = 0.7, -0.4, 0.5  # of psi = A cos 2x + B cos 3y + C sin 2x sin 3y
INTO = -7.5 * A * B * C * 1e-4  # mode (2, 3), by d zeta/dt = -J(psi, zeta) [m2 s-3]; the others' from conservation
TRIAD = np.array([0.8, -1.8, 1.0]) * INTO, np.array([0.8, -1.8, 1.0]) * INTO * np.array([4.0, 9.0, 13.0]) * 1e-8


def triad(n, core):
    """Ring transfers of energy, and of enstrophy, of the triad on n x n cells."""
    length = 2 * np.pi * 1e4
    model = ocean(nx=n, ny=n, depth=1000.0, lengths=(length, length), coriolis=None, core=core)
    edges = 2 * np.pi * np.arange(1, n + 1) / n
    x, y = edges[None, :], edges[:, None]  # corners
    if core.halos:
        psi = 1e4 * (A * np.cos(2 * x) + B * np.cos(3 * y) + C * np.sin(2 * x) * np.sin(3 * y))
        d = length / n
        state = model.state(u=-(psi - np.roll(psi, 1, 0)) / d, v=(psi - np.roll(psi, 1, 1)) / d)
    else:
        state = model.state(
            u=lambda x, y: 3 * B * np.sin(3e-4 * y) - 3 * C * np.sin(2e-4 * x) * np.cos(3e-4 * y),
            v=lambda x, y: -2 * A * np.sin(2e-4 * x) + 2 * C * np.cos(2e-4 * x) * np.sin(3e-4 * y),
        )
    spectra = sw.Spectra(model)
    found = spectra.of(state)
    return tuple(spectra.width * found[f"{q}_transfer_advection"] for q in ("kinetic_energy", "enstrophy"))


@pytest.mark.verify
def test_the_transfers_of_a_triad_are_those_of_the_textbook_at_second_order():
    errors = []
    for n in (32, 64):
        for exact, found in zip(TRIAD, triad(n, sw.FiniteDifferences())):
            errors.append(np.abs(found[2:5] - exact).max() / np.abs(exact).max())
            assert np.abs(np.delete(found, (2, 3, 4))).max() < 1e-10 * np.abs(exact).max()
    orders = np.log2(np.array(errors[:2]) / errors[2:])
    assert (orders > 1.9).all() and max(errors[2:]) < 0.05, (errors, orders)


def test_the_transfers_of_a_triad_are_those_of_the_textbook_exactly_in_series():
    for exact, found in zip(TRIAD, triad(16, sw.PseudoSpectral())):
        np.testing.assert_allclose(found[2:5], exact, rtol=1e-12)
        assert np.abs(np.delete(found, (2, 3, 4))).max() < 1e-13 * np.abs(exact).max()


@pytest.mark.verify
def test_transfers_are_the_same_with_a_tracer_in_the_state():
    with_dye, without = ocean(tracers=(sw.Tracer("dye"),)), ocean()
    found, expected = (sw.Spectra(model).of(moving(model)) for model in (with_dye, without))
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_array_equal(found[name], expected[name])


def test_what_has_no_spectra_is_told_in_a_sentence():
    sphere = sw.SphericalGrid(8, 8, (0.0, 20.0), (0.0, 20.0))
    with pytest.raises(ConfigError, match="on the sphere.*--box"):
        sw.Spectra(sw.ShallowWater(sphere, 1000.0, communicator=SerialCommunicator()))
    land = np.full((NY, NX), 100.0)
    land[3, 4] = 0.0
    with pytest.raises(ConfigError, match="1 cells are land.*--box"):
        sw.Spectra(ocean(depth=land))
    with pytest.raises(ConfigError, match="the west, east sides are open"):
        sw.Spectra(ocean("y", boundaries=sw.Flather(sides=("west", "east"))))
    with pytest.raises(ConfigError, match="3 x 10 cells"):
        sw.Spectra(ocean(nx=3, depth=100.0))


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_resumed_run_goes_on_with_its_file_of_spectra(tmp_path):
    model = ocean("x")
    state = moving(model)

    def run(name, until, resume=None):
        simulation = sw.Simulation(model, state, sw.AB2(10.0), overwrite=False)
        simulation.spectra(tmp_path / f"{name}.nc", every=20.0).restart(tmp_path / f"{name}.restart.nc")
        if resume:
            simulation.resume(resume)
        simulation.run(until=until)

    run("all", 60.0)
    run("parts", 40.0)
    run("parts", 60.0, tmp_path / "parts.restart.nc")
    with xr.open_dataset(tmp_path / "all.nc") as whole, xr.open_dataset(tmp_path / "parts.nc") as parts:
        xr.testing.assert_equal(whole, parts)
        assert whole.sizes["time"] == 4 and whole.attrs["Conventions"] == "CF-1.11"
        metadata = whole["wavenumber"].attrs
        assert metadata["units"] == "rad m-1" and metadata["bounds"] == "wavenumber_bnds"
        metadata = whole["kinetic_energy_transfer_advection"].attrs
        assert (
            metadata["units"] == "m3 s-3"
            and "kinetic energy" in metadata["long_name"]
            and "advection" in metadata["long_name"]
        )
        assert whole["enstrophy_flux"].attrs["units"] == "s-3"
    with pytest.raises(DataError, match="exists already"):
        run("all", 60.0)
    with pytest.raises(ConfigError, match="write less often"):
        sw.Simulation(model, state, sw.AB2(10.0)).spectra(tmp_path / "x.nc", every=1.0)


@pytest.mark.verify
def test_spectra_of_an_ensemble_are_those_of_its_members(tmp_path):
    model = ocean(linear=True)
    states = [moving(model, seed) for seed in (1, 2)]
    ensemble = sw.Ensemble(model, states, {"seed": [1, 2]})
    run = sw.Simulation(ensemble, ensemble.initial, sw.AB2(10.0))
    run.spectra(tmp_path / "spectra.nc").run(steps=0)
    spectra = sw.Spectra(model)
    with xr.open_dataset(tmp_path / "spectra.nc") as file:
        assert file["seed"].values.tolist() == [1, 2]
        for k, state in enumerate(states):
            for name, values in spectra.of(state).items():
                assert "advection" not in name and "flux" not in name  # there is none in the linear mode
                np.testing.assert_allclose(file[name][0, k], values, rtol=0, atol=1e-13 * np.abs(values).max())


def test_spectra_can_be_differentiated():
    model = ocean(depth=1000.0)
    state, spectra = moving(model), sw.Spectra(model, transfers=False)
    dynamics = model.interval(1, 0, 1.0)

    def energy(state):
        found = spectra.traced(dynamics.prepare(), state, spectra.rings)
        return spectra.width * jnp.sum(found["potential_energy_spectrum"])

    slope = jit(jax.grad(energy))(state)
    np.testing.assert_allclose(slope.eta, model.gravity * state.eta / 1000.0 / (NX * NY), rtol=1e-11, atol=1e-18)


EXPERIMENT = """\
run = {until = "2 min"}
grid = {type = "cartesian", nx = 12, ny = 8, x = [0, "120 km"], y = [0, "80 km"]}
bathymetry = {type = "flat", depth = "100 m"}
stepper = {type = "rk4", dt = 60}
[output]
spectra = {every = "60 s", transfers = false}
restart = {every = "1 hour"}
"""


@pytest.mark.verify
def test_the_file_of_an_experiment_asks_for_spectra(command, tmp_path):
    file = tmp_path / "case.toml"
    file.write_text(EXPERIMENT)
    assert "spectra.nc: spectra of energy and enstrophy every 1 min, 3 records" in command.ok("check", file)[0]
    status, *_ = command("run", file, "-o", tmp_path, "--plot")
    assert (tmp_path / "spectra.spectrum.png").exists()
    with xr.open_dataset(tmp_path / "spectra.nc") as written:
        assert status == 0 and written.sizes == {"time": 3, "wavenumber": 13, "bnds": 2}
    places = [("cartesian", "spherical")]
    places += [('x = [0, "120 km"]', "longitude = [0, 12]"), ('y = [0, "80 km"]', "latitude = [0, 8]")]
    sphere = EXPERIMENT
    for old, new in places:
        sphere = sphere.replace(old, new)
    file.write_text(sphere)
    status, out, err = command("check", file)
    assert status and "output.spectra: Spectra: wavenumbers on the sphere" in out + err
    status, out, err = command("check", file, "--set", "output.restart.file=spectra.nc")
    assert status and "'spectra.nc' is written by output.spectra too" in out + err
    status, out, err = command("check", file, "--set", "output.spectra.every=10")
    assert status and "10 s is shorter than the time step of 60 s" in out + err
