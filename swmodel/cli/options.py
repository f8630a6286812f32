"""Options and arguments that several commands have, and what they change in an experiment."""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import typer

from ..errors import ConfigError
from ..runtime.paths import expanded

if TYPE_CHECKING:
    from ..performance.prediction import Machine


def path_of(value: Any) -> Any:
    """The path, or list of paths, that an option or argument names, with `~` expanded; None for None.

    The shell expands it at the beginning of a word only, and so not in --output=~/a.
    """
    if isinstance(value, (list, tuple)):
        return [str(expanded(each)) for each in value]
    return None if value is None else str(expanded(value))


def input_path(metavar: str, help: str) -> Any:
    """An argument that names a file or folder to read."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, callback=path_of)


def path_option(metavar: str, help: str, *names: str) -> Any:
    """An option that names a file or folder; that of its parameter unless `names` has others."""
    return typer.Option(*names, metavar=metavar, help=help, callback=path_of)


def output_path(metavar: str, help: str) -> Any:
    """The option --output or -o."""
    return path_option(metavar, help, "--output", "-o")


EXIT_CODES = (
    "Exit codes: 0 all went well; 1 an error; 2 a mistake in the command or the experiment file; 3 the run blew up; "
    "130 and 143 stopped by SIGINT or SIGTERM, a run after it has written a restart if it had computed a step."
)

File = Annotated[str, input_path("FILE.toml", "An experiment file.")]
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
LayoutOption = Annotated[
    str | None, typer.Option(metavar="PYxPX", help="Tiles along y and x, as 2x3; their product is the number of ranks.")
]
Folder = Annotated[str | None, output_path("DIR", "Folder to write to.")]
Plot = Annotated[bool, typer.Option("--plot", help="Draw a figure of the output at the end.")]
Observations = Annotated[
    str | None, path_option("DIR", "Folder of NAME.csv or NAME.nc (time_s, elevation_m) with observed gauge records.")
]
ProfileFolder = Annotated[
    str | None, path_option("DIR", "Trace the run and its memory into DIR, and print how to open it.", "--profile")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where errors come from; write a log per rank.")]


OutputOfRun = Annotated[list[str], input_path("DIR|FILE...", "The output of one run.")]
Member = Annotated[int, typer.Option(min=0, metavar="K", help="Number of a member of an ensemble, from 0.")]
MemberOrAll = Annotated[
    int | None,
    typer.Option(min=0, metavar="K", help="Number of a member, from 0; without it, mean and spread of an ensemble."),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computing:
    """The options of all commands that compute; None where one is not given."""

    plot: ClassVar[bool] = False  # some draw, and one makes a trace
    profile: ClassVar[str | None] = None
    communicator: CommunicatorKind = None
    layout: LayoutOption = None
    devices: Devices = None
    coordinator: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="With sharded over several processes: where they meet, at the first one."
        ),
    ] = None
    num_processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many processes; srun's number without it.")
    ] = None
    process_id: Annotated[
        int | None, typer.Option(min=0, metavar="K", help="Which of them this is, from 0; srun's without it.")
    ] = None
    output: Folder = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of an earlier run.")] = False
    debug: Debug = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")] = False

    @property
    def hosts(self) -> tuple[str | None, int | None, int | None]:
        """(coordinator, number of processes, number of this process)."""
        return self.coordinator, self.num_processes, self.process_id


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run(Computing):
    """The options of a run."""

    profile: ProfileFolder = None
    plot: Plot = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resumed(Computing):
    """The options of a run that continues."""

    experiment: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.toml",
            help="Continue with this experiment file instead of the experiment in the "
            "restart; its physics and grid are compared.",
        ),
    ] = None
    force: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="What may differ from the run that wrote the restart: all, or some of "
            "coast, depth, precision, physics and the names in the message, with commas between. "
            "What --set changes may differ anyway.",
        ),
    ] = ""
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace records that are later than the restart, and the restart of another run."
        ),
    ] = False
    plot: Plot = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sensitivity(Computing):
    """The options of `swmodel adjoint`."""

    verify: Annotated[
        bool, typer.Option("--verify", help="Test the derivatives, in float64; the exit code is 0 if they are right.")
    ] = False
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Steps to differentiate, instead of the file's. For --verify, the default is "
            "200 or more, enough for a gravity wave to cross the domain.",
        ),
    ] = None
    until: Until = None
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Try each map out: perturb the nonlinear model with its pattern.")
    ] = True
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random directions of --verify.")] = 0
    plot: Plot = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inverted(Computing):
    """The options of `swmodel invert`."""

    withhold: Annotated[
        bool | None,
        typer.Option(
            "--withhold/--no-withhold", help="Leave out one gauge after the other, and predict it from the others."
        ),
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the inversion's restart file.")] = False
    force: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="What may differ from the inversion that wrote the restart: all, or some "
            "of the names in the message, with commas between. What --set changes may differ anyway.",
        ),
    ] = ""
    plot: Plot = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Green(Computing):
    """The options of `swmodel green`."""

    resume: Annotated[bool, typer.Option("--resume", help="Compute the responses that the file lacks.")] = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forecast:
    """The options of `swmodel forecast`."""

    observations: Observations = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Use no samples after this time.")] = None
    begin: Annotated[str, typer.Option(metavar="TIME", help="Use no samples before, such as seismic waves.")] = "0"
    start: Annotated[
        str | None, typer.Option(metavar="DATE", help="Moment of the earthquake, in UTC; run.start unless given.")
    ] = None
    point: Annotated[list[str] | None, typer.Option(help="A point of the bank; may be repeated.")] = None
    without: Annotated[list[str] | None, typer.Option(help="A gauge with a bad record; may be repeated.")] = None
    threshold: Annotated[str, typer.Option(metavar="LEVEL", help="Level at which a wave arrives.")] = "0.1 m"
    rises: Annotated[bool, typer.Option("--rises", help="Sources rise only: amplitudes are positive.")] = False
    epicentre: Annotated[str | None, typer.Option(metavar="X,Y", help="Where a rupture began.")] = None
    velocity: Annotated[
        str | None, typer.Option(metavar="SPEED", help="Of the rupture, as '2.5 km/s'; all at once unless given.")
    ] = None
    rise_time: Annotated[str, typer.Option(metavar="TIME", help="In which each source rises.")] = "0"
    follow: Annotated[bool, typer.Option("--follow", help="Forecast again when a record grows.")] = False
    output: Annotated[str, output_path("FILE", "netCDF file to write.")] = "forecast.nc"
    plot: Plot = False
    page: Annotated[bool, typer.Option("--page", help="Write a page with a slider over the minutes.")] = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hazard:
    """The options of `swmodel hazard`."""

    rate: Annotated[float | None, typer.Option(metavar="PER_YEAR", help="Earthquakes of the law or the list.")] = None
    magnitudes: Annotated[str | None, typer.Option(metavar="LOW,HIGH", help="Limits; 7.5,9 unless given.")] = None
    b: Annotated[float | None, typer.Option(help="Slope of the law of Gutenberg & Richter; 1 unless given.")] = None
    earthquakes: Annotated[str | None, path_option("TABLE", "List in place of the law, with rates.")] = None
    top_depth: Annotated[str | None, typer.Option(metavar="LOW,HIGH", help="As '0 km,15 km': random top.")] = None
    count: Annotated[int, typer.Option(min=10, help="Number of random scenarios.")] = 10_000
    seed: Annotated[int, typer.Option(min=0, help="Seed of the scenarios.")] = 0
    output: Annotated[str, output_path("FILE", "netCDF file to write.")] = "hazard.nc"
    plot: Plot = False
    page: Annotated[bool, typer.Option("--page", help="Write a page with a slider over return periods.")] = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """The options of `swmodel bench`."""

    size: Annotated[str, typer.Option(metavar="NXxNY", help="Cells of the basin.")] = "3600x1800"
    stepper: Annotated[str, typer.Option(help="ab2, ab3, ssprk3, rk4 or forward_backward, for the basin.")] = "ab2"
    precision: Annotated[str, typer.Option(help="float32 or float64, for the basin.")] = "float32"
    steps: Annotated[int | None, typer.Option(min=1, help="Steps in a timing; enough for a second without it.")] = None
    repeats: Annotated[int, typer.Option(min=1, help="Number of timings, whose median is printed.")] = 5
    communicator: CommunicatorKind = None
    layout: LayoutOption = None
    devices: Devices = None
    network: Annotated[bool, typer.Option("--network", help="Time messages between ranks only.")] = False
    save: Annotated[
        str | None, path_option("FILE", "Save the measurements for predictions; they are added to an existing file.")
    ] = None
    profile: ProfileFolder = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speed:
    """The options that describe a machine: a file of `swmodel bench --save`, and its network."""

    machine: Annotated[
        str | None, path_option("FILE", "A file of `swmodel bench --save`; this machine is measured without it.")
    ] = None
    latency: Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Latency of the network.")] = None
    bandwidth: Annotated[float | None, typer.Option(metavar="BYTES_PER_S", help="Bandwidth of the network.")] = None
    per_machine: Annotated[
        int | None, typer.Option(min=1, metavar="RANKS", help="Ranks on each machine; one a core without it.")
    ] = None

    def read(self) -> "Machine":
        """The Machine that the options describe, with the cores of this process where no file has others."""
        from ..performance.prediction import Link, Machine
        from ..runtime.launchers import threads_per_rank

        known = Machine() if self.machine is None else Machine.load(self.machine)
        known = known if known.cores else known.merge(Machine(cores=threads_per_rank()))
        if self.latency is None and self.bandwidth is None:
            return known
        if self.latency is None or self.bandwidth is None:
            raise ConfigError("--latency and --bandwidth belong together; give both, or neither.")
        return known.merge(Machine(network=Link(self.latency, self.bandwidth)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Page:
    """The options of the page of a run."""

    member: Member = 0
    output: Annotated[str | None, output_path("FILE.html", "Page to write.")] = None
    observations: Observations = None
    variable: Annotated[
        list[str] | None, typer.Option("--variable", help="What the maps show, as eta; may be repeated.")
    ] = None


def command(app: typer.Typer, *lines: str) -> Callable[[Callable], Callable]:
    """Add a command to `app`, whose help ends with these `lines` of examples.

    Its options are the parameters of the function, the fields of the parameter `given`, a dataclass, where it has one,
    and --debug. Those of a derived dataclass come before those of its base.
    """
    epilog = "\n\n".join(["Examples:", "\b\n" + "\n".join(f"  {line}" for line in lines), EXIT_CODES])

    def add(function):
        own = inspect.signature(function)
        group = own.parameters["given"].annotation if "given" in own.parameters else None
        more = _parameters_of(group)
        names = [parameter.name for parameter in more]

        def called(**arguments: Any) -> None:
            of_group = {name: arguments.pop(name) for name in names}
            if group is not None:
                arguments["given"] = group(**of_group)
            arguments.pop("debug", None)  # __main__.py reads it
            function(**arguments)

        functools.update_wrapper(called, function)
        parameters = [parameter for name, parameter in own.parameters.items() if name != "given"] + more
        if "debug" not in names:
            parameters.append(_option("debug", False, Debug))
        called.__signature__ = own.replace(parameters=parameters)
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return app.command(epilog=epilog)(called)

    return add


def _parameters_of(group):
    """The fields of a dataclass as parameters of a command; none of None."""
    if group is None:
        return []
    kinds, fields = get_type_hints(group, include_extras=True), {one.name: one for one in dataclasses.fields(group)}
    names = dict.fromkeys(
        name for cls in group.__mro__ for name in vars(cls).get("__annotations__", ()) if name in fields
    )
    return [_option(name, fields[name].default, kinds[name]) for name in names]


def _option(name, default, annotation):
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def overrides_of(
    given: Any, texts: Sequence[str] | None, members: Sequence[str] | None = None, **options: Any
) -> list[Any]:
    """The `--set` texts, and an Override for each option that stands for a key, for `config.read`.

    Args:
        given: the options of a command, of which those of Computing that stand for keys are taken; None for none.
        texts: the values of `--set`.
        members: the values of `--members`.
        options: {name: value or None} of further options that stand for keys.
    """
    from ..config import Override

    keys = {
        "until": ("run", "until"),
        "communicator": ("run", "communicator"),
        "layout": ("run", "layout"),
        "devices": ("run", "devices"),
        "observations": ("output", "gauges", "observations"),
    }
    if given is not None:
        options |= {name: getattr(given, name) for name in ("communicator", "layout", "devices")}
    if options.get("observations") is not None:  # paths of options are relative to the present folder
        options["observations"] = os.path.abspath(os.path.expanduser(options["observations"]))
    changes = [(f"--{name} {value}", keys[name], value) for name, value in options.items() if value is not None]
    if members:
        from ..config.nests import members_option

        changes += [(f"--members {text}", *members_option(text)) for text in members]
    return [*(texts or []), *(Override(option, path, value) for option, path, value in changes)]
