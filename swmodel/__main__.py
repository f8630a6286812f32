"""`swmodel` and `python -m swmodel`. Signal handlers are set first, because importing everything else takes seconds."""

import functools
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .errors import EXIT_CONFIG, EXIT_ERROR, EXIT_OK
from .runtime.signals import PROCESS

if TYPE_CHECKING:
    from .runtime.launchers import Launcher

INTERRUPTED = 128 + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and end the process with an exit code of `errors`, or 128 + a signal's number."""
    PROCESS.start()
    from .cli.logs import protect_streams
    from .runtime.devices import leave
    from .runtime.launchers import launcher

    protect_streams()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    started = launcher()
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


def _again(arguments: Sequence[str], started: "Launcher | None", overwrite: bool = False) -> str:
    """The command line that started this process, to be copied; with --overwrite if `overwrite`."""
    more = ["--overwrite"] if overwrite and "--overwrite" not in arguments else []
    starter = []
    if started is not None and started.size > 1:
        starter = ["srun" if "srun" in started.name else "mpirun", "-n", str(started.size)]
    return shlex.join([*starter, "swmodel", *arguments, *more])


def _run(arguments, root):
    import typer

    from .cli.commands import app
    from .cli.logs import fail

    # Some releases of typer bring their own copy of click. Its errors are therefore found as base classes of typer's.
    usage_error, click_error = cast("tuple[type[Exception], type[Exception]]", typer.BadParameter.__mro__[1:3])
    if not root:
        sys.stdout = open(os.devnull, "w")  # the root alone writes to standard output
    try:
        code = typer.main.get_command(app)(arguments, prog_name="swmodel", standalone_mode=False) or EXIT_OK
        return _end_at_once(root) if code == INTERRUPTED else code  # typer's code for KeyboardInterrupt
    except click_error as error:
        message = cast(Any, error).format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
        elif root:
            command = getattr(getattr(error, "ctx", None), "command_path", "swmodel")
            print(f"error: {message} (see {command} --help)", file=sys.stderr)
        return EXIT_CONFIG if isinstance(error, usage_error) else EXIT_ERROR
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


if __name__ == "__main__":
    main()
