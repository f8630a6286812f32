"""The command line: commands, each in its own module, which call `config` and `Simulation`.

commands.py  the commands: their options and their help
options.py   options that several commands have
"""

import functools
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, cast

import typer

from ..errors import EXIT_CONFIG, EXIT_ERROR, EXIT_OK
from ..runtime import launch
from ..runtime.devices import leave
from ..runtime.signals import PROCESS
from .commands import app
from .logs import fail, protect_streams

__all__ = ["app", "main"]

INTERRUPTED = 128 + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The program `swmodel`. It ends with an exit code of `errors`, or 128 + a signal's number."""
    PROCESS.start()
    protect_streams()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    started = launch.launcher()
    PROCESS.rank = 0 if started is None else started.rank
    PROCESS.again = functools.partial(_again, arguments, started)
    try:
        code = _run(arguments, PROCESS.rank == 0)
        sys.stdout.flush()
    finally:
        PROCESS.stop()
    if code:
        leave(code)
    sys.exit(code)


def _again(arguments: Sequence[str], started: launch.Launcher | None, overwrite: bool = False) -> str:
    """The command line that started this process, to be copied; with --overwrite if `overwrite`."""
    more = ["--overwrite"] if overwrite and "--overwrite" not in arguments else []
    starter = []
    if started is not None and started.size > 1:
        starter = ["srun" if "srun" in started.name else "mpirun", "-n", str(started.size)]
    return shlex.join([*starter, "swmodel", *arguments, *more])


# Some releases of typer bring their own copy of click. Its errors are therefore found as base classes of typer's.
_UsageError, _ClickError = cast("tuple[type[Exception], type[Exception]]", typer.BadParameter.__mro__[1:3])


def _run(arguments, root):
    if not root:
        sys.stdout = open(os.devnull, "w")
    try:
        code = typer.main.get_command(app)(arguments, prog_name="swmodel", standalone_mode=False) or EXIT_OK
        return _end_at_once(root) if code == INTERRUPTED else code  # typer's code for KeyboardInterrupt
    except _ClickError as error:
        message = cast(Any, error).format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
        elif root:
            command = getattr(getattr(error, "ctx", None), "command_path", "swmodel")
            print(f"error: {message} (see {command} --help)", file=sys.stderr)
        return EXIT_CONFIG if isinstance(error, _UsageError) else EXIT_ERROR
    except (typer.Abort, KeyboardInterrupt):
        return _end_at_once(root)
    except Exception as error:
        return fail(error, "--debug" in arguments)


def _end_at_once(root):
    """End after SIGINT, without Python's exit handlers: compiled programs may still be running."""
    if root:
        print("stopped by SIGINT.", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)
