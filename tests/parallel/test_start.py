"""What ranks of a host look up when they start, one of them looks up for all."""

import os

import numpy as np
import pytest

from swmodel.parallel import make_communicator
from swmodel.runtime import cache, compilation
from swmodel.sources import motion_cache as sources
from swmodel.stencils.native import library


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """(the communicator, the root's empty folder, which is the cache of all ranks)."""
    communicator = make_communicator("auto", (8, 8))
    monkeypatch.setenv("XDG_CACHE_HOME", str(communicator.host_broadcast(tmp_path)))
    looked_up = (cache.folder, compilation.compiler_options)
    for function in looked_up:
        function.cache_clear()
    yield communicator, cache.folder()
    monkeypatch.undo()
    for function in looked_up:
        function.cache_clear()


def counted(monkeypatch, module, name, calls):
    function = getattr(module, name)

    def call(*arguments):
        calls.append(name)
        return function(*arguments)

    monkeypatch.setattr(module, name, call)


def test_one_rank_asks_the_compilers_and_all_use_the_answer(empty_cache, monkeypatch):
    communicator, folder = empty_cache
    calls = []
    counted(monkeypatch, compilation, "_are_known", calls)
    counted(monkeypatch, library, "_compile", calls)
    communicator.barrier()
    options = compilation.compiler_options()
    usable = library.find_compiler() is None or library._compiled('extern "C" int one() { return 1; }', ("-shared",))
    assert usable
    everywhere = communicator.host_gather((options, tuple(calls)))
    assert len({str(options) for options, _ in everywhere}) == 1
    asked = [name for _, calls in everywhere for name in calls]
    assert asked.count("_are_known") == 1 and asked.count("_compile") <= 1
    compilation.compiler_options.cache_clear()
    assert compilation.compiler_options() == options
    assert sum(communicator.host_gather(len(calls))) == len(asked), "later runs ask nobody"


def test_a_rank_that_finds_all_that_it_needs_makes_no_file(empty_cache, monkeypatch):
    communicator, folder = empty_cache
    compilation.compiler_options()
    communicator.barrier()
    before = os.stat(folder).st_mtime_ns, sorted(os.listdir(folder))
    for function in (cache.folder, compilation.compiler_options):
        function.cache_clear()
    compilation.compiler_options()
    communicator.barrier()
    assert (os.stat(folder).st_mtime_ns, sorted(os.listdir(folder))) == before


def test_one_rank_computes_the_motion_of_a_source(empty_cache, monkeypatch):
    communicator, _ = empty_cache
    calls, motion = [], (np.ones((2, 1, 1)), (0, 1, 0, 1))
    monkeypatch.setattr(sources, "_computed", lambda *arguments: calls.append("computed") or motion)
    communicator.barrier()
    uplift, box = sources._made_or_kept("a" * 24, None, None, None, alone=True)
    assert box == (0, 1, 0, 1) and uplift.sum() == 2.0
    assert sum(map(len, communicator.host_gather(calls))) == 1
