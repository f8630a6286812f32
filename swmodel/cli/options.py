"""Options and arguments that several commands have, and what they change in an experiment."""

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args

import typer

from ..runtime.paths import expanded


def path_of(value: Any) -> Any:
    """The path, or list of paths, that an option or argument names, with `~` expanded; None for None.

    The shell expands it at the beginning of a word only, and so not in --output=~/a.
    """
    if isinstance(value, (list, tuple)):
        return [str(expanded(each)) for each in value]
    return None if value is None else str(expanded(value))


EXIT_CODES = (
    "Exit codes: 0 all went well; 1 an error; 2 a mistake in the command or the experiment file; 3 the run blew up; "
    "130 and 143 stopped by SIGINT or SIGTERM, a run after it has written a restart if it had computed a step."
)

File = Annotated[
    str, typer.Argument(metavar="FILE.toml", help="An experiment file.", show_default=False, callback=path_of)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file, as stepper.dt=300; may be repeated."),
]
Members = Annotated[
    list[str] | None,
    typer.Option(
        "--members",
        metavar="KEY=VALUES",
        help="Run an ensemble: a value for each member, as initial.amplitude=0.5,1,2; may be repeated. "
        "Or their number.",
    ),
]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Model time at which to end: '3 hour', 1year, seconds.")
]
CommunicatorKind = Annotated[
    str | None, typer.Option("--communicator", metavar="KIND", help="auto, serial, mpi or sharded.")
]
Devices = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="With sharded: GPUs (or all), or host devices of a CPU (or one a core)."),
]
Coordinator = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="With sharded over several processes: where they meet, at the first one."),
]
NumProcesses = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="How many processes; srun's number without it.")
]
ProcessId = Annotated[
    int | None, typer.Option(min=0, metavar="K", help="Which of them this is, from 0; srun's without it.")
]
LayoutOption = Annotated[
    str | None,
    typer.Option(metavar="PYxPX", help="Tiles along y and x, as 2x3; their product is the number of ranks."),
]
Folder = Annotated[
    str | None, typer.Option("--output", "-o", metavar="DIR", help="Folder to write to.", callback=path_of)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files of an earlier run.")]
OverwriteLater = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace records that are later than the restart, and the restart of another run."
    ),
]
Plot = Annotated[bool, typer.Option("--plot", help="Draw a figure of the output at the end.")]
Observations = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Folder of NAME.csv or NAME.nc (time_s, elevation_m) with observed gauge records.",
        callback=path_of,
    ),
]
ProfileFolder = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="DIR",
        help="Trace the run and its memory into DIR, and print how to open it.",
        callback=path_of,
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where errors come from; write a log per rank.")]
MachineFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A file of `swmodel bench --save`; this machine is measured without it.",
        callback=path_of,
    ),
]
Latency = Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Latency of the network.")]
Bandwidth = Annotated[float | None, typer.Option(metavar="BYTES_PER_S", help="Bandwidth of the network.")]
RanksPerMachine = Annotated[
    int | None, typer.Option(min=1, metavar="RANKS", help="Ranks on each machine; one a core without it.")
]
OtherExperiment = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.toml",
        help="Continue with this experiment file instead of the experiment in the "
        "restart; its physics and grid are compared.",
    ),
]
MayDifferFromRun = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="What may differ from the run that wrote the restart: all, or some of "
        "coast, depth, precision, physics and the names in the message, with commas between. "
        "What --set changes may differ anyway.",
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Steps to differentiate, instead of the file's. For --verify, the default is "
        "200 or more, enough for a gravity wave to cross the domain.",
    ),
]
MayDifferFromInversion = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="What may differ from the inversion that wrote the restart: all, or some "
        "of the names in the message, with commas between. What --set changes may differ anyway.",
    ),
]
Withhold = Annotated[
    bool | None,
    typer.Option(
        "--withhold/--no-withhold", help="Leave out one gauge after the other, and predict it from the others."
    ),
]
SaveTo = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Save the measurements for predictions; they are added to an existing file.",
        callback=path_of,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]


OutputPage = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE.html", help="Page to write.", callback=path_of)
]
OutputOfRun = Annotated[
    list[str],
    typer.Argument(metavar="DIR|FILE...", help="The output of one run.", show_default=False, callback=path_of),
]
ShownVariables = Annotated[
    list[str] | None, typer.Option("--variable", help="What the maps show, as eta; may be repeated.")
]
Member = Annotated[int, typer.Option(min=0, metavar="K", help="Number of a member of an ensemble, from 0.")]
MemberOrAll = Annotated[
    int | None,
    typer.Option(min=0, metavar="K", help="Number of a member, from 0; without it, mean and spread of an ensemble."),
]


PROCESSES = {
    "communicator": CommunicatorKind,
    "layout": LayoutOption,
    "devices": Devices,
    "coordinator": Coordinator,
    "num_processes": NumProcesses,
    "process_id": ProcessId,
}
MACHINE = {"machine": MachineFile, "latency": Latency, "bandwidth": Bandwidth, "per_machine": RanksPerMachine}
FILES = {"output": Folder, "overwrite": Overwrite, "plot": Plot}
MESSAGES = {"debug": Debug, "quiet": Quiet}
PAGE = {"output": OutputPage, "observations": Observations, "variable": ShownVariables, "debug": Debug}


def taking(*groups: dict[str, Any]) -> Callable[[Callable], Callable]:
    """Give a command the options of `groups`, {name: annotation}; it gets them as further keyword arguments."""

    def decorate(command):
        own, more = inspect.signature(command), {name: kind for group in groups for name, kind in group.items()}
        first = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        defaults = {bool: False}
        further = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(get_args(kind)[0]), annotation=kind
            )
            for name, kind in more.items()
        ]
        command.__signature__ = own.replace(parameters=[*first, *further])
        command.__annotations__ = {name: x for name, x in command.__annotations__.items() if name != "given"} | more
        return command

    return decorate


def examples(*lines: str) -> str:
    """The end of a command's help: examples one below the other, then the exit codes."""
    return "\n\n".join(["Examples:", "\b\n" + "\n".join(f"  {line}" for line in lines), EXIT_CODES])


def overrides_of(
    given: dict[str, Any], texts: Sequence[str] | None, members: Sequence[str] | None = None, **options: Any
) -> list[Any]:
    """The `--set` texts, and an Override for each option that stands for a key, for `config.read`.

    Args:
        given: {name of an option: its value, or None}; those that stand for keys are taken out of it.
        texts: the values of `--set`.
        members: the values of `--members`.
        options: further options, as in `given`.
    """
    from ..config import Override
    from ..config.members import members_option

    keys = {
        "until": ("run", "until"),
        "communicator": ("run", "communicator"),
        "layout": ("run", "layout"),
        "devices": ("run", "devices"),
        "observations": ("output", "gauges", "observations"),
    }
    options |= {name: given.pop(name) for name in keys if name in given}
    if options.get("observations") is not None:  # paths of options are relative to the present folder
        options["observations"] = os.path.abspath(os.path.expanduser(options["observations"]))
    changes = [(f"--{name} {value}", keys[name], value) for name, value in options.items() if value is not None]
    changes += [(f"--members {text}", *members_option(text)) for text in members or []]
    return [*(texts or []), *(Override(option, path, value) for option, path, value in changes)]
