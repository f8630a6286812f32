"""The benchmark problems of the NTHMP: a small one here, all of them with `make verify`."""

import pytest

from swmodel.verification.suite import measured

from . import measures_nthmp as nthmp

# marks that are not within what the NTHMP accepts; docs/coast.md says what is known of the reasons
MISSED = {"bp6a_front_error", "bp6a_lee_error"}


def test_a_steady_flow_over_a_bump_keeps_its_discharge():
    assert nthmp.bump("sub", cells=40, seconds=4.0)["bump_sub_discharge_error"] < 0.02


@pytest.mark.verify
@pytest.mark.parametrize("name", [name for name in nthmp.LIMITS if name not in MISSED])
def test_benchmarks_are_met(name):
    mark, value = measured(name)
    assert mark.passes(value)
