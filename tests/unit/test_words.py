"""Comments, docstrings, messages and names of the package use the field's terms, in sentences of a readable length.

The words below had private meanings in earlier versions, or make a function or a file speak. Each has an ordinary term:
a buffer (room), a step loop (march), reports or returns (tells, says), requests or needs (asks), next to (beside),
transpose (turn), rigid lid (lid), contains or reads (sees), continues (goes on).
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "swmodel").rglob("*.py"))
NATIVE = sorted(file for end in ("cpp", "h") for file in (ROOT / "swmodel").rglob(f"*.{end}"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BANNED = (
    r"room|rooms|march|marches|told|tell|tells|foretell|beside|heap|says|said|asks|asked|sees|seen|wants|knows|goes on"
)
WORD = re.compile(rf"\b({BANNED}|(?<!rigid )lid|is no (?:whole )?number)\b")
PART_OF_NAME = re.compile(r"(?:^|_)(room|rooms|march|told|tells|foretell|beside|heap|vacant|asks|asked|lid)(?:_|$)")
LONGEST = 30  # words of a sentence; formulas, lists and tables are not sentences
EXCEPTIONS = {
    "rigid_lid",  # the field's term
}


def comments(source, mark):
    """(line, text) of each comment, lines of comments together."""
    for block in re.finditer(rf"(?:^[ \t]*{mark}.*\n)+|(?<=  ){mark}.*", source, re.MULTILINE):
        text = re.sub(rf"^[ \t]*{mark}[ \t]?", "", block.group(), flags=re.MULTILINE)
        yield source[: block.start()].count("\n") + 1, text


def texts_and_names(source):
    """(line, text, name) of each string of several words, and of each function, class, argument and variable."""
    waiting = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        waiting += (part for part in ast.iter_child_nodes(node) if part._fields)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value, None
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, None, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, None, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, None, node.id if isinstance(node, ast.Name) else node.attr


def sentences(text):
    """The sentences of a docstring or comment; a section, a list entry and an indented block end one."""
    for part in re.split(r"\n\s*\n|\n(?= {5,})|\n(?=\s*[\w*, ]+: )|\n(?=\s*\S+ {2,})", text):
        if not re.search(r"[=|{}<>]|://|\d\.\d+e| {3,}", part):
            yield from re.split(r"(?<=[.!?:;])\s+", part)


def violations_of_text(line, text):
    """(line, violation) of a docstring or comment, which starts in that line."""
    for found in WORD.finditer(text):
        yield line, found.group()
    for sentence in sentences(text):
        count = len(re.findall(r"[A-Za-z][\w'-]*", sentence))
        if count > LONGEST:
            yield line, f"a sentence of {count} words: {' '.join(sentence.split()[:8])} ..."


def violations(source):
    for line, text in comments(source, "#"):
        yield from violations_of_text(line, text)
    for line, text, name in texts_and_names(source):
        if text is not None:
            yield from violations_of_text(line, text)
        elif (found := PART_OF_NAME.search(name)) and not any(name.endswith(known) for known in EXCEPTIONS):
            yield line, f"{found.group(1)} in the name {name}"


def test_words_and_sentences_are_those_of_the_field():
    found = [(str(file.relative_to(ROOT)), *one) for file in FILES for one in violations(file.read_text())]
    assert not found


def native_violations(source):
    """Those of the comments of C++ code; lines of comments that follow each other are one comment."""
    for line, text in comments(source, "//"):
        yield from violations_of_text(line, text)


def page_violations(text):
    """(line, word) of a page in Markdown, without its code."""
    code = r"^```.*?^```$|`[^`\n]*`"
    prose = re.sub(code, lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=re.MULTILINE | re.DOTALL)
    for found in WORD.finditer(prose):
        yield prose[: found.start()].count("\n") + 1, found.group()


def test_comments_of_native_code_use_the_terms_of_the_field():
    assert len(NATIVE) > 5
    assert not [(file.name, *one) for file in NATIVE for one in native_violations(file.read_text())]


def test_pages_use_the_terms_of_the_field():
    assert not [(str(file.relative_to(ROOT)), *one) for file in PAGES for one in page_violations(file.read_text())]


def test_private_words_are_found_in_native_code_and_on_pages():
    assert list(native_violations("int x;  // the room beside\n")) == [(1, "room"), (1, "beside")]
    assert list(native_violations("int room;\n")) == []
    assert [line for line, _ in native_violations(f"x;\n// A sentence {'with a word and ' * 9}\n// no end.\n")] == [2]
    assert list(page_violations("The\npage tells.\n\n```\ntells\n```\n")) == [(2, "tells")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# the root tells all ranks\nx = 1\n", "tells"),
        ('def f():\n    """The buffer beside it."""\n', "beside"),
        ("def make_room():\n    pass\n", "room in the name make_room"),
        ('"""The pressure on the lid."""\n', "lid"),
        (f'"""A sentence {"with one more word and " * 12} no end."""\n', "a sentence of"),
    ],
)
def test_private_words_are_found(text, said):
    assert any(said in one for _, one in violations(text))
    assert not list(violations('"""The pressure on the rigid lid."""\nrigid_lid = True\n'))
