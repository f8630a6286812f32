"""Numbers in place of the handles of MPI's objects, with which programs that send messages can be kept on disk.

mpi4jax writes the handles of the communicator, the data type and the operation into each call of a program. Those of
Open MPI are addresses, which differ from process to process, so that a program could not be loaded by another one
(runtime/programs.py). Here the calls that mpi4jax lowers get the number of an entry in a table instead. They go to a
function of the native runtime, which looks the handle up and calls mpi4jax (stencils/native/handles.cpp). The ranks of
neighbours are looked up likewise.

Without numbers every run with several ranks compiles all of its programs (docs/reliability.md).

Calls with a communicator that is not in the table, of the user's own, are left alone, and so is everything where there
is no C++ compiler. All private names of mpi4jax are in this file.
"""

import ctypes
import functools
import importlib
import itertools
from collections.abc import Sequence

import jax
from jax.interpreters import mlir
from mpi4jax._src.utils import ordered_effect
from mpi4py import MPI

from ..stencils.native import forwarded, set_handle, usable

__all__ = ["number_communicators", "number_ranks", "ordered_effect"]

VERBS = ("sendrecv", "alltoall", "allreduce", "allgather", "bcast", "reduce", "gather", "scatter")
TYPES = (
    "FLOAT", "DOUBLE", "COMPLEX", "DOUBLE_COMPLEX", "INT8_T", "INT16_T", "INT32_T", "INT64_T",
    "UINT8_T", "UINT16_T", "UINT32_T", "UINT64_T", "BOOL",
)  # fmt: skip
OPERATIONS = ("SUM", "MAX", "MIN", "PROD")
FIRST_COMMUNICATOR, MOST = 32, 4096  # numbers in the table; those before are of types and operations
ENDS = ("source", "dest")  # attributes of sendrecv that hold a rank
HANDLES = ("comm", "op", "dtype", "sendtype", "recvtype")  # attributes that hold one, as in handles.cpp

_numbers: dict[int, int] = {}  # {handle: its number}
_ranks: dict[tuple[int | None, int], int] = {}  # {(number of a communicator, rank in it): the number of that rank}
_free = itertools.count(FIRST_COMMUNICATOR)


def number_communicators(*communicators: MPI.Comm) -> None:
    """Give numbers to these MPI communicators, in their order, for the programs that are compiled from now on.

    Runs that make their communicators in the same order get the same programs.
    """
    if not _forward_calls():
        return
    for communicator in communicators:
        number = next(_free)
        if number < MOST:
            _number(communicator, number)


def number_ranks(communicator: MPI.Comm, ranks: Sequence[int]) -> None:
    """Give numbers to these ranks, in their order, for messages on a communicator that has a number.

    Each rank names its own neighbours in the same order. The programs of all ranks are then the same where their tiles
    have the same shape, so that one rank can compile them for all.
    """
    if not _forward_calls() or (of := _numbers.get(_signed(MPI._handleof(communicator)))) is None:
        return
    for rank in ranks:
        number = next(_free)
        if number < MOST and (of, rank) not in _ranks:
            _ranks[of, rank] = number
            set_handle(number, rank)


def _number(mpi_object, number):
    handle = _signed(MPI._handleof(mpi_object))
    set_handle(_numbers.setdefault(handle, number), handle)


def _signed(handle):
    return handle - (1 << 64) if handle >= 1 << 63 else handle


@functools.cache
def _forward_calls():
    """Replace mpi4jax's lowering on CPUs; returns whether that could be done."""
    if not usable():
        return False
    try:
        targets = importlib.import_module("mpi4jax._src.xla_bridge").mpi_xla_bridge_cpu.ffi_targets
        modules = [importlib.import_module(f"mpi4jax._src.collective_ops.{verb}") for verb in VERBS]
        rules = [
            (getattr(module, f"mpi_{verb}_p"), getattr(module, f"mpi_{verb}_xla_encode_cpu"), targets[f"mpi_{verb}"])
            for verb, module in zip(VERBS, modules)
        ]
    except (ImportError, AttributeError, KeyError):
        return False
    for number, name in enumerate((*TYPES, *OPERATIONS)):
        _number(getattr(MPI, name), number)
    for k, (verb, (primitive, rule, target)) in enumerate(zip(VERBS, rules)):
        jax.ffi.register_ffi_target(_target(verb), jax.ffi.pycapsule(forwarded(k, _pointer(target))), platform="cpu")
        mlir.register_lowering(primitive, functools.partial(_lowered, verb, rule), platform="cpu")
    return True


def _target(verb):
    return f"swmodel_{verb}_numbered"


def _pointer(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return get(capsule, b"xla._CUSTOM_CALL_TARGET")


def _lowered(verb, rule, context, *operands, **parameters):
    """The lowering of mpi4jax's rule, with numbers in place of handles."""
    results = rule(context, *operands, **parameters)
    call = getattr(results[0], "owner", None)
    attributes = getattr(call, "attributes", None)
    if attributes is None or "call_target_name" not in attributes:
        return results  # no message
    configs = [name for name in ("mhlo.backend_config", "backend_config") if name in attributes]
    config = next(name for name in configs if isinstance(attributes[name], mlir.ir.DictAttr))
    values = {entry.name: entry.attr for entry in attributes[config]}
    numbers = {name: _numbers.get(values[name].value) for name in HANDLES if name in values}
    numbers |= {name: _ranks.get((numbers["comm"], values[name].value)) for name in ENDS if name in values}
    if None in numbers.values():
        return results
    integer = mlir.ir.IntegerType.get_signless(64)
    values |= {name: mlir.ir.IntegerAttr.get(integer, number) for name, number in numbers.items()}
    attributes[config] = mlir.ir.DictAttr.get(values)
    attributes["call_target_name"] = mlir.ir.StringAttr.get(_target(verb))
    return results
