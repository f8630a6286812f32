"""What an inversion says at its end, and the tables of its file: misfits of gauges, fields and numbers."""

import numpy as np

from ..progress import duration
from . import facts, figures, logs
from .starting import RECORD

__all__ = ["at_observations", "conclude", "gauge_table", "misfits"]


def conclude(study, result, path, took, options):
    """Write the file, say what was found, and draw it; on the root."""
    _write(study, result, path)
    say = logs.LOGGER.info
    say("ended after %s: %s", duration(took), result.reason)
    say("%s", gauge_table(study, result))
    for name, (_, units, roles) in result.controls.items():
        say("%s", _told(study, name, units, roles))
    for line in _faults_told(_parameter_tables(study, result).get("fault", {})):
        say("%s", line)
    if np.isfinite(result.signal):
        say("the observations tell %.1f independent numbers (degrees of freedom for signal)", result.signal)
    say("file:\n  %s  (%s)", path, facts.size(path.stat().st_size))
    if options.plot:
        say("figure: %s", *figures.draw([path]))
    else:
        say("next:\n  swmodel plot %s", path)


def at_observations(study, readings):
    """{name: (n,)}: the model at the observations that count, linear between steps."""
    at = study.problem.dt * np.arange(1, study.problem.steps + 1)
    return {
        name: np.interp(record.counted()[0], at, readings[:, k])
        for k, (name, record) in enumerate(study.observed.records.items())
    }


def misfits(study, readings):
    """{name: mean((eta - y)^2) / var(y)} of each gauge; of the points of tracks together, {"tracks": ...}."""
    modelled = at_observations(study, readings)
    pairs = {name: (modelled[name], record.counted()[1]) for name, record in study.observed.records.items()}
    if study.section.observations.type == "tracks":
        pairs = {"tracks": tuple(np.concatenate(part) for part in zip(*pairs.values()))}
    return {name: float(np.mean((eta - y) ** 2) / np.var(y)) for name, (eta, y) in pairs.items()}


def gauge_table(study, result):
    """Misfits before and after, and of gauges that were withheld."""
    found = {role: misfits(study, readings) for role, readings in result.readings.items()}
    rows = [("", "misfit before", "after", "withheld")]
    for name in found["analysis"]:
        rows.append(
            (
                name,
                *(
                    f"{found[role][name]:.3f}" if role in found else "-"
                    for role in ("background", "analysis", "withheld")
                ),
            )
        )
    before, after = (sum(found[role].values()) for role in ("background", "analysis"))
    rows.append(("all", f"{before:.3f}", f"{after:.3f}", ""))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = [
        "  ".join(cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths)))
        for row in rows
    ]
    return "\n".join([line.rstrip() for line in lines] + [f"misfit_reduction={100 * (1 - after / before):.1f} %"])


def _told(study, name, units, roles):
    """The highest value of a field that was found, and where; or the number; and how near a twin's truth is."""
    analysis, background = roles["analysis"], roles["background"]
    if np.ndim(analysis) < 2:
        return f"{name} = {float(analysis):.4g} {units} (before: {float(background):.4g})"
    change = analysis - background
    row, column = np.unravel_index(np.argmax(np.where(study.problem.model.wet, change, -np.inf)), change.shape)
    grid = study.made.grid
    place = f"({grid.x_centres[column]:.6g}, {grid.y_centres[row]:.6g})"
    text = f"{name}: changed by {change.min():.3g} to {change.max():.3g} {units}, most at {place}"
    if "truth" in roles:
        wet = study.problem.model.wet
        before, after = (
            np.sqrt(np.mean((roles[role] - roles["truth"])[wet] ** 2)) for role in ("background", "analysis")
        )
        text += f"; r.m.s. distance from the twin's truth {before:.3g} {units} before and {after:.3g} after"
    return text


def _write(study, result, path):
    from ..output.inversion import write_inversion

    experiment, problem = study.made.experiment(), study.problem
    about = {
        "of": ", ".join(result.controls), "method": study.section.chosen, "ended": result.reason,
        "observations": study.observed.source, "kind": study.section.observations.type,
        "misfit_reduction_percent": _reduction(study, result),
    }  # fmt: skip
    attributes = {
        "title": experiment.run.title or study.made.draft.file.stem,
        "config": f"{RECORD}{study.made.draft.file.resolve()}\n{study.made.draft.effective_text}",
    }
    tables = {"observation": _observation_table(study, result), "loop": _history_table(result)}
    write_inversion(
        path, study.made.grid, result.controls, tables | _parameter_tables(study, result), about=about,
        seconds=problem.steps * problem.dt, start=experiment.run.start, attributes=attributes,
        static={"depth": problem.model.depth, "wet": problem.model.wet},
    )  # fmt: skip


def _reduction(study, result):
    before, after = (sum(misfits(study, result.readings[role]).values()) for role in ("background", "analysis"))
    return 100.0 * (1.0 - after / before)


def _observation_table(study, result):
    """A row for each observation that counts."""
    columns = {"gauge": [], "x": [], "y": [], "time": [], "observed": [], "deviation": []}
    for name, record in study.observed.records.items():
        time, value, deviation = record.counted()
        columns["gauge"].append(np.full(time.size, name))
        columns["x"].append(np.full(time.size, float(record.place[0])))
        columns["y"].append(np.full(time.size, float(record.place[1])))
        for key, part in (("time", time), ("observed", value), ("deviation", deviation)):
            columns[key].append(part)
    for role, readings in result.readings.items():
        columns[role] = list(at_observations(study, readings).values())
    units = _units_of_places(study)
    words = {
        "gauge": ("", "name of the gauge"), "x": (units, "place along x"), "y": (units, "place along y"),
        "time": ("s", "time since the start"), "observed": ("m", "observed elevation"),
        "deviation": ("m", "standard deviation of the observation's error"),
        "background": ("m", "elevation in the model before the inversion"),
        "analysis": ("m", "elevation in the model after the inversion"),
        "withheld": ("m", "elevation in the model after the inversion of all other gauges"),
    }  # fmt: skip
    return {name: (*words[name], np.concatenate(parts)) for name, parts in columns.items()}


def _history_table(result):
    words = (("number", "number of the loop"), ("cost", "J"), ("misfit", "half the sum of squared departures"),
             ("background", "half the square of the parameters"), ("products", "products or evaluations"))  # fmt: skip
    return {name: ("1", text, result.history[:, k]) for k, (name, text) in enumerate(words)}


def _parameter_tables(study, result):
    """What the numbers of unit sources and faults became."""
    tables, units = {}, _units_of_places(study)
    for name, part in study.transformed.function.parts.items():
        p = np.asarray(result.parameters[name]) if np.ndim(result.parameters[name]) == 1 else None
        if p is not None and hasattr(part, "centres"):
            x, y = np.array(part.centres).T
            tables["source"] = {
                "x": (units, "centre along x", x), "y": (units, "centre along y", y),
                "amplitude": ("m", "amplitude of the unit source", _of_one_tile(study, part.amplitudes, part, p)),
            }  # fmt: skip
        elif p is not None and hasattr(part, "faults"):
            tables["fault"] = _fault_table(study, part, p)
    return tables


def _units_of_places(study):
    return "degrees" if study.made.grid.spherical else "m"


def _faults_told(table):
    """A line for each number of the faults that was looked for: their values before and after."""
    for name in (name.removesuffix("_analysis") for name in table if name.endswith("_analysis")):
        units, _, after = table[f"{name}_analysis"]
        before = table[f"{name}_background"][2]
        if not np.array_equal(before, after):
            yield f"{name} of the faults: {_few(after)} {units} (before: {_few(before)})"


def _few(numbers, most=6):
    return ", ".join(f"{x:.4g}" for x in numbers[:most]) + ", ..." * (len(numbers) > most)


def _of_one_tile(study, function, part, p):
    tile = next(iter(study.communicator.tiles(part).values()))
    return np.asarray(getattr(tile, function.__name__)(np.asarray(p)))


def _fault_table(study, part, p):
    tile = next(iter(study.communicator.tiles(part).values()))
    before, after = tile.source.faults, tile.faults(np.asarray(p)).faults
    table, places = {}, dict.fromkeys(("longitude", "latitude"), _units_of_places(study))
    for field in ("longitude", "latitude", "depth", "length", "width", "strike", "dip", "rake", "slip"):
        units = places | dict.fromkeys(("strike", "dip", "rake"), "degrees")
        units = units.get(field, "m")
        for role, faults in (("background", before), ("analysis", after)):
            values = np.asarray(getattr(faults, field), float)
            values = values.sum(axis=1) if values.ndim == 2 else values
            table[f"{field}_{role}"] = (units, f"{field} of the fault, {role}", values)
    return table
