"""Writes tables as TOML, for experiments that the command line has changed; `tomllib` can only read."""

import datetime
import json
import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["dump"]


def dump(tables: Mapping[str, Any]) -> str:
    """TOML text that `tomllib` reads as `tables`, nested dicts and lists of text, numbers and dates."""
    return "\n".join(_table(tables, ())) + "\n"


def _table(table, path):
    """Lines of a table: its own values first, then the tables in it."""
    lines = [f"{_key(name)} = {_value(value)}" for name, value in table.items() if not _has_header(value)]
    for name, value in table.items():
        inner = (*path, _key(name))
        if isinstance(value, dict):
            lines += ["", f"[{'.'.join(inner)}]", *_table(value, inner)]
        elif _has_header(value):
            for element in value:
                lines += ["", f"[[{'.'.join(inner)}]]", *_table(element, inner)]
    return lines


def _has_header(value):
    return isinstance(value, dict) or (
        isinstance(value, list) and value != [] and all(isinstance(v, dict) for v in value)
    )


def _key(name):
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in value.items()) + "}"
    return repr(value)
