"""Commands without a run: copies of the package's experiments, and looks at files, their figures and pages.

An experiment may read a file of another one, as "../global_tide/etopo5_global_15min.nc", so that large data are in the
package once. A copy of the experiment has the file next to it, and names it so.
"""

import importlib.util
import os
import re
import shutil
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from .. import postprocess
from ..errors import ConfigError, DataError, SwmodelError, suggestion
from ..runtime.paths import experiments, make_folder, refusal
from . import options
from .options import command, input_path, output_path, path_option

SUFFIXES = (".toml", ".py", ".nc", ".csv", ".md", ".txt")
ELSEWHERE = re.compile(r'"\.\./(\w+/[\w.]+)"')  # a file of another experiment
SENTENCE = re.compile(r".*?[.?](?= [A-Z])")  # the first of several sentences


def library() -> dict[str, list[Path]]:
    """{name: files} of the experiments. A folder is an experiment, and so are files with the same stem."""
    found = {}
    for entry in sorted(experiments().iterdir()):
        if entry.is_dir():
            files = [file for file in sorted(entry.rglob("*")) if file.suffix in SUFFIXES and file.is_file()]
            if any(file.suffix in (".toml", ".py") for file in files):
                found[entry.name] = files + _elsewhere(files)
        elif entry.suffix in (".toml", ".py") and entry.stem != "__init__":
            found.setdefault(entry.stem, []).append(entry)
    return found


def _elsewhere(files):
    """The files of other experiments that TOML files among `files` read."""
    texts = [file.read_text(encoding="utf-8") for file in files if file.suffix == ".toml"]
    return [experiments() / name for name in dict.fromkeys(sum(map(ELSEWHERE.findall, texts), []))]


def copy_experiment(name: str | None, folder: str | None, force: bool) -> None:
    """Copy experiment `name` to `folder` and print the next commands; list all experiments if `name` is None."""
    known = library()
    if name is None:
        _list(known)
        return
    if name not in known:
        hint = suggestion(name, known, f"there are {', '.join(known)}.")
        raise ConfigError(f"there is no experiment {name!r}; {hint}")
    target, base = Path(name if folder is None else folder), experiments()
    base = base / name if (base / name).is_dir() else base
    copies = {
        file: target / (file.relative_to(base) if file.is_relative_to(base) else file.name) for file in known[name]
    }
    there = [copy for copy in copies.values() if copy.exists()]
    if there and not force:
        raise ConfigError(f"{', '.join(map(str, there))} would be replaced; choose another folder, or add --force.")
    make_folder(target)
    for file, copy in copies.items():
        make_folder(copy.parent)
        try:
            _copy(file, copy)
        except OSError as error:  # such as a full disk
            raise DataError(refusal(copy, error)) from error
        print(f"{copy}  ({file.stat().st_size / 1000:.0f} kB)")
    print("\n  ".join(["next:", *_next_commands(target / _main_first(name, known[name])[0].name)]))


def _copy(file, copy):
    """Copy a file; in a TOML file, files of other experiments are those next to it."""
    if file.suffix == ".toml":
        text = file.read_text(encoding="utf-8")
        copy.write_text(ELSEWHERE.sub(lambda found: f'"{Path(found[1]).name}"', text), encoding="utf-8")
    else:
        shutil.copyfile(file, copy)


def _next_commands(file):
    """The commands to try with an experiment's main file."""
    if file.suffix == ".py":
        return [f"python {file}"]
    verb = "invert" if "\n[inversion]" in file.read_text(encoding="utf-8") else "run"
    return [f"swmodel check {file}", f"swmodel {verb} {file} --plot", f"mpirun -n 2 swmodel {verb} {file} --plot"]


def _main_first(name, files):
    """The files of an experiment. The first one has the experiment's name, or the beginning of it."""
    return sorted(
        files,
        key=lambda file: (
            [".toml", ".py"].index(file.suffix) if file.suffix in (".toml", ".py") else 2,
            not name.startswith(file.stem),
        ),
    )


def _list(known):
    width = max(map(len, known)) + 2
    for name, files in known.items():
        print(f"{name:<{width}}{_headline(files)}")
    print("\nswmodel new NAME [DIR] copies one, with its data.")


def _headline(files):
    """The first sentence of the TOML file's first comment, or of the script's docstring."""
    described = _main_first(files[0].parent.name, sorted(files, key=lambda file: file.suffix != ".toml"))[0]
    lines = []
    for line in described.read_text(encoding="utf-8").splitlines():
        lines.append(line.strip("# \"'"))
        if not lines[-1] or lines[-1].endswith((".", "?")):
            break
    text = " ".join(lines).strip()
    first = SENTENCE.match(text)
    return first[0] if first else text


app = typer.Typer()


@command(
    app, "swmodel bathymetry gebco.nc", "swmodel bathymetry harbour.tif bay.asc gebco.nc --box 140 146 35 40 --margin 3"
)
def bathymetry(
    files: Annotated[list[str], input_path("FILE...", "Elevations or depths, the first before the others.")],
    output: Annotated[str, output_path("FILE", "Figure to write.")] = "bathymetry.png",
    box: Annotated[
        tuple[float, float, float, float] | None,
        typer.Option(metavar="X0 X1 Y0 Y1", help="Look at this box, in the files' coordinates."),
    ] = None,
    margin: Annotated[int, typer.Option(min=0, help="Cells over which a file passes into the next one.")] = 0,
) -> None:
    """Show what would be read from files of elevations.

    Prints what was assumed and which nodes are suspicious, and draws a map and a histogram.
    """
    require("the figure", "")
    described, figure = postprocess.bathymetry(files, output, box, margin)
    for one in described:
        print(one.name, *(f"  {line}" for line in one.lines), sep="\n")
    print(figure)


@command(
    app,
    "swmodel export output/maxima.nc -o flood.tif --crs EPSG:32654",
    "swmodel export output/maxima.nc -o flood.geojson --level 0 --level 0.5 --level 2",
    "swmodel export output/maxima.nc -o flood.tif --bed elevation.tif --crs EPSG:32654",
    "swmodel export output/maxima.nc -o highest.tif --variable maximum_elevation",
    "swmodel export output/gauges.nc -o constants.csv",
)
def export(
    file: Annotated[str, input_path("FILE", "A file that a run has written.")],
    output: Annotated[str, output_path("FILE", "GeoTIFF (.tif), GeoJSON or CSV.")],
    variable: Annotated[str | None, typer.Option(help="Field at the centres of cells. Without it: flow_depth.")] = None,
    level: Annotated[
        list[float] | None, typer.Option(help="Lower limit of a class of polygons; may be repeated. Without it: 0.")
    ] = None,
    crs: Annotated[
        str | None, typer.Option(metavar="EPSG:N", help="Projection of x and y of a Cartesian grid.")
    ] = None,
    record: Annotated[int | None, typer.Option(help="Number of a record in time; the last without it.")] = None,
    bed: Annotated[
        str | None, path_option("FILE", "Elevations finer than the cells, over which depths are given.")
    ] = None,
    datum: Annotated[float, typer.Option(metavar="METRES", help="Level at rest above the zero of the bed.")] = 0.0,
) -> None:
    """Write a field as GeoTIFF or GeoJSON, or constants as CSV.

    GeoJSON has polygons of classes, and CSV the harmonic constants at the gauges of a tide, which `[inversion]` and
    `[adjoint]` read. The flow depth is that on flooded land, of a file of maxima or extremes.
    """
    from ..postprocess import export as write

    print(write(file, output, variable, level or None, crs, record, bed, datum))


@command(
    app,
    "swmodel marks output/maxima.nc marks.csv",
    "swmodel marks extremes.nc marks.csv --reach 0",
    "swmodel marks output/maxima.nc marks.csv --bed elevation.tif",
)
def marks(
    file: Annotated[str, input_path("FILE", "A file of maxima or extremes.")],
    table: Annotated[str, input_path("TABLE", "CSV of x, y (or longitude, latitude), elevation_m or depth_m.")],
    reach: Annotated[int, typer.Option(min=0, help="Cells from a mark within which water counts.")] = 2,
    bed: Annotated[
        str | None, path_option("FILE", "Elevations finer than the cells, above which depths are taken.")
    ] = None,
    datum: Annotated[float, typer.Option(metavar="METRES", help="Level at rest above the zero of the bed.")] = 0.0,
) -> None:
    """Compare high-water marks with the largest levels of a run.

    Prints each mark, the bias, the root-mean-square error, and K and kappa of Aida (1978).
    """
    from ..postprocess import marks as compare

    print(compare(file, table, reach, bed, datum))


def require(what: str = "--plot", remedy: str = ", or leave --plot out") -> None:
    """Raise SwmodelError if matplotlib is missing, before a long run instead of after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SwmodelError(f"{what} needs matplotlib, which is not installed; pip install 'swmodel[plots]'{remedy}.")


def report_files(files: Sequence[str | Path], given: options.Page) -> Path:
    """The path of the page that was written; raises SwmodelError with one sentence if there is nothing to show."""
    require("the page of a run", "")
    paths = [Path(file) for file in files]
    return postprocess.report(paths, given.output, given.observations, given.variable or (), given.member)


def open_page(page: Path) -> None:
    """Open a page in the user's browser, and print its path; without a display, print only the path."""
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    shown = has_display and webbrowser.open(page.resolve().as_uri())
    print(page if shown else f"{page}\nno browser was opened, as there is no display here; open this file in one.")
