"""The experiments and the post-processing, which come with the package.

In a checkout they are next to `swmodel/`, and in an installed package inside of it. These functions find them in both
cases.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

__all__ = ["CheckoutFinder", "experiments", "postprocess"]

PACKAGE = Path(__file__).resolve().parents[1]
POSTPROCESS = "swmodel.postprocess"


def experiments() -> Path:
    """The folder of experiments."""
    return _folder("experiments")


def postprocess() -> ModuleType:
    """The package `swmodel.postprocess`."""
    return importlib.import_module(POSTPROCESS)


class CheckoutFinder:
    """Finds `swmodel.postprocess` next to the package, for `import` in a checkout; see `sys.meta_path`."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of `swmodel.postprocess`, and None for any other name."""
        if fullname != POSTPROCESS:
            return None
        folder = _folder("postprocess")
        file = folder / "__init__.py"
        return importlib.util.spec_from_file_location(fullname, file, submodule_search_locations=[str(folder)])

    @classmethod
    def install(cls) -> None:
        """Make Python use this finder, after its own ones."""
        if cls not in sys.meta_path:
            sys.meta_path.append(cls)


def _folder(name):
    for parent in (PACKAGE, PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(
        f"The folder {name}/ is neither in {PACKAGE} nor next to it; the installation is incomplete: "
        "install it again with `pip install --force-reinstall --no-deps .` in a checkout."
    )
