"""The loop compiler can be looked into: one interface for both sides, names, lines of Python, kept sources."""

import dataclasses
import linecache
import re
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swmodel.errors import ConfigError
from swmodel.fields.field import WHOLE, mean_xy
from swmodel.stencils import compiled, native
from swmodel.stencils.derivatives import tangent, transpose
from swmodel.stencils.expressions import Layout, Source, stored
from swmodel.stencils.graph import trace_graph
from swmodel.stencils.native import library
from swmodel.stencils.source import c_source
from swmodel.stencils.stencil import run

needs_compiler = pytest.mark.skipif(not native.usable(), reason="no C++ compiler here")

NY, NX = 6, 9
TYPES = ("float64", "float64"), ("float64",)


def source_of(name, seed=0):
    data = jnp.asarray(np.random.default_rng(seed).standard_normal((NY + 4, NX + 4)))
    return Source(data, (2, 2), (2,) * 4, data.dtype, prognostic=True, name=name)


def spice(eta, u):
    return mean_xy(mean_xy(u)) + 3.0 * eta * eta  # this line


def graph():
    return trace_graph([spice(stored(source_of("eta"), "h"), stored(source_of("u", 1), "h"))], ("heat",))[0]


# -- the interface ----------------------------------------------------------------------------------------------------


@needs_compiler
def test_python_and_cpp_agree_on_every_record_of_the_interface(tmp_path):
    """Each integer of a record lies where C++ reads the field of that name."""
    prints, expected = [], []
    for record in library.RECORDS:
        place = 0
        for field in dataclasses.fields(record):
            prints.append(
                f'std::printf("{record.__name__}.{field.name} %zu\\n", offsetof({record.__name__}, {field.name}));'
            )
            expected.append(f"{record.__name__}.{field.name} {8 * place}")
            place += field.metadata["count"]
        values = [list(range(10, 10 + f.metadata["count"])) for f in dataclasses.fields(record)]
        flat = library.numbers(record(*(v if len(v) > 1 else v[0] for v in values)))
        assert flat == [n for v in values for n in v] and len(flat) == place
    for when in library.When:
        prints.append(f'std::printf("{when.name} %d\\n", int({when.name}));')
        expected.append(f"{when.name} {when.value}")
    text = f"#include <cstddef>\n#include <cstdio>\n{library.header()}int main() {{\n{chr(10).join(prints)}\n}}\n"
    (tmp_path / "offsets.cpp").write_text(text)
    subprocess.run(
        [*library.find_compiler(), "-std=c++17", "-o", tmp_path / "offsets", tmp_path / "offsets.cpp"], check=True
    )
    found = subprocess.run([tmp_path / "offsets"], check=True, capture_output=True, text=True).stdout.split("\n")
    assert found[:-1] == expected


# -- names and lines --------------------------------------------------------------------------------------------------


def test_a_statement_names_its_field_or_its_line_of_python():
    text = c_source(graph(), TYPES, comments=True)
    commented = [
        line for line in text.splitlines() if line.lstrip().startswith(("const double t", "double* k", "out0"))
    ]
    assert commented and all(" // " in line for line in commented)
    assert any(re.search(r"const double t\d+ = .*  // eta$", line) for line in commented)
    assert any(
        re.search(r"  // \S*test_loop_source.py:\d+: return mean_xy\(mean_xy\(u\)\) \+ 3.0", line) for line in commented
    )
    assert any(re.search(r"out0\[i\] = .*  // heat$", line) for line in commented)


def test_comments_change_nothing_and_no_line_number():
    plain, commented = c_source(graph(), TYPES).splitlines(), c_source(graph(), TYPES, comments=True).splitlines()
    assert len(plain) == len(commented)
    assert all(
        long.startswith(short) and long[len(short) :][:4] in ("", "  //") for short, long in zip(plain, commented)
    )


def test_graphs_that_differ_in_names_and_lines_alone_are_one_loop():
    def other(eta, u):
        return mean_xy(mean_xy(u)) + 3.0 * eta * eta

    second = trace_graph([other(stored(source_of("h"), "h"), stored(source_of("v"), "h"))])[0]
    assert second == graph() and hash(second) == hash(graph())
    assert c_source(second, TYPES) is c_source(graph(), TYPES)


def test_derivatives_name_what_they_are_derivatives_of():
    alone, both, _ = tangent(graph(), (0, 1), ())
    assert alone.names == ("tangent of heat",) and both.names == ("heat", "tangent of heat")
    assert {a.name for a in compiled.reads(alone)} == {"eta", "tangent of eta", "tangent of u"}
    made = transpose(alone.pruned[0], (1, 2), (), (0,)).graph
    assert set(made.names) == {"cotangent of eta", "cotangent of u"}
    assert "cotangent of heat" in {a.name for a in compiled.reads(made)}
    assert re.search(r"# (tangent|cotangent) of \S*test_loop_source.py:\d+: return mean_xy", compiled.graph_text(made))


def test_a_printed_graph_has_names_places_and_lines_and_reads_are_counted():
    text = compiled.graph_text(graph())
    number = next(k for k, line in enumerate(open(__file__), 1) if "# this line" in line and "return" in line)
    assert f"test_loop_source.py:{number}: {linecache.getline(__file__, number).strip()}" in text
    assert "eta" in text and re.search(r"^ heat = n\d+", text, re.M) and re.search(r"^\*n\d+ = ", text, re.M)
    eta, u = sorted(compiled.reads(graph()), key=lambda a: a.name)
    assert (eta.name, eta.halo) == ("eta", (0, 0, 0, 0)) and (u.name, u.halo) == ("u", (1, 1, 1, 1))
    cost = compiled.cost(graph(), TYPES)
    assert cost.bytes == 24 and 7 <= cost.operations <= 13  # a mean of four twice, in 3 or more operations each


def test_a_column_counts_no_bytes_a_cell():
    column = Source(jnp.ones((NY + 4, 1)), (2, 0), (WHOLE, WHOLE, 2, 2), np.dtype("float64"), name="dx")
    made = trace_graph([stored(source_of("eta"), "h") * stored(column, "h")])[0]
    assert [(a.name, a.is_column) for a in compiled.reads(made)] == [("eta", False), ("dx", True)]
    assert compiled.cost(made, (("float64", "float64"), ("float64",))).bytes == 16


# -- kept sources -----------------------------------------------------------------------------------------------------


def loop(factor):
    source = source_of("eta")
    return run([factor * mean_xy(mean_xy(stored(source, "h")))], Layout((NY, NX), 2), names=("smooth",))[0][0]


def masked(mask, eta):
    return mean_xy(mean_xy(mask * eta)) * mask


def test_masks_are_converted_in_a_pass_of_their_own():
    """A pass over bytes and floats is compiled for as many cells at a time as a vector has bytes: 64 with AVX-512."""
    mask = Source(jnp.ones((NY + 4, NX + 4), jnp.uint8), (2, 2), (2,) * 4, np.dtype("float64"), name="mask")
    made = trace_graph([masked(stored(mask, "h"), stored(source_of("eta"), "h"))])[0]
    text = c_source(made, (("uint8", "float64"), ("float64",)))
    bodies = re.findall(r"static void pass(\d+)(?:_\w+)?\(.*?\n(.*?)\n\}\n", text, re.S)
    assert {number for number, body in bodies if "uint8_t" in body} == {"0"}
    assert {number for number, body in bodies} > {"0"}
    assert all("in1_" not in body for number, body in bodies if number == "0")  # only the conversion is in it


@needs_compiler
def test_sources_are_kept_where_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("SWMODEL_KEEP_SOURCE", str(tmp_path / "kept"))
    jax.jit(lambda: loop(1.25))()
    (file,) = (tmp_path / "kept").iterdir()
    text = file.read_text()
    assert re.fullmatch(r"smooth_[0-9a-f]{8}\.cpp", file.name)
    assert "struct RowCall" in text and "  // eta" in text and "test_loop_source.py" in text and "// The graph" in text


@needs_compiler
def test_a_source_that_the_compiler_refuses_is_kept_too(tmp_path, monkeypatch):
    monkeypatch.setenv("SWMODEL_KEEP_SOURCE", str(tmp_path / "kept"))
    monkeypatch.setattr(library, "_compile", lambda *a: (_ for _ in ()).throw(library.CompileError("refused")))
    monkeypatch.setattr("swmodel.runtime.cache.find", lambda *a, **k: None)
    with pytest.raises(library.CompileError, match="refused"):
        jax.jit(lambda: loop(1.375))()
    assert len(list((tmp_path / "kept").glob("smooth_*.cpp"))) == 1


@needs_compiler
def test_a_folder_for_sources_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SWMODEL_KEEP_SOURCE", str(tmp_path / "file" / "kept"))
    with pytest.raises(ConfigError, match="SWMODEL_KEEP_SOURCE = .*cannot be written there .*; name a folder"):
        jax.jit(lambda: loop(1.5))()
