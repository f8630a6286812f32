"""The documentation site: the reference has every public name, once, and all that pages import."""

import ast
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

import swmodel as sw
from swmodel import adjoint
from tests.scripts import script

pytestmark = pytest.mark.verify  # tests of the repository, and not of the model
DOCS = Path(__file__).resolve().parents[2] / "docs"
NOT_DESCRIBED = {"VERSION", "postprocess", "units"}


def test_the_reference_describes_every_public_name_once():
    described = Counter(object for module, object in entries() if module in (sw, adjoint))
    public = {getattr(sw, name) for name in set(sw.__all__) - NOT_DESCRIBED}
    public |= {getattr(adjoint, name) for name in adjoint.__all__}
    assert set(described) == public
    assert max(described.values()) == 1


def test_the_reference_describes_what_the_pages_import():
    described = {id(object) for module in whole_modules() for object in members(module)}
    described |= {id(object) for _, object in entries()} | {id(module) for module in whole_modules()}
    described |= {id(module) for module, _ in entries()}
    missing = {
        f"{module}.{name}"
        for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md"))
        for module, name in imports(page.read_text())
        if id(getattr(importlib.import_module(module), name)) not in described
    }
    assert not missing


def test_the_pages_that_answer_queries_exist():
    pages = {page for answers in script("scripts/check_site.py").QUERIES.values() for page in answers}
    assert all((DOCS / f"{page}.md").exists() for page in pages)


def entries():
    """(module, object) of each class and function that has an entry of its own in the reference."""
    for page in (DOCS / "reference").glob("*.md"):
        module = "swmodel"
        for directive, name in re.findall(r"^\.\. (\w+):: ([\w.]+)$", page.read_text(), flags=re.MULTILINE):
            if directive == "currentmodule":
                module = name
            elif directive in ("autoclass", "autofunction"):
                home = importlib.import_module(module)
                yield home, getattr(home, name)


def whole_modules():
    """The modules that the reference describes with all of their public names."""
    for page in (DOCS / "reference").glob("*.md"):
        for name in re.findall(r"^\.\. automodule:: ([\w.]+)$(?!\n +:no-members:)", page.read_text(), re.MULTILINE):
            yield importlib.import_module(name)


def members(module):
    """The public objects of a module, or of the modules in a package that it names."""
    return [getattr(module, name) for name in getattr(module, "__all__", dir(module))]


def imports(text):
    """(module, name) of each `from swmodel... import name` in a page's blocks of Python."""
    for block in re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("swmodel"):
                yield from ((node.module, alias.name) for alias in node.names)
