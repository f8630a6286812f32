"""Means, extremes and harmonic constants that a run sums up equal those of its snapshots, across a restart too."""

import functools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.config import scenario
from swmodel.errors import ConfigError
from swmodel.fields.variables import units_of_product
from swmodel.output.products.base import add_term, total, zero_sum
from swmodel.output.products.means import Harmonics, why_not_separable
from swmodel.runtime import memory
from tests.selection import later

GRID = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4), "x")


def simulation(engine="auto"):
    model = sw.ShallowWater(GRID, 50.0, coriolis=sw.FPlane(1e-4), engine=engine)
    state = model.state(eta=lambda x, y: np.cos(2 * np.pi * x / 8e4) * np.cos(np.pi * y / 6e4))
    return sw.Simulation(model, state, sw.ForwardBackward(100.0))


def products(made, folder):
    fields = ("eta", "v u", "u eta", "u", "speed", "u thickness")
    made.means(folder / "means.nc", fields, begin=500.0, every=200.0)
    return made.extremes(folder / "extremes.nc", threshold=0.2)


@pytest.mark.parametrize("engine", [pytest.param("arrays", marks=pytest.mark.verify), "fused"])
def test_means_and_extremes_are_those_of_snapshots_across_a_restart(tmp_path, engine):
    states = []
    plain = simulation(engine)
    for _ in range(30):
        state = plain.run(steps=1)
        u, v, eta = (np.asarray(x) for x in (state.u, state.v, state.eta))
        centred = 0.5 * (u + np.roll(u, 1, 1)), 0.5 * (v + np.vstack([0 * v[:1], v[:-1]]))
        states.append((*centred, eta))
    u, v, eta = map(np.array, zip(*states))

    first = products(simulation(engine), tmp_path).restart(tmp_path / "restart.nc")
    first.run(steps=13)
    second = products(simulation(engine), tmp_path)
    second.resume(tmp_path / "restart.nc")
    second.run(steps=17)
    sampled = slice(5, 30, 2)  # steps 6, 8, ..., 30
    with xr.open_dataset(tmp_path / "means.nc", decode_times=False) as found:
        np.testing.assert_allclose(found.mean_eta, eta[sampled].mean(0), atol=1e-13)
        np.testing.assert_allclose(found.mean_u_v, (u * v)[sampled].mean(0), atol=1e-13)
        np.testing.assert_allclose(found.mean_eta_u, (u * eta)[sampled].mean(0), atol=1e-13)
        np.testing.assert_allclose(found.mean_speed, np.hypot(u, v)[sampled].mean(0), atol=1e-13)
        np.testing.assert_allclose(found.mean_u_thickness, (u * (50.0 + eta))[sampled].mean(0), atol=1e-12)
        around = (u[sampled] - u[sampled].mean(0)) * (eta[sampled] - eta[sampled].mean(0))
        np.testing.assert_allclose(found.covariance_eta_u, around.mean(0), atol=1e-13)
        assert found.mean_u_thickness.units == found.covariance_eta_u.units == "m2 s-1"
    with xr.open_dataset(tmp_path / "extremes.nc", decode_times=False) as found:
        np.testing.assert_allclose(found.maximum_elevation, eta.max(0), atol=1e-13)
        np.testing.assert_allclose(found.minimum_elevation, eta.min(0), atol=1e-13)
        np.testing.assert_allclose(found.maximum_speed, np.hypot(u, v).max(0), atol=1e-13)
        np.testing.assert_allclose(found.maximum_thickness, (50 + eta).max(0), rtol=1e-12)
        np.testing.assert_allclose(found.maximum_momentum_flux, ((50 + eta) * (u**2 + v**2)).max(0), atol=1e-12)
        np.testing.assert_allclose(found.time_over_threshold, 100.0 * (eta > 0.2).sum(0))


CORNERS_AND_FACES = {
    "vorticity": ("yq", "xq"), "potential_vorticity": ("yq", "xq"), "divergence": (), "kinetic_energy": (),
    "velocity_x": (), "velocity_y": (),
    "transport_x": ("xq",), "transport_y": ("yq",),
}  # fmt: skip
GAUGED = ("eta", "speed", "vorticity", "thickness")


def derived(engine, stepper, folder):
    """A Simulation that writes derived fields at every step, with their means and gauges."""
    plain = simulation(engine)
    made = sw.Simulation(plain.model, plain.state, stepper)
    made.means(folder / "means.nc", (*CORNERS_AND_FACES, "vorticity eta", "eta"))
    made.gauges(folder / "gauges.nc", {"A": (4.5e4, 2.5e4), "B": (1.2e4, 3.1e4)}, variables=GAUGED)
    return made.write(folder / "fields.nc", every=stepper.dt, variables=("eta", "u", "v", *CORNERS_AND_FACES))


@pytest.mark.parametrize("engine, stepper", [("arrays", sw.AB2(50.0)), later("fused", sw.RK4(100.0))])
def test_means_and_gauges_of_derived_fields_are_those_of_snapshots_across_a_restart(tmp_path, engine, stepper):
    derived(engine, stepper, tmp_path).restart(tmp_path / "restart.nc").run(steps=5)
    made = derived(engine, stepper, tmp_path)
    made.resume(tmp_path / "restart.nc")
    made.run(steps=3)
    with xr.open_dataset(tmp_path / "means.nc") as means, xr.open_dataset(tmp_path / "fields.nc") as fields:
        u, v = (np.nan_to_num(fields[name].values) for name in "uv")
        np.testing.assert_allclose(fields.velocity_x, 0.5 * (u + np.roll(u, 1, 2)), rtol=1e-5, atol=1e-6 * u.max())
        np.testing.assert_allclose(fields.velocity_y, 0.5 * (v[:, 1:] + v[:, :-1]), rtol=1e-5, atol=1e-6 * v.max())
        centred = {"eta": fields.eta.values[1:]}
        for name, faces in CORNERS_AND_FACES.items():
            values = np.nan_to_num(fields[name].values[1:])
            if "yq" in faces:
                values = 0.5 * (values[:, 1:] + values[:, :-1])
            if "xq" in faces:  # periodic: the last face is the first one
                values = 0.5 * (values + np.roll(values, 1, 2))
            centred[name] = values
            scale = np.abs(values).max()
            np.testing.assert_allclose(means[f"mean_{name}"], values.mean(0), atol=1e-6 * scale)
            assert scale > 0 and means[f"mean_{name}"].units == fields[name].units
        product = (centred["vorticity"] * centred["eta"]).mean(0)
        np.testing.assert_allclose(means.mean_eta_vorticity, product, atol=1e-6 * np.abs(product).max())
        assert "covariance_eta_vorticity" in means
    with xr.open_dataset(tmp_path / "gauges.nc") as gauges, xr.open_dataset(tmp_path / "fields.nc") as fields:
        assert gauges.vorticity.shape == (2, 9) and gauges.vorticity.units == "s-1"
        column, row = 4, 2  # of the cell whose centre is A
        eta = fields.eta.values[:, row, column]
        u, v = fields.u.values, fields.v.values
        speed = np.hypot(
            0.5 * (u[:, row, column] + u[:, row, column - 1]), 0.5 * (v[:, row + 1, column] + v[:, row, column])
        )
        zeta = fields.vorticity.values[:, row : row + 2, column - 1 : column + 1].mean((1, 2))
        for name, right in (("eta", eta), ("thickness", 50.0 + eta), ("speed", speed), ("vorticity", zeta)):
            np.testing.assert_allclose(gauges[name].values[0], right, atol=2e-6 * np.abs(right).max())
            assert np.ptp(right) > 0


def beach(grid, bed, moved, until):
    """A model with a shore whose bed has `moved` [m] by the time `until` [s]."""
    source = sw.BottomMotion([0.0, until], np.stack([0.0 * moved, moved]))
    return sw.ShallowWater(grid, -bed, momentum=sw.MomentumConserving(), wetting=sw.WettingDrying(), source=source)


@pytest.mark.verify
@pytest.mark.parametrize("threshold", [0.5, pytest.param(-0.5, marks=pytest.mark.verify)])
def test_land_that_stays_dry_is_neither_reached_nor_over_a_threshold(tmp_path, threshold):
    """A beach under a sea of 2 m, of which the sea floor lifts one half and lets the other sink."""
    bed = np.tile(np.linspace(-20.0, 60.0, 16), (6, 1))
    moved = np.where(np.arange(6)[:, None] < 3, 1.0, -1.0) * (bed > 20)
    model = beach(sw.CartesianGrid(16, 6, (0.0, 1600.0), (0.0, 600.0)), bed, moved, 2.0)
    state = model.state(eta=np.where(bed < 0, 2.0, np.maximum(bed, 0.0)))
    made = sw.Simulation(model, state, sw.ForwardBackwardHancock(0.5))
    made.maxima(tmp_path / "maxima.nc").extremes(tmp_path / "extremes.nc", threshold=threshold)
    end = np.asarray(made.run(steps=20).eta)
    with xr.open_dataset(tmp_path / "extremes.nc", decode_times=False, decode_timedelta=False) as found:
        over, thickness = found.time_over_threshold.values, found.maximum_thickness.values
    with xr.open_dataset(tmp_path / "maxima.nc", decode_times=False, decode_timedelta=False) as found:
        arrival, highest = found.arrival_time.values, found.maximum_elevation.values
    land = bed > 20
    assert np.all(thickness[land] < 1e-9) and np.all(over[land] == 0) and np.all(over[bed < -5] > 0)
    assert np.isnan(arrival[land]).all() and np.isfinite(arrival[bed < 0]).all()
    np.testing.assert_allclose(highest[land], (bed + moved)[land])
    np.testing.assert_allclose(end[land], (bed + moved)[land])


@pytest.mark.verify
def test_the_flow_depth_on_land_that_sinks_is_that_over_the_sunken_bed(tmp_path):
    """A beach whose land sinks by 1 m at once, which the sea then floods; `depth` in the files is the first one."""
    bed = np.tile(np.linspace(-6.0, 4.0, 20), (5, 1))
    moved = np.where(bed > 0, -1.0, 0.0)
    model = beach(sw.CartesianGrid(20, 5, (0.0, 400.0), (0.0, 100.0)), bed, moved, 1.0)
    state = model.state(eta=lambda x, y: 0.5 * np.exp(-((x / 60.0) ** 2)) + 0.0 * y)
    made = sw.Simulation(model, state, sw.ForwardBackwardHancock(0.5))
    made.maxima(tmp_path / "maxima.nc", threshold=0.01).extremes(tmp_path / "extremes.nc", threshold=0.1)
    made.write(tmp_path / "fields.nc", ("eta",), every=0.5).run(steps=80)
    with xr.open_dataset(tmp_path / "fields.nc") as fields:
        levels = fields.eta.values[1:].astype(float)
    thickness = (levels[2:] - (bed + moved)).max(0)  # the sea floor rests from step 2 on
    with xr.open_dataset(tmp_path / "extremes.nc", decode_times=False, decode_timedelta=False) as found:
        np.testing.assert_allclose(found.maximum_thickness.values[bed > 0], thickness[bed > 0], atol=1e-5)
        np.testing.assert_allclose(found.depth, -bed)
        level, over = found.maximum_elevation.values, found.time_over_threshold.values
    sunken = (bed > 0) & (bed < 1) & (thickness > 0.1)
    assert sunken.sum() >= 5  # land at first, and the sea's at the end
    np.testing.assert_allclose(over[sunken], (0.5 * (levels[2:] - (bed + moved) > 0.1).sum(0))[sunken], atol=0.5)
    with xr.open_dataset(tmp_path / "maxima.nc", decode_times=False, decode_timedelta=False) as found:
        assert np.isfinite(found.arrival_time.values[sunken]).all()
        np.testing.assert_allclose(found.maximum_elevation.values[sunken], level[sunken], atol=1e-5)
    np.testing.assert_allclose(level[sunken], (thickness + bed - 1.0)[sunken], atol=1e-5)


@pytest.mark.verify
def test_a_window_that_is_too_short_is_told(caplog, tmp_path):
    assert why_not_separable(("M2", "S2"), 14.8 * 86400.0) is None
    assert "too short to separate M2 and S2, which takes 14.8 days" in why_not_separable(("M2", "S2"), 14.7 * 86400.0)
    assert "too short to separate M2 from the mean" in why_not_separable(("M2",), 3600.0)
    made = quick().harmonics(tmp_path / "tide.nc", ("M2", "S2"))
    with caplog.at_level(logging.WARNING, "swmodel"):
        made.run(steps=20)
    assert "harmonics: a window of 0.0208 days is too short to separate M2 and S2" in caplog.text
    assert not (tmp_path / "tide.nc").exists()


def quick(**options):
    """A Simulation whose programs are compiled in a second."""
    model = sw.ShallowWater(GRID, 50.0, linear=True, engine="arrays")
    state = model.state(eta=lambda x, y: np.cos(2 * np.pi * x / 8e4))
    return sw.Simulation(model, state, sw.ForwardBackward(100.0), **options)


def bounds(path):
    with xr.open_dataset(path, decode_times=False) as found:
        assert found.time.item() == found.time_bnds.values[1]
        return found.time_bnds.values.tolist()


@pytest.mark.parametrize("restart", ["restart.nc", pytest.param("restart.zarr", marks=pytest.mark.verify)])
def test_a_resumed_run_continues_what_is_sampled_in_the_same_way_and_starts_all_else_anew(tmp_path, restart, caplog):
    """By what a product is, not by its place among others."""

    def first(folder):
        made = quick().means(folder / "eta.nc").means(folder / "u.nc", ("u",), begin=500.0, every=200.0)
        return made.harmonics(folder / "tide.nc", ("M2",))

    first(tmp_path / "whole").run(steps=20)
    first(tmp_path).restart(tmp_path / restart).run(steps=12)
    second = quick(overwrite=True).means(tmp_path / "u.nc", ("u",), begin=500.0, every=200.0)
    second.means(tmp_path / "eta.nc", every=200.0).harmonics(tmp_path / "tide.nc", ("S2",))
    second.extremes(tmp_path / "extremes.nc").maxima(tmp_path / "maxima.nc")
    with caplog.at_level(logging.WARNING, "swmodel"):
        second.resume(tmp_path / restart)
    (warning,) = (record.getMessage() for record in caplog.records if "alone" in record.message)
    for name in ("eta.nc", "tide.nc", "extremes.nc", "maxima.nc"):
        assert str(tmp_path / name) in warning
    assert str(tmp_path / "u.nc") not in warning and "hold samples from 1200 s on alone" in warning
    second.run(steps=8)
    assert bounds(tmp_path / "u.nc") == [600.0, 2000.0] and bounds(tmp_path / "eta.nc") == [1400.0, 2000.0]
    assert bounds(tmp_path / "extremes.nc") == [1300.0, 2000.0] and bounds(tmp_path / "maxima.nc") == [1200.0, 2000.0]
    with xr.open_dataset(tmp_path / "u.nc") as found, xr.open_dataset(tmp_path / "whole" / "u.nc") as wanted:
        np.testing.assert_array_equal(found.mean_u, wanted.mean_u)


def test_maxima_of_another_threshold_start_anew_and_those_of_the_same_go_on(tmp_path, caplog):
    quick().maxima(tmp_path / "m.nc", threshold=0.4).restart(tmp_path / "r.nc").run(steps=5)
    for threshold, since in ((0.4, 0.0), (0.3, 500.0)):
        made = quick(overwrite=True).maxima(tmp_path / "m.nc", threshold=threshold)
        made.resume(tmp_path / "r.nc")
        made.run(steps=2)
        assert bounds(tmp_path / "m.nc") == [since, 700.0]
    assert caplog.text.count("samples from 500 s on alone") == 1


def test_a_restart_that_is_refused_leaves_the_run_as_it_was(tmp_path):
    products(quick(), tmp_path).restart(tmp_path / "r.nc").run(steps=5)
    made = products(quick(), tmp_path)
    made.dt, made.scheme = 1e5, sw.ForwardBackward(1e5)
    before = made.state, made.history, *(output.arrays for output in made.outputs)
    with pytest.raises(ConfigError, match="is over the limit of ForwardBackward"):
        made.resume(tmp_path / "r.nc")
    assert all(a is b for a, b in zip(before, (made.state, made.history, *(output.arrays for output in made.outputs))))
    assert made.step == 0 and made.resumed_from is None


def test_a_product_without_a_sample_is_not_written(tmp_path, caplog):
    made = quick().means(tmp_path / "means.nc", begin=1e6).extremes(tmp_path / "extremes.nc", begin=1e6)
    made.harmonics(tmp_path / "tide.nc", ("M2",), begin=1e6).run(steps=2)
    assert not list(tmp_path.iterdir())
    for name in ("means.nc", "extremes.nc", "tide.nc"):
        assert f"{tmp_path / name} is not written: the run has taken no sample for it" in caplog.text


def test_sums_take_memory_which_there_must_be(tmp_path, monkeypatch):
    made = quick()
    monkeypatch.setattr(memory, "available", lambda: 2 * 3 * 8 * 48.0)
    made.means(tmp_path / "a.nc")
    with pytest.raises(ConfigError, match="Harmonics: a sum of 9 fields needs about 6.91 kB of memory"):
        made.harmonics(tmp_path / "b.nc", ("M2", "S2", "K1", "O1"))


def test_a_mean_in_float32_keeps_a_small_signal_on_a_large_constant():
    """Uncompensated, a million samples of 4000 m leave a mean that is wrong by tens of metres."""
    count, small = 1_000_000, np.float32(1.0 / 256.0)  # exact in float32 at 4000
    sums = zero_sum("eta", jnp.zeros(3, jnp.float32))

    def sample(k):
        return jnp.full(3, 4000.0, jnp.float32) + jnp.where(k % 2 == 0, small, 0.0)

    optimised = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}  # as in a run
    compiled = functools.partial(jax.jit, compiler_options=optimised)
    found = compiled(lambda s: jax.lax.fori_loop(0, count, lambda k, s: add_term(s, "eta", sample(k)), s))(sums)
    plain = compiled(lambda s: jax.lax.fori_loop(0, count, lambda k, s: s + sample(k), s))(sums["eta"])
    wanted = 4000.0 + 0.5 * float(small)
    np.testing.assert_allclose(total(found, "eta") / count, wanted, rtol=0, atol=1e-6)
    assert np.abs(np.asarray(plain, float) / count - wanted).min() > 1.0


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["arrays", "fused"])
def test_products_of_a_tracer_are_those_of_its_concentration(engine, tmp_path):
    """Not of its content h c, which the flow transports."""
    salt = sw.Tracer("salt", units="kg m-3")
    model = sw.ShallowWater(GRID, 50.0, coriolis=sw.FPlane(1e-4), engine=engine, tracers=(salt,))
    state = model.state(eta=simulation().state.eta, salt=lambda x, y: 2.0 + np.sin(2 * np.pi * x / 8e4))
    run = sw.Simulation(model, state, sw.ForwardBackward(100.0))
    run.harmonics(tmp_path / "tide.nc", ("M8",), variables=("salt",))
    run.means(tmp_path / "means.nc", ("salt", "salt salt", "salt u"), every=100.0)
    run.write(tmp_path / "fields.nc", ("salt", "u"), every=100.0).run(steps=130)
    with xr.open_dataset(tmp_path / "fields.nc") as fields:
        salt, u = (np.asarray(fields[name][1:], float) for name in ("salt", "u"))  # single precision in files
    u = 0.5 * (u + np.roll(u, 1, 2))
    with xr.open_dataset(tmp_path / "means.nc") as found:
        np.testing.assert_allclose(found.mean_salt, salt.mean(0), rtol=1e-5)
        np.testing.assert_allclose(found.mean_u_salt, (u * salt).mean(0), atol=1e-5)
        np.testing.assert_allclose(found.variance_salt, salt.var(0), atol=1e-5)
        assert found.mean_u_salt.units == "m-2 s-1 kg" and found.variance_salt.units == "kg2 m-6"
    with xr.open_dataset(tmp_path / "tide.nc") as found:
        assert 1.0 < found.salt_mean.min() and found.salt_mean.max() < 3.0


@pytest.mark.verify
def test_sums_of_a_tracer_in_older_restarts_are_not_continued(tmp_path, monkeypatch, caplog):
    """They were sums of its content h c."""

    def made():
        model = sw.ShallowWater(GRID, 50.0, engine="arrays", tracers=(sw.Tracer("salt"),))
        run = sw.Simulation(model, model.state(salt=2.0), sw.RK4(100.0))
        return run.harmonics(tmp_path / "tide.nc", ("M2",), variables=("eta", "salt"))

    with monkeypatch.context() as older:
        settings = Harmonics.settings
        older.setattr(Harmonics, "settings", lambda self: {k: x for k, x in settings(self).items() if k != "tracers"})
        made().restart(tmp_path / "older.nc").run(steps=2)
    made().restart(tmp_path / "newer.nc").run(steps=2)
    made().resume(tmp_path / "newer.nc")
    assert "alone" not in caplog.text
    made().resume(tmp_path / "older.nc")
    assert "hold samples from 200 s on alone" in caplog.text and "tide.nc" in caplog.text


def test_units_of_products():
    assert units_of_product("m", "m s-1") == "m2 s-1"
    assert units_of_product("1", "m s-1") == "m s-1"
    assert units_of_product("s-1", "s") == units_of_product("1", "1") == "1"
    assert units_of_product("kg/m3", "m") == "(kg/m3) (m)"


@pytest.mark.parametrize(
    "ask, said",
    [
        (lambda s, path: s.harmonics(path, ("M2", "X9")), "there is no tidal constituent 'X9'"),
        (lambda s, path: s.harmonics(path, ("M2",), variables=("speed",)), "there is no variable 'speed'"),
        (lambda s, path: s.means(path, ()), "holds no name"),
        (lambda s, path: s.means(path, ("eta", "u", "eta")), "holds 'eta' more than once"),
        (lambda s, path: s.harmonics(path, ()), "holds no name"),
        (lambda s, path: s.means(path, ("u w",)), "'u w' is not a field; give eta, u, v, thickness, speed, velocity_x"),
        (lambda s, path: s.means(path, ("u eta", "eta u")), "'eta u' is given twice"),
        (lambda s, path: s.extremes(path, threshold="high"), "threshold = 'high' is not a number"),
        (
            lambda s, path: s.means(path.with_suffix(".zarr")),
            "x.zarr' is the name of a Zarr store, which only fields and",
        ),
        (lambda s, path: s.maxima(path.with_suffix(".zarr")), "x.zarr' is the name of a Zarr store, which only fields"),
    ],
)
def test_mistakes_are_told(ask, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        ask(simulation(), tmp_path / "x.nc")


def test_a_check_counts_the_series_of_all_variables_and_all_sums():
    gauges = scenario.Gauges(positions={"a": (0.0, 0.0), "b": (1.0, 1.0)}, variables=("eta", "u", "v"))
    output = scenario.Output(gauges=gauges)
    assert scenario.bytes_of_gauges(output, 4) == memory.of_gauges(6, 4)
    assert scenario.bytes_of_sums(output, 100, 4) == 0
    output = scenario.Output.read(
        {"means": {"fields": ["eta", "u v"]}, "harmonics": {"constituents": ["M2"]}, "extremes": {}}
    )
    assert scenario.bytes_of_sums(output, 100, 8) == 2 * 100 * (8 * (2 + 3 + 5) + 4)
    assert scenario.bytes_of_sums(output, 100, 4) == 2 * 100 * (4 * (2 * 2 + 2 * 3 + 5) + 4)
