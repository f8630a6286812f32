"""Amplitudes and Greenwich phase lags of tides from netCDF files, on longitudes and latitudes or on x and y.

A cos g and A sin g are interpolated to the points of the grid, since lags jump from 360 to 0 degrees. A missing value,
such as one on land, is replaced by the nearest valid one. An amplitude of 0 with a lag of 0 is missing, too, as some
atlases have it on land, unless all values along the side are like this. For an open side only the part of the file
around it is read, and the file need not cover more.
`Simulation.harmonics` writes such files.

Atlases of tides are read as their providers distribute them:

    TPXO       hRe, hIm of elevations, uRe, uIm, vRe, vIm of transports (upper or lower case), of one constituent a file
               or several, named by `con`; A exp(-i g) = hRe + i hIm. The dimensions may be (x, y).
    FES, EOT   amplitude, phase of elevations, Ua, Ug and Va, Vg of velocities, one constituent a file, which is named
               after it, as m2.nc, m2_fes2022.nc or M2_ocean_eot20.nc
    swmodel    eta_amplitude_M2, eta_phase_M2, ... of `Simulation.harmonics`

Transports become velocities by division by the depths of the atlas, which a file of their own has (hz, hu, hv).
https://www.tpxo.net/global, doi:10.1175/1520-0426(2002)019<0183:EIMOBO>2.0.CO;2 (Egbert & Erofeeva 2002)
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ConfigError, DataError
from ..fields.parameters import Sides
from ..grids import axes
from ..grids.grid import Grid
from ..grids.remapping import filled, remapping
from ..grids.windows import GridValues, along_side, cached, placed
from ..runtime.formats import check_format
from ..units import conversion
from .constituents import canonical, distinct
from .tides import LARGEST, MOST_DEGREES

if TYPE_CHECKING:
    import xarray as xr

PARTS = ("hRe", "hIm", "URe", "UIm", "VRe", "VIm")  # of the complex amplitudes of TPXO


def harmonic_constants(
    path: str | os.PathLike,
    constituents: Iterable[str] | Mapping[str, tuple[str | None, str | None]],
    grid: Grid,
    *,
    sides: str | tuple | None = None,
    units: str = "m",
    position: str = "h",
    velocity: str | None = None,
    stated: tuple[str, str] | None = None,
) -> dict[str, tuple[GridValues, GridValues]]:
    """The constituents of a Tide, {name: (amplitude, phase lag in degrees)}, from a netCDF file.

    Args:
        path: of the file.
        constituents: names, whose variables are eta_amplitude_M2 and eta_phase_M2 (u_... and v_... of velocities), or
            {name: (variable of the amplitude, variable of the phase lag)}, with None for these.
        grid: the Grid.
        sides: "west", "east", "south", "north" or several: the sides that are open; elsewhere the amplitude is then 0.
            The whole grid unless given, as a sponge needs it.
        units: of the amplitudes in the model, "m" or "m s-1".
        position: on the C-grid, "h" unless the components of a velocity are needed at "u" or "v".
        velocity: "outward" or "inward", for the velocity through open sides: the file holds the component towards +x of
            western and eastern sides, or towards +y of southern and northern ones, and what is found is positive out of
            the domain, or into it.
        stated: the units of amplitudes and of phase lags, as ("cm", "degree"), where the file does not give them.

    Raises:
        ConfigError: for a velocity through sides along both axes.
        DataError: for a file that cannot be read, lacks a variable, has no units or others than of an amplitude and an
            angle, holds what no tide has, or does not cover the sides.
    """
    signs = _signs(velocity, sides)
    data = axes.decode(axes.open_raw(path))
    wanted = _variables(constituents, _usual_field(position, signs))
    if any(name in PARTS or name not in data for names in wanted.values() for name in names):
        check_format(path, ("netcdf",), "one of amplitudes and phase lags", "tide")
    entries = {name: AtlasEntry(data, variables) for name, variables in wanted.items()}
    return _placed(entries, grid, sides, signs, units, position, stated)


def atlas_constants(
    files: str | os.PathLike | Iterable[str | os.PathLike],
    grid: Grid,
    *,
    names: Iterable[str] | None = None,
    sides: str | tuple | None = None,
    units: str = "m",
    position: str = "h",
    velocity: str | None = None,
    depths: str | os.PathLike | None = None,
) -> dict[str, tuple[GridValues, GridValues]]:
    """All constituents of an atlas, as `harmonic_constants` returns them: TPXO, FES, EOT or a run of one's own.

    Args:
        files: of the atlas; the top of this module lists their contents.
        grid: the Grid.
        names: of constituents; all of the atlas unless given.
        sides, units, position, velocity: as in `harmonic_constants`.
        depths: the file of the depths of an atlas of transports.

    Raises:
        ConfigError, DataError: as `harmonic_constants`, and for constituents that the atlas lacks.
    """
    signs = _signs(velocity, sides)
    entries = atlas_entries(files, _usual_field(position, signs), depths)
    if names is not None:
        wanted = distinct(names)
        if missing := [name for name in wanted if name not in entries]:
            raise DataError(f"the atlas has no {' and no '.join(missing)}; it has {', '.join(entries)}.")
        entries = {name: entries[name] for name in wanted}
    return _placed(entries, grid, sides, signs, units, position, None)


def _placed(entries, grid, sides, signs, units, position, stated):
    """{name: (amplitude, phase lag)} of {name: AtlasEntry} on a grid, or along its sides."""
    whole = {"": (slice(0, grid.ny), slice(0, grid.nx))}
    strips = whole if sides is None else {side: along_side(side, grid.shape) for side in Sides.tuple_of(sides)}
    pairs = {}
    for name, entry in entries.items():
        waves = [
            _Waves(entry, units, stated, _Strip(grid, *part, side, signs.get(side, 1.0)), position)
            for side, part in strips.items()
        ]
        boxes = [((wave.strip.rows, wave.strip.columns), wave) for wave in waves]
        wave = cached(placed(boxes, grid.shape, complex))
        pairs[name] = wave.map(np.abs), wave.map(lambda z: np.rad2deg(np.angle(z)) % 360.0)
    return pairs


def _signs(velocity, sides):
    """{side: the sign of the velocity through it, of the component along its axis}; {} for other quantities."""
    if velocity is None:
        return {}
    if velocity not in ("outward", "inward"):
        raise ConfigError(f"harmonic_constants: velocity = {velocity!r} is unknown; give 'outward' or 'inward'.")
    if sides is None:
        raise ConfigError("harmonic_constants: a velocity goes through open sides; give sides.")
    positive = ("east", "north") if velocity == "outward" else ("west", "south")
    signs = {side: 1.0 if side in positive else -1.0 for side in Sides.tuple_of(sides)}
    if len({side in ("west", "east") for side in signs}) > 1:
        raise ConfigError(
            "harmonic_constants: velocities from files are u in the west and east and v in the south and north, which "
            "share the cells in the corners; give these pairs of sides a boundary condition each."
        )
    return signs


def _variables(constituents, field):
    """{name: (variable of the amplitude, variable of the phase lag)}, with the usual names of a field where None is."""
    if not isinstance(constituents, Mapping):
        names = (constituents,) if isinstance(constituents, str) else constituents
        constituents = {name: (None, None) for name in names}
    return {
        name: (size or f"{field}_amplitude_{canonical(name)}", lag or f"{field}_phase_{canonical(name)}")
        for name, (size, lag) in constituents.items()
    }


def _usual_field(position, signs):
    """The variable whose harmonic constants are meant: "eta", "u" or "v"."""
    if signs:
        return "u" if signs.keys() & {"west", "east"} else "v"
    return position if position in ("u", "v") else "eta"


class _Strip:
    """Some rows and columns of a grid, with the interface of a Grid that `remapping` needs."""

    def __init__(self, grid, rows, columns, side, sign):
        self.grid, self.rows, self.columns, self.side, self.spherical = grid, rows, columns, side, grid.spherical
        self.sign = sign
        self.y_edges = grid.y_edges[rows.start : rows.stop + 1]
        self.x_edges = grid.x_edges[columns.start : columns.stop + 1]

    def coordinates(self, position):
        return self.grid.coordinates(position, self.rows, self.columns)


class _Waves(GridValues):
    """A exp(i g) of a constituent in a strip of the grid, with the sign of the strip."""

    dtype = np.dtype(complex)

    def __init__(self, entry, units, stated, strip, position):
        data, variables = entry.data, entry.variables
        self.units, self.strip, self.is_complex = units, strip, entry.is_complex
        self.shape = strip.rows.stop - strip.rows.start, strip.columns.stop - strip.columns.start
        self.fields = [axes.rectilinear(data, name) for name in (*variables, entry.depth) if name]
        of_sizes = "m2 s-1" if entry.depth else units
        known = zip(variables, (of_sizes, of_sizes if entry.is_complex else "degree"), stated or ("", ""))
        self.scales = [_scale(data, *each) for each in known]
        for field, variable in zip(self.fields, variables):
            if field.ndim != 2:
                raise DataError(f"{variable} has dimensions {field.dims}; select one level first, down to (y, x).")
        try:
            self.plan = remapping(self.fields[0], strip, "interpolate", position)
        except DataError as error:
            raise DataError(f"along the {strip.side} side {error}" if strip.side else str(error)) from None

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        part = self.plan.part(rows, columns)
        wave = self._read(part)
        if not np.isfinite(wave).all():
            part, wave = self.plan, self._read(self.plan)
            if not np.isfinite(wave).any():
                where = f"along the {self.strip.side} side" if self.strip.side else "on the grid"
                raise DataError(
                    f"{self.fields[0].name} has no valid value {where}, where all are missing, or 0 with a phase lag "
                    "of 0, as on land; check the file."
                )
            return part(filled(wave, part, self.strip.spherical))[rows, columns]
        return part(wave)

    def _read(self, part):
        if self.is_complex:
            return self._read_parts(part)
        size, lag = (scale * part.read(field) for scale, field in zip(self.scales, self.fields))
        if (size < 0).any():
            raise DataError(
                f"{self.fields[0].name} is an amplitude, and is negative, {np.nanmin(size):g} somewhere; mark missing "
                "values by _FillValue, or give the positive amplitude with another phase lag."
            )
        limits = ("amplitude", LARGEST[self.units], self.units), ("phase lag", MOST_DEGREES, "degrees")
        for field, values, (what, most, units) in zip(self.fields, (size, lag), limits):
            if (largest := np.nanmax(np.abs(values), initial=0.0)) > most:
                raise DataError(
                    f"{field.name} has a value of {largest:g} {units}, and no {what} of a tide is over {most:g} "
                    f"{units}; mark missing values by _FillValue, or correct the units."
                )
        zero, wave = (size == 0) & (lag == 0), self.strip.sign * size * np.exp(1j * np.deg2rad(lag))
        return wave if part is self.plan and zero.all() else np.where(zero, np.nan, wave)

    def _read_parts(self, part):
        """A exp(i g) of the real and the imaginary part of A exp(-i g); 0 is missing, as TPXO has it on land."""
        real, imaginary = (scale * part.read(field) for scale, field in zip(self.scales, self.fields))
        wave = np.where((real == 0) & (imaginary == 0), np.nan, real - 1j * imaginary)
        if len(self.fields) > 2:
            depth = part.read(self.fields[2])
            wave = wave / np.where(depth > 0, depth, np.nan)
        largest = np.nanmax(np.abs(wave), initial=0.0)
        if largest > LARGEST[self.units]:
            raise DataError(
                f"{self.fields[0].name} has a tide of {largest:g} {self.units}, and no tide is over "
                f"{LARGEST[self.units]:g} {self.units}; check the units, and the depths of transports."
            )
        return self.strip.sign * wave


def _scale(data, variable, wanted, stated):
    """The factor of a variable's values to the units `wanted`, from its units in the file, or the `stated` ones."""
    units, who = str(data[variable].attrs.get("units", "")).strip() or stated, f"{variable} in {axes.label(data)}"
    if not units:
        raise DataError(f"{who} has no units; write them to the file, or state them by `units`, as ['cm', 'degree'].")
    scale = conversion(re.sub(r"\s+gmt$", "", units.lower()), wanted)  # TPXO: degree GMT
    if scale is None:
        raise DataError(f"{who} is in {units!r}; give it in {wanted!r}.")
    return scale


# -- atlases ----------------------------------------------------------------------------------------------------------

OTHER_NAMES = {"LA2": "LDA2", "LAMBDA2": "LDA2"}
NODES = {"eta": "z", "u": "u", "v": "v"}  # the ends of the names of TPXO's coordinates
LETTERS = {"eta": "h", "u": "u", "v": "v"}
SIZES = {"eta": (("amplitude", "phase"),), "u": (("Ua", "Ug"), ("ua", "up")), "v": (("Va", "Vg"), ("va", "vp"))}


@dataclasses.dataclass(frozen=True)
class AtlasEntry:
    """One constituent of an atlas.

    Attributes:
        data: a Dataset with longitudes and latitudes.
        variables: of the amplitude and the phase lag, or of the real and the imaginary part.
        is_complex: whether they are parts, of A exp(-i g).
        depth: the variable of the depth [m] by which transports are divided; "" of velocities and elevations.
    """

    data: xr.Dataset
    variables: tuple[str, str]
    is_complex: bool = False
    depth: str = ""


def atlas_entries(
    files: str | os.PathLike | Iterable[str | os.PathLike], field: str = "eta", depths: str | os.PathLike | None = None
) -> dict[str, AtlasEntry]:
    """{constituent: AtlasEntry} of the files of an atlas.

    Args:
        files: a file or several.
        field: "eta", "u" or "v".
        depths: the file of the depths of an atlas of transports.

    Raises:
        DataError: for files without constituents or with one twice, and for transports without depths.
    """
    entries: dict[str, AtlasEntry] = {}
    for path in (files,) if isinstance(files, (str, os.PathLike)) else tuple(files):
        for name, entry in _entries(path, field, depths).items():
            if name in entries:
                raise DataError(f"{path} has the constituent {name}, as a file before it has; leave one of them out.")
            entries[name] = entry
    return entries


def _entries(path, field, depths):
    data = axes.decode(axes.open_raw(path))
    parts = {name.lower(): name for name in map(str, data.data_vars)}
    letter = LETTERS[field]
    real, imaginary = (parts.get(f"{letter}{part}") for part in ("re", "im"))
    if real and imaginary:
        return _of_tpxo(path, data, (real, imaginary), field, depths)
    own = {name: rest for name in data.data_vars if (rest := re.fullmatch(rf"{field}_amplitude_(\w+)", str(name)))}
    if own:
        return {rest[1]: AtlasEntry(data, (str(name), f"{field}_phase_{rest[1]}")) for name, rest in own.items()}
    for pair in SIZES[field]:
        if all(name in data.data_vars for name in pair):
            return {_named(path, Path(path).stem): AtlasEntry(data, pair)}
    raise DataError(
        f"{path} holds no tide of {field} that is known: neither {letter}Re and {letter}Im as TPXO, nor "
        f"{' and '.join(SIZES[field][0])} as FES, nor {field}_amplitude_M2; name its variables by constituents."
    )


def _named(path, text):
    """The canonical name of a constituent at the beginning of `text`."""
    first = re.split(r"[^A-Za-z0-9]", text.strip())[0].upper()
    try:
        return canonical(OTHER_NAMES.get(first, first))
    except ConfigError:
        raise DataError(f"{path}: {text!r} begins with no constituent that is known, as M2; rename it.") from None


def _of_tpxo(path, data, names, field, depths):
    """The AtlasEntries of a file of TPXO, each with its coordinates alone."""
    import xarray as xr

    end = NODES[field]
    where = {letter: f"{letter}_{end}" for letter in ("lon", "lat")}
    if missing := [name for name in (*where.values(), "con") if name not in data.variables]:
        raise DataError(f"{path} is a file of TPXO without {' and '.join(missing)}; get it again.")
    coordinates = {
        name: (data[name].dims, np.asarray(data[name].values, float), {"standard_name": standard})
        for name, standard in ((where["lon"], "longitude"), (where["lat"], "latitude"))
    }
    of_one = {dim for name in coordinates for dim in data[name].dims}
    common = {}
    if field != "eta":
        depth = _depth(path, depths, f"h{end}").copy(deep=False)
        depth.dims = tuple(dim for dim in data[names[0]].dims if dim in of_one)
        common["depth"] = depth
    names_of = np.asarray(data["con"].values)
    if names_of.dtype == "S1" and names_of.ndim:  # single characters along the last dimension
        names_of = np.ascontiguousarray(names_of).view(f"S{names_of.shape[-1]}")[..., 0]
    labels = [x.decode().strip("\x00 ") if isinstance(x, bytes) else str(x).strip() for x in np.ravel(names_of)]
    entries = {}
    for k, label in enumerate(labels):
        parts = {}
        for name in names:
            along = [dim for dim in data[name].dims if dim not in of_one]
            one = data[name].isel({dim: k if data.sizes[dim] == len(labels) else 0 for dim in along})
            parts[name] = one.variable
        made = xr.Dataset({**parts, **common}, coords=coordinates)
        made.encoding = {"source": str(path)}
        entries[_named(path, label)] = AtlasEntry(made, names, True, "depth" if common else "")
    return entries


def _depth(path, depths, name):
    """The variable of depths at the nodes of a component of the transport."""
    if depths is None:
        raise DataError(f"{path} holds transports of TPXO, which need depths; name the file of its grid by `depths`.")
    data = axes.decode(axes.open_raw(depths))
    if name not in data.data_vars:
        raise DataError(f"{depths} has no {name}, the depths of TPXO's transports; give the file of its grid.")
    return data[name].variable
