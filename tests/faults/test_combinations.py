"""Random experiments over all sections: what must agree agrees, and what differs is noticed."""

import hypothesis
import numpy as np
import pytest

from . import combinations, draws


@pytest.mark.verify
def test_random_experiments_agree_in_all_that_must(tmp_path):
    tally = combinations.combinations(range(10), tmp_path, seconds=600.0)
    assert tally.draws == 10 and not tally.wrong, "\n".join(tally.wrong)
    assert tally.refused <= 5


def test_a_draw_is_the_same_experiment_again():
    assert draws.drawn(7) == draws.drawn(7) != draws.drawn(8)


@pytest.mark.verify
@pytest.mark.parametrize("entry, says", [("refused", "were refused"), ("stopped", "blew up")])
def test_runs_that_all_end_early_do_not_pass(entry, says, monkeypatch, tmp_path):
    def process(kind, folder, seeds, tally):
        lines = [f'{{"seed": {seed}, "{entry}": true, "wrong": []}}' for seed in seeds]
        combinations._take(kind, lines if kind == "runs" else [], tally)

    monkeypatch.setattr(combinations, "_process", process)
    tally = combinations.combinations(range(combinations.BATCH), tmp_path)
    assert tally.wrong == [f"25 of 25 draws {says}: these try little"]


def ended(step, **states):
    arrays = {f"state_{name}": np.full((2, 3), value) for name, value in states.items()} | {"depth": np.ones((2, 3))}
    return combinations.End(None, arrays, {"dt": 10.0, "step": step})


def test_what_runs_differ_in_is_noticed():
    one, other = ended(2, u=0.0, eta=1.0), ended(2, u=0.0, eta=1.0 + 1e-8)
    assert not combinations.differing(one.states, one.states, 0.0)
    assert combinations.differing(one.states, other.states, 1e-9) == ["eta differs by 1e-08 of 1"]
    assert not combinations.differing(one.states, other.states, 1e-7)
    assert combinations.differing(one.states, ended(2, u=np.nan, eta=1.0).states, 1.0) == ["u is not finite"]
    tables = {"initial": {"type": "rest"}, "boundary": [], "model": {"precision": "float64"}}
    found = combinations._stays_at_rest(None, tables, ended(2, u=0.0, v=1e-9, eta=0.0))
    assert found == ["at rest, v becomes 1e-09"]
    change = combinations._change(ended(4, eta=1.5), ended(2, eta=1.0), "eta", np.ones((2, 3)))
    assert change == 3.0


def test_runs_of_draws_have_few_steps():
    """An explicit step of 0.075 s was drawn for a run of 24,000 s."""
    tables = [draws.drawn(seed)[1] for seed in range(25)]
    steps = [t["run"]["until"] / dt for t in tables if (dt := t["stepper"]["dt"]) != "auto"]
    assert steps and max(steps) < 20


@pytest.mark.verify
def test_sides_have_tides_records_and_waves_too():
    """Each kind of table that a key may hold in place of a number is drawn."""
    clamped = draws.section(draws.PARTS["boundary"]["clamped"], 8, type="clamped", sides="west")
    elevations = clamped.map(lambda table: table.get("elevation"))
    for key in ("constituents", "file", "wave", "inverse_barometer"):
        hypothesis.find(elevations, lambda value, key=key: isinstance(value, dict) and key in value)
