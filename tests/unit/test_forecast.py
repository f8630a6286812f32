"""Forecasts: the posterior is Gauss's, bands hold the truth, bad records are refused, a bank is what runs give."""

import dataclasses
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from scipy.special import ndtr

import swmodel as sw
from swmodel.adjoint.controls.seafloor import distances_on
from swmodel.cli.green import _digest, sources_of
from swmodel.errors import ConfigError, DataError
from swmodel.forecast import Bank, Errors, next_buoy
from swmodel.forecast.errors import samples_of
from swmodel.forecast.inference import (
    MODEL_ERROR,
    Part,
    Posterior,
    Scales,
    _left_out,
    _loss_left_out,
    _positive,
    prior_root,
)
from tests.studies import BASIN, PATCH
from tests.unit.test_report import Outline

TIMES = 60.0 * np.arange(1.0, 91.0)
EXACT = Errors(instrument=0.02, model=1e-6, timing=0.0, deviation=1.0, length=5e4)


def bank(sources=12, points=3, seed=0):
    """Waves that reach each point from each source on a line after a time of its own."""
    noise = np.random.default_rng(seed)
    x = 4e4 * np.arange(sources)
    away = 3e5 + 4e4 * np.arange(points)[:, None] + np.abs(x - 6e5 * np.arange(points)[:, None] / points)
    late = (TIMES[None, :, None] - away[:, None] / 200.0) / 400.0
    shape = np.where(late > 0, late * np.exp(-late) * np.cos(late), 0.0) * (0.5 + noise.random((points, 1, sources)))
    places = {f"p{k}": (float(k), 0.0) for k in range(points)}
    distances = np.abs(np.subtract.outer(x, x))
    return Bank(shape, TIMES, places, np.column_stack([x, 0 * x]), distances, 1.0, 5e4, about={"start": "2011-03-11"})


def prior(bank, errors=EXACT):
    correlation = np.exp(-0.5 * (bank.distances / errors.length) ** 2) + 1e-6 * np.eye(len(bank.distances))
    return errors.deviation**2 * correlation


def twin(bank, seed, error=0.02, errors=EXACT):
    """(amplitudes, records of all points but the last)."""
    noise = np.random.default_rng(seed)
    amplitudes = np.linalg.cholesky(prior(bank, errors)) @ noise.standard_normal(len(bank.distances))
    waves = bank.waves(amplitudes, list(bank.places)[:-1])
    return amplitudes, dict(zip(waves.point.values, waves + error * noise.standard_normal(waves.shape)))


def test_the_posterior_is_that_of_gauss():
    b = bank()
    _, records = twin(b, 1)
    found = b.posterior(records, 3000.0, EXACT)
    until = TIMES <= 3000.0
    G = np.concatenate([b.responses[k][until] for k in range(2)])
    y = np.concatenate([records[name].values[until] for name in ("p0", "p1")])
    C = prior(b)
    gain = C @ G.T @ np.linalg.inv(G @ C @ G.T + 0.02**2 * np.eye(len(y)))
    assert np.allclose(found.mean, gain @ y, rtol=0, atol=1e-6)
    assert np.allclose(found.root @ found.root.T, C - gain @ G @ C, rtol=0, atol=1e-6)
    assert found.used == {"p0": 50, "p1": 50} and found.until == 3000.0
    waves = found.predict(["p2"])
    assert np.allclose(waves["mean"], b.responses[2:] @ found.mean)
    sources = found.sources()
    assert np.allclose(sources["amplitude_deviation"] ** 2, np.diag(found.root @ found.root.T))


def test_the_models_error_is_as_probable_as_each_record_is_in_the_forecast_from_the_others():
    """Against the normal distribution of the samples of one gauge, given those of the other, by dense matrices."""
    b, scales = bank(), Scales(1.0, 5e4, EXACT.model)
    _, records = twin(b, 1)
    samples = samples_of(records, list(b.places), TIMES, 0.0, 3000.0)
    parts, C, loss = [Part(b, each, EXACT) for each in samples], prior(b), 0.0
    for (here, other), (off, deviation) in zip(((0, 1), (1, 0)), _left_out(parts, b, scales, EXACT)):
        G, H = (b.responses[samples[k].row][samples[k].at] for k in (here, other))
        gain = G @ C @ H.T @ np.linalg.inv(H @ C @ H.T + EXACT.instrument**2 * np.eye(len(H)))
        variance = np.diag(G @ C @ G.T - gain @ H @ C @ G.T)
        assert np.allclose(off, samples[here].level - gain @ samples[other].level, rtol=0, atol=1e-6)
        assert np.allclose(deviation**2, variance, rtol=0, atol=1e-6)
        each = off**2 / (variance + EXACT.instrument**2) + np.log(variance + EXACT.instrument**2)
        loss += 0.5 * (1.0 + np.ptp(TIMES[samples[here].at]) / EXACT.memory) * np.mean(each)
    assert _loss_left_out(parts, b, scales, EXACT) == pytest.approx(loss, rel=1e-4)
    assert _loss_left_out(parts[:1], b, scales, EXACT) == 0.0


def test_a_wrong_model_is_found_by_the_gauges_that_are_left_out():
    """Waves that are twice as high in one direction as in the model's, beside those of the model."""
    b, errors, right, wrong = bank(points=4), dataclasses.replace(EXACT, model=None), [], []
    for seed in range(5):
        _, records = twin(b, seed)
        right.append(b.posterior(records, 3600.0, errors).scales.model)
        wrong.append(b.posterior(records | {"p1": 2.0 * records["p1"]}, 3600.0, errors).scales.model)
        assert b.posterior({"p0": records["p0"]}, 3600.0, errors).scales.model == MODEL_ERROR
    assert np.mean(wrong) > 1.5 * np.mean(right)


def test_errors_of_the_model_are_those_of_the_formula():
    """A(t) is the root mean square over 20 minutes; eta' is the record's, by central differences."""
    b, errors = bank(), dataclasses.replace(EXACT, model=0.3, timing=0.01, memory=240.0)
    y = twin(b, 1)[1]["p0"].values
    found = b.posterior({"p0": xr.DataArray(y, {"time": TIMES}, ("time",))}, errors=errors)
    padded = np.pad(y**2, 20, mode="edge")
    amplitude = np.sqrt([padded[k + 10 : k + 30].mean() for k in range(y.size)])
    late = 0.01 * TIMES * np.gradient(y, 60.0)
    R = 0.3**2 * np.outer(amplitude, amplitude) * np.exp(-np.abs(TIMES[:, None] - TIMES) / 240.0)
    R += 0.02**2 * np.eye(y.size) + np.outer(late, late)
    G, C = b.responses[0], prior(b)
    assert np.allclose(found.mean, C @ G.T @ np.linalg.solve(G @ C @ G.T + R, y), rtol=0, atol=1e-4)


def test_bands_hold_what_they_say_in_twins_and_the_scores_are_those_of_normal_distributions():
    b, inside, centre = bank(), [], []
    for seed in range(40):
        amplitudes, records = twin(b, seed)
        found = b.posterior(records, 3600.0, dataclasses.replace(EXACT, deviation=None, length=None))
        waves, truth = found.predict(["p2"]), b.waves(amplitudes, ["p2"])
        seen = (waves["deviation"] > 0.02).values
        for band, shares in ((90.0, inside), (50.0, centre)):
            here = waves.sel(band=band)
            shares += list(((here["low"] <= truth) & (truth <= here["high"])).values[seen])
    assert 0.85 < np.mean(inside) < 0.98 and 0.4 < np.mean(centre) < 0.75
    scores = found.scores({"p2": truth.sel(point="p2")})
    spread = np.hypot(waves["deviation"].values[0], 0.02)[TIMES > 3600.0]
    z = ((truth - waves["mean"]).values[0, TIMES > 3600.0]) / spread
    grid = np.linspace(-12, 12, 48001)  # the integral over the squared difference of distribution functions
    crps = [s * np.trapezoid((ndtr(grid) - (grid >= one)) ** 2, grid) for s, one in zip(spread, z)]
    assert float(scores["crps"][0]) == pytest.approx(np.mean(crps), rel=1e-3)
    assert float(scores["error"][0]) == pytest.approx(np.sqrt(np.mean((z * spread) ** 2)))


def test_draws_have_the_spread_of_the_bands_and_give_height_and_arrival():
    b = bank()
    _, records = twin(b, 3)
    found = b.posterior(records, 3000.0, dataclasses.replace(EXACT, model=0.3, timing=0.005))
    waves, draws = found.predict(["p2"]), found.draws(4000, ["p2"])
    near = np.abs(draws.std("draw") - waves["deviation"]) < 0.06 * waves["deviation"].max()
    sources = found.amplitudes(4000)
    change = sources - found.mean
    assert np.allclose(change.T @ change / 4000, found.inflation**2 * found.root @ found.root.T, rtol=0, atol=0.1)
    on_time = dataclasses.replace(found, errors=dataclasses.replace(EXACT, timing=0.0))
    smooth = on_time.draws(2, ["p2"], seed=5, rough=False)
    assert np.allclose(smooth[1], b.waves(found.amplitudes(2, seed=5)[1], ["p2"]), rtol=0, atol=1e-12)
    assert near.all() and np.abs(draws.mean("draw") - waves["mean"]).max() < 0.1 * waves["deviation"].max()
    harbours = found.harbours(["p2"], threshold=0.05)
    low, middle, high = harbours["height"].values[:, 0]
    assert low < middle < high and middle == pytest.approx(float(waves["mean"].max()), rel=0.5)
    assert TIMES[0] <= harbours["arrival"].values[1, 0] <= TIMES[-1] and 0 < harbours["reached"][0] <= 1


def test_errors_of_the_model_do_not_let_a_wave_arrive_before_it_is_there():
    b = bank()
    amplitudes, _ = twin(b, 3)
    exact = Posterior(b, amplitudes, np.zeros((12, 1)), Scales(1.0, 5e4, 0.3), 1.0, dataclasses.replace(EXACT), 0.0, {})
    wave = exact.predict(["p2"])["mean"].values[0]
    first = TIMES[np.argmax(np.abs(wave) >= 0.05)]
    assert np.array_equal(exact.harbours(["p2"], 0.05)["arrival"].values[:, 0], [first] * 3)


def test_positive_amplitudes_have_the_moments_of_a_normal_distribution_cut_off_at_zero():
    mean, root = _positive(np.array([0.5, -0.3]), np.diag([1.0, 0.5]))
    for k, (m, s) in enumerate(((0.5, 1.0), (-0.3, 0.5))):
        x = np.linspace(0, 8, 20001)
        weight = np.exp(-0.5 * ((x - m) / s) ** 2)
        right = np.average(x, weights=weight)
        assert mean[k] == pytest.approx(right, rel=0.08)
        assert np.sum(root[k] ** 2) == pytest.approx(np.average((x - right) ** 2, weights=weight), rel=0.2)
    distances = 4e4 * np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    for length in (5e4, 2e5):  # where single amplitudes hardly move
        root = prior_root(distances, Scales(1.0, length, 0.3))
        x = np.random.default_rng(1).standard_normal((200_000, 4)) @ root.T
        x = x[(x > 0).all(axis=1)]
        mean, root = _positive(np.zeros(4), root)
        assert np.allclose(mean, x.mean(axis=0), rtol=0.1)
        assert np.allclose(np.linalg.norm(root, axis=1), x.std(axis=0), rtol=0.1)
    b = bank()
    amplitudes = np.abs(twin(b, 4)[0])
    records = {"p0": b.waves(amplitudes, ["p0"]).sel(point="p0")}
    found = b.posterior(records, 3000.0, dataclasses.replace(EXACT, rises=True))
    assert (found.mean > 0).all()
    assert any("amplitudes are positive" in remark for remark in found.remarks)
    assert any("p0 alone has a record" in remark for remark in found.remarks)
    before = dataclasses.replace(b, rises=True).posterior(records, 600.0, EXACT)
    assert (before.mean > 0).all() and "the forecast is the prior" in before.remarks[0]


def test_a_model_that_is_wrong_widens_the_bands():
    b = bank()
    _, records = twin(b, 5)
    late = np.concatenate([np.zeros_like(b.responses[:, :4]), b.responses[:, :-4]], axis=1)
    wrong = dataclasses.replace(b, responses=late)
    right, off = (each.posterior(records, 4200.0, dataclasses.replace(EXACT, model=None)) for each in (b, wrong))
    assert off.inflation * off.scales.model > 1.5 * right.inflation * right.scales.model


def test_the_gain_of_a_buoy_is_the_part_of_the_variance_that_its_record_removes():
    b = bank(points=4)
    found = next_buoy(b, ["p3"], ["p0"], 3000.0, EXACT)
    used, C = TIMES <= 3000.0, prior(b)
    H = b.responses[3][~used]

    def variance(rows):
        G = np.concatenate([b.responses[row][used] for row in rows])
        gain = C @ G.T @ np.linalg.inv(G @ C @ G.T + 0.02**2 * np.eye(len(G)))
        return np.trace(H @ (C - gain @ G @ C) @ H.T)

    right = {name: 1.0 - variance([0, row]) / variance([0]) for row, name in ((1, "p1"), (2, "p2"))}
    assert list(found.point.values) == sorted(right, key=right.get, reverse=True)
    assert np.allclose(found["gain"], [right[name] for name in found.point.values], rtol=0, atol=1e-6)
    assert found.attrs["with_gauges"] == pytest.approx((variance([0]) / len(H)) ** 0.5, rel=1e-6)
    with pytest.raises(ConfigError, match="name one harbour or more"):
        next_buoy(b, [])


@pytest.mark.parametrize("first", [0.5, 1.0, 2.0])
def test_the_scale_of_the_sources_follows_from_the_records_wherever_the_search_begins(first):
    b = dataclasses.replace(bank(), deviation=first)
    _, records = twin(b, 1)
    small = {name: 0.2 * one for name, one in records.items()}
    found = b.posterior(small, 4200.0, dataclasses.replace(EXACT, deviation=None))
    assert found.scales.deviation < 0.75 * first and found.scales.deviation < 0.6


def test_a_perfect_model_and_a_single_source_are_cases_too():
    b = bank()
    _, records = twin(b, 1)
    for free in ({}, {"deviation": None}):
        perfect, exact = (
            b.posterior(records, 3000.0, dataclasses.replace(EXACT, model=m, **free)) for m in (0.0, 1e-9)
        )
        assert np.allclose(perfect.mean, exact.mean, rtol=0, atol=1e-9)
    one = dataclasses.replace(
        b, responses=b.responses[..., :1], centres=b.centres[:1], distances=np.zeros((1, 1)), length=0.0
    )
    found = one.posterior({"p0": one.waves(np.array([0.7]), ["p0"]).sel(point="p0")}, errors=Errors(model=0.01))
    assert found.mean == pytest.approx(0.7, rel=0.05)


def test_a_rupture_delays_each_source_by_its_way_and_a_rise_averages_its_waves():
    b = dataclasses.replace(bank(), responses=np.sin(TIMES[None, :, None] / 700.0) * np.ones((3, 1, 12)))
    exact = b.ruptured((8.1e4, 0.0), velocity=4e4 / 240.0)  # four intervals from a source to the next
    away = 4 * np.abs(np.arange(12) - 2)
    for k, steps in enumerate(away):
        assert np.allclose(exact.responses[:, steps:, k], b.responses[:, : 90 - steps, k], rtol=0, atol=1e-12)
        assert not exact.responses[:, : max(steps - 1, 0), k].any()
    risen = b.ruptured((0.0, 0.0), rise_time=600.0).responses[0, :, 5]
    late = TIMES > 660.0
    right = 700.0 / 600.0 * (np.cos((TIMES - 600.0) / 700.0) - np.cos(TIMES / 700.0))
    assert np.allclose(risen[late], right[late], rtol=0, atol=1e-3)
    assert np.array_equal(b.ruptured((0.0, 0.0)).responses, b.responses)
    centres = np.column_stack([288.0 + 0.5 * np.arange(12), np.full(12, 55.0)])
    centres[3] = 289.4, 55.3
    north = dataclasses.replace(b, centres=centres, distances=distances_on(centres, 6.371e6))
    periodic = dataclasses.replace(b, distances=distances_on(b.centres, None, turns=(48e4, 0.0)))
    assert north.radius == pytest.approx(6.371e6) and b.radius is None and periodic.radius is None
    for x in (289.4, -70.6):  # 26 km from source 2, at 0.4 degrees, and 33 km from source 3, at 0.3 degrees
        second, third = (north.ruptured(tuple(centres[k]), velocity=4e4 / 240.0).responses for k in (2, 3))
        assert np.array_equal(north.ruptured((x, 55.0), velocity=4e4 / 240.0).responses, second)
        assert not np.array_equal(second, third)
    for wrong in ({"velocity": 0.0}, {"rise_time": -1.0}, {"rise_time": np.inf}):
        with pytest.raises(ConfigError, match="a rupture of .* cannot be; give positive numbers"):
            b.ruptured((0.0, 0.0), **wrong)


def test_a_record_with_few_samples_is_not_made_longer_by_interpolation():
    b = bank()
    _, records = twin(b, 1)
    few = {name: one[::15] for name, one in records.items()}
    assert b.posterior(few, errors=EXACT).used == {"p0": 6, "p1": 6}


def test_a_gauge_that_contradicts_the_others_and_records_of_other_times_are_remarked():
    b = bank()
    _, records = twin(b, 1, 1e-3)
    records["p1"] = -20.0 * records["p1"]
    found = b.posterior(records, 4200.0, EXACT)
    assert found.inflation == 5.0 and any("a record is wrong, or the source lies elsewhere" in x for x in found.remarks)
    late = {name: one.assign_coords(time=TIMES + 1e5) for name, one in records.items()}
    assert "no record has a sample at the times of the bank" in b.posterior(late, errors=EXACT).remarks[0]


def test_a_record_of_another_time_and_one_that_has_stopped_are_remarked():
    """A clock in local time, or a file of another year, would leave the forecast without this gauge in silence."""
    b = bank()
    _, records = twin(b, 1)
    local = records | {"p1": records["p1"].assign_coords(time=TIMES + 9 * 3600.0)}
    found = b.posterior(local, errors=EXACT)
    assert list(found.used) == ["p0"]
    assert any("no sample of p1 is used, which has those of 541 to " in one for one in found.remarks)
    empty = b.posterior(records | {"p1": records["p1"] * np.nan}, errors=EXACT)
    assert any("no sample of p1 is used, which has none" in one for one in empty.remarks)
    stopped = b.posterior(records | {"p1": records["p1"][:20]}, errors=EXACT)
    assert any("p1 has no samples after 20 min, and another gauge has until " in one for one in stopped.remarks)
    until = {name: one[:20] for name, one in records.items()}
    assert not any("no samples after" in one for one in b.posterior(until, errors=EXACT).remarks)


def test_points_without_responses_are_refused():
    b = bank()
    _, records = twin(b, 1)
    b.responses[1:] = np.nan
    found = b.posterior({"p0": records["p0"]}, errors=EXACT)
    assert b.posterior({}, errors=EXACT).used == {}
    for asked in (lambda: found.predict(), lambda: b.posterior(records, errors=EXACT)):
        with pytest.raises(ConfigError, match="the bank has no responses of p1.* yet; complete it by swmodel green"):
            asked()


@pytest.mark.parametrize("wrong", [{"instrument": 0.0}, {"memory": -1.0}, {"model": -0.1}, {"deviation": 0.0}])
def test_errors_that_are_no_errors_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"Errors: {next(iter(wrong))} = .* give another"):
        Errors(**wrong)


def test_bad_records_are_refused_in_a_sentence():
    b = bank()
    _, records = twin(b, 6)
    one = records["p0"]
    back = np.where(TIMES > 1800.0, TIMES - 600.0, TIMES)
    dates = np.datetime64("2011-03-11", "ns") + np.arange(90) * np.timedelta64(60, "s")
    spike, tide = one.where(one.time != TIMES[45], 9.0), one + 0.6
    backwards, dated = (one.assign_coords(time=times) for times in (back, dates))
    for wrong, sentence in (
        ({"p0": tide}, "level of p0 is off zero by 0.6 m before a wave can be there: tides, another datum"),
        ({"p0": spike}, "level of p0 jumps to 9 m after 2760 s and back: a spike; remove it"),
        ({"p0": backwards}, "clock of p0 does not go forward all the time"),
        ({"p0": dated}, "the times of p0 are dates or durations; give seconds since the earthquake"),
        ({"p9": one}, "a record of p9, which is not a point of the bank; p0, p1, p2 are"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            b.posterior(records | wrong, errors=EXACT)
        found, refused = b.usable(records | wrong, None, EXACT)  # the other record stays
        assert list(found) == [name for name in records | wrong if name not in wrong] and refused.keys() == wrong.keys()
        assert re.search(sentence, refused[next(iter(wrong))])
    late = records | {"p0": one.where(one.time <= TIMES[50], 9.0 * (one.time == TIMES[70]))}
    assert not b.usable(late, 2400.0, EXACT)[1] and "a spike" in b.usable(late, None, EXACT)[1]["p0"]


@pytest.mark.parametrize("crest", [[0.3, 0.6, 0.9, 1.3, 1.0, 0.5, 0.2], [0.2, 0.4, 0.3, 1.0, 0.3, 0.5, 0.2]])
def test_a_sharp_crest_after_a_quiet_time_is_no_spike_but_may_be_one(crest):
    b = bank()
    level = xr.DataArray(np.zeros(90), {"time": TIMES}, ("time",))
    level[50:57] = crest
    found = b.posterior({"p0": level})
    doubt = "the level of p0 jumps to 1 m after 3240 s and back: if the wave is not so sharp, remove this spike"
    assert found.used == {"p0": 90} and any(doubt in one for one in found.remarks) == (max(crest) == 1.0)
    if max(crest) == 1.0:
        level[53] = 1.2
        with pytest.raises(ConfigError, match="jumps to 1.2 m after 3240 s and back: a spike; remove it .spikes in"):
            b.posterior({"p0": level})


def test_a_mean_off_zero_before_begin_is_refused_and_a_gap_is_remarked():
    """Seismic waves before `begin` do not change the mean; the wave is there too soon after it for the other check."""
    b, begin = bank(), dataclasses.replace(EXACT, begin=1500.0)
    _, records = twin(b, 6)
    shaken = records["p0"] + np.where(TIMES < 900.0, 0.3 * (-1.0) ** np.arange(90), 0.0)
    assert b.posterior(records | {"p0": shaken}, errors=begin).used["p0"] == 66
    with pytest.raises(ConfigError, match="p0 is off zero by 0.3 m in the mean before a wave can be there: tides or"):
        b.posterior(records | {"p0": shaken + 0.3}, errors=begin)
    for doubtful in (records["p0"] + 0.08, records["p0"] + 0.6 * np.sin((TIMES - 600.0) / 7200.0)):  # datum, tide
        (sentence,) = b.posterior(records | {"p0": doubtful}, errors=EXACT).remarks
        assert re.match(r"p0 is off zero by about 0.\d+ m when a wave can first be there: is a tide or", sentence)
    late = records["p0"].assign_coords(time=np.where(TIMES > 1800.0, TIMES + 600.0, TIMES))
    found = b.posterior(records | {"p0": late}, errors=EXACT)
    assert "p0 has no samples from 30 to 41 min; if its clock jumps there, leave this gauge out" in found.remarks[0]


def test_gaps_are_left_out_and_before_any_wave_the_forecast_is_the_prior():
    b = bank()
    _, records = twin(b, 7)
    assert b.posterior(records, errors=EXACT).remarks == ()
    records["p0"][20:40] = np.nan
    assert b.posterior(records, errors=EXACT).used == {"p0": 70, "p1": 90}
    early = b.posterior(records, 600.0, EXACT)
    assert np.all(early.mean == 0) and "the forecast is the prior" in early.remarks[0]
    assert np.allclose(early.root @ early.root.T, prior(b))
    assert b.posterior({}, errors=EXACT).until == 0.0


def test_a_bank_is_read_as_it_was_written_and_other_files_are_not(tmp_path):
    b = bank()
    b.write(tmp_path / "bank.nc")
    again = Bank.read(tmp_path / "bank.nc")
    for field in dataclasses.fields(Bank):
        mine, other = getattr(b, field.name), getattr(again, field.name)
        assert np.array_equal(mine, other) if isinstance(mine, np.ndarray) else mine == other
    xr.Dataset({"x": 1.0}).to_netcdf(tmp_path / "other.nc")
    with pytest.raises(DataError, match=r"other.nc holds no bank of Green's functions; make one by swmodel green"):
        Bank.read(tmp_path / "other.nc")
    (tmp_path / "broken.nc").write_bytes(b"x" * 100)
    with pytest.raises(DataError, match="broken.nc cannot be read as a bank"):
        Bank.read(tmp_path / "broken.nc")
    with pytest.raises(ConfigError, match="p7 is not in the bank, which has p0, p1, p2"):
        b.waves(np.zeros(12), ["p7"])


def test_a_page_has_the_forecast_of_each_minute_of_records_with_its_harbours(command, tmp_path):
    b, records = bank(), tmp_path / "records"
    records.mkdir()
    dataclasses.replace(b, about=b.about | {"error_of_a_run": 0.0, "title": "A <bay>"}).write(tmp_path / "bank.nc")
    for name, one in twin(b, 1)[1].items():
        table = np.column_stack([TIMES, one])
        np.savetxt(records / f"{name}.csv", table, "%.5f", ",", header="time_s,elevation_m", comments="")
    for more, sentence in (
        (("--velocity", "2 km/s"), "--velocity needs --epicentre X,Y: where the rupture began"),
        (("--velocity", "2 km", "--epicentre", "0,0"), "--velocity"),
        (("--epicentre", "0,0"), "--epicentre needs --velocity"),
        (("--threshold=-1 cm",), "--threshold: -0.01 is negative"),  # any level was the wave's arrival
        (("--until=-5 min",), "--until: -300.0 is negative"),
        (("--begin=-5 min",), "--begin: -300.0 is negative"),
    ):
        assert sentence in command.refused("forecast", tmp_path / "bank.nc", "--observations", records, *more)
    (records / "p9.csv").write_text("time_s,elevation_m\n0,0.1\n60,0.2\n")
    given = "--observations", records, "--begin", "40min", "--until", "42min", "-o", tmp_path / "a.nc", "--page"
    given = "--rise-time", "2min", "--velocity", "2 km/s", "--epicentre", "4e4,0", *given
    printed, errors = command.ok("forecast", tmp_path / "bank.nc", *given)
    assert "p9.csv is of no point of the bank and is not used; the points are p0, p1, p2." in errors
    with xr.open_dataset(tmp_path / "a.nc") as found:
        assert (found.rise_time, found.rupture_velocity, *found.epicentre) == (120.0, 2000.0, 4e4, 0.0)
    with pytest.raises(ConfigError, match="rise with a rupture or in a rise time, and those of a run rise at once"):
        sources_of(tmp_path / "a.nc", "", 2)
    text = (tmp_path / "a.html").read_text()
    page = Outline(text)
    assert "<h1>Forecast: A &lt;bay&gt;</h1>" in text and not page.others + page.open
    assert page.headings == ["Source, waves and harbours"] and page.tags.count("img") == page.tags.count("table") == 2
    stamps = [f"after {minute} min of records" for minute in (41, 42)]
    assert json.loads(page.data)[0]["stamps"] == stamps
    for samples, block in zip((2, 3), text.split("data-moment=")[1:]):
        assert f"Samples that were used: p0 {samples}, p1 {samples}" in block
    cells = re.findall("<td>(.*?)</td>", text)[-15:]  # of the last table, which is the one of the command
    assert all(cell in printed for cell in cells)
    lines = (records / "p1.csv").read_text().splitlines()
    lines[50] = lines[50].partition(",")[0] + ",9.0"
    (records / "p1.csv").write_text("\n".join(lines))
    given = [x if x != "42min" else "80min" for x in given]
    printed, errors = command.ok("forecast", tmp_path / "bank.nc", *given)
    assert "The record of p1 is left out: the level of p1 jumps to 9 m after" in errors and "p0 41\n" in printed
    status, _, errors = command("forecast", tmp_path / "bank.nc", *given[:-2], tmp_path / "a.html", "--page")
    assert status != 0 and "--page" in errors and "a.html is also the file of --output" in errors


def test_a_bank_of_faults_is_of_what_their_file_says_and_not_of_where_it_is(tmp_path):
    model = sw.ShallowWater(sw.CartesianGrid(4, 3, (0.0, 4e5), (0.0, 3e5)), 1000.0, communicator="serial")
    found = []
    for name, text in (("a.csv", "dip\n10\n"), ("b.csv", "dip\n10\n"), ("a.csv", "dip\n35\n")):
        (tmp_path / name).write_text(text)
        section = SimpleNamespace(sources={"type": "unit_faults", "file": tmp_path / name}.items(), interval=60.0)
        found.append(_digest(model, section, 600.0, sw.ForwardBackward(20.0), {"A": (1e5, 1e5)}))
    assert found[0] == found[1] and found[0][0] != found[2][0]
    entries = json.loads(found[0][1])
    assert entries["grid.nx"] == 4 and entries["depth"]["hash"] and entries["point.A"] == [1e5, 1e5]


@pytest.mark.verify
def test_the_commands_make_a_bank_and_forecast_from_records(study, command, tmp_path):
    sources = PATCH.replace("[[inversion.controls]]", "[green.sources]").replace("[inversion]\nloops = 4", "")
    path, folder = study(BASIN, "[green]\ninterval = 120\n", sources)
    printed, _ = command.ok("green", path, "-o", folder)
    assert "a run from random amplitudes differs by" in printed and "points  3: near, far, north" in printed
    b = Bank.read(folder / "bank.nc")
    assert b.about["error_of_a_run"] < 1e-12 and b.responses.shape == (3, 15, 16)
    whole, part = b.responses.copy(), dataclasses.replace(b, responses=b.responses.copy(), about=dict(b.about))
    part.about.pop("error_of_a_run")
    part.write(folder / "bank.nc")
    for sentence in ("has not been compared with a run; complete it by", "has no responses of far yet; complete it by"):
        assert sentence in command.refused("forecast", folder / "bank.nc", "--observations", tmp_path)
        part.responses[1] = np.nan
        part.write(folder / "bank.nc")
    assert "1 of 1 sweeps" in command.ok("green", path, "-o", folder, "--resume")[0]
    assert "error_of_a_run" in Bank.read(folder / "bank.nc").about
    assert np.allclose(Bank.read(folder / "bank.nc").responses, whole, rtol=0, atol=1e-13)
    status, _, errors = command("green", path, "-o", folder, "--resume", "--set", "bathymetry.depth=900")
    assert status != 0 and "other points: depth is a field of 1000 to 1000 in the bank and a field of 900" in errors
    _forecast_of_a_twin(b, folder, command, tmp_path)
    _runs_from_the_sources(path, b, folder, command)
    _by_runs(path, b, folder, command)


def _by_runs(path, b, folder, command):
    """A bank of many points is made by runs, each stored; one of other faults or at other places is refused."""
    part = dataclasses.replace(b, responses=b.responses.copy())
    part.responses[:, :, 3:5] = np.nan
    part.write(folder / "bank.nc")
    status, printed, errors = command("green", path, "-o", folder, "--resume")
    assert status == 0 and "1 of 2 runs" in printed and "2 of 2 runs" in printed, errors
    assert np.allclose(Bank.read(folder / "bank.nc").responses, b.responses, rtol=0, atol=1e-13)
    dataclasses.replace(b, about=b.about | {"model": "another"}).write(folder / "bank.nc")
    here = "--set", f"output.folder={folder}", "-o", folder / "runs", "--overwrite"
    status, _, errors = command("rerun", path, folder / "small.nc", *here)
    assert status != 0 and "bank.nc is a bank of another model, other sources or other points" in errors


def _runs_from_the_sources(path, b, folder, command):
    """Waves of a millimetre are linear: runs of the mean and draws are what the bank has."""
    with xr.open_dataset(folder / "forecast.nc") as opened:
        found = opened.load()
    for name in ("amplitude", "drawn_amplitude"):
        found[name] = 1e-3 * found[name]
    found.to_netcdf(folder / "small.nc")
    here = "--set", f"output.folder={folder}", "-o", folder / "runs"
    printed, _ = command.ok("rerun", path, folder / "small.nc", "--count", "3", *here)
    assert "members  3, of" in printed and "runs over bank" in printed
    with xr.open_dataset(folder / "runs" / "rerun.nc", decode_times=False) as runs:
        levels = runs["eta"].transpose("member", "gauge", "time").values[..., 1:]
        assert np.allclose(runs["time"][1:], b.times) and runs["draw"].values.tolist() == [0, 1, 2]
    sources = [found["amplitude"].values, *found["drawn_amplitude"].values[:2]]
    for level, amplitudes in zip(levels, sources):
        right = b.waves(amplitudes).values
        assert np.abs(level - right).max() < 1e-4 * np.abs(right).max()
    for given, sentence in (
        (("--overwrite", "--set", "bathymetry.depth=900"), "a bank of another model, bathymetry, sources or points"),
        ((), "rerun.nc exists already; add --overwrite"),
    ):
        assert sentence in command.refused("rerun", path, folder / "small.nc", *here, *given)
    status, _, errors = command("rerun", path, folder / "bank.nc", *here, "--overwrite")
    assert status != 0 and "holds no sources; give a file that swmodel forecast or swmodel hazard wrote" in errors


def _forecast_of_a_twin(b, folder, command, tmp_path):
    noise, records = np.random.default_rng(0), tmp_path / "records"
    records.mkdir()
    waves = b.waves(np.linspace(0.2, 1.5, 16))
    for name in ("near", "far"):
        table = np.column_stack([b.times, waves.sel(point=name) + 0.002 * noise.standard_normal(15)])
        np.savetxt(records / f"{name}.csv", table, "%.5f", ",", header="time_s,elevation_m", comments="")
    given = ("--observations", records, "--until", "16min", "-o", folder / "forecast.nc")
    printed, _ = command.ok("forecast", folder / "bank.nc", *given, "--plot")
    assert "records      until 16 min, samples: near 8, far 8" in printed
    assert (folder / "forecast.png").stat().st_size > 20_000
    with xr.open_dataset(folder / "forecast.nc") as found:
        here = found.sel(point="north", band=90.0)
        held = (here["low"] <= waves.sel(point="north")) & (waves.sel(point="north") <= here["high"])
        assert found["amplitude"].size == 16 and held.mean() > 0.8
    status, _, errors = command("forecast", folder / "bank.nc", "--observations", tmp_path / "out")
    assert status != 0 and "is named after one of the gauges near, far, north" in errors
    for output, sentence in (
        (folder / "bank.nc", "is also the file of the bank"),
        (records / "x.nc", "of the records"),
    ):
        assert sentence in command.refused("forecast", folder / "bank.nc", "--observations", records, "-o", output)
    damaged = "time_s,elevation_m\n0,0.1\n60,high\n"
    for text, why in ((damaged, "far.csv, line 3"), ("", "far.csv lacks")):
        (records / "far.csv").write_text(text)
        printed, errors = command.ok("forecast", folder / "bank.nc", *given)
        assert "samples: near 8\n" in printed and "The record of far is left out: " in errors and why in errors
        assert "is of no point" not in errors
    near = (records / "near.csv").read_text()
    (records / "near.csv").write_text(damaged)
    assert "near.csv, line 3" in command.refused("forecast", folder / "bank.nc", *given)
    (records / "near.csv").write_text(near)
    (records / "far.csv").write_text(damaged)
    (records / "records.toml").write_text("[gauges.far]\ndatum = 0.01\n")
    assert "samples: near 8\n" in command.ok("forecast", folder / "bank.nc", *given, "--without", "far")[0]
    assert "fra" in command.refused("forecast", folder / "bank.nc", *given, "--without", "fra")
    status, _, errors = command("forecast", folder / "bank.nc", *given, "--start", "yesterday")
    assert status != 0 and "--start yesterday is no date and time in UTC" in errors
    assert "--observations DIR is missing" in command.refused("forecast", folder / "bank.nc")


def test_a_bank_without_patterns_or_points_is_refused_and_runs_need_that_of_the_experiment(study, command):
    balanced = '[green.sources]\ntype = "balanced"\ndeviation = "1 m"\nlength = "50 km"\n'
    status, _, errors = command("green", study(BASIN.replace("[output.gauges.positions]", "[other]"), balanced)[0])
    assert status != 0 and "'balanced' are not sums of fixed patterns of the surface" in errors
    assert "no point has a place; name buoys and harbours in [output.gauges.positions]" in errors
    assert "the section [green] is missing; add one, such as" in command.refused("green", study(BASIN)[0])
    sources = PATCH.replace("[[inversion.controls]]", "[green.sources]").replace("[inversion]\nloops = 4", "")
    path, folder = study(BASIN, "[green]\n", sources)
    elsewhere = "--set", f"output.folder={folder}", "-o", folder.with_name("runs")
    assert f"there is no bank {folder / 'bank.nc'} to compare with" in command.refused("rerun", path, path, *elsewhere)
