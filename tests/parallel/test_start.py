"""What ranks of a host look up when they start, one of them looks up for all."""

import os
import re

import jax
import jax.numpy as jnp
import mpi4jax
import numpy as np
import pytest
from mpi4py import MPI

from swmodel.parallel import make_communicator
from swmodel.parallel.mpi import MPICommunicator
from swmodel.runtime import cache, compilation
from swmodel.runtime.launch import LaunchError
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


# -- handles -----------------------------------------------------------------------------------------------------------

SIZE = MPI.COMM_WORLD.size
VERBS = {
    "sendrecv": lambda c, x: c.shift(x, "x", 1),
    "alltoall": lambda c, x: c.all_to_all(x, "x"),
    "allreduce": lambda c, x: c.sum(x, ordered=False),
    "allgather": lambda c, x: c.sum(x, "x", ordered=True),
    "bcast": lambda c, x: c.broadcast(x),
    "reduce": lambda c, x: jax.linear_transpose(c.broadcast, x)(x)[0],
    "gather": lambda c, x: c.gather(x, (2, 3 * SIZE)),
    "scatter": lambda c, x: c.scatter(jnp.tile(x, (1, SIZE))),
}


@pytest.fixture(scope="module")
def communicator():
    return MPICommunicator((1, SIZE))


@pytest.mark.skipif(SIZE == 1, reason="one rank sends no messages")
@pytest.mark.parametrize("verb", VERBS)
def test_a_message_holds_numbers_of_mpis_objects(communicator, verb):
    shape = (SIZE, 3) if verb == "alltoall" else (2, 3)
    program = jax.jit(lambda x: VERBS[verb](communicator, x)).lower(jnp.ones(shape))
    text = program.as_text()
    assert f"swmodel_{verb}_numbered" in text and compilation.WITH_ADDRESSES.decode() not in text
    named = dict(re.findall(r"\b(comm|op|dtype|sendtype|recvtype) = (-?\d+)", text))
    assert "comm" in named and all(0 <= int(number) < 4096 for number in named.values())
    assert len(set(communicator.host_gather(str(named)))) == 1
    executable = program.compile().runtime_executable().serialize()
    assert compilation.WITH_ADDRESSES not in executable


@pytest.mark.skipif(SIZE == 1, reason="one rank sends no messages")
def test_messages_to_neighbours_are_the_same_program_on_all_ranks(communicator):
    def there_and_back(x):
        return communicator.shift(communicator.shift(x, "x", 1), "x", -1)

    text = jax.jit(there_and_back).lower(jnp.ones((2, 3))).as_text()
    assert text.count("swmodel_sendrecv_numbered") == 2 and len(set(communicator.host_gather(text))) == 1
    rank = jnp.full((2, 3), float(communicator.rank))
    west = jax.jit(lambda x: communicator.shift(x, "x", 1))(rank)
    np.testing.assert_array_equal(west, (communicator.rank - 1) % SIZE)
    np.testing.assert_array_equal(jax.jit(there_and_back)(rank), rank)


def test_messages_of_the_users_own_communicator_are_left_alone():
    mine = MPI.COMM_WORLD.Dup()
    program = jax.jit(lambda x: mpi4jax.allreduce(x, MPI.SUM, comm=mine))
    assert "mpi_allreduce_ffi" in program.lower(jnp.ones(3)).as_text()
    np.testing.assert_array_equal(program(jnp.ones(3)), SIZE)
    mine.Free()


def test_two_communicators_are_not_confused(communicator):
    """A second one sees its own ranks in another order, and the first goes on as before."""
    turned = MPICommunicator((1, SIZE), world=MPI.COMM_WORLD.Split(0, -communicator.rank))
    rank = jnp.full((2, 3), float(communicator.rank))
    for one in (communicator, turned, communicator):
        np.testing.assert_array_equal(jax.jit(one.broadcast)(rank), 0.0 if one is communicator else SIZE - 1.0)


def test_mpi4jax_without_cuda_is_refused_on_gpus(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(mpi4jax, "has_cuda_support", lambda: False)
    with pytest.raises(LaunchError, match="mpi4jax was built without CUDA support"):
        MPICommunicator((1, SIZE))
