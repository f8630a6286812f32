"""Each format is read to its values, and a file that is not as documented is refused in one sentence."""

import pytest

from tests.formats import load, wrong

EXAMPLES = load()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_file_of_each_format_is_read_to_its_values(name, tmp_path):
    assert wrong(EXAMPLES[name], tmp_path) == []
