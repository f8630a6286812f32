"""Models, simulations and experiments show themselves, as text and in notebooks; and what a State adds up to."""

import base64
import datetime
import re
import struct
import sys
import types
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

import swmodel as sw
from swmodel.config import load
from swmodel.simulation import progress

GRID = sw.CartesianGrid(12, 8, (0.0, 12e3), (0.0, 8e3))


@pytest.fixture(scope="module")
def model():
    depth = np.full(GRID.shape, 100.0)
    depth[:, 0] = 0.0
    return sw.ShallowWater(
        GRID, depth, coriolis=sw.FPlane(1e-4), dissipation=sw.LinearDrag(1e-5), boundaries=sw.Flather("east")
    )


def pixels(page):
    """The colours (rows, columns, 3) of the PNG in a page."""
    data = base64.b64decode(re.search(r'base64,([^"]+)"', page)[1])
    assert data.startswith(b"\x89PNG")
    columns, rows = struct.unpack(">II", data[16:24])
    size = struct.unpack(">I", data[33:37])[0]
    lines = np.frombuffer(zlib.decompress(data[41 : 41 + size]), np.uint8).reshape(rows, 1 + 3 * columns)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(rows, columns, 3)


def closed(page):
    """Whether each tag of a page is closed."""
    opened = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: None if tag == "img" else opened.append(tag)
    parser.handle_endtag = lambda tag: opened.remove(tag)
    parser.feed(page)
    return not opened


def test_a_model_shows_a_table_and_its_depth(model):
    for text in ("12 x 8 cells", "100 m deep, 92 % of the cells wet", "FPlane", "LinearDrag", "Flather (east)"):
        assert text in repr(model) and text in model._repr_html_()
    colours = pixels(model._repr_html_())
    assert colours.shape == (8, 12, 3) and closed(model._repr_html_())
    assert (colours[:, 0] == colours[0, 0]).all() and (colours[:, 1:] != colours[0, 0]).any(axis=-1).all()


def test_a_simulation_shows_its_time_and_its_elevation(model):
    state = model.state(eta=lambda x, y: np.where(x > 6e3, 0.5, -0.5) + 0.0 * y)
    simulation = sw.Simulation(model, state, sw.AB2(1.0), start=datetime.datetime(2011, 3, 11))
    text, page = repr(simulation), simulation._repr_html_()
    assert "0 s after 2011-03-11 00:00:00 UTC, step 0" in text and "AB2, dt = 1 s" in text and "LinearDrag" in page
    colours = pixels(page).astype(int)
    assert (colours[:, -1, 0] > colours[:, -1, 2]).all() and (colours[:, 1, 0] < colours[:, 1, 2]).all()
    assert "-0.5 to 0.5 m" in page and closed(page)


def test_an_ensemble_and_an_experiment_show_what_they_hold(model, tmp_path):
    ensemble = sw.Ensemble(model, [model.at_rest()] * 2, {"initial.amplitude": [1.0, 2.0]})
    assert "2, which differ in initial.amplitude" in repr(ensemble) and closed(ensemble._repr_html_())
    file = tmp_path / "x.toml"
    file.write_text(
        '[grid]\ntype = "cartesian"\nnx = 4\nny = 4\nx = [0, 4e3]\ny = [0, 4e3]\n'
        '[bathymetry]\ntype = "flat"\ndepth = 9\n[[forcing]]\ntype = "wind_stress"\nx = "1e-3 * y"\n'
        '[stepper]\ntype = "ab2"\n[run]\nuntil = 60\ntitle = "a < b"\n'
    )
    experiment = load(file)
    assert 'x = "1e-3 * y"' in repr(experiment) and "model" not in repr(experiment)
    page = experiment._repr_html_()
    assert "a &lt; b" in page and closed(page)
    assert pixels(page).shape == (4, 4, 3)


def test_an_experiment_shows_its_depth_as_the_model_will_have_it(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text(
        '[grid]\ntype = "cartesian"\nnx = 6\nny = 4\nx = [0, 6e3]\ny = [0, 4e3]\n'
        '[bathymetry]\ntype = "formula"\ndepth = "where(x < 2e3, 0.0, 10.0 + 0.01 * y)"\n'
        '[stepper]\ntype = "ab2"\n[run]\nuntil = 60\n'
    )
    colours = pixels(load(file)._repr_html_()).astype(int)
    assert (colours[:, :2] == colours[0, 0]).all() and (colours[:, 2:] != colours[0, 0]).any(axis=-1).all()
    assert (np.diff(colours[:, 4].sum(axis=-1)) > 0).all()  # darkest in the north, where it is deepest


def test_an_experiment_without_its_files_shows_a_table_alone(tmp_path):
    file = tmp_path / "x.toml"
    (tmp_path / "depth.nc").write_text("no netCDF")
    file.write_text(
        '[grid]\ntype = "cartesian"\nnx = 6\nny = 4\nx = [0, 6e3]\ny = [0, 4e3]\n'
        '[bathymetry]\ntype = "file"\nfile = "depth.nc"\n[stepper]\ntype = "ab2"\n[run]\nuntil = 60\n'
    )
    page = load(file)._repr_html_()
    assert "depth.nc" in page and "<img" not in page


def test_volume_energy_and_enstrophy_of_uniform_states(model):
    periodic = sw.ShallowWater(GRID.__class__(12, 8, (0.0, 12e3), (0.0, 8e3), "xy"), 100.0, coriolis=sw.FPlane(1e-4))
    state, area = periodic.state(eta=0.5, u=2.0), 96e6
    assert sw.volume(periodic, state) == pytest.approx(0.5 * area, rel=1e-12)
    wanted = 1000.0 * area * (100.5 * 2.0**2 / 2 + 9.81 * 0.5**2 / 2)
    assert sw.energy(periodic, state, density=1000.0) == pytest.approx(wanted, rel=1e-12)
    assert sw.potential_enstrophy(periodic, state) == pytest.approx(area * 1e-8 / (2 * 100.5), rel=1e-12)
    with pytest.raises(ValueError, match="energy"):
        sw.energy(model, "a state")


def test_all_walls_of_a_basin_count_in_its_potential_enstrophy():
    grid, parts = sw.CartesianGrid(6, 6, (0.0, 6e3), (0.0, 6e3)), {"coriolis": sw.FPlane(1e-4), "side": sw.NoSlip()}
    basin = sw.ShallowWater(grid, 100.0, dtype="float64", **parts)
    assert sw.potential_enstrophy(basin, basin.at_rest()) == pytest.approx(36e6 * 1e-8 / 200.0, rel=1e-12)
    island = np.full(grid.shape, 100.0)
    island[2, 2] = 0.0
    dry = sw.ShallowWater(grid, island, dtype="float64", **parts)
    assert sw.potential_enstrophy(dry, dry.at_rest()) == pytest.approx(35e6 * 1e-8 / 200.0, rel=1e-12)
    calm = sw.ShallowWater(grid, 100.0, dtype="float64", side=sw.NoSlip())
    along = np.zeros((4, 6, 6))
    along[0, :-1, 0], along[1, :-1, -1], along[2, 0, :-1], along[3, -1, :-1] = 1.0, 1.0, 1.0, 1.0  # beside each wall
    west, east = (sw.potential_enstrophy(calm, calm.state(v=v)) for v in along[:2])
    south, north = (sw.potential_enstrophy(calm, calm.state(u=u)) for u in along[2:])
    np.testing.assert_allclose([west, south, north], east, rtol=1e-12)


# -- notebooks ---------------------------------------------------------------------------------------------------------


class ZMQInteractiveShell:
    """Named as the shell of a Jupyter kernel."""


@pytest.fixture
def notebook(monkeypatch):
    """[(what IPython was asked for, the bundle, the identifier of the output)]; this process appears to be a kernel."""
    asked = []

    def recorded(name):
        return lambda bundle, raw, display_id: asked.append((name, bundle, display_id, raw))

    shown = types.ModuleType("IPython.display")
    shown.display, shown.update_display = recorded("display"), recorded("update")
    kernel = types.ModuleType("IPython")
    kernel.display, kernel.get_ipython = shown, ZMQInteractiveShell
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return asked


def test_a_run_in_a_notebook_updates_one_bar(notebook, monkeypatch, capsys):
    monkeypatch.setattr(progress, "REDRAW", 0.0)
    model = sw.ShallowWater(sw.CartesianGrid(8, 8, (0, 8e4), (0, 8e4)), 100.0)
    sw.Simulation(model, model.at_rest(), sw.RK4(dt=60.0)).run(steps=20, progress=True)
    assert capsys.readouterr().out == ""
    assert [name for name, *_ in notebook] == ["display"] + ["update"] * (len(notebook) - 1) and len(notebook) >= 2
    assert len({identifier for _, _, identifier, _ in notebook}) == 1 and all(raw for *_, raw in notebook)
    first, last = notebook[0][1], notebook[-1][1]
    assert 'value="0.0000"' in first["text/html"] and 'value="1.0000" max="1"' in last["text/html"]
    assert last["text/plain"].startswith("100 %  model time 20 min") and last["text/plain"] in last["text/html"]


def test_a_script_and_a_terminal_of_ipython_are_no_notebooks(notebook, monkeypatch):
    assert isinstance(progress.usual_bar(), progress.NotebookBar)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert not isinstance(progress.usual_bar(), progress.NotebookBar)
    monkeypatch.delitem(sys.modules, "IPython")
    assert not isinstance(progress.usual_bar(), progress.NotebookBar)
