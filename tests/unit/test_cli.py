"""The command line: what it prints, what it leaves behind, and the status with which it ends."""

import contextlib
import datetime
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys

import jax
import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.__main__ import main
from swmodel.cli.files import library
from swmodel.runtime import launch
from swmodel.runtime.paths import experiments
from swmodel.simulation.progress import ProgressBar
from swmodel.units import duration
from tests.selection import later, now
from tests.studies import BOX

STUDY = """
[adjoint]
controls = ["depth"]
[adjoint.cost]
type = "gauge_maximum"
gauges = ["A"]
window = ["10 min", "2 hour"]
"""
SMALL = f"""\
{BOX}run = {{title = "A bump in a box", until = "2 hour", start = 2020-01-01T00:00:00}}
stepper = {{type = "rk4", dt = 60}}

[[output.fields]]
file = "fields.nc"
variables = ["eta", "u", "v"]
every = "30 min"

[output.gauges]
positions.A = [120e3, 80e3]

[output.maxima]

[output.restart]
every = "1 hour"
"""


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "case.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(the folder of the output of a whole run of SMALL, what it printed)."""
    folder, printed = tmp_path_factory.mktemp("whole"), io.StringIO()
    (folder / "case.toml").write_text(SMALL)
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        main(["run", str(folder / "case.toml"), "--output", str(folder / "out")])
    assert ended.value.code == 0
    return folder / "out", printed.getvalue()


def start(*arguments, ranks=1, code="from swmodel.__main__ import main; main()", **options):
    """`swmodel ARGUMENTS`, or other code, as a process of its own, under mpirun for more ranks than one."""
    head = launch.mpirun(ranks) if ranks > 1 else []
    environment = {**launch.mpirun_environment(), "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = [*head, sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(words, env=environment, **pipes, **options)


def finish(process, timeout=120):
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


needs_mpi = pytest.mark.skipif(not launch.mpi_installed(), reason="needs mpi4py and mpi4jax")


# -- help -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["new", "check", "run", "resume", "doctor", "plot", "report", "view"])
def test_every_command_explains_itself_with_examples_and_exit_codes(command, name):
    status, out, _ = command(name, "--help")
    assert status == 0
    assert f"swmodel {name}" in out and "Examples:" in out and "blew" in out and "--debug" in out


def test_the_list_of_commands_describes_each_of_them_in_a_whole_sentence(command):
    _, out, _ = command("--help")
    listed = re.findall(r"^  (\w+)  +(.*)", out.partition("Commands:")[2], re.MULTILINE)
    assert len(listed) > 20
    assert not [(name, text) for name, text in listed if not re.search(r"[^.]\.$", text)]


def test_the_help_of_plot_names_all_kinds_of_figures(command):
    from swmodel import postprocess

    _, out, _ = command("plot", "--help")
    assert set(postprocess.KINDS) <= set(re.findall(r"\w+", out))


def test_version(command):
    assert re.fullmatch(r"swmodel \d+\.\d+\S*\n", command.ok("--version")[0])


def test_help_and_lists_are_there_at_once_because_jax_is_not_imported():
    code = """
import sys
from swmodel.__main__ import main
for arguments in (["--help"], ["run", "--help"], ["--version"], ["new"], ["new", "nothing"]):
    try:
        main(arguments)
    except SystemExit:
        for name in ("jax", "xarray", "numpy", "markdown_it"):
            assert name not in sys.modules, (arguments, name)
    else:
        raise AssertionError(arguments)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "No such command 'rnu'"),
        (["run"], "Missing argument"),
        (["run", "x.toml", "--sett", "a=1"], "--sett"),
        (["check", "x.toml", "--ranks", "0"], "--ranks"),
        (["check", "none.toml"], "there is no experiment file"),
        (["resume", "none.nc"], "there is no restart file"),
        (["new", "tohoku"], "did you mean 'tohoku_2011'?"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_status_2(command, arguments, said):
    status, out, err = command(*arguments)
    assert status == 2 and out == ""
    assert said in err and err.startswith("error: ") and err.count("\n") == 1


# -- new --------------------------------------------------------------------------------------------------------------


def test_new_on_a_full_disk_names_the_copy_that_does_not_fit(command, tmp_path, monkeypatch):
    def full(file, copy):
        raise OSError(28, "No space left on device", str(file))

    monkeypatch.setattr("swmodel.cli.files.shutil.copyfile", full)
    status, _, err = command("new", "tohoku_2011", tmp_path)
    assert status == 2 and err.startswith(f"error: {tmp_path}/") and "no space left" in err and err.count("\n") == 1


def test_new_describes_every_experiment_by_a_whole_sentence(command):
    listed = command("new")[1].partition("\n\n")[0].splitlines()
    assert len(listed) == len(library())
    assert all(re.fullmatch(r"\w+ +[A-Z4].+[.?]", line) for line in listed), listed
    assert any("crosses it from the open southern side, and piles water up at the northern coast." in x for x in listed)


CHECKS = list(itertools.product(sorted(library()), ((), ("--ranks", 4))))


@pytest.mark.parametrize("name, ranks", now(CHECKS, ("global_tide", ("--ranks", 4))))
def test_a_copy_of_an_experiment_passes_check(command, tmp_path, name, ranks):
    status, out, _ = command("new", name, tmp_path / "mine")
    assert status == 0
    if not list((tmp_path / "mine").glob("*.toml")):  # a script alone
        assert f"python {tmp_path}/mine/{name}.py" in out
        return
    toml = re.search(r"swmodel check (\S+)", out)[1]
    out, _ = command.ok("check", toml, *ranks)
    assert "no mistakes found" in out
    if ranks:  # tiles of a globe are 2 x 2, of a channel 1 x 4
        assert re.search(r"ranks +4, (4 x 1|2 x 2|1 x 4) tiles", out)
        return
    for other in set(map(str, (tmp_path / "mine").glob("*.toml"))) - {toml}:
        status, _, err = command("check", other)
        assert status == 0 or _awaits_output(err), f"{other}: {err}"


def test_a_file_that_two_experiments_read_is_in_the_package_once_and_in_each_copy(command, tmp_path):
    files = [file for file in experiments().rglob("*") if file.stat().st_size > 100_000 and file.is_file()]
    assert len({file.read_bytes() for file in files}) == len(files)
    command("new", "north_atlantic", tmp_path)
    assert (tmp_path / "etopo5_global_15min.nc").exists()
    assert 'file = "etopo5_global_15min.nc"' in (tmp_path / "north_atlantic.toml").read_text()


def _awaits_output(err):
    """Whether all mistakes are files that another experiment of the folder writes."""
    mistakes = err.strip().splitlines()[1:]
    return mistakes and all("there is no file" in line and "/output/" in line for line in mistakes)


def test_new_does_not_replace_what_was_changed(command, tmp_path):
    command("new", "double_gyre", tmp_path)
    (tmp_path / "double_gyre.toml").write_text("mine")
    assert "would be replaced" in command.refused("new", "double_gyre", tmp_path)
    assert (tmp_path / "double_gyre.toml").read_text() == "mine"
    assert command("new", "double_gyre", tmp_path, "--force")[0] == 0


@pytest.mark.verify
def test_a_run_with_observations_prints_scores_without_a_figure(command, case, tmp_path):
    (tmp_path / "A.csv").write_text(
        "time_s,elevation_m\n" + "".join(f"{t},{0.01 * (t % 600)}\n" for t in range(0, 1200, 60))
    )
    options = "-o", tmp_path / "out", "--until", "20min", "--set", "output.restart.every='20 min'"
    options += "--set", "output.fields=[]"
    out, _ = command.ok("run", case, *options, "--observations", tmp_path)
    assert re.search(r"scores:\ngauge +arrival", out) and "figure:" not in out


# -- check ------------------------------------------------------------------------------------------------------------


def test_check_says_what_a_run_would_do(command, case):
    status, out, _ = command("check", case, "--ranks", 6)
    assert status == 0
    for part in ("24 x 16 cells", "2 x 3 tiles", "gravity waves: dt <=", "60 s", "120 steps", "fields.nc", "5 records"):
        assert part in out, part


def test_check_reports_every_mistake_of_file_time_step_ranks_and_gauges_at_once(command, case):
    text = SMALL.replace("nx = 24", 'periodc = "x", nx = 24').replace("dt = 60", "dt = 900")
    case.write_text(text.replace('"flat", depth = "100 m"', '"formula", depth = "100 * (x < 50 * km)"'))
    status, out, err = command("check", case, "--ranks", 1000)
    assert status == 2 and out == ""
    lines = err.splitlines()
    assert lines[0] == "error: 4 mistakes:"
    assert f"{case}:1: grid.periodc: unknown key; did you mean 'periodic'?" in err
    assert "stepper.dt: 900 s is over the limit of rk4, gravity waves: dt <=" in err
    assert "cannot be cut into 1000 tiles" in err and "use at most 384 ranks" in err
    assert "gauge 'A'" in err and "no water" in err


@pytest.mark.parametrize("verb", [("check",), later(("run", "--until", "2 min"))])
def test_what_a_core_does_not_do_is_told_before_a_run(case, command, verb, tmp_path):
    rotating = ["coriolis.type=f_plane", "coriolis.f0=1e-4"]
    for changes, printed in (
        (["model.spectral.dealias=true"], "[model.spectral] has no effect with core = 'finite_differences'"),
        (["model.polar_filter.latitude=50"], "[model.polar_filter] has no effect with core = 'finite_differences'"),
        (["model.core=pseudo_spectral", *rotating], "where cosine series converge at first order only"),
    ):
        folder = () if verb[0] == "check" else ("--output", tmp_path / printed[:3], "--overwrite")
        options = [part for change in changes for part in ("--set", change)]
        status, out, err = command(verb[0], case, *verb[1:], *folder, *options)
        assert status == 0 and printed in out + err, err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("stepper.dt=900", "over the limit of rk4"),
        ("run.layout=3x1", "3 x 1 tiles (y x x) need 3 ranks, and there are 1"),
        ("bathymetry.depth=-3", "-3 is not positive; give a number in m, greater than 0"),
        ("output.gauges.positions.B=[1, 2e9]", "outside the grid"),
        ('bathymetry={type="file", file="none.nc"}', "there is no file"),
        ('bathymetry={type="formula", depth="-x"}', "nowhere above 0"),
        ('initial={type="file", file="case.toml"}', "is a text file, and not a netCDF file that a run has written"),
        ('initial={type="formula", eta="1 / (x - x)"}', "is not finite everywhere on the grid"),
        ('forcing=[{type="wind_stress", x="0.1 / (y - 5000)"}]', "is not finite everywhere on the grid"),
    ],
)
def test_check_fails_with_the_place_of_the_option(command, case, change, said):
    status, _, err = command("check", case, "--set", change)
    assert status == 2 and f"--set {change}: " in err and said in err and err.count("\n") == 1


def test_what_only_the_simulation_refuses_has_the_place_of_its_part(command, case):
    drizzle = 'forcing=[{type="rain", rate="0.01 mm h-1"}]'
    shore = 'model={momentum="momentum_conserving", wetting={}, precision="float32"}'
    options = [part for change in (drizzle, shore, 'stepper={type="ssprk3", dt=10}') for part in ("--set", change)]
    status, _, err = command("check", case, *options)
    why = "forcing[0]: Rain: up to 2% of what comes or goes in a step of 10 s would get lost"
    assert status == 2 and why in err and "--set forcing=" in err, err


# -- run --------------------------------------------------------------------------------------------------------------


def test_a_run_writes_what_was_asked_and_says_where(whole):
    folder, out = whole
    for name in ("fields.nc", "gauges.nc", "maxima.nc", "restart.nc"):
        assert str(folder / name) in out and (folder / name).exists()
    assert "swmodel plot" in out and "swmodel resume" in out and "x real time" in out
    assert re.search(r"swmodel plot \S*/fields.nc \S*/maxima.nc", out)  # figures have the name of the first file
    with netCDF4.Dataset(folder / "fields.nc") as dataset:
        assert dataset["eta"].shape == (5, 16, 24) and dataset["u"].shape == (5, 16, 25)
        assert dataset.title == "A bump in a box"
        assert SMALL in dataset.config
    with netCDF4.Dataset(folder / "gauges.nc") as dataset:
        assert dataset.dimensions["time"].size == 121


def test_auto_divides_the_intervals_of_the_output_and_of_gauges(command, case, tmp_path):
    more = ("--set", "stepper.dt=auto", "--set", "output.gauges.every=7 min", "--until", "1 hour")
    assert command("run", case, *more, "-o", tmp_path)[0] == 0
    with netCDF4.Dataset(tmp_path / "fields.nc") as dataset:
        dt = float(dataset.time_step_seconds)
        np.testing.assert_allclose(dataset["time"][:], [0, 1800, 3600], rtol=1e-12)
    assert abs(1800 / dt - round(1800 / dt)) < 1e-9
    with netCDF4.Dataset(tmp_path / "gauges.nc") as dataset:
        np.testing.assert_allclose(dataset["time"][:], np.arange(0.0, 3601.0, 420.0), rtol=1e-12)


def test_a_window_up_to_the_end_lies_in_the_run_whatever_its_time_step(command, case):
    case.write_text(case.read_text().replace("positions.A", 'every = "7 min"\npositions.A') + STUDY)
    for dt in ("auto", 71.0):
        out, _ = command.ok("check", case, "--set", f"stepper.dt={dt}")
        assert dt != "auto" or ", 2 h of model time" in out


def test_files_of_an_earlier_run_are_kept_unless_overwrite_is_given(command, case, tmp_path, whole):
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "fields.nc").read_bytes()
    status, _, err = command("run", case, "-o", tmp_path, "-q")
    assert status == 2 and "fields.nc" in err and "--overwrite" in err
    assert (tmp_path / "fields.nc").read_bytes() == before
    assert command("run", case, "-o", tmp_path, "-q", "--until", "1 hour", "--overwrite")[0] == 0
    assert len(json.loads((tmp_path / "timing.json").read_text())) == 1


def test_quiet_prints_nothing_and_overrides_and_the_start_are_kept_with_the_output(command, case, tmp_path):
    options = "--set", "stepper.dt=120", "--until", "1 hour", "--set", "run.start=2011-03-11T05:46:23"
    assert command("run", case, "-o", tmp_path, "-q", *options) == (0, "", "")
    with netCDF4.Dataset(tmp_path / "fields.nc") as dataset:
        assert "dt = 120" in dataset.config and 'until = "1 hour"' in dataset.config
        first = netCDF4.num2date(dataset["time"][0], dataset["time"].units)
    assert datetime.datetime(*first.timetuple()[:6]) == datetime.datetime(2011, 3, 11, 5, 46, 23)


def test_resume_continues_bit_for_bit_and_goes_on_in_the_same_files(command, case, tmp_path, whole):
    assert command("run", case, "-o", tmp_path / "parts", "-q", "--until", "1 hour")[0] == 0
    out, _ = command.ok("resume", tmp_path / "parts" / "restart.nc", "--until", "2 hour")
    assert "resumed" in out
    written = [("fields.nc", "eta"), ("fields.nc", "u"), ("gauges.nc", "eta"), ("maxima.nc", "maximum_elevation")]
    for name, variable in written:
        with netCDF4.Dataset(whole[0] / name) as one, netCDF4.Dataset(tmp_path / "parts" / name) as two:
            np.testing.assert_array_equal(one[variable][:], two[variable][:], err_msg=f"{name} {variable}")
    at_once, first, second = [
        leg for part in (whole[0], tmp_path / "parts") for leg in json.loads((part / "timing.json").read_text())
    ]
    assert at_once["steps"] == first["steps"] + second["steps"] and second["from_step"] == first["steps"] > 0
    assert at_once["model_seconds"] == pytest.approx(7200.0) and second["wall_seconds"] > 0


@pytest.mark.verify
def test_a_branch_is_written_where_the_options_or_its_file_say(command, case, tmp_path):
    """Never into the run that it leaves, unless --overwrite allows that."""
    whole, changed = tmp_path / "whole", ("--set", "stepper.dt=30", "-q")
    assert command("run", case, "-o", whole, "-q", "--until", "1 hour")[0] == 0
    (whole / "first.nc").write_bytes((whole / "restart.nc").read_bytes())
    assert command("resume", whole / "restart.nc", "--until", "2 hour", "-q")[0] == 0
    before = {path: path.read_bytes() for path in whole.iterdir()}
    branch = "resume", whole / "first.nc", "--until", "90 min", *changed
    status, _, err = command(*branch)
    assert status == 2 and err.count("\n") == 1 and "fields.nc (up to 7200 s)" in err and "--output DIR" in err
    assert command(*branch, "--set", f"output.folder={tmp_path / 'by_set'}")[0] == 0
    case.write_text(SMALL.replace("[output.gauges]", f"[output]\nfolder = '{tmp_path / 'by_file'}'\n[output.gauges]"))
    assert command(*branch, "--experiment", case)[0] == 0
    assert {path: path.read_bytes() for path in whole.iterdir()} == before
    for folder in ("by_set", "by_file"):
        with netCDF4.Dataset(tmp_path / folder / "fields.nc") as dataset:
            assert dataset["time"][:].tolist() == [5400.0] and dataset.time_step_seconds == 30.0
    assert command(*branch, "--overwrite")[0] == 0
    with netCDF4.Dataset(whole / "fields.nc") as dataset:
        assert dataset["time"][:].tolist() == [0.0, 1800.0, 3600.0, 5400.0]


def test_a_blow_up_ends_with_status_3_and_keeps_the_files(command, case, tmp_path):
    status, _, err = command(
        "run", case, "-o", tmp_path, "--set", "bathymetry.depth=2", "--set", "initial.amplitude=-1.5"
    )
    assert status == 3
    assert "stopped at step" in err and err.count("error:") == 1
    assert (tmp_path / "fields.nc").exists()


def test_an_unexpected_error_is_short_and_debug_shows_where_it_comes_from(command, case, tmp_path, monkeypatch):
    def broken(*arguments):
        raise KeyError("lost")

    monkeypatch.setattr("swmodel.config.initial.GaussianBump.state", broken)
    status, _, err = command("run", case, "-o", tmp_path)
    assert status == 1 and "KeyError" in err and "--debug" in err and "Traceback" not in err
    status, _, err = command("run", case, "-o", tmp_path, "--debug")
    assert status == 1 and "Traceback" in err and "in broken" in err
    assert "KeyError" in (tmp_path / "rank-0000.log").read_text()


def test_an_interrupt_ends_a_command_at_once_and_says_so():
    text = "from swmodel.cli.commands import app\n@app.command()\ndef wait(): raise KeyboardInterrupt\n"
    text += "from swmodel.__main__ import main\nmain(['wait'])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "stopped by SIGINT.\n")


# -- under mpirun -----------------------------------------------------------------------------------------------------


@pytest.mark.verify
@needs_mpi
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "stepper.dt=900"], "over the limit of rk4"),
        later(["--communicator", "serial"], "overwrite the others' files"),
    ],
)
def test_two_ranks_fail_together_with_one_sentence(case, tmp_path, arguments, said):
    code, out, err = finish(start("run", case, "-o", tmp_path, *arguments, ranks=2))
    assert code in (1, 2)
    assert (out + err).count(said) == 1


@needs_mpi
def test_a_rank_that_fails_alone_is_heard_and_takes_the_others_down(case, tmp_path):
    code = (
        "import swmodel.config.initial as initial, swmodel.runtime.launch as launch\n"
        "from swmodel.__main__ import main\n"
        "def broken(*a):\n"
        "    raise ValueError('only this rank')\n"
        "if launch.launcher().rank == 1:\n"
        "    initial.GaussianBump.state = broken\n"
        "import swmodel.cli.logs as failures\n"
        "failures.TIMEOUT = 1.0\n"
        f"main(['run', {str(case)!r}, '-o', {str(tmp_path)!r}])\n"
    )
    status, _, err = finish(start(ranks=2, code=code))
    assert status != 0
    assert err.count("only this rank") == 1 and "rank 1: " in err


# -- progress ---------------------------------------------------------------------------------------------------------


class Tape(list):
    encoding = "utf-8"

    def write(self, text):
        self.append(text)

    def flush(self):
        pass

    def isatty(self):
        return False


def _play(bar, wall, steps=1000, dt=60.0):
    for second in range(wall + 1):
        step = steps * second // wall
        bar(step, steps, step * dt, float(second))


def test_a_log_gets_a_line_every_ten_seconds_with_speed_and_time_to_go():
    tape = Tape()
    _play(ProgressBar(tape, width=None), wall=100)
    lines = "".join(tape).splitlines()
    assert 10 <= len(lines) <= 12
    assert lines[5].startswith(" 50 %  model time 8 h 20 min  10 steps/s  600 x real time  50 s to go")
    assert lines[-1].startswith("100 %") and "took 1 min 40 s" in lines[-1]


def test_speed_and_time_to_go_leave_out_the_chunks_that_compiled_a_program():
    tape, compiled = Tape(), iter((14, 15, 16, 16, 17, 17))
    bar = ProgressBar(tape, width=None, compilations=lambda: next(compiled))
    for step, wall in ((0, 0.0), (8, 200.0), (16, 300.0), (116, 310.0), (216, 910.0), (316, 920.0)):
        bar(step, 1016, step * 60.0, wall)
    lines = "".join(tape).splitlines()
    assert not any("to go" in line or "steps/s" in line for line in lines[:3])
    assert all("10 steps/s" in line for line in lines[3:])
    assert [line.rpartition("  ")[2] for line in lines[3:]] == [f"1 min {left} s to go" for left in (30, 20, 10)]


def test_a_run_shows_no_speed_before_a_chunk_without_compilation():
    tape, speeds = Tape(), []
    bar = ProgressBar(tape, width=None)

    def progress(step, *rest):
        if step == 8:
            jax.jit(lambda x: x + tape.count(0))(1.0)  # a new function, which JAX compiles
        bar(step, *rest)
        speeds.append((step, bar.speed))

    model = sw.ShallowWater(sw.CartesianGrid(8, 8, (0, 8e4), (0, 8e4)), 100.0)
    sw.Simulation(model, model.at_rest(), sw.ForwardBackward(dt=60.0)).run(steps=100, progress=progress)
    assert [speed for step, speed in speeds if step <= 8] == [None, None]
    assert speeds[-1][1] is not None


def test_a_terminal_gets_one_line_that_is_redrawn_and_fits():
    tape = Tape()
    _play(ProgressBar(tape, width=60), wall=100)
    text = "".join(tape)
    assert text.count("\n") == 1 and text.endswith("\n")
    assert all(len(part) == 59 for part in text.rstrip("\n").split("\r")[1:])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "0.5 s"),
        (3.714, "3.7 s"),
        (22.5, "22.5 s"),
        (14, "14 s"),
        (300, "5 min"),
        (5000, "1 h 23 min"),
        (3600, "1 h"),
        (10 * 86400, "10 days"),
        (365.25 * 86400, "1 year"),
    ],
)
def test_durations_read_as_people_say_them(seconds, text):
    assert duration(seconds) == text


@pytest.mark.verify
def test_the_script_and_the_file_of_the_double_gyre_are_one_experiment(command, tmp_path):
    script, toml = library()["double_gyre"]
    text = script.read_text().replace("3 * year", "2 * day").replace("10 * day", "1 * day")
    status, _, err = finish(start(code=text.replace("1 * year", "2 * day"), cwd=tmp_path))
    assert status == 0, err
    changes = ["--until", "2 day", "--set", "output.fields.0.every=1day", "--set", "stepper.dt=1200"]
    command.ok("run", toml, "-o", tmp_path, "-q", *changes)
    with netCDF4.Dataset(tmp_path / "gyre.nc") as one, netCDF4.Dataset(tmp_path / "fields.nc") as two:
        assert np.abs(one["eta"][-1]).max() > 1e-3
        for name in ("eta", "u", "v", "vorticity"):
            np.testing.assert_allclose(one[name][:], two[name][:], rtol=1e-5, atol=1e-6 * np.abs(one[name][:]).max())


def test_a_run_starts_from_a_record_or_a_restart_of_an_earlier_one(command, case, tmp_path, whole):
    with netCDF4.Dataset(whole[0] / "fields.nc") as dataset:
        records = np.array(dataset["eta"][:]), np.array(dataset["u"][:])
    for file, record in (("fields.nc", 2), ("restart.nc", -1)):
        start_from = f'initial={{type="file", file="{whole[0] / file}", record={record}}}'
        command.ok("run", case, "-o", tmp_path, "-q", "--overwrite", "--until", "1 hour", "--set", start_from)
        with netCDF4.Dataset(tmp_path / "fields.nc") as dataset:
            np.testing.assert_array_equal(dataset["eta"][0], records[0][record])
            np.testing.assert_array_equal(dataset["u"][0], records[1][record])


# -- gauges -----------------------------------------------------------------------------------------------------------


@pytest.mark.verify
def test_gauges_are_scored_by_the_experiments_window_and_what_it_cannot_tell_is_said(command, case, tmp_path):
    """From the file alone; a run that goes on with another window is scored by that one."""
    pytest.importorskip("matplotlib")
    keys = "window=[1800, 3600]", "positions.far=[2.3e5, 1.5e5]", "threshold=0.02", "arrival_fraction=0.1"
    options = [part for key in keys for part in ("--set", f"output.gauges.{key}")]
    command.ok("run", case, "-o", tmp_path, "--until", "1hour", "-q", *options)
    _, printed, _ = command("plot", tmp_path / "gauges.nc")
    assert re.search(r"^far( +-){2} +30 to 60$", printed, re.M), printed
    assert re.search(r"far: the model stays below 0.02 m \(highest value \S+ m\)", printed), printed
    assert "A: the model" in printed and "first above 10 % of the window's own maximum" in printed
    longer = "--set", "output.gauges.window=[0, 7200]"
    command.ok("resume", tmp_path / "restart.nc", "--until", "2hour", "-q", *longer)
    _, printed, _ = command("plot", tmp_path / "gauges.nc")
    assert re.search(r"^A .* 0 to 120$", printed, re.M), printed


def test_messages_follow_the_standard_streams_when_an_earlier_one_was_closed(monkeypatch):
    import io

    from swmodel.cli import logs

    before = logs.LOGGER.handlers[:], logs.LOGGER.propagate, logs.LOGGER.level
    try:
        logs.start(root=True)
        closed, now = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        monkeypatch.setattr("sys.stdout", closed)
        logs.LOGGER.info("one")
        closed.close()
        monkeypatch.setattr("sys.stdout", now)
        logs.LOGGER.info("two")
        assert now.getvalue() == "two\n"
    finally:
        logs.LOGGER.handlers[:], logs.LOGGER.propagate, logs.LOGGER.level = before
