"""What holds in every test: float64, strict promotion of types and ranks; 6 devices; under mpirun, ranks that agree.

Under mpirun every rank runs every test. After each phase of a test the ranks exchange their outcomes on a
communicator of their own, so that a test fails everywhere if it fails anywhere, with the failing rank's report in the
root's output. A rank that fails while the others wait for its message stops all of them: none hangs.
"""

import gc
import importlib.metadata
import logging
import os
import sys
import time
import zlib
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Most of the time goes into compiling, also of the commands that tests start; see verification/. Programs are kept as
# those of users are: ranks share them, and the next `make test` compiles those alone whose code has changed.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
if importlib.metadata.version("jaxlib").startswith("0.10."):  # later ones may not know the option, and end
    # As for the model's own programs, see runtime/compilation.py: tests' own compile in a third of the time. Both cores
    # have a worker or a rank, and a program that is compiled in one piece takes a tenth less than one that is split.
    flags = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ.setdefault("XLA_FLAGS", flags)

import jax
import numpy as np
import pytest

from swmodel.runtime import launch, launchers

PATIENCE_FAILED = 60.0  # [s] that a rank which failed waits for the others before it stops them
PATIENCE_PASSED = 580.0  # [s] that a rank which passed waits: less than pytest's faulthandler_timeout
OUTCOMES = ("passed", "failed", "skipped")
MOST_MAPS = 40_000
_compiled_for_large_tiles = set()

gc.set_threshold(200_000, 50, 50)  # thousands of traced programs stay alive, and looking through them takes long
# Loops are small here, and -O0 compiles one in half the time of -O1; `optimised_loops` has those that users have.
os.environ.setdefault("SWMODEL_CXXFLAGS", "-O0")
launch.configure_process(precision="float64", communicator="auto")
if launchers.launched_ranks() == 1:
    jax.config.update("jax_num_cpu_devices", 6)  # for the sharded communicator; all else uses the first
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_sessionfinish():
    """What is left ends with the process: pytest and Python would look through millions of objects several times."""
    gc.freeze()


def pytest_configure(config):
    if launchers.launched_ranks() > 1:
        world = launch.load_mpi().COMM_WORLD
        launch.check_world(world.size)
        config.pluginmanager.register(RankAgreement(config, world.Dup()), "rank-agreement")


@pytest.fixture(autouse=True)
def _logger_as_imported():
    """Each test finds the package's logger as an import leaves it.

    A command that an earlier test ran in this process stops its propagation for good. pytest then attaches its own
    handler to it as well as to the root logger, and a test that lets it propagate again would get each message twice.
    """
    logger = logging.getLogger("swmodel")
    logger.handlers.clear()
    logger.propagate = True
    logger.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def _precision_as_imported():
    """Each test leaves float64 for the next one, also after a command or model that chose float32."""
    yield
    jax.config.update("jax_enable_x64", True)


@pytest.fixture(autouse=True, scope="module")
def _few_programs():
    """Programs of earlier files are released before the process has as many maps of memory as Linux allows, 65,530.

    Each compiled program holds some. Beyond the limit a process that runs all files alone gets MemoryErrors.
    """
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
    yield


@pytest.fixture(scope="module")
def optimised_loops():
    """Loops are compiled with vectors, as for users; those that earlier files compiled without are compiled again."""
    from swmodel.stencils.native.library import loop_name

    loop_name.cache_clear()
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("SWMODEL_CXXFLAGS", raising=False)
        yield
    loop_name.cache_clear()


@pytest.fixture
def large_tiles(request, monkeypatch):
    """Loops over steps are those on large tiles: one pass makes all steps after which buffers are in their first roles.

    Programs that earlier modules compiled for small tiles of the same shape are compiled again.
    """
    monkeypatch.setattr("swmodel.stepping.fused.SMALL", 0)
    if request.module not in _compiled_for_large_tiles:
        _compiled_for_large_tiles.add(request.module)
        jax.clear_caches()


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """pytest's, but one folder for all ranks."""
    agreement = request.config.pluginmanager.get_plugin("rank-agreement")
    name = request.node.name[:30].translate({ord(c): "_" for c in "/[]:, "})
    if agreement is None:
        return tmp_path_factory.mktemp(name)
    return agreement.world.bcast(tmp_path_factory.mktemp(name) if agreement.world.rank == 0 else None)


@pytest.fixture
def a_users_process(monkeypatch):
    """As a user's script finds JAX: no strict types; the devices are there already."""
    monkeypatch.setattr(launch, "configure_process", lambda *arguments, **options: None)
    usual = {"jax_numpy_dtype_promotion": "standard", "jax_numpy_rank_promotion": "allow"}
    before = {name: getattr(jax.config, name) for name in usual}
    for name, value in usual.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture
def untimed(monkeypatch):
    """`check` times no steps to predict the time of a run, for which it compiles them; test_performance.py lets it."""
    monkeypatch.setattr("swmodel.cli.checks.speed_line", lambda *arguments: "not measured here")


@pytest.fixture
def command(capsys, untimed):
    """Run `swmodel ARGUMENTS` in this process: (status, stdout, stderr). The precision of other tests is kept.

    `command.ok(ARGUMENTS)` requires the status 0: (stdout, stderr). `command.refused(ARGUMENTS)` requires the status 2,
    or that of status=: stderr in one line.
    """
    from swmodel.__main__ import main

    before = jax.config.jax_enable_x64

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    def ok(*arguments):
        status, *printed = call(*arguments)
        assert status == 0, "".join(printed)
        return printed

    def refused(*arguments, status=2):
        found, *printed = call(*arguments)
        assert found == status, "".join(printed)
        return " ".join(printed[1].split())

    call.ok, call.refused = ok, refused
    yield call
    jax.config.update("jax_enable_x64", before)


class RankAgreement:
    """A pytest plugin: the ranks of `world` report the same outcome for every test, or stop together."""

    def __init__(self, config, world):
        self.config, self.world = config, world
        self.collect_errors = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        what = f"{item.nodeid} ({call.when})"
        outcomes = self._exchange(what, OUTCOMES.index(report.outcome), report.longreprtext)
        if "failed" not in outcomes and len(set(outcomes)) == 1:
            return report
        texts = self.world.allgather(report.longreprtext if report.outcome == "failed" else None)
        others = {rank: text for rank, text in enumerate(texts) if text is not None and rank != self.world.rank}
        if report.outcome != "failed":
            report.longrepr = _told(others) or f"the ranks disagree: {', '.join(outcomes)}"
            report.outcome = "failed"
        elif others:
            report.sections.append(("on other ranks", _told(others)))
        return report

    def pytest_collectreport(self, report):
        if report.failed:
            self.collect_errors.append(report.longreprtext)

    def pytest_collection_finish(self, session):
        tests = " ".join(item.nodeid for item in session.items) or "no tests"
        outcomes = self._exchange(tests, int(bool(self.collect_errors)), "\n".join(self.collect_errors))
        texts = self.world.allgather("\n".join(self.collect_errors))
        if "failed" in outcomes and not self.collect_errors:
            pytest.exit(_told({rank: text for rank, text in enumerate(texts) if text}), returncode=2)

    def _exchange(self, what, outcome, text):
        """The outcomes of all ranks for `what`; stops every rank if one does not come, or comes with something else."""
        mine = np.array([outcome, zlib.crc32(what.encode())])
        everyone = np.empty((self.world.size, 2), mine.dtype)
        request = self.world.Iallgather(mine, everyone)
        patience = PATIENCE_FAILED if OUTCOMES[outcome] == "failed" else PATIENCE_PASSED
        begin, pause = time.monotonic(), 1e-5
        while not request.Test():
            if time.monotonic() - begin > patience:
                self._stop(f"{OUTCOMES[outcome]} {what} and the other ranks did not come within {patience:g} s", text)
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        if len(set(everyone[:, 1])) > 1 and "failed" not in (OUTCOMES[code] for code in everyone[:, 0]):
            self._stop(f"is at {what}, and other ranks are at another test", text)
        return [OUTCOMES[code] for code in everyone[:, 0]]

    def _stop(self, message, text):
        with self.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
            message = f"rank {self.world.rank} {message}: all ranks are stopped"
            print(f"\n{text or ''}\n{message}", file=sys.stderr, flush=True)
            sys.stdout.flush()
        self.world.Abort(1)


def _told(texts):
    """The reports of other ranks, each once."""
    ranks = {}
    for rank, text in texts.items():
        ranks.setdefault(text, []).append(str(rank))
    return "\n".join(f"rank {', '.join(who)}: {_headline(text)}\n{text}" for text, who in ranks.items())


def _headline(text):
    """The first of the lines that say what was wrong: pytest's summary shows no more."""
    return next((line.lstrip("E ") for line in text.splitlines() if line.startswith("E ")), "")


@pytest.fixture
def study(tmp_path):
    """`study(*parts)` writes an experiment of these texts, and gives its path and a folder for the output."""

    def write(*parts):
        path = tmp_path / "case.toml"
        path.write_text("".join(parts))
        return path, tmp_path / "out"

    return write
