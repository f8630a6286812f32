"""The marks of nested grids are within their ranges."""

import pytest

from swmodel.verification.suite import select

from .measures import measured


@pytest.mark.verify  # each case compiles programs of several grids
@pytest.mark.parametrize("case", select(["nests"]), ids=lambda case: case.name)
def test_marks_are_within_their_ranges(case):
    for name in (mark.name for mark in case.marks):
        mark, value = measured(name)
        assert mark.passes(value), f"{name} = {value}, wanted {mark.limits()}"
