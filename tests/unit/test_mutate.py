"""The script that breaks the model on purpose: each mutant is one changed place, and every module has tests."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.verify  # a test of the repository, and not of the model

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("mutate", ROOT / "scripts" / "mutate.py")
mutate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutate)

SOURCE = b'''"""A docstring + what is not mutated."""


def flux(u, v, h):
    if not h > 0.5:
        raise ValueError("no - water")
    return 0.5 * (u[1:] - v) and True
'''


def test_mutants_are_signs_constants_comparisons_names_and_dropped_parts_of_the_code_alone():
    changed = {m.apply(SOURCE).decode().splitlines()[m.line - 1].strip() for m in mutate.mutants_of("x.py", SOURCE)}
    assert changed == {
        "if (h > 0.5):",
        "if (not (not h > 0.5)):",
        "if not h >= 0.5:",
        "if not h > 1.0:",
        "return 0.5 * (u[1:] - v) or True",
        "return 0.5 * (u[1:] - v) and False",
        "return 0.5 / (u[1:] - v) and True",
        "return (0.5) and True",
        "return 1.0 * (u[1:] - v) and True",
        "return 0.5 * (u[1:] + v) and True",
        "return 0.5 * ((u[1:])) and True",
        "return 0.5 * ((-(v))) and True",
        "return 0.5 * (v[1:] - v) and True",
        "return 0.5 * (u[2:] - v) and True",
        "return 0.5 * (u[1:] - u) and True",
    }


def test_every_module_of_the_map_and_every_test_file_exists():
    for module, tests in mutate.TESTS.items():
        assert len(mutate.Finder(module, (ROOT / module).read_bytes()).mutants) > 5
        assert all((ROOT / test.split("::")[0]).is_file() for test in tests), module
