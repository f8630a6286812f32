"""The commands of `swmodel` that show output and results: plot, report, view and verify."""

from typing import Annotated

import typer

from ..output.figures import KINDS
from .commands import app
from .options import (
    Debug,
    Member,
    MemberOrAll,
    Observations,
    OutputOfRun,
    OutputPage,
    ShownVariables,
    examples,
    path_of,
)

__all__ = ["plot", "report", "verify", "view"]


@app.command(
    epilog=examples(
        "swmodel plot output/*.nc",
        "swmodel plot fields.nc maxima.nc gauges.nc --observations records -o tsunami.png",
        "swmodel plot fields.nc --kind animation --variable eta",
        "swmodel plot fields.nc --box 2e5 8e5 2e5 8e5",
    )
)
def plot(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Output files of one run.", show_default=False, callback=path_of),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Figure to write; its suffix chooses the format.", callback=path_of
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(help=f"auto, {', '.join(KINDS)}."),
    ] = "auto",
    observations: Observations = None,
    variable: Annotated[str | None, typer.Option(help="What maps, animations and spectra show.")] = None,
    time: Annotated[
        list[str] | None, typer.Option(metavar="TIME", help="Time of a map, as '30 min'; may be repeated.")
    ] = None,
    member: MemberOrAll = None,
    box: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(metavar="X0 X1 Y0 Y1", help="Draw spectra of this box, in the file's coordinates."),
    ] = None,
    layer: Annotated[int, typer.Option(min=1, metavar="K", help="Number of a layer, from 1 at the top.")] = 1,
    debug: Debug = False,
) -> None:
    """Draw output: maps, gauges, circulation, spectra, budgets, animations; chosen by what the files hold."""
    from .figures import plot_files

    plot_files(files, output, kind, observations, variable, time, member, box, layer)


@app.command(
    epilog=examples(
        "swmodel report output/tohoku_2011",
        "swmodel report output/tohoku_2011 --observations records -o tohoku.html",
        "swmodel report output/gyre --variable vorticity",
    )
)
def report(
    files: OutputOfRun,
    output: OutputPage = None,
    observations: Observations = None,
    variable: ShownVariables = None,
    member: Member = 0,
    debug: Debug = False,
) -> None:
    """Write one HTML page of a run: maps with a time slider, gauges, scores, budgets, timing, configuration."""
    from .figures import report_files

    print(report_files(files, output, observations, variable, member))


@app.command(epilog=examples("swmodel view output/tohoku_2011", "swmodel view output/fields.nc --variable speed"))
def view(
    files: OutputOfRun,
    output: OutputPage = None,
    observations: Observations = None,
    variable: ShownVariables = None,
    member: Member = 0,
    debug: Debug = False,
) -> None:
    """Write the page of a run as `report` does, and open it in a browser; print its path where there is no display."""
    from .figures import open_page, report_files

    open_page(report_files(files, output, observations, variable, member))


@app.command(
    epilog=examples(
        "swmodel verify",
        "swmodel verify --list",
        "swmodel verify kelvin stommel --html page.html",
        "swmodel verify sphere --quick",
    )
)
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CASE]...", help="Cases, marks or groups; all of them without it."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Lower resolutions: minutes become seconds.")] = False,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write one page with all figures, which works offline.", callback=path_of),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the cases, and run none.")] = False,
    debug: Debug = False,
) -> None:
    """Run the published cases, and compare errors and orders of convergence with what they have to be."""
    from .verify import verify_cases

    raise typer.Exit(verify_cases(names or (), quick, html, listed))
