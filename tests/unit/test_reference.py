"""docs/reference/experiment_files.md says what the declarations say, of every key."""

import re

import pytest

from tests.scripts import script


@pytest.fixture(scope="module")
def reference():
    """The script, and the page that it would write now."""
    module = script("scripts/reference.py")
    return module, module.page()


def test_the_page_is_up_to_date(reference):
    module, page = reference
    assert module.PAGE.read_text(encoding="utf-8") == page, "run python scripts/reference.py"


def test_every_key_is_described_with_its_units_and_limits(reference):
    _, page = reference
    keys = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", page, re.MULTILINE)
    assert len(keys) > 150
    assert not [key for key in keys if not key[3].strip()]
    rows = {key[0]: key for key in keys}
    assert "| `viscosity` | number in m2 s-1, at least 0, or a formula or a [map](../guide/coast.md) |" in page
    assert rows["diffusivity"][1] == "number or formula, in m2 s-1, at least 0"
    assert rows["tracer"][3] == "name of the tracer"
    assert ("spacing", "number in the grid's coordinates, above 0") in {key[:2] for key in keys}
    assert ("observations", "folder") in {key[:2] for key in keys} and "or a Zarr store (.zarr)" in page
    assert all("must be given" not in line for line in page.splitlines() if "unless given" in line)
    assert "| `phase` | number or formula or list of number, in degree |" in page
    assert "| `ramp` | number, in s, at least 0 |" in page
    assert '### `type = "gauge_concentration"`' in page and '### `type = "unit_sources"`' in page
