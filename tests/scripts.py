"""Programs of the repository that belong to no package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def script(path: str) -> ModuleType:
    """The module that a file makes; its path counts from the root of the repository."""
    spec = importlib.util.spec_from_file_location(path.removesuffix(".py").replace("/", "_"), ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module
