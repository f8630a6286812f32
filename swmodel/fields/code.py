"""Digests of the source of classes from outside this package, by which a restart compares the code of its run."""

import ast
import functools
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

__all__ = ["code_of", "is_shipped"]

PACKAGE = __name__.partition(".")[0]


def is_shipped(cls: type) -> bool:
    """Whether a class is of this package."""
    return cls.__module__.partition(".")[0] == PACKAGE


@functools.cache
def code_of(cls: type) -> str:
    """A digest of the source of a class when this function is first called; "" for this package and without a source.

    Comments and layout do not count. The digest covers the module and those modules of its folder that it uses; in a
    script or a notebook it covers the class alone.
    """
    if is_shipped(cls):
        return ""
    try:
        module = sys.modules[cls.__module__]
        parts = [cls] if cls.__module__ == "__main__" else list(_modules_of(module))
        texts = [ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(part)))) for part in parts]
    except (KeyError, OSError, TypeError, AttributeError, SyntaxError):  # there is no source
        return ""
    return hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()[:16]


def _modules_of(module: ModuleType) -> Iterator[ModuleType]:
    """A module, and the modules of its folder that it uses, directly or through one another."""
    waiting, seen, folder = [module], {module.__name__}, Path(str(module.__file__)).parent
    while waiting:
        yield (one := waiting.pop())
        for value in vars(one).values():
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            other = sys.modules.get(name) if isinstance(name, str) and name not in seen else None
            file = getattr(other, "__file__", None)
            if other is not None and file and Path(file).parent == folder:
                seen.add(other.__name__)
                waiting.append(other)
