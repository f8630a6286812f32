"""Random experiments over all sections: what must agree agrees, and what differs is noticed."""

import numpy as np
import pytest

from . import combinations, draws

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
