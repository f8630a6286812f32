"""The doctor finds what is wrong, and finds nothing where all is well."""

import io

import pytest
import rich.console

from swmodel.cli import installation as doctor
from swmodel.runtime import launch, packages
from tests.selection import later

OURS = ["Open MPI 5.0.11", "/venv/lib/libmpi.so.40"]
THEIRS = ["MPICH 4.3.2", "/usr/lib/libmpi.so.12"]
needs_mpi = pytest.mark.skipif(not launch.mpi_installed(), reason="MPI is not installed")


def rows(report, section):
    return {name: text for where, name, text in report.rows if where == section}


@pytest.mark.verify
@needs_mpi
def test_this_installation_is_well_and_two_ranks_talk():
    report = doctor.examine()
    assert report.problems == []
    assert rows(report, "exchange") == {"on 2 ranks": "passed"}
    assert rows(report, "MPI")["are they one"] == "yes"
    assert set(rows(report, "binding")) == {"rank 0", "rank 1"}
    assert rows(report, "versions")["swmodel"] == packages.VERSION
    assert rows(report, "devices")["device"]


def test_serial_installation_is_well_and_told_how_to_add_mpi(monkeypatch):
    monkeypatch.setattr(launch, "mpi_installed", lambda: False)
    screen = io.StringIO()
    assert doctor.run(console=rich.console.Console(file=screen, width=200)) == 0
    assert "not installed; the serial model works" in screen.getvalue()
    assert "make setup" in screen.getvalue()


def test_one_mpi_has_nothing_to_report():
    assert doctor.disagreements({"mpi4py": OURS, "mpi4jax": [*OURS, False], "mpirun": [OURS[0], "/x"]}, True) == []


def test_two_libraries_in_one_process_are_a_problem_even_if_they_talked():
    (problem,) = doctor.disagreements({"mpi4py": OURS, "mpi4jax": THEIRS, "mpirun": OURS}, True)
    assert OURS[1] in problem and THEIRS[1] in problem and "make setup" in problem


def test_foreign_mpirun_is_a_problem_unless_its_ranks_talked():
    libraries = {"mpi4py": OURS, "mpi4jax": OURS, "mpirun": [THEIRS[0], "/usr/bin/mpirun"]}
    (problem,) = doctor.disagreements(libraries, False)
    assert "MPICH 4.3.2 (/usr/bin/mpirun)" in problem
    assert doctor.disagreements(libraries, True) == []


def test_what_does_not_load_is_a_problem():
    libraries = {"mpi4py": [None, "libmpi.so.40: cannot open shared object file"], "mpi4jax": OURS, "mpirun": OURS}
    (problem,) = doctor.disagreements(libraries, False)
    assert problem.startswith("mpi4py does not work (libmpi.so.40: cannot open")


@needs_mpi
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        later("sleep 60", "did not end within 3 s"),
        ("exit 7", "status 7"),
        ("echo 'RuntimeError: no route to host'; exit 1", "no route to host"),
    ],
)
def test_exchange_that_fails_is_reported_and_does_not_hang(tmp_path, monkeypatch, script, reason):
    starter = tmp_path / "mpirun"
    starter.write_text(f"#!/bin/sh\n{script}\n")
    starter.chmod(0o755)
    monkeypatch.setattr(launch, "mpirun", lambda ranks: [str(starter)])
    report = doctor.Report()
    assert not doctor._exchange_with_mpirun(report, ranks=2, timeout=3.0)
    (problem,) = report.problems
    assert reason in problem


def test_wrong_messages_and_shared_cores_are_told():
    answer = {"right": False, "device": "cpu:0", "gpu": False, "cuda_aware": False, "host": "a", "cores": [0, 1]}
    report = doctor.Report()
    assert not doctor._add_exchange(report, [answer, {**answer, "right": True}])
    assert len(report.problems) == 1 and "arrive wrong" in report.problems[0]
    assert "share 2 cores" in report.remarks[0]


def test_problems_end_with_status_one(monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda ranks, timeout: doctor.Report(problems=["mpirun [is] away."]))
    screen = io.StringIO()
    assert doctor.run(console=rich.console.Console(file=screen, width=200)) == 1
    assert "mpirun [is] away." in screen.getvalue()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs", "Open MPI 5.0.11"),
        ("HYDRA build details:\n    Version:                                 4.3.2\n", "MPICH 4.3.2"),
        ("Intel(R) MPI Library, Version 2021.11\nCopyright", "Intel(R) MPI Library, Version 2021.11"),
        ("", "unknown"),
    ],
)
def test_mpirun_is_named(text, name):
    assert doctor.mpirun_name(text) == name


def test_an_open_mpi_5_that_kills_its_ranks_at_a_signal_is_told_how_to_hand_it_on(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(doctor.SIGNALS, raising=False)
    mpirun, settings = tmp_path / "mpi" / "bin" / "mpirun", tmp_path / "mpi" / "etc" / "prte-mca-params.conf"
    for folder in (mpirun.parent, settings.parent, tmp_path / ".prte"):
        folder.mkdir(parents=True)
    mpirun.write_bytes(b"\x7fELF")
    found = lambda release="Open MPI 5.0.11": doctor.signal_warning(str(mpirun), release)  # noqa: E731
    assert f"export {doctor.SIGNALS}=2,15," in found() and f"into {settings}." in found()
    assert found("Open MPI 4.1.6") is found("MPICH 4.3.2") is found(None) is None
    monkeypatch.setenv(doctor.SIGNALS, "SIGUSR1,SIGUSR2")
    assert found()
    monkeypatch.setenv(doctor.SIGNALS, launch.FORWARDED)
    assert found() is None
    monkeypatch.delenv(doctor.SIGNALS)
    for file in (settings, tmp_path / ".prte" / "mca-params.conf"):
        file.write_text(f"# a comment\ness_base_forward_signals = {launch.FORWARDED}\n")
        assert found() is None
        file.write_text("# ess_base_forward_signals = 2,15\n")
    assert found()
    mpirun.write_text(f'#!/bin/sh\nexport {doctor.SIGNALS}=2,15\nexec /usr/bin/mpirun "$@"\n')
    assert found() is None


def test_cores_are_written_as_ranges():
    assert doctor.ranges((0, 1, 2, 3, 6)) == "0-3,6"
    assert doctor.ranges((2,)) == "2"
