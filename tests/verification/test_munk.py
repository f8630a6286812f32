"""The linear double gyre comes to the western boundary current of Munk (1950),
doi:10.1175/1520-0469(1950)007<0080:OTWDOC>2.0.CO;2."""

import pytest

from swmodel.verification.gyres import transport_error


@pytest.mark.verify
def test_the_western_boundary_transport_is_within_five_percent_of_munks():
    """128 x 128 cells, as the experiment has."""
    assert abs(transport_error(128)) < 0.05
