"""Random experiments over all sections: what must agree agrees, and what differs is noticed."""

import numpy as np

from . import basins, combinations, draws


def test_random_experiments_agree_in_all_that_must(tmp_path):
    tally = combinations.combinations(4, tmp_path, seconds=600.0, pairs=4)
    assert tally.draws == 4 and not tally.wrong, "\n".join(tally.wrong)
    assert tally.refused <= 2


def test_a_draw_is_the_same_experiment_again_and_has_every_type_in_turn():
    experiments = [draws.drawn(seed) for seed in range(40)]
    assert experiments[7] == draws.drawn(7)
    steppers = {tables["stepper"]["type"] for _, tables in experiments}
    assert len(steppers) >= len(draws.physics.STEPPERS) - 1
    assert {folder for folder, _ in experiments} == set(basins.BASINS)
    assert any("ensemble" in tables for _, tables in experiments)
    assert any("levees" in tables["bathymetry"] for _, tables in experiments)
    assert any(draws.is_at_rest(tables) for _, tables in experiments)


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
