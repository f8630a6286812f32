"""The tables at the end of `swmodel invert`: scores of gauges, harmonic constants, controls and faults."""

from collections.abc import Iterator

import numpy as np

from ..adjoint.assimilation.observations import OVER_TIME
from ..adjoint.assimilation.result import Columns, Result
from ..adjoint.costs.harmonics import HarmonicConstants
from ..adjoint.costs.marks import Mark, dry
from ..models.shallow_water import ShallowWater
from ..output.studies import Estimate
from .facts import columns, dry_line


def gauge_table(result: Result) -> str:
    """A table of the misfits before and after, and of withheld gauges; below, the meaning of the columns."""
    kinds = result.observations.all_kinds
    tables = [_tide_table(result)] if "harmonics" in kinds else []
    if set(kinds) & set(OVER_TIME):
        tables.append(_series_table(result))
    if lines := _dry_marks(result):
        tables.append(lines)
    return "\n".join([*tables, f"misfit_reduction={result.reduction:.1f} %"])


def _dry_marks(result):
    """The line of high-water marks that no water reached in the run of the analysis; "" if there are none."""
    highest = result.readings["analysis"][0]
    marks = {k: one for k, one in enumerate(result.observations.records.items()) if isinstance(one[1], Mark)}
    return dry_line(dry(dict(marks.values()), [highest[k] for k in marks]))


def _series_table(result):
    """The table of all observations but harmonic constants, and the meaning of its columns."""
    found = {role: result.scores(role, OVER_TIME) for role in result.readings}
    apart, records = result.observations.withheld, result.observations.records
    units = {name: record.units for name, record in records.items()}
    compared = "analysis" if apart else "withheld"
    heads = _HEADS if apart or compared in found else _HEADS[:5]
    if one_unit := set(units.values()) == {"m"}:
        heads = tuple(head if head in ("", "explained") or "misfit" in head else f"{head} [m]" for head in heads)
    rows: list[tuple[str, ...]] = [heads]
    expected = result.expected_errors(compared, OVER_TIME) if compared in result.spread else {}
    for name in found["analysis"]:
        used = found["analysis"][name] if name not in apart else None
        other = found[compared][name] if compared in found and (name in apart or not apart) else None
        cells = (
            found["background"][name].misfit,
            *_few_of(used),
            *_few_of(other),
            *((np.nan, np.nan) if other is None else (other.error, expected.get(name, np.nan))),
        )
        label = name if one_unit else f"{name} [{units.get(name, 'm')}]"
        rows.append((label, *(_cell(x, signed) for x, signed in zip(cells, _SIGNED)))[: len(heads)])
    before, after = result.misfits(OVER_TIME)
    rows.append(("all used" if apart else "all", _cell(before), _cell(after), *[""] * (len(heads) - 3)))
    meaning = _MEANING if len(heads) > 5 else _MEANING.partition("\nWithheld")[0]
    meaning += "" if one_unit else "\nThe bias and the error are in the unit that is behind the name."
    return f"{columns(rows)}\n{meaning}"


_HEADS = (
    "", "misfit before", "after", "explained", "bias", "withheld: misfit", "explained", "bias", "error", "expected",
)  # fmt: skip
_SIGNED = (False, False, False, True, False, False, True, False, False)
_MEANING = (
    "Misfit: mean((model - observed)^2) / var(observed); before: of the first guess.\n"
    "Explained: 1 - var(observed - model) / var(observed), without the bias, which is the mean of model - observed.\n"
    "Withheld: compared, and not used; the error, r.m.s.(model - observed), is expected to be that of the spread and "
    "of the observations together."
)


def _few_of(score):
    return (np.nan,) * 3 if score is None else (score.misfit, score.explained, score.bias)


def _cell(value, signed=False):
    return "-" if not np.isfinite(value) else f"{value:+.3f}" if signed else f"{value:.3f}"


_MEANING_OF_TIDES = (
    "Error: |A exp(-i g) - A' exp(-i g')|, the distance of the model's constant from the observed one.\n"
    "Withheld: compared, and not used. Within: the share of gauges with an error of at most the expected one, from the "
    "spread and the observation error together, and of at most twice that."
)
_HEADS_OF_TIDES = (
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


def _tide_table(result):
    """A table of the constants of each gauge, and a summary of those that are used and those that are withheld."""
    rows: list[tuple[str, ...]] = [_HEADS_OF_TIDES]
    summary: dict[bool, list] = {True: [], False: []}
    for name, constituent, used, waves, expected in _constants(result):
        observed, before, after = waves
        errors = [abs(wave - observed) for wave in (before, after)]
        summary[used].append((*errors, abs(observed), expected))
        cells = [text for wave in waves for text in (f"{abs(wave):.3f}", f"{-np.rad2deg(np.angle(wave)) % 360.0:.0f}")]
        kind = constituent + ("" if used else " withheld")
        rows.append((name[:24], kind, *cells, *(f"{e:.3f}" for e in errors), _cell(expected)))
    words = {True: "used", False: "withheld"}
    lines = [_summary_line(words[used], np.array(parts)) for used, parts in summary.items() if parts]
    return "\n".join([columns(rows, 2), *lines, _MEANING_OF_TIDES])


def _constants(result):
    """Yield (gauge, constituent, whether it is used, (observed, before, after) as A exp(-i g), expected error)."""
    role = "analysis"
    for k, (name, record) in enumerate(result.observations.records.items()):
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
            yield name, constituent, name not in result.observations.withheld, waves, expected


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


def control_line(model: ShallowWater, name: str, estimate: Estimate) -> str:
    """A line on a control: the range of its change, or its value; in a twin experiment, its error, too."""
    units, roles = estimate.units, estimate.roles
    analysis, background = roles["analysis"], roles["background"]
    if np.ndim(analysis) < 1:
        return f"{name} = {float(analysis):.4g} {units} (before: {float(background):.4g})"
    change, wet = analysis - background, np.ones(np.shape(analysis), bool)
    text = f"{name}: changed by {change.min():.3g} to {change.max():.3g} {units}"
    if np.ndim(analysis) > 1:
        grid, wet = model.grid, model.wet
        row, column = np.unravel_index(np.argmax(np.where(wet, change, -np.inf)), change.shape)
        text += f", most at ({grid.x_centres[column]:.6g}, {grid.y_centres[row]:.6g})"
    if "truth" in roles:
        before, after = (
            np.sqrt(np.mean((roles[role] - roles["truth"])[wet] ** 2)) for role in ("background", "analysis")
        )
        text += f"; r.m.s. distance from the twin's truth {before:.3g} {units} before and {after:.3g} after"
    return text


def fault_lines(table: Columns) -> Iterator[str]:
    """A line for each estimated parameter of the faults: its values before and after."""
    for name in (name.removesuffix("_analysis") for name in table if name.endswith("_analysis")):
        units, _, after = table[f"{name}_analysis"]
        before = table[f"{name}_background"][2]
        if not np.array_equal(before, after):
            yield f"{name} of the faults: {_few(after)} {units} (before: {_few(before)})"


def _few(numbers, most=6):
    return ", ".join(f"{x:.4g}" for x in numbers[:most]) + ", ..." * (len(numbers) > most)
