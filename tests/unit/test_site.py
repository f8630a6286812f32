"""The documentation site: every page can be reached from the first one, and the reference has every public name."""

import re
from collections import Counter
from pathlib import Path

import swmodel as sw
from swmodel import adjoint

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOT_DESCRIBED = {"VERSION", "postprocess", "units"}


def pages_below(page: Path) -> set[Path]:
    """The page and all that its tables of contents lead to."""
    found = {page}
    for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.DOTALL):
        for line in block.splitlines():
            if not line.strip() or line.startswith(":"):
                continue
            name = line.split("<")[-1].rstrip(">").strip()
            found |= pages_below((page.parent / f"{name}.md").resolve())
    return found


def test_every_page_is_reached_from_the_first():
    assert pages_below(DOCS / "index.md") == set(DOCS.rglob("*.md"))


def test_the_reference_describes_every_public_name_once():
    described = Counter()
    for page in (DOCS / "reference").glob("*.md"):
        module = "swmodel"
        for directive, name in re.findall(r"^\.\. (\w+):: ([\w.]+)$", page.read_text(), flags=re.MULTILINE):
            if directive == "currentmodule":
                module = name
            elif directive in ("autoclass", "autofunction"):
                described[getattr(sw if module == "swmodel" else adjoint, name)] += 1
    public = {getattr(sw, name) for name in set(sw.__all__) - NOT_DESCRIBED}
    public |= {getattr(adjoint, name) for name in adjoint.__all__}
    assert set(described) == public
    assert max(described.values()) == 1
