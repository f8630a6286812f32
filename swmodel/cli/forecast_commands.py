"""The commands that make banks of Green's functions, and those that use them."""

from typing import Annotated

import typer

from ..runtime.launch import solve_in_one_thread
from . import options
from .options import command, input_path, output_path

app = typer.Typer()


@command(
    app,
    "swmodel green forecast.toml",
    "mpirun -n 2 swmodel green forecast.toml --set green.until='2 hour'",
    "swmodel green forecast.toml --resume",
)
def green(file: options.File, given: options.Green, set: options.Set = None) -> None:
    """Compute the responses of points to unit sources, for forecasts.

    The points are the gauges of the file: buoys, and harbours for which waves are forecast. Each takes one sweep of the
    transposed linear model, or each source one run of it, whichever takes less.
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
def forecast(
    bank: Annotated[str, input_path("BANK", "A file of `swmodel green`.")],
    given: options.Forecast,
) -> None:
    """Forecast waves with error bars from records as far as they have come.

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
def hazard(
    bank: Annotated[str, input_path("BANK", "A bank of unit faults.")],
    given: options.Hazard,
) -> None:
    """Compute how often waves at each point exceed a level, by random earthquakes on the faults of a bank.

    Prints the levels of return periods with their Monte Carlo error; the file also has the rates, the
    shares of magnitudes and of sources in them, and the slips and highest levels of all scenarios.
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
    """Run the nonlinear model from the sources of a forecast or hazard, all in one program, and compare with the bank.

    Of a forecast these are the mean and draws from the posterior, of a hazard scenarios of all magnitudes.
    """
    from .rerun import rerun_sources

    rerun_sources(file, sources, count, options.overrides_of(given, set), given)
