"""The experiments that come with the package: next to `swmodel/` in a checkout, inside of it when installed."""

from pathlib import Path

__all__ = ["experiments"]

PACKAGE = Path(__file__).resolve().parents[1]


def experiments() -> Path:
    """The folder of experiments."""
    for parent in (PACKAGE, PACKAGE.parent):
        if (parent / "experiments").is_dir():
            return parent / "experiments"
    raise FileNotFoundError(
        f"The folder experiments/ is neither in {PACKAGE} nor next to it; the installation is incomplete: "
        "install it again with `pip install --force-reinstall --no-deps .` in a checkout."
    )
