"""Experiment files with mistakes: `swmodel check` answers with sentences, never with a traceback or with silence."""

import pytest

from tests.faults.inputs import experiments, mutated, outcome

from . import checked


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    return folder, experiments(folder)


@pytest.mark.verify
def test_the_experiments_that_are_mutated_have_no_mistakes(texts, untimed):
    folder, experiments = texts
    for name, text in experiments.items():
        (folder / "case.toml").write_text(text)
        kind, message = outcome(folder / "case.toml")
        assert kind == "accepted", f"{name}: {message}"


@pytest.mark.verify
def test_mutations_follow_from_the_seed_alone(texts):
    _, experiments = texts
    first, again = ([mutated(text, seed) for seed in range(20) for text in experiments.values()] for _ in range(2))
    assert first == again
    assert len(set(first)) > 60


def test_what_python_says_is_not_clear(texts, monkeypatch):
    from swmodel.cli import checks

    def fails(*_):
        raise TypeError("'NoneType' object is not subscriptable")

    folder, experiments = texts
    (folder / "case.toml").write_text(experiments["gyre"])
    monkeypatch.setattr(checks, "read", fails)
    assert outcome(folder / "case.toml")[0] == "unclear"


@pytest.mark.parametrize("count", [8, pytest.param(160, marks=pytest.mark.verify)])
def test_random_mistakes_are_accepted_or_refused_by_sentences(texts, count, untimed):
    """A short form of `make faults`; the seeds are those that it tries first."""
    folder, experiments = texts
    path, names, unclear = folder / "mutant.toml", list(experiments), []
    for seed in range(count):
        path.write_text(mutated(experiments[names[seed % len(names)]], seed), encoding="utf-8", newline="")
        kind, message = outcome(path)
        if kind == "unclear":
            unclear.append(f"seed {seed}: {message}")
    assert not unclear, "\n".join(unclear)


# -- processes ---------------------------------------------------------------------------------------------------------


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
