"""The commands that look at files, compare them and write them for other programs."""

from typing import Annotated

import typer

from . import options
from .options import examples, path_of

__all__ = ["app"]

app = typer.Typer()


@app.command(
    epilog=examples(
        "swmodel bathymetry gebco.nc",
        "swmodel bathymetry harbour.tif bay.asc gebco.nc --box 140 146 35 40 --margin 3",
    )
)
def bathymetry(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Elevations or depths, the first before the others.", callback=path_of),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Figure to write.", callback=path_of)
    ] = "bathymetry.png",
    box: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(metavar="X0 X1 Y0 Y1", help="Look at this box, in the files' coordinates."),
    ] = None,
    margin: Annotated[int, typer.Option(min=0, help="Cells over which a file passes into the next one.")] = 0,
    debug: options.Debug = False,
) -> None:
    """Show what would be read from files of elevations.

    Prints what was assumed and which nodes are suspicious, and draws a map and a histogram.
    """
    from .figures import look_at_files

    look_at_files(files, output, box, margin)


@app.command(
    epilog=examples(
        "swmodel export output/maxima.nc -o flood.tif --crs EPSG:32654",
        "swmodel export output/maxima.nc -o flood.geojson --level 0 --level 0.5 --level 2",
        "swmodel export output/maxima.nc -o highest.tif --variable maximum_elevation",
    )
)
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that a run has written.", callback=path_of)],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="GeoTIFF (.tif) or GeoJSON.", callback=path_of)
    ],
    variable: Annotated[str, typer.Option(help="Field at the centres of cells.")] = "flow_depth",
    level: Annotated[
        list[float] | None,
        typer.Option(help="Lower limit of a class of polygons; may be repeated. Without it: 0."),
    ] = None,
    crs: Annotated[
        str | None, typer.Option(metavar="EPSG:N", help="Projection of x and y of a Cartesian grid.")
    ] = None,
    record: Annotated[int | None, typer.Option(help="Number of a record in time; the last without it.")] = None,
    debug: options.Debug = False,
) -> None:
    """Write a field as GeoTIFF, or as polygons in GeoJSON.

    The flow depth is that on flooded land, of a file of maxima or extremes.
    """
    from ..postprocess import export as write

    print(write(file, output, variable, level or (0.0,), crs, record))


@app.command(
    epilog=examples("swmodel marks output/maxima.nc marks.csv", "swmodel marks extremes.nc marks.csv --reach 0")
)
def marks(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file of maxima or extremes.", callback=path_of)],
    table: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="CSV of x, y (or longitude, latitude), elevation_m.", callback=path_of),
    ],
    reach: Annotated[int, typer.Option(min=0, help="Cells from a mark within which water counts.")] = 2,
    debug: options.Debug = False,
) -> None:
    """Compare high-water marks with the largest levels of a run.

    Prints each mark, the bias, the root-mean-square error, and K and kappa of Aida (1978).
    """
    from ..postprocess import marks as compare

    print(compare(file, table, reach))
