"""Experiment files with mistakes: `swmodel check` answers with sentences, never with a traceback or with silence."""

import pytest

from tests.faults.inputs import experiments, mutated, outcome


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


@pytest.mark.parametrize("count", [12, pytest.param(160, marks=pytest.mark.verify)])
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
