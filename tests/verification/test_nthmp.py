"""The benchmark problems of the NTHMP: a small one here, all of them with `make verify`."""

import pytest

from swmodel.verification.shores import STEPPERS

from . import measures_nthmp as nthmp
from .measures import measured

# marks that are not within what the NTHMP accepts; docs/guide/coast.md says what is known of the reasons
MISSED = {"bp6a_front_error", "bp6a_lee_error"}
SPEED = {name for name in nthmp.LIMITS if name.endswith("_gain")}  # which no test asserts


@pytest.mark.verify
@pytest.mark.parametrize("stepper", [STEPPERS[""], STEPPERS["_one_stage"]], ids=["three stages", "one stage"])
@pytest.mark.parametrize("flow, most", [("sub", 0.02), ("trans", 0.1)])
def test_a_steady_flow_over_a_bump_keeps_its_discharge_and_its_level(flow, most, stepper):
    """A flow that is faster than waves where it leaves has no hold there: it leaves as fast as it arrives."""
    assert max(nthmp.bump(flow, cells=40, seconds=4.0, stepper=stepper).values()) < most


@pytest.mark.verify
@pytest.mark.parametrize("suffix", STEPPERS)
@pytest.mark.parametrize("name", [name for name in nthmp.LIMITS if name not in MISSED | SPEED])
def test_benchmarks_are_met(name, suffix):
    if suffix and any(name in nthmp.MARKS[case] for case in nthmp.ALONE):
        pytest.skip("it is measured with one stepper")
    mark, value = measured(name + suffix)
    assert mark.passes(value)
