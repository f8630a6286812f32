"""An output is no input, is of this run alone, and is there at the end; else a run says so and ends."""

import os

import netCDF4
import numpy as np
import pytest

import swmodel as sw
from swmodel.errors import ConfigError, DataError, Interrupted, SwmodelError
from swmodel.output import records
from swmodel.runtime.paths import check_apart
from swmodel.simulation.simulation import Simulation
from tests.gridded import write_axes
from tests.restarts import read_restart
from tests.selection import later

GRID = sw.CartesianGrid(8, 6, (0.0, 8e4), (0.0, 6e4))
MODEL, STEPPER = sw.ShallowWater(GRID, 500.0), sw.AB2(10.0)


def simulation(folder, model=MODEL, **options):
    hump = model.state(eta=lambda x, y: 0.5 * np.exp(-((x - 4e4) ** 2 + (y - 3e4) ** 2) / 4e8))
    run = Simulation(model, hump, STEPPER, **options).write(folder / "fields.nc", ("eta",), every=50.0)
    run.gauges(folder / "gauges.nc", {"a": (3e4, 3e4)}).maxima(folder / "maxima.nc")
    return run.restart(folder / "restart.nc", every=100.0)


# -- what stands there is of this run ----------------------------------------------------------------------------------


def stopped(step):
    """A progress function that ends a run as a signal would, before anything is written at `step`."""

    def progress(now, *_):
        if now >= step:
            raise Interrupted("stopped", 15)

    return progress


def test_a_run_that_is_stopped_before_its_first_restart_leaves_none_of_an_earlier_run(tmp_path):
    simulation(tmp_path).run(steps=20)
    with pytest.raises(Interrupted):
        simulation(tmp_path).run(steps=20, progress=stopped(0))
    assert sorted(os.listdir(tmp_path)) == ["fields.nc", "gauges.nc"]
    with netCDF4.Dataset(tmp_path / "fields.nc") as dataset:
        assert len(dataset["time"]) <= 1


def test_files_of_an_earlier_run_stay_where_the_new_one_cannot_start(tmp_path):
    simulation(tmp_path).run(steps=20)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    blocked = simulation(tmp_path)
    (tmp_path / "folder.nc").mkdir()
    blocked.write(tmp_path / "folder.nc", ("u",), every=50.0)
    with pytest.raises(ConfigError, match="is a folder"):
        blocked.run(steps=5)
    with pytest.raises(ConfigError, match="exists already"):
        simulation(tmp_path, overwrite=False).run(steps=5)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_a_resumed_run_keeps_its_restart_and_removes_another_one(tmp_path):
    simulation(tmp_path).run(steps=10)
    saved = tmp_path / "saved.nc"
    saved.write_bytes((tmp_path / "restart.nc").read_bytes())
    for path, left in ((tmp_path / "restart.nc", True), (saved, False)):
        run = simulation(tmp_path, overwrite=True)
        run.resume(path)
        with pytest.raises(Interrupted):
            run.run(steps=10, progress=stopped(10))
        assert (tmp_path / "restart.nc").exists() == left and saved.exists()


def kept(folder):
    """{path: bytes} of all files in a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_resumed_run_destroys_nothing_that_it_does_not_write_again(tmp_path):
    """Of 20 steps: a branch at step 10, and a run that was killed at step 20 after a restart of step 10."""
    run, saved = simulation(tmp_path).write(tmp_path / "fields.zarr", ("u",), every=50.0), tmp_path / "saved.nc"
    run.run(steps=10)
    saved.write_bytes((tmp_path / "restart.nc").read_bytes())
    run.run(steps=10)
    whole, slower = kept(tmp_path), sw.ShallowWater(GRID, 500.0, dissipation=(sw.LinearDrag(1e-4),))

    def refused(said, path, steps, force=(), model=MODEL):
        before, again = kept(tmp_path), simulation(tmp_path, model=model)
        again.write(tmp_path / "fields.zarr", ("u",), every=50.0).resume(path, force)
        with pytest.raises(DataError, match=rf"{tmp_path}: {said} would be lost, since .* at 100 s; give"):
            again.run(steps=steps)
        assert kept(tmp_path) == before

    later = r"fields.nc \(up to 200 s\), gauges.nc \(up to 200 s\), maxima.nc \(up to 200 s\)"
    zarr = r"fields.zarr \(up to 200 s\)"
    refused(r"restart.nc \(another restart\)", saved, 10)
    refused(rf"{later}, restart.nc \(another restart\), {zarr}", saved, 5)
    (tmp_path / "restart.nc").write_bytes(saved.read_bytes())
    refused(rf"{later}, {zarr}", tmp_path / "restart.nc", 5)
    refused(rf"{later}, {zarr}", tmp_path / "restart.nc", 20, "dissipation", slower)
    again = simulation(tmp_path, overwrite=False).write(tmp_path / "fields.zarr", ("u",), every=50.0)
    again.resume(tmp_path / "restart.nc")
    again.run(steps=10)
    for name in ("fields.nc", "gauges.nc", "maxima.nc"):
        with netCDF4.Dataset("whole", memory=whole[tmp_path / name]) as one, netCDF4.Dataset(tmp_path / name) as two:
            assert all(np.array_equal(variable[:], two[name][:]) for name, variable in one.variables.items())
    chunks = {path: content for path, content in kept(tmp_path / "fields.zarr").items() if path.name != "zarr.json"}
    assert len(chunks) > 8 and chunks.items() <= whole.items()


def test_statistics_of_other_samples_replace_none_of_an_earlier_run(tmp_path):
    simulation(tmp_path).run(steps=10)
    again = Simulation(MODEL, MODEL.at_rest(), STEPPER, overwrite=False).maxima(tmp_path / "maxima.nc", threshold=0.3)
    again.resume(tmp_path / "restart.nc")
    with pytest.raises(DataError, match=r"maxima.nc \(of other samples\) would be lost"):
        again.run(steps=10)


# -- an output is no other file ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["same", "symbolic", "hard", "dotted", "new"])
def test_an_output_that_is_an_input_is_refused_however_it_is_linked(tmp_path, link):
    (tmp_path / "depth.nc").write_text("precious")
    output = tmp_path / "fields.nc"
    if link == "symbolic":
        output.symlink_to("depth.nc")
    elif link == "hard":
        output.hardlink_to(tmp_path / "depth.nc")
    else:
        ways = {"same": "depth.nc", "dotted": f"../{tmp_path.name}/depth.nc", "new": "to/be/made/../../../depth.nc"}
        output = tmp_path / ways[link]
    with pytest.raises(ConfigError, match=r"output.fields: .* is also the file of bathymetry.file.*which the run"):
        check_apart([("output.fields", output)], [("bathymetry.file", tmp_path / "depth.nc")])
    check_apart([("output.fields", tmp_path / "new.nc")], [("observations", tmp_path)])
    with pytest.raises(ConfigError, match="is also the file of observations"):
        check_apart([("output.fields", tmp_path / "depth.nc")], [("observations", tmp_path)])


def test_outputs_that_are_one_file_are_refused_before_any_is_opened(tmp_path):
    run = simulation(tmp_path).write(tmp_path / "." / "gauges.nc", ("u",), every=50.0)
    with pytest.raises(ConfigError, match="is also the file of gauge.*, which is written, too"):
        run.run(steps=1)
    assert os.listdir(tmp_path) == []


def test_the_restart_that_a_run_goes_on_from_is_no_other_output(tmp_path):
    simulation(tmp_path).run(steps=10)
    run = simulation(tmp_path).write(tmp_path / "restart.nc", ("u",), every=50.0)
    run.outputs.pop(-2)  # its own restart
    run.resume(tmp_path / "restart.nc")
    with pytest.raises(ConfigError, match="is also the file of the restart from which the run continues"):
        run.run(steps=1)
    assert read_restart(tmp_path / "restart.nc").scalars["step"] == 10


def test_with_overwrite_the_figures_of_the_files_that_are_replaced_go_and_no_others(tmp_path):
    drawn = ["fields.tsunami.png", "fields.animation.gif", "gauges.gauges.png", "maxima.maximum.png"]
    others = ["fields.png", "other.maps.png", "fields.tsunami.txt", "gauges.png.txt"]
    simulation(tmp_path).run(steps=2)
    for name in drawn + others:
        (tmp_path / name).write_text("drawn")
    with pytest.raises(ConfigError, match="exists already"):
        simulation(tmp_path, overwrite=False).run(steps=2)
    assert {path.name for path in tmp_path.iterdir()} >= {*drawn, *others}
    simulation(tmp_path).run(steps=2)
    left = {path.name for path in tmp_path.iterdir()}
    assert left >= set(others) and not left & set(drawn)


CASE = """\
run = {until = "5 min"}
grid = {type = "cartesian", nx = 8, ny = 6, x = [0, "80 km"], y = [0, "60 km"]}
bathymetry = {type = "file", file = "depth.nc"}
stepper = {type = "rk4", dt = 10}
[[output.fields]]
file = "out.nc"
variables = ["eta"]
every = "1 min"
[output.restart]
every = "1 min"
"""


@pytest.fixture
def case(tmp_path):
    with netCDF4.Dataset(tmp_path / "depth.nc", "w") as dataset:
        write_axes(dataset, dict.fromkeys("xy", ("m", np.linspace(-1e4, 1e5, 12))))
        dataset.createVariable("elevation", "f8", ("y", "x"))[:] = -1000.0
    (tmp_path / "case.toml").write_text(CASE)
    return tmp_path / "case.toml"


def test_a_run_does_not_write_over_its_bathymetry_its_experiment_or_its_initial_state(command, case):
    folder, before = case.parent, case.with_name("depth.nc").read_bytes()
    (folder / "linked.nc").hardlink_to(case)
    (folder / "soft.nc").symlink_to("depth.nc")
    pairs = {
        "depth.nc": "bathymetry.file",
        "soft.nc": "bathymetry.file",
        "linked.nc": "the experiment",
        "new/../depth.nc": "bathymetry.file",
    }
    keys = 2 * ("output.fields.0.file", "output.restart.file")
    for key, (name, other) in zip(keys, pairs.items(), strict=True):
        status, _, err = command("run", case, "-o", folder, "--overwrite", "-q", "--set", f"{key}={name}")
        assert status == 2 and f"is also the file of {other}" in err and err.count("error:") == 1
    assert case.with_name("depth.nc").read_bytes() == before and case.read_text() == CASE
    assert not (folder / "restart.nc").exists()


STUDIES = """\
[output.gauges.positions]
A = ["30 km", "30 km"]
[adjoint]
controls = ["initial.eta"]
[adjoint.cost]
type = "gauge_elevation"
window = ["1 min", "3 min"]
[inversion]
[[inversion.controls]]
type = "field"
name = "initial.eta"
deviation = 0.3
length = "30 km"
[inversion.observations]
type = "gauges"
window = ["1 min", "3 min"]
[inversion.twin]
"""


@pytest.mark.parametrize(
    ("key", "verb"),
    [
        ("output.fields.0.file", "run"),
        ("output.restart.file", "run"),
        ("adjoint.file", "adjoint"),
        ("inversion.file", "invert"),
        later("inversion.restart", "invert"),
    ],
)
def test_check_refuses_the_outputs_that_each_command_refuses(command, case, key, verb):
    case.write_text(CASE + STUDIES)
    case.with_name("linked.nc").hardlink_to(case.with_name("depth.nc"))
    before = case.with_name("depth.nc").read_bytes()
    changes = "--set", f"output.folder={case.parent}", "--set", f"{key}=linked.nc"
    for arguments in (("check", case), (verb, case, "--overwrite", "-q")):
        status, _, err = command(*arguments, *changes)
        name = key.replace(".0.file", "").replace("restart.file", "restart")
        assert status == 2 and f"{name}: " in err and "is also the file of bathymetry.file" in err.replace("\n", " "), (
            err
        )
        assert err.count("error:") == 1
    assert case.with_name("depth.nc").read_bytes() == before


REFUSED = {
    "a compression that stores do not have": (
        ("output.fields.0.file=f.zarr", "output.fields.0.compression=zstd"),
        "output.fields[0]: {}/f.zarr: Zarr stores are compressed by zlib; leave compression = 'zstd' out.",
    ),
    "an output in a store": (
        ("output.fields.0.file=f.zarr", "output.restart.file=f.zarr/restart.zarr"),
        "output.fields: {0}/f.zarr is the folder of output.restart ({0}/f.zarr/restart.zarr); give it another name.",
    ),
    "an input in a store": (
        ("output.restart.file=inputs.zarr", "bathymetry.file=inputs.zarr/depth.nc"),
        "output.restart: {0}/inputs.zarr is the folder of bathymetry.file ({0}/inputs.zarr/depth.nc); give it another",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("verb", ["check", "run"])
def test_check_refuses_the_outputs_that_a_run_refuses(command, case, what, verb):
    (changes, said), folder = REFUSED[what], case.parent
    (folder / "inputs.zarr").mkdir()
    (folder / "inputs.zarr" / "depth.nc").hardlink_to(folder / "depth.nc")
    options = [part for change in (f"output.folder={folder}", *changes) for part in ("--set", change)]
    status, _, err = command(verb, case, *options)
    assert status == 2 and said.format(folder) in " ".join(err.split()) and err.count("error:") == 1, err
    assert (folder / "inputs.zarr" / "depth.nc").exists()


def test_check_refuses_studies_that_write_one_file(command, case):
    case.write_text(CASE + STUDIES)
    assert command("check", case)[0] == 0
    status, _, err = command("check", case, "--set", "adjoint.file=out.nc", "--set", "inversion.restart=restart.nc")
    assert status == 2 and err.count("which is written, too") == 2, err


# -- files that somebody else touches ----------------------------------------------------------------------------------


def removed(path):
    path.unlink()


def replaced(path):
    path.rename(path.with_suffix(".old"))
    path.write_text("something else")


def truncated(path):
    os.truncate(path, 100)


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        ("fields", removed, "was removed"),
        ("gauges", replaced, "was replaced by another file"),
        ("fields", truncated, "was cut from .* to 100 bytes"),
        later("gauges", removed, "was removed"),
        later("fields", replaced, "was replaced by another file"),
        later("gauges", truncated, "was cut from .* to 100 bytes"),
    ],
)
def test_an_output_that_is_lost_during_a_run_ends_it_after_a_restart(tmp_path, name, harm, said):
    def progress(step, *_):
        if step == 10:
            harm(tmp_path / f"{name}.nc")

    run = simulation(tmp_path)
    run.write(tmp_path / "often.nc", ("u",), every=10.0)  # so that the run stops at every step
    with pytest.raises(SwmodelError, match=f"{name}.nc {said} while the run was writing.*swmodel resume .*rest"):
        run.run(steps=30, progress=progress)
    assert read_restart(tmp_path / "restart.nc").scalars["step"] == run.step > 10
    with netCDF4.Dataset(tmp_path / "often.nc") as dataset:
        assert len(dataset["time"]) == run.step + 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_is_cut_while_a_record_is_written_into_it_ends_the_run(tmp_path, monkeypatch, when):
    """HDF5 then writes at the old end, and the file is as long as before."""
    reserve, cut = records.reserve, []

    def reserve_and_cut(descriptor, size, name):
        if when == "after":
            reserve(descriptor, size, name)
        if name.name == "gauges.nc" and len(cut) < 3:
            cut.append(os.fstat(descriptor).st_size)
            if len(cut) == 3:
                os.ftruncate(descriptor, 1000)
        if when == "before":
            reserve(descriptor, size, name)

    monkeypatch.setattr(records, "reserve", reserve_and_cut)
    run = simulation(tmp_path)
    run.restart(tmp_path / "often.nc", every=10.0)  # before which the records of gauges are written
    with pytest.raises(SwmodelError, match="gauges.nc (was cut|could not be written)"):
        run.run(steps=30)
    assert len(cut) == 3


def test_an_output_that_is_lost_after_its_last_record_is_missed_at_the_end(tmp_path):
    for name in ("restart", "fields"):
        run = simulation(tmp_path)

        def progress(step, last, *_, name=name):
            if step == last:
                (tmp_path / f"{name}.nc").unlink()

        with pytest.raises(SwmodelError, match=f"{name}.nc was removed"):
            run.run(steps=10, progress=progress)


# -- what files say about themselves -----------------------------------------------------------------------------------


def attributes_of(path, *variables):
    with netCDF4.Dataset(path) as dataset:
        found = [{name: dataset[v].getncattr(name) for name in dataset[v].ncattrs()} for v in variables]
        return {name: dataset.getncattr(name) for name in dataset.ncattrs()}, *found


def test_files_say_in_which_precision_they_were_computed_and_stored_and_by_which_scheme(tmp_path):
    stepper = sw.AB2(10.0, epsilon=0.07)
    run = Simulation(MODEL, MODEL.at_rest(), stepper).write(tmp_path / "f.nc", ("eta",), every=10.0)
    run.maxima(tmp_path / "m.nc").restart(tmp_path / "r.nc").gauges(tmp_path / "g.nc", {"a": (3e4, 3e4)})
    run.run(steps=1)
    for name, stored in (("f", "float32"), ("g", "float32"), ("r", "float64")):
        about = attributes_of(tmp_path / f"{name}.nc")[0]
        assert (about["computed_in"], about["stored_as"]) == ("float64", stored) and "precision" not in about
        assert about["time_stepper"] == "AB2(dt=10, epsilon=0.07)"
    assert attributes_of(tmp_path / "m.nc")[0]["stored_as"].startswith("float64")


def test_files_cite_the_schemes_that_were_used_and_no_others():
    from swmodel.output.metadata import references

    assert references(sw.ShallowWater(GRID, 500.0, linear=True), sw.RK4(1.0)) is None
    used = references(sw.ShallowWater(GRID, 500.0, momentum=sw.ArakawaLamb()), sw.SSPRK3(1.0))
    assert "Arakawa" in used and "Shu and Osher" in used and "Sadourny" not in used
    spectral = references(sw.ShallowWater(GRID, 500.0, core=sw.PseudoSpectral()), sw.SemiImplicit(1.0))
    assert spectral.startswith("Orszag") and "Casulli" in spectral and "Sadourny" not in spectral


def test_under_reduced_gravity_nothing_is_called_a_sea_surface(tmp_path):
    model = sw.ShallowWater(GRID, 500.0, gravity=0.02)
    run = Simulation(model, model.at_rest(), STEPPER)
    run.write(tmp_path / "f.nc", ("eta", "thickness"), every=10.0).maxima(tmp_path / "m.nc")
    run.gauges(tmp_path / "g.nc", {"a": (3e4, 3e4)}).extremes(tmp_path / "e.nc").run(steps=1)
    _, eta, thickness, depth = attributes_of(tmp_path / "f.nc", "eta", "thickness", "depth")
    found = [eta, thickness, depth, *attributes_of(tmp_path / "g.nc", "eta")[1:]]
    found += attributes_of(tmp_path / "m.nc", "maximum_elevation", "depth")[1:]
    found += attributes_of(tmp_path / "e.nc", "maximum_elevation", "minimum_elevation", "time_over_threshold")[1:]
    assert all("standard_name" not in about and "layer" in about["long_name"] for about in found)
    assert not any("sea" in about["long_name"] for about in found)


@pytest.fixture
def run():
    """A linear Simulation from a slope."""
    model = sw.ShallowWater(GRID, 500.0, linear=True, engine="arrays")
    return sw.Simulation(model, model.state(eta=lambda x, y: 1e-5 * x), sw.ForwardBackward(10.0))


@pytest.mark.parametrize("compression", ["zlib", "zstd", "none"])
def test_fields_are_the_same_however_they_are_compressed(tmp_path, compression, run):
    run.write(tmp_path / "f.nc", ("eta",), compression=compression).run(steps=1)
    with netCDF4.Dataset(tmp_path / "f.nc") as found:
        filters = found["eta"].filters()
        assert [name for name in ("zlib", "zstd") if filters[name]] == [
            name for name in [compression] if name != "none"
        ]
        np.testing.assert_array_equal(found["eta"][-1], np.asarray(run.state.eta).astype("f4"))


def test_a_compression_that_cannot_be_is_refused(tmp_path, monkeypatch, run):
    with pytest.raises(ConfigError, match="compression = 'lzma' is unknown; known are auto, none, zlib, zstd"):
        run.write(tmp_path / "f.nc", compression="lzma")
    with pytest.raises(ConfigError, match="Zarr stores are compressed by zlib; leave compression = 'zstd' out"):
        run.write(tmp_path / "f.zarr", compression="zstd")
    monkeypatch.setattr("swmodel.output.products.snapshots.has_zstd", lambda: False)
    with pytest.raises(ConfigError, match="the netCDF library here has no zstd; use compression 'zlib' or 'none'"):
        run.write(tmp_path / "f.nc", compression="zstd")


@pytest.mark.parametrize("has", [True, False])
def test_fields_are_compressed_by_zstd_where_the_library_has_it_and_else_by_zlib(tmp_path, monkeypatch, has, run):
    monkeypatch.setattr("swmodel.output.products.snapshots.has_zstd", lambda: has)
    run.write(tmp_path / "f.nc", ("eta",)).run(steps=1)
    with netCDF4.Dataset(tmp_path / "f.nc") as found:
        filters = found["eta"].filters()
        assert (filters["zstd"], filters["zlib"]) == (has, not has)
