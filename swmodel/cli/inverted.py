"""The report at the end of an inversion, and the tables of its file: misfits of gauges, fields and numbers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import postprocess
from ..fields.parameters import COORDINATES
from ..simulation.progress import duration
from . import facts, logs
from .inverted_tides import constants_columns, tide_table
from .starting import RECORD

if TYPE_CHECKING:
    from pathlib import Path

    from ..adjoint.assimilation.predictive import Consistency

__all__ = ["at_observations", "conclude", "first_guess_line", "gauge_table", "misfits"]


def conclude(study: Any, result: Any, path: Path, took: float, options: Any) -> None:
    """Write the file, print the results, and draw them if `--plot` is given; on the root."""
    _write(study, result, path)
    say = logs.LOGGER.info
    say("ended after %s: %s", duration(took), result.reason)
    say("%s", gauge_table(study, result))
    say("%s", analysis_line(result.consistency))
    if warning := result.consistency.warning_after():
        logs.LOGGER.warning("%s", warning)
    for name, estimate in result.controls.items():
        say("%s", _control_line(study, name, estimate.units, estimate.roles))
    for line in _fault_lines(_parameter_tables(study, result).get("fault", {})):
        say("%s", line)
    if np.isfinite(result.signal):
        say("the observations determine %.1f independent numbers (degrees of freedom for signal)", result.signal)
    say("file:\n  %s  (%s)", path, facts.size(path.stat().st_size))
    if options.plot:
        say("figure: %s", *postprocess.plot([path]))
    else:
        say("next:\n  swmodel plot %s", path)


def first_guess_line(found: Consistency) -> str:
    """J of the first guess, a Consistency, and its expectation."""
    expected = "" if np.isnan(found.expected_first) else f" (expected: {found.expected_first_per_datum:.3g})"
    return (
        f"first guess: J = {found.first:.6g}, chi-squared per datum 2 J / n = {found.first_per_datum:.3g}{expected}, "
        f"of {found.observations:,} observations that count as n = {found.data:.4g} independent data"
    )


def analysis_line(found: Consistency) -> str:
    """J of the analysis, a Consistency, and its expectation."""
    return (
        f"analysis: J = {found.last:.6g}, chi-squared per datum 2 J / n = {found.last_per_datum:.3g} (expected: 1), "
        f"n = {found.data:.4g}"
    )


def at_observations(study: Any, readings: np.ndarray) -> dict[str, np.ndarray]:
    """{name: (n,)}: the model at the observations, from its readings or harmonic constants."""
    problem = study.problem
    at = problem.dt * (problem.first_step + np.arange(1, problem.steps + 1))
    return {
        name: record.modelled(at, readings[:, k]) for k, (name, record) in enumerate(study.observed.records.items())
    }


def misfits(study: Any, readings: np.ndarray) -> dict[str, float]:
    """{name: mean((eta - y)^2) / var(y)} of each gauge, NaN if y is constant; {"tracks": ...} for all tracks."""
    return {name: score.misfit for name, score in _scores(study, readings).items()}


@dataclasses.dataclass(frozen=True)
class _Score:
    """Scores of the model eta against the observations y of a gauge.

    Attributes:
        misfit: mean((eta - y)^2) / var(y).
        explained: 1 - var(eta - y) / var(y).
        bias: mean(eta - y) [m].
        error: the r.m.s. of eta - y [m].
    """

    misfit: float
    explained: float
    bias: float
    error: float


def _scores(study, readings, kinds=None):
    """{name: _Score} of each gauge; {"tracks": _Score} for all points of tracks; arguments as for `_pairs`."""
    pairs = _pairs(study, readings, lambda record: record.counted()[1], kinds)
    return {name: _score(eta, y) for name, (eta, y) in pairs}


def _score(eta, y):
    variance, off = float(np.var(y)) or np.nan, eta - y
    square = float(np.mean(off**2))
    return _Score(square / variance, 1.0 - float(np.var(off)) / variance, float(np.mean(off)), square**0.5)


def _pairs(study, readings, value, kinds=None):
    """[(name, (the model, `value(record)`))] at the observations that count; all points of tracks are one entry.

    Args:
        kinds: the types of observations; all unless given.
    """
    modelled, found = at_observations(study, readings), {}
    for group in study.observed.groups:
        if kinds is not None and group.kind not in kinds:
            continue
        for label, record in group.records.items():
            name = label
            if group.kind == "harmonics":  # the two numbers of a constituent have no variance
                name = "withheld" if label in study.observed.withheld else "used"
            elif group.kind == "tracks":
                name = "tracks"
            found.setdefault(name, []).append((modelled[label], value(record)))
    return [(name, tuple(np.concatenate(part) for part in zip(*pairs))) for name, pairs in found.items()]


def _expected_errors(study, spread):
    """{name: expected r.m.s. of eta - y [m] where y is not used}, from the observation error and the spread."""
    pairs = _pairs(study, spread, lambda record: record.error, _OVER_TIME)
    return {name: float(np.sqrt(np.mean(own**2 + error**2))) for name, (own, error) in pairs}


def gauge_table(study: Any, result: Any) -> str:
    """A table of the misfits before and after, and of withheld gauges; below, the meaning of the columns."""
    before, after = _totals(study, result)
    tables = [tide_table(study, result)] if "harmonics" in study.observed.kinds else []
    if set(study.observed.kinds) & set(_OVER_TIME):
        tables.append(_series_table(study, result))
    return "\n".join([*tables, f"misfit_reduction={100 * (1 - after / before):.1f} %"])


def _series_table(study, result):
    """The table of all observations but harmonic constants, and the meaning of its columns."""
    found = {role: _scores(study, readings, _OVER_TIME) for role, readings in result.readings.items()}
    apart, units = study.observed.withheld, {name: record.units for name, record in study.observed.records.items()}
    compared = "analysis" if apart else "withheld"
    heads = _HEADS if apart or compared in found else _HEADS[:5]
    if one_unit := set(units.values()) == {"m"}:
        heads = tuple(head if head in ("", "explained") or "misfit" in head else f"{head} [m]" for head in heads)
    rows: list[tuple[str, ...]] = [heads]
    expected = _expected_errors(study, result.spread[compared]) if compared in result.spread else {}
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
    before, after = _totals(study, result, _OVER_TIME)
    rows.append(("all used" if apart else "all", _cell(before), _cell(after), *[""] * (len(heads) - 3)))
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]
    lines = [
        "  ".join(cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths)))
        for row in rows
    ]
    meaning = _MEANING if len(heads) > 5 else _MEANING.partition("\nWithheld")[0]
    meaning += "" if one_unit else "\nThe bias and the error are in the unit that is behind the name."
    return "\n".join([*(line.rstrip() for line in lines), meaning])


_OVER_TIME = "gauges", "tracks", "velocities", "transports"
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


def _totals(study, result, kinds=None):
    """The sums of the used gauges' misfits before and after."""
    apart = (*study.observed.withheld, "withheld")
    parts = (_scores(study, result.readings[role], kinds) for role in ("background", "analysis"))
    return [float(np.nansum([score.misfit for name, score in part.items() if name not in apart])) for part in parts]


def _control_line(study, name, units, roles):
    """A line on a control: the range of its change, or its value; in a twin experiment, its error, too."""
    analysis, background = roles["analysis"], roles["background"]
    if np.ndim(analysis) < 1:
        return f"{name} = {float(analysis):.4g} {units} (before: {float(background):.4g})"
    change, wet = analysis - background, np.ones(np.shape(analysis), bool)
    text = f"{name}: changed by {change.min():.3g} to {change.max():.3g} {units}"
    if np.ndim(analysis) > 1:
        grid, wet = study.made.grid, study.problem.model.wet
        row, column = np.unravel_index(np.argmax(np.where(wet, change, -np.inf)), change.shape)
        text += f", most at ({grid.x_centres[column]:.6g}, {grid.y_centres[row]:.6g})"
    if "truth" in roles:
        before, after = (
            np.sqrt(np.mean((roles[role] - roles["truth"])[wet] ** 2)) for role in ("background", "analysis")
        )
        text += f"; r.m.s. distance from the twin's truth {before:.3g} {units} before and {after:.3g} after"
    return text


def _write(study, result, path):
    from ..output.inversion import write_inversion
    from ..output.metadata import references

    experiment, problem = study.made.experiment(), study.problem
    about = {
        "of": ", ".join(result.controls),
        "method": study.section.chosen,
        "ended": result.reason,
        "observations": study.observed.source,
        "kind": ", ".join(dict.fromkeys(study.observed.kinds)),
        "misfit_reduction_percent": _reduction(study, result),
        "withheld": ", ".join(study.observed.withheld) or "none",
    } | _consistency_attributes(result.consistency)
    attributes = {
        "title": experiment.run.title or study.made.draft.file.stem,
        "config": f"{RECORD}{study.made.draft.file.resolve()}\n{study.made.draft.effective_text}",
        "computed_in": str(study.problem.model.dtype),
        "references": references(study.problem.model, study.problem.stepper),
    }
    tables = {"observation": _observation_table(study, result), "loop": _history_table(result)}
    write_inversion(
        path,
        study.made.grid,
        result.controls,
        tables | _parameter_tables(study, result),
        about=about,
        seconds=(problem.first_step + problem.steps) * problem.dt,
        start=experiment.run.start,
        attributes=attributes,
        static={"depth": problem.model.depth, "wet": problem.model.wet},
        initial=result.initial,
    )


def _consistency_attributes(found):
    numbers = {
        "observations_used": found.observations,
        "independent_data": found.data,
        "cost_first": found.first,
        "cost_first_expected": found.expected_first,
        "cost_last": found.last,
        "chi_squared_per_datum": found.last_per_datum,
    }
    return {name: np.float64(value) for name, value in numbers.items() if np.isfinite(value)}


def _reduction(study, result):
    before, after = _totals(study, result)
    return 100.0 * (1.0 - after / before)


def _observation_table(study, result):
    """A row for each observation that is used or withheld."""
    columns = {
        key: [] for key in ("gauge", "kind", "units", "used", "x", "y", "time", "observed", "deviation", "error")
    }
    kinds = {label: group.kind for group in study.observed.groups for label in group.records}
    for name, record in study.observed.records.items():
        time, value, deviation = record.counted()
        columns["used"].append(np.full(time.size, name not in study.observed.withheld, np.int8))
        columns["error"].append(record.error)
        columns["x"].append(np.full(time.size, float(record.place[0])))
        columns["y"].append(np.full(time.size, float(record.place[1])))
        for key, text in (("gauge", name), ("kind", kinds[name]), ("units", record.units)):
            columns[key].append(np.full(time.size, text))
        for key, part in (("time", time), ("observed", value), ("deviation", deviation)):
            columns[key].append(part)
    for role, readings in result.readings.items():
        columns[role] = list(at_observations(study, readings).values())
    for role, spread in result.spread.items():
        columns[f"{role}_spread"] = list(at_observations(study, spread).values())
    words = _words_of_observations(study, _units_of_places(study))
    found = {name: (*words[name], np.concatenate(parts)) for name, parts in columns.items()}
    if "harmonics" not in study.observed.kinds:
        return found
    found["time"] = _TIME_OF_CONSTANTS[len(set(study.observed.kinds)) == 1] + (found["time"][2],)
    return found | constants_columns(study)


_TIME_OF_CONSTANTS = {
    True: ("1", "number of the harmonic constant of the gauge"),
    False: ("", "time since the start [s]; of harmonic constants, the number of the constant"),
}


def _words_of_observations(study, places):
    """{column: (units, description)} of the table of observations; `places` are the units of coordinates."""
    of_records = {record.units for record in study.observed.records.values()}
    units = of_records.pop() if len(of_records) == 1 else ""  # else the column `units` has those of each row
    quantity = "elevation" if units == "m" else "value"
    words = {
        "gauge": ("", "name of the gauge, or of another place"),
        "kind": ("", "type of the observation, as in the experiment file"),
        "units": ("", "units of the observation, of its errors and of the model there"),
        "x": (places, "place along x"),
        "y": (places, "place along y"),
        "time": ("s", "time since the start"),
        "observed": (units, f"observed {quantity}"),
        "used": ("1", "1: used by the analysis, 0: withheld, and only compared"),
        "error": (units, "standard deviation of the observation's error"),
        "deviation": (units, "that of uncorrelated errors with as much information, as J has it"),
        "background": (units, f"{quantity} in the model before the inversion: the run of the first guess"),
        "analysis": (units, f"{quantity} in the model after the inversion"),
        "withheld": (units, f"{quantity} in the model after the inversion of all other gauges"),
    }
    for role in ("background", "analysis", "withheld"):
        text = f"error to expect of {role}: r.m.s. difference of the members of an ensemble"
        words[f"{role}_spread"] = (units, text)
    return words


def _history_table(result):
    words = (
        ("number", "number of the loop"),
        ("cost", "J"),
        ("misfit", "half the sum of squared departures"),
        ("background", "half the square of the parameters"),
        ("products", "products or evaluations"),
    )
    return {name: ("1", text, result.history[:, k]) for k, (name, text) in enumerate(words)}


def _parameter_tables(study, result):
    """{name: {column: (units, description, values)}} of the parameters of unit sources and faults."""
    tables, places = {}, _units_of_places(study)
    for name, part in study.transformed.function.parts.items():
        on_tile = next(iter(study.communicator.tiles(part).values()))
        p = np.asarray(result.parameters[name])
        if p.ndim == 1 and (found := on_tile.table(p)) is not None:
            columns = found[1].items()
            tables[found[0]] = {
                key: (places if units == COORDINATES else units, *rest) for key, (units, *rest) in columns
            }
    return tables


def _units_of_places(study):
    return "degrees" if study.made.grid.spherical else "m"


def _fault_lines(table):
    """A line for each estimated parameter of the faults: its values before and after."""
    for name in (name.removesuffix("_analysis") for name in table if name.endswith("_analysis")):
        units, _, after = table[f"{name}_analysis"]
        before = table[f"{name}_background"][2]
        if not np.array_equal(before, after):
            yield f"{name} of the faults: {_few(after)} {units} (before: {_few(before)})"


def _few(numbers, most=6):
    return ", ".join(f"{x:.4g}" for x in numbers[:most]) + ", ..." * (len(numbers) > most)
