"""The report at the end of an inversion of harmonic constants: vector errors at the gauges, used and withheld."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..adjoint.costs.harmonics import HarmonicConstants

__all__ = ["constants_columns", "tide_table"]

_MEANING = (
    "Error: |A exp(-i g) - A' exp(-i g')|, the distance of the model's constant from the observed one.\n"
    "Withheld: compared, and not used. Within: the share of gauges with an error of at most the expected one, from the "
    "spread and the observation error together, and of at most twice that."
)
_HEADS = (
    "",
    "",
    "observed [m]",
    "[deg]",
    "before [m]",
    "[deg]",
    "after [m]",
    "[deg]",
    "error before",
    "after",
    "expected",
)


def tide_table(study: Any, result: Any) -> str:
    """A table of the constants of each gauge, and a summary of those that are used and those that are withheld."""
    rows: list[tuple[str, ...]] = [_HEADS]
    summary: dict[bool, list] = {True: [], False: []}
    for name, constituent, used, waves, expected in _each(study, result):
        observed, before, after = waves
        errors = [abs(wave - observed) for wave in (before, after)]
        summary[used].append((*errors, abs(observed), expected))
        cells = [text for wave in waves for text in (f"{abs(wave):.3f}", f"{_lag(wave):.0f}")]
        kind = constituent + ("" if used else " withheld")
        rows.append((name[:24], kind, *cells, *(f"{e:.3f}" for e in errors), _or_dash(expected)))
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADS))]
    lines = [
        "  ".join(cell.ljust(w) if k < 2 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths))).rstrip()
        for row in rows
    ]
    words = {True: "used", False: "withheld"}
    lines += [_summary_line(words[used], np.array(parts)) for used, parts in summary.items() if parts]
    return "\n".join([*lines, _MEANING])


def _each(study, result):
    """Yield (gauge, constituent, whether it is used, (observed, before, after) as A exp(-i g), expected error)."""
    role = "analysis"
    for k, (name, record) in enumerate(study.observed.records.items()):
        if not isinstance(record, HarmonicConstants):
            continue
        for c, constituent in enumerate(record.names):
            pair = slice(2 * c, 2 * c + 2)
            found = [record.numbers[pair], *(result.readings[of][pair, k] for of in ("background", role))]
            if not np.isfinite(found[0]).all():
                continue
            away = result.spread[role][pair, k] if role in result.spread else np.full(2, np.nan)
            expected = float(np.sqrt(np.sum(away**2) + 2 * record.deviation**2))
            waves = tuple(complex(x, -y) for x, y in found)
            yield name, constituent, name not in study.observed.withheld, waves, expected


def _summary_line(what, numbers):
    before, after, size, expected = numbers.T
    within = ""
    if not np.isnan(expected).all():
        once, twice = np.mean(after <= expected), np.mean(after <= 2 * expected)
        within = f"; within the expected error {once:.0%}, twice that {twice:.0%}"
    return (
        f"{len(numbers)} {what}: median error {np.median(before):.3f} m before and {np.median(after):.3f} m after, "
        f"of the amplitude {np.median(before / size):.1%} and {np.median(after / size):.1%}, "
        f"r.m.s. {np.sqrt(np.mean(before**2)):.3f} and {np.sqrt(np.mean(after**2)):.3f} m{within}"
    )


def _lag(wave):
    return -np.rad2deg(np.angle(wave)) % 360.0


def _or_dash(value):
    return f"{value:.3f}" if np.isfinite(value) else "-"


def constants_columns(study: Any) -> dict[str, tuple[str, str, np.ndarray]]:
    """{column: (units, description, values)} of the constituent and the part, A cos g or A sin g, of each row.

    Both are "" in rows of other observations.
    """
    names, parts = [], []
    for record in study.observed.records.values():
        constants = isinstance(record, HarmonicConstants)
        for number in record.counted()[0].astype(int):
            names.append(record.names[number // 2] if constants else "")
            parts.append(("A cos g", "A sin g")[number % 2] if constants else "")
    return {
        "constituent": ("", "tidal constituent", np.array(names)),
        "part": ("", "A cos g or A sin g, of the amplitude A and the Greenwich phase lag g", np.array(parts)),
    }
