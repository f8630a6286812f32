"""The bench's own machinery: workers, the yardstick in C, the peer's script, records. Its figures are not tested."""

import functools
import shutil
import sys
from pathlib import Path

import netCDF4
import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import harness  # noqa: E402
import run  # noqa: E402
import semi_implicit_tolerance  # noqa: E402
from figures import geoclaw, inversion, step  # noqa: E402

pytestmark = pytest.mark.verify  # tests of the repository, and not of the model

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

COUNTING = """
import json, sys
print("some library says hello", flush=True)
print("ready", json.dumps({"batch": 3}), flush=True)
for line in sys.stdin:
    name, _, argument = line.strip().partition(" ")
    if name == "quit":
        break
    if name == "die":
        sys.exit("RuntimeError: told to die")
    print("noise", flush=True)
    print("took", 0.5 * int(argument), flush=True)
"""


@pytest.fixture
def bench(tmp_path):
    return harness.Bench((96, 64), (48, 32), 3, [0], tmp_path)


def worker(bench, code=COUNTING):
    return bench.start("counting", [sys.executable, "-c", code])


# -- workers ----------------------------------------------------------------------------------------------------------


def test_a_worker_that_dies_says_why(bench):
    with worker(bench) as counting:
        with pytest.raises(harness.NotMeasured, match="counting ended: RuntimeError: told to die"):
            counting.ask("die", "took")
    with pytest.raises(harness.NotMeasured, match="ended: .*not there"):
        worker(bench, "raise OSError('not there')")


# -- figures ----------------------------------------------------------------------------------------------------------


def test_every_file_of_figures_is_a_part_with_names_of_its_own():
    parts = run.parts(None)
    assert {part.__name__ for part in parts} == {f"figures.{file.stem}" for file in BENCHMARKS.glob("figures/*.py")}
    names = [name for part in parts for name in part.NAMES]
    assert len(set(names)) == len(names)
    asked = "step_vs_demo step_vs_c step_fraction_of_bandwidth ranks_2_vs_threads_2 sharded_2_vs_mpi_2"
    asked += " float64_vs_float32 messages_per_step compile_seconds gpu_fraction_of_copy_bandwidth"
    assert set(asked.split()) <= set(names)


def test_workers_of_a_comparison_are_stopped_also_where_one_does_not_start(bench):
    started = []

    def start(code):
        started.append(worker(bench, code))
        return started[-1]

    times = bench.timed("what", {"a": lambda: start(COUNTING), "b": lambda: start(COUNTING)}, seconds=1.0)
    assert set(times) == {"a", "b"} and all(one.process.poll() is not None for one in started)
    with pytest.raises(harness.NotMeasured):
        bench.timed("what", {"a": lambda: start(COUNTING), "b": lambda: start("raise OSError('no')")})
    assert started[-1].process.poll() is not None


def test_geoclaw_is_read_from_its_own_files_and_left_out_with_a_reason(bench, monkeypatch, tmp_path):
    timing = """
 ============================== Timing Data ==============================

 Integration Time (stepgrid + BC + overhead)
 Level           Wall Time (seconds)    CPU Time (seconds)   Total Cell Updates
   1                   112.160                 221.540            0.273E+09
 total                 112.160                 221.540            0.273E+09
"""
    assert geoclaw.times_of(timing) == (112.16, 0.273e9)
    assert float(geoclaw.END.search("1.080000000000000e+04 =: tfinal\n")[1]) == 10800.0
    assert geoclaw.cells_of("2  =: num_dim\n720 540  =: num_cells\n") == (720, 540)
    assert geoclaw.cells_of("720  =: mx\n540  =: my\n") == (720, 540)
    monkeypatch.delenv("GEOCLAW", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(harness.NotMeasured, match="there is no gfortran.*GEOCLAW"):
        geoclaw.measure(bench)


# -- sides ------------------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("cores, wavefront", [(1, False), (3, False), (3, True)])
def test_the_yardstick_in_c_is_the_models_physics_on_any_number_of_threads(bench, cores, wavefront):
    bench.cores = list(range(cores))  # only their number counts
    bench.check_native("swmodel", functools.partial(step.c_command, bench, wavefront=wavefront))
    printed = bench.raw["check of C: swmodel"]
    assert max(printed["relative_error_u_v_eta"]) < 1e-5 < min(printed["moved_u_v_eta"]) / 100


@needs_compiler
def test_a_yardstick_of_other_physics_is_none(bench, monkeypatch):
    monkeypatch.setattr(step, "VISCOSITY", 1.5 * step.VISCOSITY)
    with pytest.raises(harness.NotMeasured, match="C and swmodel differ by"):
        bench.check_native("swmodel", functools.partial(step.c_command, bench))


# -- the inversion -----------------------------------------------------------------------------------------------------


def file_of_an_inversion(path):
    """Five observations a gauge, with a variance of 2; the model is off by 2, 0.2 and 1, the uplift by a degree."""
    with netCDF4.Dataset(path, "w") as file:
        count = 5 * len(inversion.GAUGES)
        for name, size in (("source", 121), ("observation", count), ("xh", 3), ("yh", 2)):
            file.createDimension(name, size)
        file.createVariable("xh", "f8", ("xh",))[:] = inversion.EPICENTRE[0] + np.arange(-1.0, 2.0)
        file.createVariable("yh", "f8", ("yh",))[:] = inversion.EPICENTRE[1] + np.arange(2.0)
        file.createVariable("initial_eta_analysis", "f4", ("yh", "xh"))[:] = [[0.0, 1.0, 0.0], [0.0, 3.0, 0.0]]
        names = file.createVariable("observation_gauge", str, ("observation",))
        for k in range(count):
            names[k] = inversion.GAUGES[k // 5]
        observed = np.tile(np.arange(5.0), len(inversion.GAUGES))
        for role, off in (("observed", 0.0), ("background", 2.0), ("analysis", 0.2), ("withheld", 1.0)):
            file.createVariable(f"observation_{role}", "f8", ("observation",))[:] = observed + off
    return path


def test_the_figures_of_an_inversion_are_those_of_its_file(bench, tmp_path):
    inversion.record(bench, file_of_an_inversion(tmp_path / "inversion.nc"), 4.0)
    found = {name: figure.value for name, figure in bench.figures.items()}
    assert set(found) == set(inversion.NAMES)
    assert found["inversion_misfit_reduction"] == pytest.approx(0.99)
    assert found["inversion_kilometres_to_epicentre"] == pytest.approx(111.2)
    assert [found[f"inversion_withheld_{name}"] for name in inversion.GAUGES] == pytest.approx([0.25] * 4)


def test_without_records_the_inversion_says_how_to_give_them(bench, tmp_path, monkeypatch):
    monkeypatch.delenv("OBSERVATIONS", raising=False)
    with pytest.raises(harness.NotMeasured, match="make bench OBSERVATIONS=DIR"):
        inversion.measure(bench)
    monkeypatch.setenv("OBSERVATIONS", str(tmp_path))
    (tmp_path / "21418.csv").write_text("time_s,elevation_m\n")
    with pytest.raises(harness.NotMeasured, match="has no 21401.csv, 21413.csv, KPG1.csv"):
        inversion.measure(bench)


@pytest.mark.verify
def test_a_loose_tolerance_leaves_the_surface_within_its_own_size(monkeypatch):
    """docs/theory/semi_implicit.md: the error of 1e-4 is some 1e-5 of the waves, and falls with the tolerance."""
    monkeypatch.setattr(semi_implicit_tolerance, "STEPS", 12)
    reference, *others = (
        semi_implicit_tolerance.elevation(8, "float64", tolerance) for tolerance in (1e-10, 1e-6, 1e-4)
    )
    sizes = semi_implicit_tolerance.sizes
    close, loose = (sizes(eta - reference) / sizes(reference) for eta in others)
    assert (close < 1e-6).all() and (1e-8 < loose).all() and (loose < 1e-4).all(), (close, loose)
