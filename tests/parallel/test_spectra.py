"""Spectra and transfers on many ranks are those of one, to rounding; their files too."""

import itertools

import numpy as np
import pytest

import swmodel as sw
from swmodel.parallel import SerialCommunicator, make_communicator

from . import cases

TOPOLOGIES = ["xy", "x"] if cases.RANKS < 4 else ["x"]  # without and with walls; transforms alone: test_fft


CORES = {"differences": sw.FiniteDifferences(), "series": sw.PseudoSpectral(sw.HyperViscosity(1e-5))}


def ocean(periodic, communicator, core="differences"):
    """Uneven tiles, cells that are no squares, a rough bottom and every kind of term."""
    grid = sw.CartesianGrid(cases.NX, cases.NY, (0.0, 1.3e5), (0.0, 1.9e5), periodic)
    return sw.ShallowWater(
        grid,
        cases.sea_floor(islands=False),
        coriolis=sw.FPlane(1e-4),
        communicator=communicator,
        forcing=(sw.WindStress(x=lambda x, y: 0.1 * np.cos(y / 2e4)),),
        dissipation=(sw.LinearDrag(1e-6),),
        core=CORES[core],
    )


@pytest.mark.parametrize(
    "core, periodic",
    [("differences", "x"), pytest.param("series", "xy", marks=pytest.mark.verify)]
    if cases.RANKS == 2
    else itertools.product(CORES, TOPOLOGIES),
)
def test_spectra_of_all_ranks_are_those_of_one(periodic, core):
    layout = cases.LAYOUTS[-1]
    ours = ocean(periodic, make_communicator("auto", (cases.NY, cases.NX), layout), core)
    found = sw.Spectra(ours).of(cases.start(ours))

    def alone():
        model = ocean(periodic, SerialCommunicator(), core)
        return sw.Spectra(model).of(cases.start(model))

    expected = cases.from_root(alone)
    assert set(found) == set(expected) and len(found) > 10
    for name, values in expected.items():
        if (core, name) == ("series", "kinetic_energy_transfer_coriolis"):  # nothing but rounding on an f-plane
            values, found[name] = (x[name] + x["kinetic_energy_transfer_pressure"] for x in (expected, found))
        assert np.abs(values).max() > 0, name
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12 * np.abs(values).max(), err_msg=name)


@pytest.mark.verify
@pytest.mark.skipif(cases.RANKS > 2, reason="what it adds to the above does not depend on how many ranks there are")
def test_a_run_on_all_ranks_writes_what_spectra_tell(tmp_path_factory):
    import xarray as xr

    model = ocean("xy", make_communicator("auto", (cases.NY, cases.NX)))
    folder = model.communicator.from_root(lambda: tmp_path_factory.mktemp("spectra"))
    run = sw.Simulation(model, cases.start(model), sw.AB2(10.0))
    run.spectra(folder / "spectra.nc", every=30.0, transfers=False)
    run.run(steps=5)
    found = sw.Spectra(model, transfers=False).of(run.state)
    if model.communicator.is_root:
        with xr.open_dataset(folder / "spectra.nc", decode_times=False) as file:
            assert file["time"].values.tolist() == [0.0, 30.0, 50.0]
            for name, values in found.items():
                np.testing.assert_allclose(file[name][-1], values, rtol=1e-12)
    model.communicator.barrier()
