"""docs/data_flow.md draws the way of a state and of a cotangent: the places that it names exist."""

import re
from pathlib import Path

import pytest

import swmodel
from swmodel.runtime import paths

PACKAGE = Path(swmodel.__file__).parent
PAGE = paths.PACKAGE.parent / "docs" / "data_flow.md"
PLACE = re.compile(r"(\w+(?:/\w+)+\.py)(?:: (\w+))?")


@pytest.mark.skipif(not PAGE.exists(), reason="an installed package has no docs")
def test_the_places_that_the_drawings_name_exist():
    places = PLACE.findall(PAGE.read_text().replace("swmodel/", ""))
    assert len(places) > 25
    for file, name in places:
        text = (PACKAGE / file).read_text()
        assert not name or re.search(rf"(def|class) _?{name}\b", text), (file, name)
