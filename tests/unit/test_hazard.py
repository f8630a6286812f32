"""Hazard curves: rates are those of the law, moments those of magnitudes, and a single fault has its exact curve."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from swmodel.errors import ConfigError
from swmodel.forecast import Bank, Earthquakes, hazard_curves, scenarios
from swmodel.forecast.hazard import BINS, LEVELS, von_karman
from tests.unit.test_report import Outline

QUAKES = Earthquakes(rate=0.3, magnitudes=(7.0, 9.0), b=0.9)
AREA = 5e9  # [m2]


def bank(columns=6, rows=3, points=2):
    """Faults 100 by 50 km on a lattice, and waves in proportion to their slips."""
    x, y = (each.ravel() for each in np.meshgrid(1e5 * np.arange(columns), 5e4 * np.arange(rows)))
    distances = np.hypot(np.subtract.outer(x, x), np.subtract.outer(y, y))
    noise, times = np.random.default_rng(0), 60.0 * np.arange(1.0, 31.0)
    responses = 0.1 * noise.random((points, 1, x.size)) * np.sin(times / 400.0)[None, :, None]
    places = {f"p{k}": (float(k), 0.0) for k in range(points)}
    return Bank(responses, times, places, np.column_stack([x, y]), distances, 1.0, 0.0, areas=np.full(x.size, AREA))


def test_scenarios_have_the_rates_of_the_law_and_the_moments_of_their_magnitudes():
    exact = dataclasses.replace(QUAKES, rigidity_spread=0.0)
    drawn = scenarios(bank(), exact, 400)
    m, rate, slip = (drawn[name].values for name in ("magnitude", "rate", "slip"))
    assert rate.sum() == pytest.approx(0.3) and (slip >= 0).all()
    assert rate[m > 8.0].sum() == pytest.approx(float(exact.rate_above(8.0)), rel=0.02)
    assert exact.rate_above([7.0, 9.0]) == pytest.approx([0.3, 0.0], abs=1e-12)
    moments = exact.rigidity * slip @ np.full(18, AREA)
    np.testing.assert_allclose((np.log10(moments) - 9.1) / 1.5, m, rtol=1e-12)
    counts = (slip > 0).sum(axis=1)
    assert counts[m < 7.2].max() <= 2 and counts[m > 8.9].min() >= 10
    spread = scenarios(bank(), QUAKES, 400)["slip"].values
    assert not np.array_equal(spread, slip)


def test_a_single_fault_has_the_curve_of_the_law():
    one = bank(1, 1, 1)
    exact = dataclasses.replace(QUAKES, rigidity_spread=0.0)
    curves = hazard_curves(one, exact, 4000)
    response = one.responses.max()
    magnitude = (np.log10(LEVELS / response * exact.rigidity * AREA) - 9.1) / 1.5
    right = exact.rate_above(magnitude)
    away = np.abs(curves["rate"].values[0] - right)
    assert (away <= 3.0 * curves["rate_deviation"].values[0] + 1e-3 * right.max()).all()
    for k, period in enumerate(curves["period"].values):
        low, middle, high = curves["height"].values[:, 0, k]
        if np.isfinite(middle) and 1.0 / period < 0.3:
            at = response * 10.0 ** (1.5 * _magnitude_of(exact, 1.0 / period) + 9.1) / (exact.rigidity * AREA)
            assert middle == pytest.approx(at, rel=0.05)
            assert not low > middle and not high < middle
    share = curves["share"].values[:, 0]
    assert np.allclose(share.sum(axis=0)[np.isfinite(share).all(axis=0)], 1.0) and len(share) == BINS


def test_the_share_of_a_source_is_its_moment_in_the_earthquakes_that_exceed_the_level():
    b = bank()
    drawn = scenarios(b, QUAKES, 300)
    found = hazard_curves(b, QUAKES, drawn=drawn)
    level = float(found["height"].sel(band=50.0, point="p1", period=50.0))
    slip, weight = drawn["slip"].values, drawn["rate"].values
    over = weight * (b.responses[1] @ slip.T > level).any(axis=0)
    right = over @ (slip / slip.sum(axis=1, keepdims=True)) / over.sum()
    assert 0 < level and np.allclose(found["source_share"].sel(point="p1", period=50.0), right)


def _magnitude_of(quakes, rate):
    magnitudes = np.linspace(*quakes.magnitudes, 20001)
    return np.interp(rate, quakes.rate_above(magnitudes)[::-1], magnitudes[::-1])


def test_the_error_of_monte_carlo_is_that_of_other_scenarios():
    b = bank()
    each = [hazard_curves(b, QUAKES, 300, seed) for seed in range(30)]
    rates = np.stack([one["rate"].values for one in each])
    busy = rates.mean(axis=0) > 0.02
    expected = np.mean([one["rate_deviation"].values for one in each], axis=0)
    ratio = (rates.std(axis=0, ddof=1) / np.maximum(expected, 1e-30))[busy]
    assert 0.05 < ratio.mean() < 1.1  # magnitudes are stratified, which makes it smaller


def test_the_correlation_of_von_karman_is_exponential_for_one_half():
    r = np.linspace(0.0, 3e5, 31)
    np.testing.assert_allclose(von_karman(r, 4e4, 0.5), np.exp(-r / 4e4), rtol=1e-6, atol=1e-9)


def test_earthquakes_that_cannot_be_and_banks_of_no_faults_are_refused():
    for wrong, name in (({"rate": 0.0}, "rate"), ({"magnitudes": (9.0, 8.0)}, "magnitudes"), ({"hurst": 1.5}, "hurst")):
        with pytest.raises(ConfigError, match=f"Earthquakes: {name} = .* cannot be"):
            dataclasses.replace(QUAKES, **wrong)
    with pytest.raises(ConfigError, match="sources of this bank are no faults; make one of type = 'unit_faults'"):
        scenarios(dataclasses.replace(bank(), areas=None), QUAKES, 10)


def test_the_command_prints_levels_of_return_periods_and_draws_curves(command, tmp_path):
    bank().write(tmp_path / "bank.nc")
    given = ("--rate", "0.3", "--magnitudes", "7,9", "--count", "200", "-o", tmp_path / "hazard.nc", "--plot", "--page")
    status, printed, errors = command("hazard", tmp_path / "bank.nc", *given)
    assert status == 0, errors
    assert "200 scenarios took" in printed and "level [m] once in" in printed and "100 years" in printed
    assert (tmp_path / "hazard.png").stat().st_size > 10_000
    page = Outline((tmp_path / "hazard.html").read_text())
    assert (
        page.headings == ["Curves of exceedance", "Levels of return periods", "Sources"] and not page.others + page.open
    )
    assert page.attributes.count(("div", "data-moment")) == 8 == 1 + page.attributes.count(("div", "hidden"))
    with xr.open_dataset(tmp_path / "hazard.nc") as found:
        middle = found["height"].sel(band=50.0, point="p0")
        assert found.attrs["rate"] == 0.3 and (np.diff(middle[np.isfinite(middle)]) > 0).all()
    for arguments, sentence in (
        ((), "--rate PER_YEAR is missing"),
        (("--rate", "1", "--magnitudes", "7"), "give two numbers, as 7.5,9"),
        (("--rate", "1", "--magnitudes", "9,7"), "Earthquakes: magnitudes = (9.0, 7.0) cannot be"),
        (("--rate", "1", "-o", tmp_path / "bank.nc"), "bank.nc is also the file of the bank, which the run reads"),
    ):
        status, _, errors = command("hazard", tmp_path / "bank.nc", *arguments)
        assert status != 0 and sentence in errors
    status, printed, errors = command("buoys", tmp_path / "bank.nc", "--harbour", "p0", "-o", tmp_path / "buoys.png")
    assert status == 0 and "spread of p0" in printed and "p1               at (1, 0) removes" in printed, errors
    assert (tmp_path / "buoys.png").stat().st_size > 10_000


def test_commands_of_a_bank_run_on_the_root_alone(command, tmp_path, monkeypatch):
    monkeypatch.setattr("swmodel.cli.forecast.PROCESS", SimpleNamespace(rank=1))
    bank().write(tmp_path / "bank.nc")
    given = ("hazard", tmp_path / "bank.nc", "--rate", "1", "-o", tmp_path / "a.nc"), ("buoys", tmp_path / "bank.nc")
    for one in given:
        assert command(*one)[:2] == (0, "")
    assert not (tmp_path / "a.nc").exists()
