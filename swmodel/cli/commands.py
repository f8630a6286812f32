"""The commands of `swmodel`; each calls a module of its own, which is imported when the command runs."""

from typing import Annotated

import typer

from ..runtime.version import VERSION
from .options import (
    EXIT_CODES,
    Bandwidth,
    CommunicatorKind,
    Coordinator,
    Debug,
    Devices,
    File,
    Folder,
    Latency,
    LayoutOption,
    MachineFile,
    MayDifferFromInversion,
    MayDifferFromRun,
    Members,
    NumProcesses,
    Observations,
    OtherExperiment,
    Overwrite,
    OverwriteLater,
    Plot,
    ProcessId,
    ProfileFolder,
    Quiet,
    RanksPerMachine,
    SaveTo,
    Set,
    Steps,
    Until,
    Withhold,
    examples,
    overrides_of,
    path_of,
)

__all__ = ["app"]

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


@app.command(
    epilog=examples(
        "swmodel new",
        "swmodel new tohoku_2011",
        "swmodel new double_gyre my_gyre",
    )
)
def new(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="An experiment; without it they are listed.")
    ] = None,
    folder: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="Where to put it; a folder of its name if left out.", callback=path_of),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Copy a commented experiment, its data included, to start from."""
    from .library import copy_experiment

    copy_experiment(name, folder, force)


@app.command(
    epilog=examples(
        "swmodel check tohoku.toml",
        "swmodel check tohoku.toml --ranks 4",
        "swmodel check gyre.toml --set grid.nx=512",
        "swmodel check tohoku.toml --ranks 64 --latency 2e-6 --bandwidth 2e10",
    )
)
def check(
    file: File,
    set: Set = None,
    members: Members = None,
    ranks: Annotated[
        int | None, typer.Option(min=1, help="Number of ranks to plan for; with it, the time of a step is predicted.")
    ] = None,
    layout: LayoutOption = None,
    until: Until = None,
    machine: MachineFile = None,
    latency: Latency = None,
    bandwidth: Bandwidth = None,
    per_machine: RanksPerMachine = None,
    debug: Debug = False,
) -> None:
    """Describe a run (tiles, limits of the time step, memory, speed, output), or list every mistake of its file."""
    from .checks import check_experiment
    from .speed import Speed

    predicts = any(option is not None for option in (ranks, machine, latency, bandwidth, per_machine))
    speed = Speed(machine, latency, bandwidth, per_machine) if predicts else None
    check_experiment(file, overrides_of(set, members, until=until, layout=layout), ranks or 1, speed)


@app.command(
    epilog=examples(
        "swmodel plan tohoku.toml",
        "swmodel plan tohoku.toml --ranks 1,16,256 --gradient",
        "swmodel plan gyre.toml --set stepper.type=semi_implicit --machine node.json",
        "swmodel plan globe.toml --ranks 1024,4096,10000 --latency 2e-6 --bandwidth 2e10 --machine node.json",
    )
)
def plan(
    file: File,
    set: Set = None,
    until: Until = None,
    ranks: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Numbers of ranks; from 1 to 10,000 without it, as far as tiles allow."),
    ] = None,
    gradient: Annotated[
        bool | None,
        typer.Option("--gradient/--no-gradient", help="Plan the gradient, too; by default if the file has an adjoint."),
    ] = None,
    machine: MachineFile = None,
    latency: Latency = None,
    bandwidth: Bandwidth = None,
    per_machine: RanksPerMachine = None,
    debug: Debug = False,
) -> None:
    """Tabulate time, memory, messages and files of a run, and of its gradient, on 1 to 10,000 ranks."""
    from .planning import plan_experiment
    from .speed import Speed

    speed = Speed(machine, latency, bandwidth, per_machine)
    plan_experiment(file, overrides_of(set, until=until), ranks, speed, gradient)


@app.command(
    epilog=examples(
        "swmodel explain tohoku.toml",
        "swmodel explain gyre.toml --set stepper.type=rk4 --graph",
        "swmodel explain gyre.toml --source loops --bandwidth 2e10",
        "swmodel explain gyre.toml --adjoint",
    )
)
def explain(
    file: File,
    set: Set = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write the commented C++ source of each loop to DIR.", callback=path_of),
    ] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Print the operations of each loop, with their lines of Python.")
    ] = False,
    bandwidth: Annotated[
        float | None, typer.Option(metavar="BYTES_PER_S", help="Bandwidth of the memory; measured without it.")
    ] = None,
    adjoint: Annotated[bool, typer.Option("--adjoint", help="List the loops of the step's adjoint, too.")] = False,
    debug: Debug = False,
) -> None:
    """List the fused loops of a step with their inputs, outputs and costs, or explain why it runs on arrays."""
    from .explain import Options, explain_experiment

    explain_experiment(file, overrides_of(set), Options(source, graph, bandwidth, adjoint))


@app.command(
    epilog=examples(
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

    overrides = overrides_of(
        set, members, until=until, communicator=communicator, layout=layout, devices=devices, observations=observations
    )
    hosts = coordinator, num_processes, process_id
    run_experiment(file, overrides, Options(output, overwrite, plot, debug, quiet, hosts, profile))


@app.command(
    epilog=examples(
        "swmodel resume output/restart.nc --until '6 hour'",
        "mpirun -n 4 swmodel resume gyre.restart.nc --until 2years",
        "swmodel resume output/restart.nc --until 2day --set dissipation.0.viscosity=500 --output output/branch",
        "swmodel resume output/restart.nc --until 2day --experiment tohoku.toml --force depth",
    )
)
def resume(
    restart: Annotated[
        str, typer.Argument(metavar="RESTART.nc", help="A restart file.", show_default=False, callback=path_of)
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
    overwrite: OverwriteLater = False,
    plot: Plot = False,
    observations: Observations = None,
    experiment: OtherExperiment = None,
    force: MayDifferFromRun = "",
    debug: Debug = False,
    quiet: Quiet = False,
) -> None:
    """Continue from a restart, on any number of ranks or devices: in its folder, or in that of --output or --set."""
    from .runs import Options, resume_experiment

    overrides = overrides_of(
        set, until=until, communicator=communicator, layout=layout, devices=devices, observations=observations
    )
    hosts = coordinator, num_processes, process_id
    options = Options(output, overwrite, plot, debug, quiet, hosts, force=force, experiment=experiment)
    resume_experiment(restart, overrides, options)


@app.command(
    epilog=examples(
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
    steps: Steps = None,
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
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random directions of --verify.")] = 0,
    debug: Debug = False,
    quiet: Quiet = False,
) -> None:
    """Compute the derivatives of a cost of the run: maps of its sensitivity to each control in the file."""
    from .adjoint import Options, adjoint_experiment

    overrides = overrides_of(set, communicator=communicator, layout=layout, devices=devices)
    hosts = coordinator, num_processes, process_id
    options = Options(verify, steps, until, output, overwrite, plot, check, seed, debug, quiet, hosts)
    adjoint_experiment(file, overrides, options)


@app.command(
    epilog=examples(
        "swmodel invert inversion.toml --observations records --plot",
        "mpirun -n 2 swmodel invert inversion.toml --observations records --withhold",
        "swmodel invert double_gyre_twin.toml --set inversion.method=descent",
        "swmodel invert double_gyre_twin.toml --resume",
    )
)
def invert(
    file: File,
    set: Set = None,
    observations: Observations = None,
    withhold: Withhold = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the inversion's restart file.")] = False,
    force: MayDifferFromInversion = "",
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
    """Find the sources, states or parameters with which the run comes closest to observations.

    These are elevations at gauges or along tracks, harmonic constants, velocities and transports, in one table
    inversion.observations or, of several kinds, in several such tables.
    """
    from .invert import Options, invert_experiment

    overrides = overrides_of(set, communicator=communicator, layout=layout, devices=devices, observations=observations)
    hosts = coordinator, num_processes, process_id
    invert_experiment(file, overrides, Options(output, overwrite, resume, force, withhold, plot, debug, quiet, hosts))


@app.command(
    epilog=examples(
        "swmodel bench",
        "mpirun -n 2 swmodel bench --size 512x512",
        "swmodel bench tohoku.toml --save machine.json",
        "srun -N 2 -n 2 swmodel bench --network --save machine.json",
    )
)
def bench(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE.toml]", help="An experiment to time; a closed basin without it.", callback=path_of
        ),
    ] = None,
    set: Set = None,
    size: Annotated[str, typer.Option(metavar="NXxNY", help="Cells of the basin.")] = "3600x1800",
    stepper: Annotated[str, typer.Option(help="ab2, ab3, ssprk3, rk4 or forward_backward, for the basin.")] = "ab2",
    precision: Annotated[str, typer.Option(help="float32 or float64, for the basin.")] = "float32",
    steps: Annotated[int | None, typer.Option(min=1, help="Steps in a timing; enough for a second without it.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Number of timings, whose median is printed.")] = 5,
    communicator: CommunicatorKind = None,
    layout: LayoutOption = None,
    devices: Devices = None,
    network: Annotated[bool, typer.Option("--network", help="Time messages between ranks only.")] = False,
    save: SaveTo = None,
    profile: ProfileFolder = None,
    debug: Debug = False,
) -> None:
    """Time a step: cells a second, share of the memory's bandwidth, messages, memory, compilation; or the network."""
    from .bench import Options, time_steps

    where = communicator, layout, devices
    options = Options(size, stepper, precision, steps, repeats, *where, network, save, profile)
    time_steps(file, overrides_of(set), options)


@app.command(epilog=examples("swmodel doctor"))
def doctor() -> None:
    """Print versions, the MPI that each part uses, devices and binding, and make one exchange on 2 ranks."""
    from . import installation

    raise typer.Exit(installation.run())
