"""The commands of `swmodel`; each calls a module of its own, which is imported when the command runs."""

from typing import Annotated

import typer

from .. import postprocess
from ..output import KINDS
from ..runtime.launch import solve_in_one_thread
from ..runtime.packages import VERSION
from . import files, options
from .files import copy_experiment, open_page, report_files
from .options import command, input_path, output_path, path_option

app = typer.Typer(
    name="swmodel",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=options.EXIT_CODES,
    help="A differentiable shallow-water ocean model on one core, one GPU, or a cluster of them.\n\n"
    "Start with `swmodel new`, which lists the experiments that come with it.",
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


@command(app, "swmodel new", "swmodel new tohoku_2011", "swmodel new double_gyre my_gyre")
def new(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="An experiment; without it they are listed.")
    ] = None,
    folder: Annotated[str | None, input_path("[DIR]", "Where to put it; a folder of its name if left out.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Copy a commented experiment and its data, to start from."""
    copy_experiment(name, folder, force)


@command(
    app,
    "swmodel check tohoku.toml",
    "swmodel check tohoku.toml --ranks 4",
    "swmodel check gyre.toml --set grid.nx=512",
    "swmodel check tohoku.toml --ranks 64 --latency 2e-6 --bandwidth 2e10",
)
def check(
    file: options.File,
    given: options.Speed,
    set: options.Set = None,
    members: options.Members = None,
    ranks: Annotated[
        int | None, typer.Option(min=1, help="Number of ranks to plan for; with it, the time of a step is predicted.")
    ] = None,
    layout: options.LayoutOption = None,
    until: options.Until = None,
) -> None:
    """Describe a run, or list every mistake of its file.

    The description has tiles, limits of the time step, memory, speed and output.
    """
    from .checks import check_experiment

    predicts = ranks is not None or given != options.Speed()
    overrides = options.overrides_of(None, set, members, until=until, layout=layout)
    check_experiment(file, overrides, ranks or 1, given if predicts else None)


@command(
    app,
    "swmodel plan tohoku.toml",
    "swmodel plan tohoku.toml --ranks 1,16,256 --gradient",
    "swmodel plan gyre.toml --set stepper.type=semi_implicit --machine node.json",
    "swmodel plan globe.toml --ranks 1024,4096,10000 --latency 2e-6 --bandwidth 2e10 --machine node.json",
)
def plan(
    file: options.File,
    given: options.Speed,
    set: options.Set = None,
    until: options.Until = None,
    ranks: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Numbers of ranks; from 1 to 10,000 without it, as far as tiles allow."),
    ] = None,
    gradient: Annotated[
        bool | None,
        typer.Option("--gradient/--no-gradient", help="Plan the gradient, too; by default if the file has an adjoint."),
    ] = None,
) -> None:
    """Tabulate time, memory, messages and files on many ranks.

    The time and the memory of a gradient can be added.
    """
    from .planning import plan_experiment

    plan_experiment(file, options.overrides_of(None, set, until=until), ranks, given, gradient)


@command(
    app,
    "swmodel explain tohoku.toml",
    "swmodel explain gyre.toml --set stepper.type=rk4 --graph",
    "swmodel explain gyre.toml --source loops --bandwidth 2e10",
    "swmodel explain gyre.toml --adjoint",
)
def explain(
    file: options.File,
    set: options.Set = None,
    source: Annotated[str | None, path_option("DIR", "Write the commented C++ source of each loop to DIR.")] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Print the operations of each loop, with their lines of Python.")
    ] = False,
    bandwidth: Annotated[
        float | None, typer.Option(metavar="BYTES_PER_S", help="Bandwidth of the memory; measured without it.")
    ] = None,
    adjoint: Annotated[bool, typer.Option("--adjoint", help="List the loops of the step's adjoint, too.")] = False,
) -> None:
    """List the fused loops of a step with their costs.

    Each has its inputs and outputs. For a step that runs on arrays, the reason is printed.
    """
    from .explain import explain_experiment

    explain_experiment(file, options.overrides_of(None, set), source, graph, bandwidth, adjoint)


@command(
    app,
    "swmodel run tohoku.toml --plot",
    "mpirun -n 4 swmodel run double_gyre.toml --set stepper.dt=300 --until 1year",
    "mpirun -n 2 swmodel run tohoku.toml -o output/a --plot --observations records",
    "swmodel run tohoku.toml --communicator sharded --devices 4",
    "swmodel run double_gyre.toml --members dissipation.0.viscosity=300,400,600",
)
def run(
    file: options.File,
    given: options.Run,
    set: options.Set = None,
    members: options.Members = None,
    until: options.Until = None,
    observations: options.Observations = None,
) -> None:
    """Run an experiment on one rank, many ranks or all devices.

    Start it with mpirun or srun for many ranks; with --communicator sharded it uses all devices of a process.
    """
    from .runs import run_experiment

    run_experiment(file, options.overrides_of(given, set, members, until=until, observations=observations), given)


@command(
    app,
    "swmodel resume output/restart.nc --until '6 hour'",
    "mpirun -n 4 swmodel resume gyre.restart.nc --until 2years",
    "swmodel resume output/restart.nc --until 2day --set dissipation.0.viscosity=500 --output output/branch",
    "swmodel resume output/restart.nc --until 2day --experiment tohoku.toml --force depth",
)
def resume(
    restart: Annotated[str, input_path("RESTART.nc", "A restart file.")],
    given: options.Resumed,
    until: options.Until = None,
    set: options.Set = None,
    observations: options.Observations = None,
) -> None:
    """Continue from a restart, on any number of ranks or devices.

    Output continues in the folder of the restart, or in that of --output or --set.
    """
    from .runs import resume_experiment

    resume_experiment(restart, options.overrides_of(given, set, until=until, observations=observations), given)


@command(
    app,
    "swmodel adjoint sensitivity.toml --plot",
    "mpirun -n 4 swmodel adjoint double_gyre.toml --verify",
    "swmodel adjoint sensitivity.toml --set adjoint.cost.gauges=21401 -o output/a",
    'swmodel adjoint gyre.toml --verify --steps 200 --set \'adjoint.controls=["depth", "forcing.0.x"]\'',
)
def adjoint(file: options.File, given: options.Sensitivity, set: options.Set = None) -> None:
    """Compute the sensitivity of a cost to each control.

    The maps are derivatives of the cost of the run by the controls in the file.
    """
    from .adjoint import adjoint_experiment

    adjoint_experiment(file, options.overrides_of(given, set), given)


@command(
    app,
    "swmodel invert inversion.toml --observations records --plot",
    "mpirun -n 2 swmodel invert inversion.toml --observations records --withhold",
    "swmodel invert double_gyre_twin.toml --set inversion.method=descent",
    "swmodel invert double_gyre_twin.toml --resume",
)
def invert(
    file: options.File, given: options.Inverted, set: options.Set = None, observations: options.Observations = None
) -> None:
    """Find the sources, states or parameters that fit observations.

    These are elevations at gauges or along tracks, harmonic constants, velocities and transports, in one table
    inversion.observations or, of several kinds, in several such tables.
    """
    from .invert import invert_experiment

    invert_experiment(file, options.overrides_of(given, set, observations=observations), given)


@command(
    app,
    "swmodel green forecast.toml",
    "mpirun -n 2 swmodel green forecast.toml --set green.until='2 hour'",
    "swmodel green forecast.toml --resume",
)
def green(file: options.File, given: options.Green, set: options.Set = None) -> None:
    """Compute the responses to unit sources, for forecasts.

    They are those at the gauges of the file: buoys, and harbours for which waves are forecast. Each gauge takes one
    sweep of the transposed linear model, or each source one run of it, whichever takes less.
    """
    from .green import make_bank

    make_bank(file, options.overrides_of(given, set), given)


@command(
    app,
    "swmodel forecast bank.nc --observations records --until 25min",
    "swmodel forecast bank.nc --observations records --begin 15min --point Miyako -o miyako.nc",
    "swmodel forecast bank.nc --observations records --without 21418 --page",
    "swmodel forecast bank.nc --observations incoming --start 2011-03-11T05:46:23 --follow",
)
def forecast(bank: Annotated[str, input_path("BANK", "A file of `swmodel green`.")], given: options.Forecast) -> None:
    """Forecast waves with error bars from the records so far.

    Prints height and arrival at each point, and how the bands of 90 % hold the samples that were not used.
    """
    solve_in_one_thread()
    from .forecast import forecast_waves

    forecast_waves(bank, given)


@command(
    app,
    "swmodel buoys bank.nc --harbour Miyako --harbour Sendai",
    "swmodel buoys bank.nc --harbour Miyako --gauge 21418 --until 30min -o buoys.png --page",
)
def buoys(
    bank: Annotated[str, input_path("BANK", "A file of `swmodel green`.")],
    harbour: Annotated[list[str] | None, typer.Option(help="Point with a forecast; may be repeated.")] = None,
    gauge: Annotated[list[str] | None, typer.Option(help="Point with a record already; may be repeated.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Time of the last sample of the records.")] = None,
    output: Annotated[str | None, output_path("FILE.png", "Map to draw.")] = None,
    page: Annotated[bool, typer.Option("--page", help="Write a page with a slider over the minutes.")] = False,
) -> None:
    """List where a buoy would narrow the forecast of harbours most.

    Candidates are all other points of the bank, such as those of `[green.candidates]`.
    """
    solve_in_one_thread()
    from .forecast import rank_buoys

    rank_buoys(bank, harbour or [], gauge or [], until, output, page)


@command(
    app,
    "swmodel hazard bank.nc --rate 0.1 --magnitudes 7.5,9",
    "swmodel hazard bank.nc --rate 0.1 --b 0.9 --count 20000 -o hazard.nc --plot --page",
    "swmodel hazard bank.nc --earthquakes catalogue.csv --top-depth '0 km,15 km'",
)
def hazard(bank: Annotated[str, input_path("BANK", "A bank of unit faults.")], given: options.Hazard) -> None:
    """Compute how often waves exceed a level at each point.

    Earthquakes are drawn at random on the faults of the bank. Prints the levels of return periods with their Monte
    Carlo error; the file also has the rates, the shares of magnitudes and of sources in them, and the slips and highest
    levels of all scenarios.
    """
    solve_in_one_thread()
    from .forecast import print_hazard

    print_hazard(bank, given)


@command(
    app,
    "swmodel rerun forecast.toml forecast.nc --count 9",
    "mpirun -n 2 swmodel rerun forecast.toml hazard.nc --count 64",
)
def rerun(
    file: options.File,
    sources: Annotated[str, input_path("FILE.nc", "A file of `swmodel forecast` or `hazard`.")],
    given: options.Computing,
    set: options.Set = None,
    count: Annotated[int, typer.Option(min=1, max=64, help="Number of runs.")] = 9,
) -> None:
    """Run the nonlinear model from sources of a forecast.

    Prints how its waves differ from those of the bank. The sources of a forecast are the mean and draws from the
    posterior, and those of a hazard are scenarios of all magnitudes. All run in one program.
    """
    from .green import rerun_sources

    rerun_sources(file, sources, count, options.overrides_of(given, set), given)


@command(
    app,
    "swmodel bench",
    "mpirun -n 2 swmodel bench --size 512x512",
    "swmodel bench tohoku.toml --save machine.json",
    "srun -N 2 -n 2 swmodel bench --network --save machine.json",
)
def bench(
    given: options.Bench,
    file: Annotated[str | None, input_path("[FILE.toml]", "An experiment to time; a closed basin without it.")] = None,
    set: options.Set = None,
) -> None:
    """Time a step of a basin or an experiment, or the network.

    Prints cells a second, the share of the memory's bandwidth, messages, memory and compilation.
    """
    from .bench import time_steps

    time_steps(file, options.overrides_of(None, set), given)


@command(app, "swmodel doctor")
def doctor() -> None:
    """Examine the installation: versions, MPI, devices.

    Prints which MPI each part uses and the binding of ranks, and makes one exchange on 2 ranks.
    """
    from . import installation

    raise typer.Exit(installation.run())


@command(
    app,
    "swmodel plot output/*.nc",
    "swmodel plot fields.nc maxima.nc gauges.nc --observations records -o tsunami.png",
    "swmodel plot fields.nc --kind animation --variable eta",
    "swmodel plot fields.nc --box 2e5 8e5 2e5 8e5",
)
def plot(
    files: Annotated[list[str], input_path("FILE...", "Output files of one run.")],
    output: Annotated[str | None, output_path("FILE", "Figure to write; its suffix chooses the format.")] = None,
    kind: Annotated[str, typer.Option(help=f"auto, {', '.join(KINDS)}.")] = "auto",
    observations: options.Observations = None,
    variable: Annotated[str | None, typer.Option(help="What maps, animations and spectra show.")] = None,
    time: Annotated[
        list[str] | None, typer.Option(metavar="TIME", help="Time of a map, as '30 min'; may be repeated.")
    ] = None,
    member: options.MemberOrAll = None,
    box: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(metavar="X0 X1 Y0 Y1", help="Draw spectra of this box, in the file's coordinates."),
    ] = None,
    layer: Annotated[int | None, typer.Option(min=1, metavar="K", help="Number of a layer, from 1 at the top.")] = None,
) -> None:
    """Draw figures of output files.

    Maps, gauges, circulation, spectra, budgets or animations are chosen by what the files hold.
    """
    from ..fields.parameters import quantity_of_option

    seconds = [quantity_of_option("--time", each, "s") for each in time] if time else None
    sides = (box[:2], box[2:]) if box else None
    print(*postprocess.plot(files, output, kind, observations, variable, seconds, member, sides, layer), sep="\n")


app.registered_commands += files.app.registered_commands


@command(
    app,
    "swmodel report output/tohoku_2011",
    "swmodel report output/tohoku_2011 --observations records -o tohoku.html",
    "swmodel report output/gyre --variable vorticity",
)
def report(files: options.OutputOfRun, given: options.Page) -> None:
    """Write one HTML page of a run.

    It has maps with a time slider, gauges, scores, budgets, timing and the configuration.
    """
    print(report_files(files, given))


@command(app, "swmodel view output/tohoku_2011", "swmodel view output/fields.nc --variable speed")
def view(files: options.OutputOfRun, given: options.Page) -> None:
    """Write the page of a run, and open it in a browser.

    The page is that of `report`. Where there is no display, its path is printed.
    """
    open_page(report_files(files, given))


@command(
    app,
    "swmodel verify",
    "swmodel verify --list",
    "swmodel verify kelvin stommel --html page.html",
    "swmodel verify sphere --quick",
)
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CASE]...", help="Cases, marks or groups; all of them without it.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Lower resolutions: minutes become seconds.")] = False,
    html: Annotated[str | None, path_option("FILE", "Write one page with all figures, which works offline.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the cases, and run none.")] = False,
) -> None:
    """Run the published cases, and compare them with their marks.

    These are errors and orders of convergence.
    """
    from .verify import verify_cases

    raise typer.Exit(verify_cases(names or (), quick, html, listed))
