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


def test_what_a_run_prints_is_judged():
    assert checked._unclear(0, "") is None and checked._unclear(3, "error: The run stopped at step 6.") is None
    assert "Traceback" in checked._unclear(1, "Traceback (most recent call last)\nerror: x")
    assert "no sentence" in checked._unclear(1, "") and "status -11" in checked._unclear(-11, "error: x")
