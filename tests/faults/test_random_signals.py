"""What the long test of signals looks for, and two of its trials."""

import signal

import pytest

from . import signals


@pytest.mark.verify
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_at_a_random_moment_of_a_serial_run(number, tmp_path):
    tally = signals.signals(1, tmp_path, seed=2, kinds=(number,), targets=("serial",), last=5.0)
    assert tally.signals == 1 and not tally.wrong, tally.wrong
    assert 0.0 < tally.slowest < signals.END_WITHIN


def test_ends_without_a_sentence_or_a_restart_are_wrong(tmp_path):
    tally = signals.Tally()
    again = "SIGTERM stopped the command before it had computed anything. Start again with: swmodel run case.toml"
    restart = f"SIGTERM stopped the run at step 5 (75 s). swmodel resume {tmp_path / 'restart.nc'}"
    said = {
        text: signals._said(text, signal.SIGTERM, tmp_path, tally)
        for text in (again, restart, "", f"{again}\n{again}", "SIGTERM stopped the run.", f"Traceback\n{again}")
    }
    assert list(said.values()) == [
        [],
        ["the restart that it names is not there"],
        ["it printed 0 sentences"],
        ["it printed 2 sentences"],
        ["the sentence does not say how to go on"],
        ["it printed 'Traceback'"],
    ]
    (tmp_path / "restart.nc").touch()
    assert signals._said(restart, signal.SIGTERM, tmp_path, tally) == []
