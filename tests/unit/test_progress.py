"""The progress of a run in a notebook: one bar in the cell's output, updated in place."""

import sys
import types

import pytest

import swmodel as sw
from swmodel.simulation import progress


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
    assert progress.in_notebook()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert not progress.in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not progress.in_notebook()
