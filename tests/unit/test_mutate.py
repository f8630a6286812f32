"""The script that breaks the model on purpose: every module has tests."""

import pytest

from tests.scripts import ROOT, script

pytestmark = pytest.mark.verify  # a test of the repository, and not of the model

mutate = script("scripts/mutate.py")


def test_every_module_of_the_map_and_every_test_file_exists():
    for module, tests in mutate.TESTS.items():
        assert len(mutate.Finder(module, (ROOT / module).read_bytes()).mutants) > 5
        assert all((ROOT / test.split("::")[0]).is_file() for test in tests), module
