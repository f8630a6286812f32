"""The command line: a thin shell over `config`, `build` and `Simulation`. Each command is in a module of its own."""

import functools
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, cast

import typer

from ..errors import EXIT_CONFIG, EXIT_ERROR, EXIT_OK
from ..runtime import launch
from ..runtime.devices import leave
from ..runtime.paths import expanded
from ..runtime.signals import PROCESS
from ..runtime.version import VERSION
from .streams import protect_streams

__all__ = ["app", "main"]

EXIT_CODES = (
    "Exit codes: 0 all went well; 1 an error; 2 a mistake in the command or the experiment file; 3 the run blew up; "
    "130 and 143 stopped by SIGINT or SIGTERM, a run after it has written a restart if it had computed a step."
)

INTERRUPTED = 128 + signal.SIGINT

app = typer.Typer(
    name="swmodel",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EXIT_CODES,
    help="A differentiable shallow-water ocean model on one core, one GPU, or a cluster of them.\n\n"
    "Start with [bold]swmodel new[/bold], which lists the experiments that come with it.",
)


def _examples(*lines):
    """The end of a command's help: examples one below the other, then the exit codes."""
    return "\n\n".join(["Examples:", *lines, EXIT_CODES])


def _print_version(wanted):
    if wanted:
        typer.echo(f"swmodel {VERSION}")
        raise typer.Exit


@app.callback()
def _swmodel(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _path(value):
    """The path that an option or argument names, with `~` expanded; the shell does not see one in --output=~/a."""
    if isinstance(value, (list, tuple)):
        return [str(expanded(each)) for each in value]
    return None if value is None else str(expanded(value))


File = Annotated[
    str, typer.Argument(metavar="FILE.toml", help="An experiment file.", show_default=False, callback=_path)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file, as stepper.dt=300; may be repeated."),
]
Members = Annotated[
    list[str] | None,
    typer.Option(
        "--members", metavar="KEY=VALUES",
        help="Run an ensemble: a value for each member, as initial.amplitude=0.5,1,2; may be repeated. "
        "Or their number.",
    ),
]  # fmt: skip
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
NumProcesses = Annotated[int | None, typer.Option(min=1, metavar="N", help="How many processes; srun tells.")]
ProcessId = Annotated[int | None, typer.Option(min=0, metavar="K", help="Which of them this is, from 0; srun tells.")]
LayoutOption = Annotated[
    str | None,
    typer.Option(metavar="PYxPX", help="Tiles along y and x, as 2x3; their product is the number of ranks."),
]
Folder = Annotated[
    str | None, typer.Option("--output", "-o", metavar="DIR", help="Folder to write to.", callback=_path)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files of an earlier run.")]
Plot = Annotated[bool, typer.Option("--plot", help="Draw a figure of the output at the end.")]
Observations = Annotated[
    str | None,
    typer.Option(
        metavar="DIR", help="Folder of NAME.csv (time_s, elevation_m) with observed gauge records.", callback=_path
    ),
]
ProfileFolder = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="DIR",
        help="Trace the run and its memory into DIR, and say how to open it.",
        callback=_path,
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where errors come from; write a log per rank.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]


@app.command(
    epilog=_examples(
        "swmodel new", "swmodel new tohoku_2011", "swmodel new double_gyre my_gyre",
    )
)  # fmt: skip
def new(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="An experiment; without it they are listed.")
    ] = None,
    folder: Annotated[
        str | None, typer.Argument(
            metavar="[DIR]", help="Where to put it; a folder of its name if left out.", callback=_path
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:  # fmt: skip
    """Copy a commented experiment, its data included, to start from."""
    from .library import copy_experiment

    copy_experiment(name, folder, force)


@app.command(
    epilog=_examples(
        "swmodel check tohoku.toml", "swmodel check tohoku.toml --ranks 4", "swmodel check gyre.toml --set grid.nx=512",
        "swmodel check tohoku.toml --ranks 64 --latency 2e-6 --bandwidth 2e10",
    )
)  # fmt: skip
def check(
    file: File,
    set: Set = None,
    members: Members = None,
    ranks: Annotated[
        int | None, typer.Option(min=1, help="Number of ranks to plan for; with it, the time of a step is foretold.")
    ] = None,
    layout: LayoutOption = None,
    until: Until = None,
    machine: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What `swmodel bench --save` kept; else measured here.", callback=_path),
    ] = None,
    latency: Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Of the network.")] = None,
    bandwidth: Annotated[float | None, typer.Option(metavar="BYTES_PER_S", help="Of the network.")] = None,
    per_machine: Annotated[
        int | None, typer.Option(min=1, metavar="RANKS", help="Ranks on each machine; one a core without it.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Say what a run would do (tiles, limits of the time step, memory, speed, output), or every mistake at once."""
    from .checks import check_experiment
    from .speed import Speed

    asked = any(option is not None for option in (ranks, machine, latency, bandwidth, per_machine))
    speed = Speed(machine, latency, bandwidth, per_machine) if asked else None
    check_experiment(file, _overrides(set, members, until=until, layout=layout), ranks or 1, speed)


@app.command(
    epilog=_examples(
        "swmodel explain tohoku.toml",
        "swmodel explain gyre.toml --set stepper.type=rk4 --graph",
        "swmodel explain gyre.toml --source loops --bandwidth 2e10",
    )
)
def explain(
    file: File,
    set: Set = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write the commented C++ source of each loop to DIR.", callback=_path),
    ] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Print the operations of each loop, with their lines of Python.")
    ] = False,
    bandwidth: Annotated[
        float | None, typer.Option(metavar="BYTES_PER_S", help="Of the memory; measured without it.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Say what a step is made of: its fused loops, what each reads, writes and costs, or why it runs on arrays."""
    from .explain import Options, explain_experiment

    explain_experiment(file, _overrides(set), Options(source, graph, bandwidth))


@app.command(
    epilog=_examples(
        "swmodel run tohoku.toml --plot",
        "mpirun -n 4 swmodel run double_gyre.toml --set stepper.dt=300 --until 1year",
        "mpirun -n 2 swmodel run tohoku.toml -o output/a --plot --observations records",
        "swmodel run tohoku.toml --communicator sharded --devices 4",
        "swmodel run double_gyre.toml --members dissipation.0.viscosity=300,400,600",
    )
)
def run(
    file: File,
    set: Set = None,
    members: Members = None,
    until: Until = None,
    communicator: CommunicatorKind = None,
    layout: LayoutOption = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    output: Folder = None,
    overwrite: Overwrite = False,
    plot: Plot = False,
    observations: Observations = None,
    profile: ProfileFolder = None,
    debug: Debug = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment on one rank, under mpirun or srun on many, or (sharded) on all devices of a process."""
    from .runs import Options, run_experiment

    overrides = _overrides(
        set, members, until=until, communicator=communicator, layout=layout, devices=devices, observations=observations
    )
    hosts = coordinator, num_processes, process_id
    run_experiment(file, overrides, Options(output, overwrite, plot, debug, quiet, hosts, profile))


@app.command(
    epilog=_examples(
        "swmodel resume output/restart.nc --until '6 hour'",
        "mpirun -n 4 swmodel resume gyre.restart.nc --until 2years",
        "swmodel resume output/restart.nc --until 2day --set dissipation.0.viscosity=500",
        "swmodel resume output/restart.nc --until 2day --experiment tohoku.toml --force depth",
    )
)  # fmt: skip
def resume(
    restart: Annotated[
        str, typer.Argument(metavar="RESTART.nc", help="A restart file.", show_default=False, callback=_path)
    ],
    until: Until = None,
    set: Set = None,
    communicator: CommunicatorKind = None,
    layout: LayoutOption = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    output: Folder = None,
    plot: Plot = False,
    observations: Observations = None,
    experiment: Annotated[
        str | None,
        typer.Option(metavar="FILE.toml", help="Go on with this file, in place of the experiment that the restart "
                     "holds; what may not differ is compared."),
    ] = None,
    force: Annotated[
        str,
        typer.Option(metavar="NAMES", help="What may differ from the run that wrote the restart: all, or some of "
                     "coast, depth, precision, physics and the names in the message, with commas between. "
                     "What --set changes may differ anyway."),
    ] = "",
    debug: Debug = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Go on from a restart file, on any number of ranks or devices; the output files are continued."""
    from .runs import Options, resume_experiment

    overrides = _overrides(
        set, until=until, communicator=communicator, layout=layout, devices=devices, observations=observations
    )
    hosts = coordinator, num_processes, process_id
    asked = Options(output, False, plot, debug, quiet, hosts, force=force, experiment=experiment)
    resume_experiment(restart, overrides, asked)


@app.command(
    epilog=_examples(
        "swmodel adjoint sensitivity.toml --plot",
        "mpirun -n 4 swmodel adjoint double_gyre.toml --verify",
        "swmodel adjoint sensitivity.toml --set adjoint.cost.gauges=21401 -o output/a",
        'swmodel adjoint gyre.toml --verify --steps 200 --set \'adjoint.controls=["depth", "forcing.0.x"]\'',
    )
)
def adjoint(
    file: File,
    verify: Annotated[
        bool, typer.Option("--verify", help="Test the derivatives, in float64; the exit code is 0 if they are right.")
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Steps to differentiate, in place of the file's; to verify, in place of "
                     "200 or a gravity wave's way across the domain."),
    ] = None,
    set: Set = None,
    until: Until = None,
    communicator: CommunicatorKind = None,
    layout: LayoutOption = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    output: Folder = None,
    overwrite: Overwrite = False,
    plot: Plot = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Try each map out: perturb the nonlinear model with its pattern.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of the random directions of --verify.")] = 0,
    debug: Debug = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Compute what a number of the run depends on: maps of the sensitivity to each control that the file names."""
    from .adjoint import Options, adjoint_experiment

    overrides = _overrides(set, communicator=communicator, layout=layout, devices=devices)
    hosts = coordinator, num_processes, process_id
    asked = Options(verify, steps, until, output, overwrite, plot, check, seed, debug, quiet, hosts)
    adjoint_experiment(file, overrides, asked)


@app.command(
    epilog=_examples(
        "swmodel invert inversion.toml --observations records --plot",
        "mpirun -n 2 swmodel invert inversion.toml --observations records --withhold",
        "swmodel invert double_gyre_twin.toml --set inversion.method=descent",
        "swmodel invert double_gyre_twin.toml --resume",
    )
)  # fmt: skip
def invert(
    file: File,
    set: Set = None,
    observations: Observations = None,
    withhold: Annotated[
        bool | None,
        typer.Option(
            "--withhold/--no-withhold", help="Leave one gauge out after the other: do the others foretell it?"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the inversion's restart file.")] = False,
    force: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="What may differ from the inversion that wrote the restart: all, or some "
            "of the names in the message, with commas between. What --set changes may differ anyway.",
        ),
    ] = "",
    communicator: CommunicatorKind = None,
    layout: LayoutOption = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    output: Folder = None,
    overwrite: Overwrite = False,
    plot: Plot = False,
    debug: Debug = False,
    quiet: Quiet = False,
) -> None:
    """Find the sources, states or parameters with which the run comes closest to observations."""
    from .invert import Options, invert_experiment

    overrides = _overrides(set, communicator=communicator, layout=layout, devices=devices, observations=observations)
    hosts = coordinator, num_processes, process_id
    invert_experiment(file, overrides, Options(output, overwrite, resume, force, withhold, plot, debug, quiet, hosts))


@app.command(
    epilog=_examples(
        "swmodel bench",
        "mpirun -n 2 swmodel bench --size 512x512",
        "swmodel bench tohoku.toml --save machine.json",
        "srun -N 2 -n 2 swmodel bench --network --save machine.json",
    )
)
def bench(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE.toml]", help="An experiment to time; a closed basin without it.", callback=_path),
    ] = None,
    set: Set = None,
    size: Annotated[str, typer.Option(metavar="NXxNY", help="Cells of the basin.")] = "3600x1800",
    stepper: Annotated[str, typer.Option(help="ab2, ab3, ssprk3, rk4 or forward_backward, for the basin.")] = "ab2",
    precision: Annotated[str, typer.Option(help="float32 or float64, for the basin.")] = "float32",
    steps: Annotated[int | None, typer.Option(min=1, help="Steps in a timing; enough for a second without it.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timings, of which the median counts.")] = 5,
    communicator: CommunicatorKind = None,
    layout: LayoutOption = None,
    devices: Devices = None,
    network: Annotated[bool, typer.Option("--network", help="Time messages between ranks, nothing else.")] = False,
    save: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Keep what a prediction needs; a file there is completed.", callback=_path),
    ] = None,
    profile: ProfileFolder = None,
    debug: Debug = False,
) -> None:
    """Time a step: cells a second, share of the memory's bandwidth, messages, memory, compilation; or the network."""
    from .bench import Options, time_steps

    where = communicator, layout, devices
    asked = Options(size, stepper, precision, steps, repeats, *where, network, save, profile)
    time_steps(file, _overrides(set), asked)


@app.command(epilog=_examples("swmodel doctor"))
def doctor() -> None:
    """Print versions, the MPI that each part uses, devices and binding, and make one exchange on 2 ranks."""
    from . import installation

    raise typer.Exit(installation.run())


@app.command(
    epilog=_examples(
        "swmodel plot output/*.nc",
        "swmodel plot fields.nc maxima.nc gauges.nc --observations records -o tsunami.png",
        "swmodel plot fields.nc --kind animation --variable eta",
        "swmodel plot fields.nc --box 2e5 8e5 2e5 8e5",
    )
)
def plot(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Output files of one run.", show_default=False, callback=_path),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Figure to write; its suffix chooses the format.", callback=_path
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="auto, tsunami, maps, maximum, gauges, circulation, animation, spectrum, budgets, sensitivity, "
            "inversion."
        ),
    ] = "auto",
    observations: Observations = None,
    variable: Annotated[str | None, typer.Option(help="What maps, animations and spectra show.")] = None,
    time: Annotated[
        list[str] | None, typer.Option(metavar="TIME", help="Time of a map, as '30 min'; may be repeated.")
    ] = None,
    member: Annotated[int, typer.Option(min=0, metavar="K", help="Which one of an ensemble, from 0.")] = 0,
    box: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(metavar="X0 X1 Y0 Y1", help="Draw spectra of this box, in the file's coordinates."),
    ] = None,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Draw output: maps, gauges, circulation, spectra, budgets, animations; chosen by what the files hold."""
    from .figures import plot_files

    plot_files(files, output, kind, observations, variable, time, member, box)


def _overrides(texts, members=None, **options):
    """The `--set` texts, and the options that stand for a key, in the form that `config.read` takes."""
    from ..config import Override
    from ..config.members import members_option

    keys = {
        "until": ("run", "until"), "communicator": ("run", "communicator"), "layout": ("run", "layout"),
        "devices": ("run", "devices"), "observations": ("output", "gauges", "observations"),
    }  # fmt: skip
    if options.get("observations") is not None:  # options count from here, keys of the file from its folder
        options["observations"] = os.path.abspath(os.path.expanduser(options["observations"]))
    given = [(f"--{name} {value}", keys[name], value) for name, value in options.items() if value is not None]
    given += [(f"--members {text}", *members_option(text)) for text in members or []]
    return [*(texts or []), *(Override(option, path, value) for option, path, value in given)]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The program `swmodel`; ends with one of the exit codes above."""
    PROCESS.start()
    protect_streams()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    started = launch.launcher()
    PROCESS.rank = 0 if started is None else started.rank
    PROCESS.again = functools.partial(_again, arguments, started)
    try:
        with PROCESS.kept(_nothing_kept):
            code = _run(arguments, PROCESS.rank == 0)
        sys.stdout.flush()
    finally:
        PROCESS.stop()
    if code:
        leave(code)
    sys.exit(code)


def _nothing_kept(name):
    return f"{name} stopped the command before it had computed anything. Start again with: {PROCESS.command()}"


def _again(arguments: Sequence[str], started: launch.Launcher | None, overwrite: bool = False) -> str:
    """The command line that started this process, to be copied; with --overwrite, if asked for."""
    more = ["--overwrite"] if overwrite and "--overwrite" not in arguments else []
    starter = []
    if started is not None and started.size > 1:
        starter = ["srun" if "srun" in started.name else "mpirun", "-n", str(started.size)]
    return shlex.join([*starter, "swmodel", *arguments, *more])


# Some releases of typer bring their own copy of click. Its errors are therefore found as base classes of typer's.
_UsageError, _ClickError = cast("tuple[type[Exception], type[Exception]]", typer.BadParameter.__mro__[1:3])


def _run(arguments, root):
    if not root:
        _be_quiet()
    try:
        code = typer.main.get_command(app)(arguments, prog_name="swmodel", standalone_mode=False) or EXIT_OK
        return _end_at_once(root) if code == INTERRUPTED else code  # what typer makes of KeyboardInterrupt
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
        from .failures import fail

        return fail(error, "--debug" in arguments)


def _end_at_once(root):
    """By SIGINT: programs may be running yet, and an orderly exit would take away what they need."""
    if root:
        print("stopped by SIGINT.", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _be_quiet():
    """Let the root alone write to standard output."""
    sys.stdout = open(os.devnull, "w")
