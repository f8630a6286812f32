"""timing.json in the folder of a run's output: the wall time of the run, an entry for each start or resumption."""

import json
from pathlib import Path
from typing import Any

from ..output import replacing

__all__ = ["FILE", "remove_entries", "append_entry"]

FILE = "timing.json"


def remove_entries(folder: Path) -> None:
    """Remove the file of an earlier run, which a new one is about to replace."""
    (folder / FILE).unlink(missing_ok=True)


def append_entry(folder: Path, leg: dict[str, Any]) -> None:
    """Append an entry.

    Args:
        folder: the folder of the output files.
        leg: `steps`, `model_seconds` and `wall_seconds` of the steps, compilation included, `first_step_after_seconds`
            since the process was started (None if no step was taken), `ranks`, and `from_step`.
    """
    path = folder / FILE
    try:
        legs = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        legs = []
    with replacing(path) as temporary:
        Path(temporary).write_text(json.dumps([*(legs if isinstance(legs, list) else []), leg], indent=1) + "\n")
