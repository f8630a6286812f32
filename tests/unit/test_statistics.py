"""Means, extremes and harmonic constants that a run sums up equal those of its snapshots, across a restart too."""

import logging

import numpy as np
import pytest
import xarray as xr

import swmodel as sw
from swmodel.errors import ConfigError
from swmodel.simulation.products import indistinct

GRID = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4), "x")


def simulation(engine="auto"):
    model = sw.ShallowWater(GRID, 50.0, coriolis=sw.FPlane(1e-4), engine=engine)
    state = model.state(eta=lambda x, y: np.cos(2 * np.pi * x / 8e4) * np.cos(np.pi * y / 6e4))
    return sw.Simulation(model, state, sw.RK4(100.0))


def products(made, folder):
    made.means(folder / "means.nc", ("eta", "v u", "u eta"), begin=500.0, every=200.0)
    return made.extremes(folder / "extremes.nc", threshold=0.2)


@pytest.mark.parametrize("engine", ["arrays", "fused"])
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
    with xr.open_dataset(tmp_path / "extremes.nc", decode_times=False) as found:
        np.testing.assert_allclose(found.maximum_elevation, eta.max(0), atol=1e-13)
        np.testing.assert_allclose(found.minimum_elevation, eta.min(0), atol=1e-13)
        np.testing.assert_allclose(found.maximum_speed, np.hypot(u, v).max(0), atol=1e-13)
        np.testing.assert_allclose(found.maximum_momentum_flux, ((50 + eta) * (u**2 + v**2)).max(0), atol=1e-12)
        np.testing.assert_allclose(found.time_over_threshold, 100.0 * (eta > 0.2).sum(0))


def test_a_window_that_is_too_short_is_told(caplog, tmp_path):
    assert indistinct(("M2", "S2"), 14.8 * 86400.0) is None
    assert "too short to tell M2 and S2 apart, which takes 14.8 days" in indistinct(("M2", "S2"), 14.7 * 86400.0)
    assert "too short to tell M2 from the mean" in indistinct(("M2",), 3600.0)
    made = simulation().harmonics(tmp_path / "tide.nc", ("M2", "S2"))
    with caplog.at_level(logging.WARNING, "swmodel"):
        made.run(steps=2)
    assert not (tmp_path / "tide.nc").exists()


@pytest.mark.parametrize(
    "ask, said",
    [
        (lambda s, path: s.harmonics(path, ("M2", "X9")), "there is no tidal constituent 'X9'"),
        (lambda s, path: s.harmonics(path, ("M2",), variables=("speed",)), "there is no variable 'speed'"),
        (lambda s, path: s.means(path, ("u w",)), "'u w' is no field; give eta, u or v"),
        (lambda s, path: s.extremes(path, threshold="high"), "threshold = 'high' is not a number"),
    ],
)
def test_mistakes_are_told(ask, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        ask(simulation(), tmp_path / "x.nc")
