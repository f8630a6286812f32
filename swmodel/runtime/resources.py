"""The experiments and the post-processing, which come with the package.

In a checkout they are next to `swmodel/`, and in an installed package inside of it. These functions find them in both
cases.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["experiments", "postprocess"]

PACKAGE = Path(__file__).resolve().parents[1]


def experiments() -> Path:
    """The folder of experiments."""
    return _folder("experiments")


def postprocess() -> ModuleType:
    """The package of post-processing scripts, imported as `swmodel.postprocess`."""
    name = "swmodel.postprocess"
    if name not in sys.modules:
        folder = _folder("postprocess")
        init = folder / "__init__.py"
        spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(folder)])
        assert spec is not None and spec.loader is not None  # as for every file whose name ends in .py
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def _folder(name):
    for parent in (PACKAGE, PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(
        f"The folder {name}/ is neither in {PACKAGE} nor next to it; the installation is incomplete: "
        "install it again with `pip install --force-reinstall --no-deps .` in a checkout."
    )
