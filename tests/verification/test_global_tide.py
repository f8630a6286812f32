"""The M2 tide of the world ocean; `make verify CASE=global_m2_error_30` prints its error."""

import pytest

from . import measures_global_tide as figures


@pytest.mark.verify
def test_the_potential_alone_raises_the_tide_of_oceanic_islands():
    found = figures.measure().values
    assert found["global_m2_error_30"] < 16.0
    assert 2.0 < found["global_m2_terawatts"] < 2.85
