"""The type checker accepts the modules that pyproject.toml lists, and their public functions are annotated."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.verify  # tests of the repository, and not of the model
ROOT = Path(__file__).resolve().parents[2]
SPECIAL = ("__init__", "__call__")  # these are public, unlike other names that begin with an underscore


def listed():
    """The files that `include` in [tool.basedpyright] names, or that lie in a folder which it names."""
    include = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["basedpyright"]["include"]
    paths = [ROOT / name for name in include]
    missing = [str(path) for path in paths if not path.exists()]
    assert not missing, f"pyproject.toml lists {missing} for the type checker, but there is no such file or folder"
    return sorted({file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])})


def public_functions(body, in_class=False):
    """(function, whether it is a method) of the public functions in a module and its public classes."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, in_class=True)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name in SPECIAL or not node.name.startswith("_"):
                yield node, in_class


def lacking(function, method):
    """The names of the parameters of a function without annotation, and "return" where its result has none."""
    arguments = function.args
    decorators = [node.id for node in function.decorator_list if isinstance(node, ast.Name)]
    positional = [*arguments.posonlyargs, *arguments.args]
    if method and "staticmethod" not in decorators:
        del positional[0]  # self or cls
    variadic = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    names = [
        argument.arg for argument in [*positional, *arguments.kwonlyargs, *variadic] if argument.annotation is None
    ]
    return names + ["return"] * (function.returns is None and function.name != "__init__")


def unannotated(source):
    """{line and name of a public function: what lacks an annotation} for the text of a module."""
    found = ((function, lacking(function, method)) for function, method in public_functions(ast.parse(source).body))
    return {f"{function.lineno} {function.name}": names for function, names in found if names}


def test_every_public_function_of_the_listed_modules_is_annotated():
    found = {str(file.relative_to(ROOT)): unannotated(file.read_text()) for file in listed()}
    assert not {name: functions for name, functions in found.items() if functions}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(a, *b, c=1, **d) -> int: ...", ["a", "c", "b", "d"]),
        ("class A:\n    @staticmethod\n    def f(a) -> int: ...", ["a"]),
        ("class A:\n    @classmethod\n    def f(cls) -> int: ...", None),
    ],
)
def test_missing_annotations_are_found(source, names):
    assert list(unannotated(source).values()) == ([] if names is None else [names])


def test_the_type_checker_finds_no_error_in_the_listed_modules():
    pytest.importorskip("basedpyright", reason="basedpyright is not installed: make types")
    command = [sys.executable, "-m", "basedpyright", "--project", str(ROOT / "pyproject.toml")]
    command += ["--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stdout + done.stderr  # other values: the checker itself has failed
    report = json.loads(done.stdout)
    errors = [
        f"{entry['file']}:{entry['range']['start']['line'] + 1}: {entry['message']}"
        for entry in report["generalDiagnostics"]
        if entry["severity"] == "error" and Path(entry["file"]).is_relative_to(ROOT)  # not of another installed copy
    ]
    assert not errors, "\n".join(errors)
    assert report["summary"]["filesAnalyzed"] == len(listed())
