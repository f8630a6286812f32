"""The examples of docs/guide/own_parts.md, as files and as what they define."""

import re
from pathlib import Path
from types import SimpleNamespace

import swmodel as sw

DOCUMENT = Path(sw.__file__).parents[1] / "docs" / "guide" / "own_parts.md"


def files():
    """{name of a file: its text} of the examples."""
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    named = ((re.match(r"# (\w+\.py)\n", block), block) for block in blocks)
    return {match[1]: block for match, block in named if match}


def everything():
    """All that the examples define, by name."""
    found = {"__name__": "own"}
    for name, text in files().items():
        exec(compile(text, name, "exec"), found)
    return SimpleNamespace(**found)
