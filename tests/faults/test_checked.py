"""The processes that take thousands of experiment files through `check`: what they count, and what they survive."""

import pytest

from . import checked


@pytest.mark.verify
def test_twelve_mutated_files_and_a_run_of_what_is_accepted(tmp_path):
    tally = checked.inputs(12, tmp_path, seconds=300.0, seed=100, runs=1)
    assert tally.inputs == 12 and tally.runs <= 2 and not tally.unclear, tally.unclear


def test_a_process_that_dies_of_a_file_is_counted_and_replaced(tmp_path, monkeypatch):
    script = tmp_path / "dies.py"
    script.write_text(
        "import json, os, sys\n"
        "first, count, stride = map(int, sys.argv[2:5])\n"
        "for seed in range(first, first + count * stride, stride):\n"
        "    print(json.dumps({'seed': seed, 'begun': 'check'}), flush=True)\n"
        "    if seed == 5: os.abort()\n"
        "    kind = 'unclear' if seed == 2 else 'refused'\n"
        "    print(json.dumps({'seed': seed, 'kind': kind, 'why': 'odd'}), flush=True)\n"
    )
    monkeypatch.setattr(checked, "interpreter", lambda: [checked.sys.executable, str(script)])
    tally = checked.inputs(9, tmp_path / "files", seconds=60.0, runs=0)
    assert tally.inputs == 9 and len(tally.unclear) == 2
    assert sorted(what.split(":")[0] for what in tally.unclear) == ["seed 2", "seed 5"]
    assert any("ended with status -6 in a check" in what for what in tally.unclear)


def test_what_a_run_prints_is_judged():
    assert checked._unclear(0, "") is None and checked._unclear(3, "error: The run stopped at step 6.") is None
    assert "Traceback" in checked._unclear(1, "Traceback (most recent call last)\nerror: x")
    assert "no sentence" in checked._unclear(1, "") and "status -11" in checked._unclear(-11, "error: x")
