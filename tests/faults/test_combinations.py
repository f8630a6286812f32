"""Random experiments over all sections: what must agree agrees, and what differs is noticed."""

import os
import signal
import threading
import time

import hypothesis
import numpy as np
import pytest

from . import combinations, draws, harness, run

# A draw that no run refuses, and that compiles fast: levees by a moving shore in a closed basin, in loops.
FAST = (47,)


@pytest.mark.parametrize(
    "seeds, pairs, devices",
    [(FAST, 0, 0), pytest.param(range(30), combinations.PAIRS, 1, marks=pytest.mark.verify)],
)
def test_random_experiments_agree_in_all_that_must(seeds, pairs, devices, tmp_path):
    tally = combinations.combinations(seeds, tmp_path, pairs=pairs, devices=devices)
    assert tally.draws == len(seeds) and not tally.wrong, "\n".join(tally.wrong)
    assert tally.refused <= len(seeds) / 2 and (tally.on_two or not devices)


def test_a_draw_is_the_same_experiment_again():
    assert draws.drawn(7) == draws.drawn(7) != draws.drawn(8)


@pytest.mark.verify
@pytest.mark.parametrize("entry, says", [("refused", "were refused"), ("stopped", "blew up")])
def test_runs_that_all_end_early_do_not_pass(entry, says, monkeypatch, tmp_path):
    def process(kind, folder, seeds, tally, *_):
        lines = [f'{{"seed": {seed}, "{entry}": true, "wrong": []}}' for seed in seeds]
        combinations._take(kind, lines if kind == "runs" else [], tally)

    monkeypatch.setattr(combinations, "_process", process)
    tally = combinations.combinations(range(combinations.BATCH), tmp_path)
    assert tally.wrong == [f"25 of 25 draws {says}: these try little"]


def test_no_draw_is_begun_when_the_time_is_up(monkeypatch, tmp_path, capfd):
    def runs(folder, seed, every):
        time.sleep(0.3)
        return {"wrong": []}

    monkeypatch.setattr(combinations, "_runs", runs)
    combinations.work("runs", tmp_path, [3, 4, 5], time.time() + 0.2, 1)
    assert [line.split(",")[0] for line in capfd.readouterr().out.splitlines()] == ['{"seed": 3'] * 2
    tally = combinations.Tally()
    combinations._process("runs", tmp_path, [3, 4, 5], tally, time.time() - 1.0)
    assert tally.draws == 0 and not tally.wrong


def test_a_signal_ends_a_part_after_its_trial_and_the_figures_are_printed(monkeypatch, capsys):
    def part(count, folder, seconds, seed):
        trials = 0
        for _ in harness.Budget("kills", count, seconds).trials():
            trials += 1
            os.kill(os.getpid(), signal.SIGTERM)
        return {"kills": trials}, []

    stopped = threading.Event()
    for module in (harness, combinations):
        monkeypatch.setattr(module, "STOPPED", stopped)
    monkeypatch.setattr(run, "PARTS", {"kills": (part, 5, 1), "combinations": (part, 5, 1)})
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert run.main([]) == 1  # not all parts have run
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    out = capsys.readouterr().out
    assert "kills: stopped after 1 of 5" in out and "kills=1" in out and "combinations" not in out


def ended(step, **states):
    arrays = {f"state_{name}": np.full((2, 3), value) for name, value in states.items()} | {"depth": np.ones((2, 3))}
    return combinations.End(None, arrays, {"dt": 10.0, "step": step})


def test_what_runs_differ_in_is_noticed():
    one, other = ended(2, u=0.0, eta=1.0), ended(2, u=0.0, eta=1.0 + 1e-8)
    assert not combinations.differing(one.states, one.states, 0.0)
    assert combinations.differing(one.states, other.states, 1e-9) == ["eta differs by 1e-08 of 1"]
    assert not combinations.differing(one.states, other.states, 1e-7)
    assert combinations.differing(one.states, ended(2, u=np.nan, eta=1.0).states, 1.0) == ["u is not finite"]
    tables = {"initial": {"type": "rest"}, "boundary": [], "model": {"precision": "float64"}, "bathymetry": {}}
    found = combinations._stays_at_rest(None, tables, ended(2, u=0.0, v=1e-9, eta=0.0))
    assert found == ["at rest, v becomes 1e-09"]
    change = combinations._change(ended(4, eta=1.5), ended(2, eta=1.0), "eta", np.ones((2, 3)))
    assert change == 3.0


def test_draws_do_not_depend_on_the_order_of_parts(monkeypatch):
    """Parts are listed as modules were imported, and a seed was another experiment in another process."""
    before = [draws.drawn(seed) for seed in range(8)]
    monkeypatch.setattr(draws, "PARTS", {kind: dict(reversed([*each.items()])) for kind, each in draws.PARTS.items()})
    assert [draws.drawn(seed) for seed in range(8)] == before


def test_runs_of_draws_have_few_steps():
    """An explicit step of 0.075 s was drawn for a run of 24,000 s."""
    tables = [draws.drawn(seed)[1] for seed in range(12)]
    steps = [t["run"]["until"] / dt for t in tables if (dt := t["stepper"]["dt"]) != "auto"]
    assert steps and max(steps) < 20


@pytest.mark.verify
def test_sides_have_tides_records_and_waves_too():
    """Each kind of table that a key may hold in place of a number is drawn."""
    clamped = draws.section(draws.PARTS["boundary"]["clamped"], 8, type="clamped", sides="west")
    elevations = clamped.map(lambda table: table.get("elevation"))
    for key in ("constituents", "file", "wave", "inverse_barometer"):
        hypothesis.find(elevations, lambda value, key=key: isinstance(value, dict) and key in value)
