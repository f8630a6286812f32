"""scripts/run_tests.py runs every folder of tests; no file, test or name is mentioned that is not there."""

import argparse
import pkgutil
import re

from tests.scripts import ROOT, script

run_tests = script("scripts/run_tests.py")


def test_every_folder_with_tests_is_run():
    folders = {str(file.parent.relative_to(ROOT)) for file in ROOT.glob("tests/**/test_*.py")}
    assert folders == {*run_tests.SERIAL, str(run_tests.PARALLEL.relative_to(ROOT))}


def test_files_and_tests_that_are_named_are_there():
    on_more = [f"tests/parallel/test_{name}.py" for names in run_tests.ON_MORE.values() for name in names]
    for path in (*run_tests.QUICK, *on_more):
        assert (ROOT / path).exists(), path
    for path in run_tests.QUICK_ON_TWO:
        file, name = path.split("::")
        assert f"def {name}(" in (ROOT / file).read_text(), path


def test_names_that_tests_replace_are_there():
    """`make test` shows it of those that `make verify` alone replaces."""
    replaced = re.compile(r'\b(?:setattr|delattr)\("(swmodel\.[\w.]+)"')
    names = {name for file in ROOT.glob("tests/**/*.py") for name in replaced.findall(file.read_text())}
    assert len(names) > 20
    for name in sorted(names):
        pkgutil.resolve_name(name)


def test_verify_runs_a_serial_file_on_one_rank_and_one_of_tests_parallel_on_all_numbers_of_ranks():
    chosen = argparse.Namespace(verify=True, ranks="1,2,4")
    serial, parallel = "tests/unit/test_words.py", "tests/parallel/test_adjoint.py"
    planned = [(ranks, arguments) for ranks, arguments in run_tests.rounds(chosen, [serial]) if arguments is not None]
    assert planned == [(1, ["-m", "verify", serial])]
    marked = ["-m", "verify", parallel]
    assert list(run_tests.rounds(chosen, [parallel])) == [*((n, marked) for n in (1, 2, 4, 6)), (6, [parallel])]
