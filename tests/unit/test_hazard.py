"""Hazard curves: rates are those of the law, moments those of magnitudes, and a single fault has its exact curve."""

import dataclasses
import json
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from swmodel.errors import ConfigError, DataError
from swmodel.forecast import Bank, Earthquake, Earthquakes, hazard_curves, read_earthquakes, scenarios
from swmodel.forecast.hazard import BINS, LEVELS, von_karman
from tests.unit.test_figures_of_runs import NODE
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
    faults = {"areas": np.full(x.size, AREA), "tops": 5e3 + 0.2 * y}  # rows of upper edges at 5, 15 and 25 km
    return Bank(responses, times, places, np.column_stack([x, y]), distances, 1.0, 0.0, **faults)


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


LIST = Earthquake(8.5, 0.002), Earthquake(7.2, 0.01, (3.1e5, 6e4))


def test_scenarios_of_a_list_have_its_rates_and_epicentres():
    b, quakes = bank(), Earthquakes.of(LIST, rigidity_spread=0.0)
    drawn = scenarios(b, quakes, 40)
    m, rate, slip = (drawn[name].values for name in ("magnitude", "rate", "slip"))
    assert list(m) == 20 * [7.2] + 20 * [8.5] and rate.sum() == pytest.approx(0.012)
    assert rate[m > 8].sum() == pytest.approx(0.002) and quakes.magnitudes == pytest.approx((7.19, 8.51))
    nearest = np.argmin(np.hypot(*(b.centres - (3.1e5, 6e4)).T))
    assert (slip[:20].argmax(axis=1) == nearest).all() and len(set(slip[20:].argmax(axis=1))) > 5
    moments = quakes.rigidity * slip @ b.areas
    np.testing.assert_allclose((np.log10(moments) - 9.1) / 1.5, m, rtol=1e-12)
    one = bank(1, 1, 1)
    curve = hazard_curves(one, Earthquakes.of(LIST[:1], rigidity_spread=0.0), 10)["rate"].values[0]
    level = one.responses.max() * 10.0 ** (1.5 * 8.5 + 9.1) / (quakes.rigidity * AREA)
    np.testing.assert_allclose(curve, np.where(LEVELS < level, 0.002, 0.0), atol=1e-12)
    far = Earthquake(9.0, 0.1, (5e8, 0.0))
    some = scenarios(b, Earthquakes.of((*LIST, far), rigidity_spread=0.0), 40)
    about = dict(some.attrs)
    assert about.pop("largest") == pytest.approx(10.0 ** (-3.476 + 0.952 * m.max()) * 1e6 / b.areas.sum())
    assert about == {"limited": 0.0, "left_out": 1, "left_out_rate": 0.1}
    np.testing.assert_array_equal(some["slip"], slip)
    with pytest.raises(ConfigError, match="no earthquake of the list is near a fault of the bank"):
        scenarios(b, Earthquakes.of((far,)), 10)


def test_faults_above_a_random_depth_do_not_slip():
    """Upper edges from 0 to 20 km: a quarter of ruptures may reach 5 km, half end at 15 km, and others at 25 km."""
    b = bank(24)  # a row has the area of the largest ruptures
    exact = dataclasses.replace(QUAKES, magnitudes=(7.0, 8.9), rigidity_spread=0.0, tops=(0.0, 2e4))
    drawn = scenarios(b, exact, 800)
    m, slip = drawn["magnitude"].values, drawn["slip"].values
    highest = np.where(slip > 0, b.tops, np.inf).min(axis=1)
    moments = exact.rigidity * slip @ b.areas
    np.testing.assert_allclose((np.log10(moments) - 9.1) / 1.5, m, rtol=1e-12)
    shares = [(highest[m > 8.6] == top).mean() for top in (5e3, 1.5e4, 2.5e4)]  # they reach over all rows
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.25], atol=0.08)
    deep = scenarios(b, dataclasses.replace(exact, tops=(3e4, 4e4)), 20)["slip"].values  # the deepest row then slips
    assert not deep[:, b.tops < 2.4e4].any() and (deep.sum(axis=1) > 0).all()
    assert drawn.attrs["limited"] == 0.0


def test_a_rupture_has_its_area_however_deep_its_top_should_be():
    """Rows of six faults at 5, 15 and 25 km; each row is the area of a magnitude of 8.35, and two that of 8.67."""
    b = bank()
    exact = dataclasses.replace(QUAKES, rigidity_spread=0.0, tops=(3e4, 4e4))
    drawn = scenarios(b, exact, 300)
    m, slip = drawn["magnitude"].values, drawn["slip"].values
    area = np.minimum(1e6 * 10.0 ** (-3.476 + 0.952 * m), b.areas.sum())
    assert ((slip > 0) @ b.areas >= area).all() and drawn.attrs["limited"] == 1.0
    highest = np.where(slip > 0, b.tops, np.inf).min(axis=1)
    right = np.select([m < 8.35, m < 8.67], [2.5e4, 1.5e4], 5e3)
    sure = (np.abs(m - 8.35) > 0.01) & (np.abs(m - 8.67) > 0.01)
    assert (highest >= right)[sure].all() and (highest[m > 8.7] == 5e3).all()
    half = scenarios(b, dataclasses.replace(exact, magnitudes=(7.0, 8.3), tops=(1.5e4, 3.5e4)), 800)
    assert half.attrs["limited"] == pytest.approx(0.5, abs=0.06)


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
    each = [hazard_curves(b, QUAKES, 300, seed) for seed in range(12)]
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
    with pytest.raises(ConfigError, match="lacks the depths of its faults, which random ones need; make it again"):
        scenarios(dataclasses.replace(bank(), tops=None), dataclasses.replace(QUAKES, tops=(0.0, 1e4)), 10)
    with pytest.raises(ConfigError, match="Earthquakes: tops = .* cannot be"):
        dataclasses.replace(QUAKES, tops=(1e4, 0.0))
    with pytest.raises(ConfigError, match="earthquake 2 has the magnitude 8 and the rate -1 per year"):
        Earthquakes.of((*LIST[:1], Earthquake(8.0, -1.0)))


def test_a_table_of_earthquakes_has_rates_or_weights(tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("magnitude,rate_per_year,longitude,latitude\n8.5,0.002,,\n7.2,0.01,142.5,38\n")
    assert read_earthquakes(table) == (Earthquake(8.5, 0.002), Earthquake(7.2, 0.01, (142.5, 38.0)))
    with pytest.raises(ConfigError, match="has the column rate_per_year, and has rates; leave --rate out"):
        read_earthquakes(table, 0.1)
    table.write_text("magnitude,weight\n8.5,1\n7.2,3\n")
    assert [one.rate for one in read_earthquakes(table, 0.02)] == pytest.approx([0.005, 0.015])
    with pytest.raises(ConfigError, match="has the column weight, and needs --rate, that of all its earthquakes"):
        read_earthquakes(table)
    table.write_text("magnitude,rate_per_year,x,y,longitude,latitude\n8.5,0.1,1,2,142,38\n")
    assert [read_earthquakes(table, None, on)[0].epicentre for on in (True, False)] == [(142.0, 38.0), (1.0, 2.0)]
    for text, sentence in (
        ("magnitude\n8.5\n", "has neither rate_per_year nor weight; add one of them"),
        ("magnitude,weight,rate_per_year\n8.5,1,1\n", "has both weight and rate_per_year; leave one of them out"),
        ("magnitude,weight\n8.5,0\n7,0\n", "has an earthquake whose weight is not positive; leave it out"),
        ("magnitude,weight,longitude,latitude\n8.5,1,1,2\n", "has longitude and latitude, and the bank has x and y"),
    ):
        table.write_text(text)
        with pytest.raises(DataError, match=sentence):
            read_earthquakes(table, 0.1, False)
    table.write_text("magnitude,rate_per_year\n8.5,\n")
    with pytest.raises(DataError, match="an earthquake without a magnitude or rate_per_year"):
        read_earthquakes(table)


@pytest.mark.verify  # test_buoys_are_ranked has a page, too
def test_the_command_draws_curves_and_a_page_of_periods(command, tmp_path, monkeypatch):
    monkeypatch.setattr("swmodel.forecast.hazard.PERIODS", np.array([10.0, 100.0]))  # each is a figure of the page
    bank().write(tmp_path / "bank.nc")
    given = ("--rate", "0.3", "--count", "200", "-o", tmp_path / "hazard.nc", "--plot", "--page")
    command.ok("hazard", tmp_path / "bank.nc", *given)
    assert (tmp_path / "hazard.png").stat().st_size > 10_000
    page = Outline((tmp_path / "hazard.html").read_text())
    assert (
        page.headings == ["Curves of exceedance", "Levels of return periods", "Sources"] and not page.others + page.open
    )
    assert page.attributes.count(("div", "data-moment")) == 2 == 1 + page.attributes.count(("div", "hidden"))


def test_the_command_prints_levels_of_return_periods(command, tmp_path):
    bank().write(tmp_path / "bank.nc")
    given = ("--rate", "0.3", "--magnitudes", "7,9", "--count", "200", "-o", tmp_path / "hazard.nc")
    printed, _ = command.ok("hazard", tmp_path / "bank.nc", *given)
    assert "200 scenarios took" in printed and "level [m] once in" in printed and "100 years" in printed
    with xr.open_dataset(tmp_path / "hazard.nc") as found:
        middle = found["height"].sel(band=50.0, point="p0")
        assert (
            found.attrs["rate"] == 0.3 and found.attrs["b"] == 1.0 and (np.diff(middle[np.isfinite(middle)]) > 0).all()
        )
    (tmp_path / "list.csv").write_text("magnitude,rate_per_year,x,y\n8.5,0.02,,\n7.6,0.2,,\n9,0.1,1e9,0\n")
    listed = "--earthquakes", tmp_path / "list.csv", "--count", "20", "-o", tmp_path / "listed.nc"
    status, printed, errors = command("hazard", tmp_path / "bank.nc", *listed, "--top-depth", "0 km,20 km")
    assert status == 0 and "20 scenarios took" in printed, errors
    assert "than the length of their rupture: 1, with 0.1 per year" in printed + errors
    assert "% of the ruptures is higher than its random depth" in printed + errors
    with xr.open_dataset(tmp_path / "listed.nc") as found:
        assert found.attrs["rate"] == pytest.approx(0.22) and list(found.attrs["top_depth"]) == [0.0, 2e4]
        assert set(found["scenario_magnitude"].values) == set(np.float32([7.6, 8.5]))
    for arguments, sentence in (
        ((*listed, "--b", "1"), "--earthquakes is a list in place of a law; leave --magnitudes and --b out"),
        (("--rate", "1", "--top-depth", "3 km"), "--top-depth 3 km: give two depths, as '0 km,15 km'"),
        ((*listed[:2], "-o", listed[1]), "list.csv is also"),
        ((), "--rate PER_YEAR is missing"),
        (("--rate", "1", "--magnitudes", "7"), "give two numbers, as 7.5,9"),
        (("--rate", "1", "--magnitudes", "9,7"), "Earthquakes: magnitudes = (9.0, 7.0) cannot be"),
        (("--rate", "1", "-o", tmp_path / "bank.nc"), "bank.nc is also the file of the bank, which the run reads"),
    ):
        assert sentence in command.refused("hazard", tmp_path / "bank.nc", *arguments)


def test_buoys_are_ranked_and_drawn_for_more_and_more_minutes_of_records(command, tmp_path):
    dataclasses.replace(bank(), times=300.0 * np.arange(1.0, 31.0)).write(tmp_path / "bank.nc")
    ranked = "buoys", tmp_path / "bank.nc", "--harbour", "p0", "--page", "-o", tmp_path / "buoys.png", "--until"
    printed, _ = command.ok(*ranked, "330s")
    assert "spread of p0" in printed and "p1               at (1, 0) removes" in printed
    assert (tmp_path / "buoys.png").stat().st_size > 10_000
    for until, sentence in (
        ("4min", "no sample until 240 s; they begin at 300 s"),
        ("3h", "no sample after 10800 s; they end at 9000 s"),
    ):
        assert sentence in command.refused(*ranked, until)
    text = (tmp_path / "buoys.html").read_text()
    page = Outline(text)
    assert page.headings == ["Where the next buoy should be"] and not page.others + page.open
    stamps = json.loads(page.data)[0]["stamps"]
    assert stamps == ["with 5 min of records", "with 5.5 min of records"]
    count = len(stamps)
    assert page.tags.count("img") == page.tags.count("table") == count == page.attributes.count(("div", "data-moment"))
    assert page.attributes.count(("div", "hidden")) == count - 1 and "<td>p1</td><td>1</td><td>0</td>" in text
    if shutil.which("node"):
        script = tmp_path / "script.js"
        script.write_text(text.rpartition("<script>")[2].partition("</script>")[0])
        (tmp_path / "page.js").write_text(NODE.replace("[0, 1, 9]", "[0, 1]"))
        run = subprocess.run(["node", tmp_path / "page.js", script], capture_output=True, text=True, check=True)
        assert json.loads(run.stdout)[1] == [[False, True], [True, False]]


def test_commands_of_a_bank_run_on_the_root_alone(command, tmp_path, monkeypatch):
    monkeypatch.setattr("swmodel.cli.forecast.PROCESS", SimpleNamespace(rank=1))
    bank().write(tmp_path / "bank.nc")
    given = ("hazard", tmp_path / "bank.nc", "--rate", "1", "-o", tmp_path / "a.nc"), ("buoys", tmp_path / "bank.nc")
    for one in given:
        assert command(*one)[:2] == (0, "")
    assert not (tmp_path / "a.nc").exists()
