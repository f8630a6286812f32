"""netCDF files of spectra along a run: records in time over wavenumber."""

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

import numpy as np

from ...diagnostics.spectra import Spectra
from ...grids.grid import Grid
from .. import Claim, definitions
from ..metadata import Attribute
from ..records import Opening, RecordFile
from ..schedule import AbstractSimulation, SnapshotOutput

COMMENT = "summed over rings of |k| and divided by their width: the sum times the width is the domain's mean"


class SpectraFile(RecordFile):
    """Spectra and their transfers along time.

    Args:
        path: the path of the file, or a Claim of it.
        spectra: the Spectra, whose rings and names the file has.
        grid: the Grid.
        opening: the other arguments, those of Opening.

    Raises:
        DataError, SwmodelError: as RecordFile.
    """

    def __init__(self, path: str | Path | Claim, spectra: Spectra, grid: Grid, **opening: Unpack[Opening]) -> None:
        self._names, self._rings = spectra.names, spectra.wavenumber.size

        def define(dataset):
            _define_rings(dataset, spectra)
            for name in spectra.names:
                _define_spectrum(dataset, name, spectra.about(name))

        given = opening.get("attributes") or {}
        comment = "; ".join(map(str, filter(None, [COMMENT, given.get("comment")])))
        opening["attributes"] = {**given, "comment": comment}
        about = {"title": "Shallow-water model spectra", "stored_as": "float64"}
        super().__init__(path, grid, define, about, points=True, **opening)

    def append(self, seconds: float, record: Mapping[str, np.ndarray]) -> None:
        """Write one record: {name: (rings,)}, of an ensemble (members, rings), at `seconds` [s]."""
        shape = (1, *self._members, self._rings)
        values = {name: np.asarray(record[name], float).reshape(shape) for name in self._names}
        self.write(np.array([seconds], float), values)


def _define_rings(dataset, spectra):
    dataset.createDimension("wavenumber", spectra.wavenumber.size)
    dataset.createDimension("bnds", 2)
    attributes = {
        "long_name": "isotropic angular wavenumber",
        "units": "rad m-1",
        "bounds": "wavenumber_bnds",
        "ring_width": np.float64(spectra.width),
        "largest_resolved_in_all_directions": np.float64(spectra.largest),
    }
    definitions.define(dataset, "wavenumber", ("wavenumber",), attributes, spectra.wavenumber)
    definitions.define(dataset, "wavenumber_bnds", ("wavenumber", "bnds"), {}, spectra.bounds)


def _define_spectrum(dataset, name, attributes):
    dimensions, sizes, more = definitions.members_in(dataset)
    attributes = {**attributes, "cell_methods": "area: mean time: point", **more}
    dimensions, chunks = ("time", *dimensions, "wavenumber"), (1, *sizes, len(dataset.dimensions["wavenumber"]))
    definitions.define(dataset, name, dimensions, attributes, dtype="f8", chunks=chunks, compression=1)


class SpectraOutput(SnapshotOutput):
    """Snapshots of spectra and their transfers."""

    def __init__(self, path: str | Path, spectra: Spectra, every: float | None) -> None:
        self.path, self.spectra, self.every = Path(path), spectra, every

    def open(self, simulation: AbstractSimulation, attributes: Mapping[str, Attribute], claim: Claim) -> None:
        self.file = SpectraFile(claim, self.spectra, simulation.model.grid, **self.how_to_open(simulation, attributes))

    def write(self, simulation: AbstractSimulation) -> None:
        seconds = simulation.time
        spectra = self.spectra.of(simulation.state, halo=simulation.halo, step=simulation.step, dt=simulation.dt)
        self.submit(lambda: self.file.append(seconds, spectra), sum(array.nbytes for array in spectra.values()))
