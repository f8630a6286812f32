"""What README and docs show: every block of Python runs, what it integrates is a Simulation's run, commands exist.

The blocks of a document are one script. `<!-- continues NAME.md -->` above a block says that it needs what the first
block of another document has made.
"""

import ast
import functools
import re
import shlex
import sys
from pathlib import Path

import jax
import netCDF4
import numpy as np
import pytest
import typer

import swmodel
import swmodel as sw
from swmodel.cli.commands import app
from swmodel.cli.files import library
from swmodel.runtime import paths
from swmodel.runtime.compilation import jit
from swmodel.simulation.simulation import Simulation
from tests import scripts

ROOT = Path(sw.__file__).parents[1]
UsageError = typer.BadParameter.__base__  # of the click that typer has
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONTINUES = re.compile(r"<!-- continues (\S+) -->")


def blocks(document, language):
    """[(number of the line before it, text)] of the blocks in a language; "" is none."""
    text = document.read_text(encoding="utf-8")
    return [(text[: m.start()].count("\n") + 1, m[2]) for m in BLOCK.finditer(text) if m[1] == language]


def script(document):
    """[(document, line, code)] of a document, first what it continues."""
    own = [(document, *block) for block in blocks(document, "python")]
    before = [script(document.parent / name)[0] for name in CONTINUES.findall(document.read_text(encoding="utf-8"))]
    return before + own


@pytest.fixture
def in_a_folder(a_users_process, monkeypatch, tmp_path):
    """A user's process in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)


def executed(document):
    """The names that the blocks of a document leave behind."""
    names = {"__name__": f"doc_{document.stem}"}
    sys.modules[names["__name__"]] = type(sys)(names["__name__"])  # where dataclasses look for their annotations
    for file, line, code in script(document):
        exec(compile("\n" * line + code, str(file), "exec"), names)  # noqa: S102  errors have the document's line
    return names


WITH_PYTHON = [document for document in DOCUMENTS if blocks(document, "python")]

# what a document integrates: (model, stepper, first State, how many steps)
RUNS = {
    "README.md": lambda n: (n["model"], n["stepper"], n["bump"], 200),
    "docs/guide/sharded.md": lambda n: (n["model"], n["stepper"], n["bump"], 200),
    "docs/theory/adjoint.md": lambda n: (n["model"], n["stepper"], n["state"], 1000),
    "docs/theory/terms.md": lambda n: (n["model"], n["stepper"], n["model"].at_rest(), 60),
}


@pytest.fixture
def models(monkeypatch):
    """[ShallowWater], the models that are made from now on and of which no step has been traced yet."""
    made, init, halo = [], sw.ShallowWater.__init__, sw.ShallowWater.halo

    def make(self, *arguments, **options):
        init(self, *arguments, **options)
        made.append(self)

    def trace(self, stepper):
        made[:] = [model for model in made if model is not self]
        return halo(self, stepper)

    monkeypatch.setattr(sw.ShallowWater, "__init__", make)
    monkeypatch.setattr(sw.ShallowWater, "halo", trace)
    return made


def step_each(models):
    """Trace a step of each model, which shows all that fails in the first step of a run, but for values."""
    for model in list(models):
        model.halo(sw.SSPRK3(1.0))
    assert not models


@pytest.mark.verify
@pytest.mark.parametrize("document", WITH_PYTHON, ids=lambda d: f"{d.parent.name}/{d.name}")
def test_the_python_of_a_document_runs_and_integrates_as_a_simulation_does(document, in_a_folder, models, capsys):
    names = executed(document)
    step_each(models)  # of an example that only makes its model
    if document in NOTEBOOKS:  # what a notebook prints is finite
        assert "nan" not in capsys.readouterr().out
    name = document.relative_to(ROOT).as_posix()
    in_runs = name in RUNS
    assert in_runs == any("integrate(" in code for _, code in blocks(document, "python"))
    if not in_runs:
        return
    model, stepper, state, steps = RUNS[name](names)
    program = jit(model.communicator.spmd(lambda dynamics, state: sw.integrate(dynamics, stepper, state, steps)[0]))
    found = program(names["dynamics"], state)
    wanted = Simulation(model, state, stepper).run(steps=steps)
    for a, b in zip(*(jax.tree.leaves(jax.tree.map(model.gather, x)) for x in (found, wanted))):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * np.abs(b).max())


@pytest.mark.verify
def test_a_river_adds_its_water(in_a_folder):
    names = executed(ROOT / "docs" / "questions.md")
    assert names["added"] == pytest.approx(names["discharge"] * 6 * 3600.0, rel=1e-4)


@pytest.mark.verify
def test_the_cost_of_a_record_is_that_of_the_series_at_its_gauge(in_a_folder):
    names = executed(ROOT / "docs" / "guide" / "own_records.md")
    with netCDF4.Dataset("gauges.nc") as file:
        model = np.interp(names["time"], file["time"][:], file["eta"][0].astype(float))
    departures = (model - names["elevation"])[names["time"] >= 120.0] / 0.02
    assert names["J"] == pytest.approx(0.5 * np.sum(departures**2), rel=1e-4)
    eta = names["model"].gather(names["state"].eta)
    assert eta[15, 14] == pytest.approx(names["interpolated"]((77.5e3, 72.5e3)), rel=1e-6)  # y, x of the centre


def unknown(code, package=""):
    """The names that a program imports (of `package`), or takes from these modules, and that are not there."""
    tree, names, missing = ast.parse(code), {}, []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and package in ast.unparse(node):
            try:
                exec(ast.unparse(node), names)  # noqa: S102
            except ImportError as error:
                missing.append(str(error))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = names.get(node.value.id)
            if isinstance(module, type(ast)) and not hasattr(module, node.attr):
                missing.append(f"{module.__name__}.{node.attr}")
    return missing


def test_every_name_that_a_document_or_program_imports_or_takes_from_a_module_is_there():
    """Also in those that run in `make verify` or by hand alone."""
    for document in DOCUMENTS:
        for line, code in blocks(document, "python"):
            assert not unknown(code), f"{document}:{line}"
    for folder in ("experiments", "benchmarks", "scripts"):
        for program in (ROOT / folder).rglob("*.py"):
            assert not unknown(program.read_text(), "swmodel"), program
    of_units, of_sw = unknown("import swmodel as sw\nfrom swmodel.units import kmm\nsw.AB5(2.0)")
    assert "'kmm'" in of_units and of_sw == "swmodel.AB5"


# -- commands ---------------------------------------------------------------------------------------------------------


def commands():
    """(document, line, arguments) of every `swmodel ...` in a block that is no program."""
    for document in DOCUMENTS:
        for line, text in blocks(document, ""):
            for k, row in enumerate(text.splitlines()):
                words = shlex.split(row, comments=True) if re.match(r"(swmodel|mpirun|srun)\s", row) else []
                if "swmodel" in words:
                    yield document, line + k + 1, words[words.index("swmodel") + 1 :]


@functools.cache
def command_line():
    return typer.main.get_command(app)


def parsed(arguments):
    """The context of a command, which is not run; raises UsageError for what it does not know."""
    group = command_line()
    with group.make_context("swmodel", list(arguments)) as context:
        name, command, rest = group.resolve_command(context, list(arguments))
        return command.make_context(name, rest, parent=context)


def test_every_command_that_is_shown_exists_and_so_do_its_options_and_experiments():
    shown = list(commands())
    assert len(shown) > 30
    copied = [file for files in library().values() for file in files]
    wrong, names = [], {name for file in copied for name in (file.name, file.parent.name)}
    for document, line, arguments in shown:
        where = f"{document.name}, line {line}: swmodel {' '.join(arguments)}"
        try:
            parameters = parsed(arguments).params
        except UsageError as error:
            wrong.append(f"{where}: {error.format_message()}")
            continue
        named = [word for word in arguments[1:] if word.startswith("experiments/")]
        wrong += [f"{where}: {word} does not exist" for word in named if not (ROOT / word).exists()]
        if arguments[0] == "new" and parameters.get("name") not in (None, *library()):
            wrong.append(f"{where}: there is no experiment {parameters['name']!r}")
        mine = [Path(word).name for word in arguments[1:] if word.startswith("mine/")]
        wrong += [f"{where}: no experiment has a file {name}" for name in mine if name not in names]
    assert not wrong, "\n".join(wrong)


# -- links ------------------------------------------------------------------------------------------------------------

FOLDERS = ("docs", "swmodel", "experiments", "benchmarks", "tests", "scripts", "packaging", ".github")
TEXTS = ("*.md", "*.py", "*.toml", "*.cpp", "*.h", "*.sh", "*.yml", "Makefile")
LINK = re.compile(r"\]\(([^)\s]+)\)")
MENTION = re.compile(r"(?<![\w/.-])docs/[\w/]*\w\.\w+")  # in a comment, a message or a program


def texts():
    """The files of the project that people write."""
    for pattern in TEXTS:
        yield from ROOT.glob(pattern)
        for folder in FOLDERS:
            yield from (ROOT / folder).rglob(pattern)


@functools.cache
def anchors(page):
    """What a link to a page may have after `#`: its headings as GitHub and the site spell them."""
    headings = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", re.sub(LINK, "", title).lower()).strip().replace(" ", "-") for title in headings}


def dead_links(file):
    """The relative links of a file in Markdown that lead nowhere, and the files of docs/ that it mentions in vain."""
    text = file.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.M | re.S) if file.suffix == ".md" else ""
    for link in LINK.findall(prose):
        name, _, anchor = link.partition("#")
        target = (file.parent / name).resolve() if name else file
        if "://" in link or link.startswith("mailto:"):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link
    yield from (path for path in MENTION.findall(text) if not (ROOT / path).exists())


def test_links_of_pages_and_mentions_of_pages_lead_somewhere():
    assert not [(str(file.relative_to(ROOT)), link) for file in texts() for link in dead_links(file)]


def test_a_link_that_leads_nowhere_would_be_noticed(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# Title\n\n## A `name` of [two](x.md) words\n\n```\n# no title\n```\n")
    page.write_text(
        "[a](other.md) [b](other.md#a-name-of-two-words) [c](gone.md) `[d](code.md)` [e](https://example.org/x)\n"
        "[f](other.md#no-title) [g](#nothing) docs/index.md docs/" + "gone.md https://example.org/docs/x.md\n"
    )
    assert list(dead_links(page)) == ["gone.md", "other.md#no-title", "#nothing", "docs/" + "gone.md"]


# -- the gallery ------------------------------------------------------------------------------------------------------


def test_the_page_of_the_gallery_follows_from_its_manifest_and_its_images_are_small():
    """`python scripts/gallery.py --page` writes it again."""
    gallery = scripts.script("scripts/gallery.py")
    found = gallery.entries()
    assert gallery.PAGE.read_text() == gallery.page(found)
    images = {path.stem: path for path in gallery.MANIFEST.parent.glob("*.webp")}
    assert set(images) == {entry["name"] for entry in found}
    assert all(path.stat().st_size < 120_000 for path in images.values())
    assert all((ROOT / "docs" / entry["page"]).exists() for entry in found)


# -- drawings ----------------------------------------------------------------------------------------------------------

PACKAGE = Path(swmodel.__file__).parent
PAGE = paths.PACKAGE.parent / "docs" / "developers" / "data_flow.md"
PLACE = re.compile(r"(\w+(?:/\w+)+\.py)(?:: (\w+))?")


@pytest.mark.skipif(not PAGE.exists(), reason="an installed package has no docs")
def test_the_places_that_the_drawings_name_exist():
    places = PLACE.findall(PAGE.read_text().replace("swmodel/", ""))
    assert len(places) > 25
    for file, name in places:
        text = (PACKAGE / file).read_text()
        assert not name or re.search(rf"(def|class) _?{name}\b", text), (file, name)
