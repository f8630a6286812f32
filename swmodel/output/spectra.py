"""netCDF files of spectra along a run: a record every so often, over wavenumber."""

from pathlib import Path

import numpy as np

from . import metadata
from .netcdf import Records
from .schedule import SnapshotOutput, members_of

__all__ = ["SpectraFile", "SpectraOutput"]

COMMENT = "summed over rings of |k| and divided by their width: the sum times the width is the domain's mean"


class SpectraFile:
    """Spectra and their transfers along time.

    Args:
        path: of the file.
        spectra: the Spectra; its rings and names.
        grid, start, attributes, members, append, resume_time, overwrite: as of netcdf.FieldFile.

    Raises:
        DataError, SwmodelError: as FieldFile.
    """

    def __init__(self, path, spectra, grid, *, start=None, attributes=None, members=None, append=False,
                 resume_time=None, overwrite=False):  # fmt: skip
        self._dimensions, self._sizes, _ = metadata.of_members(members)
        self._names, self._rings = spectra.names, spectra.wavenumber.size

        def define(dataset):
            dataset.createDimension("time", None)
            metadata.define_time(dataset, start)
            metadata.define_members(dataset, members)
            _define_rings(dataset, spectra)
            for name in spectra.names:
                _define_spectrum(dataset, name, spectra.about(name), members)

        attributes = {"title": "Shallow-water model spectra", **(attributes or {}), "stored_as": "float64"}
        attributes["comment"] = "; ".join(filter(None, [COMMENT, attributes.get("comment")]))
        attributes = metadata.run_attributes(grid, attributes, points=True)
        self._records = Records(path, define, attributes, append, resume_time, overwrite)
        self.path = self._records.path

    def append(self, seconds, found):
        """Write one record: {name: (rings,)}, of an ensemble (members, rings), at `seconds` [s]."""
        shape = (1, *self._sizes, self._rings)
        values = {name: np.asarray(found[name], float).reshape(shape) for name in self._names}
        self._records.append(np.array([seconds], float), values)

    def check(self):
        """Raise SwmodelError if the file was removed, replaced or cut short."""
        self._records.check()

    def close(self):
        """Close the file and let other runs write it; a second time it does nothing."""
        self._records.close()


def _define_rings(dataset, spectra):
    dataset.createDimension("wavenumber", spectra.wavenumber.size)
    dataset.createDimension("bnds", 2)
    told = {
        "long_name": "isotropic angular wavenumber", "units": "rad m-1", "bounds": "wavenumber_bnds",
        "ring_width": np.float64(spectra.width), "largest_resolved_in_all_directions": np.float64(spectra.largest),
    }  # fmt: skip
    metadata.define(dataset, "wavenumber", ("wavenumber",), told, spectra.wavenumber)
    metadata.define(dataset, "wavenumber_bnds", ("wavenumber", "bnds"), {}, spectra.bounds)


def _define_spectrum(dataset, name, told, members):
    dimensions, sizes, more = metadata.of_members(members)
    told = {**told, "cell_methods": "area: mean time: point", **more}
    dimensions, chunks = ("time", *dimensions, "wavenumber"), (1, *sizes, len(dataset.dimensions["wavenumber"]))
    metadata.define(dataset, name, dimensions, told, dtype="f8", chunks=chunks, compression=1)


class SpectraOutput(SnapshotOutput):
    """Spectra and transfers."""

    def __init__(self, path, spectra, every):
        self.path, self.spectra, self.every, self.file = Path(path), spectra, every, None

    def open(self, simulation, attributes, claim):
        self.file = SpectraFile(
            claim, self.spectra, simulation.model.grid, start=simulation.start, attributes=attributes,
            members=members_of(simulation), append=self.continues(simulation), resume_time=simulation.time,
            overwrite=simulation.overwrite,
        )  # fmt: skip

    def found(self, simulation):
        where = {"halo": simulation.halo, "step": simulation.step, "dt": simulation.dt}
        return self.spectra.of(simulation.state, **where)
