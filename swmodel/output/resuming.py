"""How a Simulation continues from a restart.

A restart holds state, history, the arrays of products and the number of steps. It also holds the fingerprint of its
run (fingerprint.py) and the depth of the sea floor, 0 on land. A run continues only if its own fingerprint is the same,
or if the user has named the differences: by `force` in Python, by `--force` or `--set` on the command line.

The run continues products whose descriptions (`Sampler.description`) equal its own. All others start anew at the step
of the restart, and a warning names their files.
"""

import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from ..dynamics.domain import Domain
from ..errors import ConfigError, DataError
from ..fields.state import each_state
from ..grids.grid import Grid
from ..stepping.stability import check_time_step
from . import is_store
from .fingerprint import GROUPS, ROUNDING, Difference, describe, differences, explained, fingerprint
from .restart import Restart, name_of_leaf, named_leaves, open_restart, product_outputs, state_and_history
from .schedule import AbstractSimulation
from .zarr_store import open_store

T = TypeVar("T")
LAND = {"coast", "depth"}
STATE = "state_"  # the prefix of the names of a State's arrays


def opened(path: str | Path, grid: Grid | None = None, verify: bool = True, as_store: bool | None = None) -> Restart:
    """A Restart whose arrays are read by windows, when they are used.

    Args:
        path: the path of a netCDF file or of a Zarr store, which the ending of the name distinguishes.
        grid: the Grid on which the run continues, or None to accept any grid.
        verify: whether a file is compared with its checksum. The checksum of a store, which covers all but the chunks,
            is always compared, and those of the chunks when they are read.
        as_store: whether it is a store, if its name does not end as one of its kind.

    Raises:
        DataError: if there is no such restart, it is damaged, newer than this swmodel, or of another grid.
    """
    if is_store(path) if as_store is None else as_store:
        return open_store(Path(path), grid, verify)
    return open_restart(path, grid, verify)


def opened_together(
    domain: Domain, path: str | Path, about: Callable[[Restart], T]
) -> tuple[Callable[[str], jax.Array | np.ndarray], T]:
    """(`tile(name)`, which gives the placed tile arrays of an array, `about(the Restart)` of the root); collective.

    The root compares the file with its checksum. Then every rank reads its own window. If some rank has no access to
    the file, the root reads one tile after another and sends them.

    Args:
        domain: the Domain of the model.
        path: the path of the restart.
        about: what every rank needs of the restart.

    Raises:
        DataError: as `opened` does, on every rank; also by `tile`.
    """
    communicator, shape = domain.communicator, domain.grid.shape
    found, parts = communicator.from_root(lambda: about(opened(path, domain.grid))), communicator.decomposition(shape)
    alone = communicator.agree(not Path(path).exists())
    arrays = opened(path, verify=False).arrays if communicator.is_root or not alone else {}

    def tile(name):
        if alone:
            return communicator.scatter_from_root(arrays.get(name), shape)
        return domain.together(lambda: communicator.place(lambda rank: parts.cut(arrays[name], rank)))

    return tile, found


def allowed_names(force: object) -> tuple[str, ...]:
    """`force` as a tuple of names; it may be "all", "depth,physics" or ("depth", "physics").

    Raises:
        ConfigError: for values that are not texts.
    """
    names = force.split(",") if isinstance(force, str) else force
    if not isinstance(names, tuple | list | set | frozenset) or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"resume: force = {force!r} names nothing; give 'all', or some of {', '.join(GROUPS)} and the names of "
            "entries, as 'coriolis' or 'dissipation.0.viscosity'."
        )
    return tuple(name.strip() for name in names if name.strip())


def restored(simulation: AbstractSimulation, path: str | Path, force: object = ()) -> str:
    """Put a restart's content into `simulation`, and return one or two sentences on what was resumed; collective.

    Args:
        simulation: the Simulation.
        path: the path of the restart.
        force: the allowed differences from the run that wrote it, as `allowed_names` accepts them.

    Raises:
        DataError: if the restart cannot be read or belongs to another grid, another ensemble or, unless `force` names
            the differences, another experiment. The simulation is unchanged after either error.
        ConfigError: if the time step is over the limit of the restart's state, unless nothing has changed since.
    """
    names = allowed_names(force)
    tile, restart = opened_together(simulation.model.domain, path, _about)
    had, have = restart["scalars"].get("members", 1), math.prod(simulation.model.batch)
    if had != have:
        raise DataError(f"{path} holds {had} members and the run has {have}; continue with the ensemble that wrote it.")
    scalars = restart["scalars"]
    step = round(scalars["step"] * scalars["dt"] / simulation.dt)
    _warn_of_moved_clock(simulation, path, scalars, step)
    found = _compared(simulation, path, tile, restart, step)
    known = {difference.name for difference in found}
    found += [x for x in _other_variables(simulation, restart["names"]) if x.name not in known]
    if refused := [difference for difference in found if not explained(difference, names)]:
        raise DataError(_refusal(path, refused))
    same_stepper = scalars["stepper"] == type(simulation.scheme).__name__ and scalars["dt"] == simulation.dt
    keep_history = same_stepper and all(difference.name == "precision" for difference in found)
    values = _values(simulation, tile, restart, keep_history)
    described_alike = restart["attributes"]["time_stepper"] == describe(simulation.scheme)
    alike = bool(restart["attributes"]["fingerprint"]) and described_alike and not found
    _check_time_step(simulation, values["state"], path, goes_on=alike and same_stepper)
    sums, anew = _continued(simulation, tile, restart, values["state"], step)
    simulation.step = step
    simulation.resumed_at, simulation.resumed_step, simulation.resumed_from = simulation.time, step, path
    simulation.resumed_alike, simulation.resumed_without = alike, tuple(anew)
    simulation.set(values["state"], values["history"])
    for output, arrays in sums:
        output.arrays = arrays
    if anew and simulation.communicator.is_root:
        logging.getLogger("swmodel").warning(
            "%s will hold samples from %g s on alone: %s holds none that were taken in the same way until then.",
            " and ".join(map(str, anew)),
            simulation.time,
            path,
        )
    return _message(simulation, path, restart, found, same_stepper)


def _check_time_step(simulation, state, path, goes_on):
    """`check_time_step` of a restart's state; of a run that continues unchanged, what is wrong is a warning."""
    try:
        check_time_step(simulation.model, simulation.scheme, state)
    except ConfigError as error:
        if not goes_on:
            raise
        if simulation.communicator.is_root:
            logging.getLogger("swmodel").warning(
                "%s is continued with its own time step, although the flow has become too fast for it: %s", path, error
            )


def _warn_of_moved_clock(simulation, path, scalars, step):
    """Warn if the time of a restart is not a multiple of dt, so that the run continues at another time."""
    was, now, dt = scalars["step"] * scalars["dt"], step * simulation.dt, simulation.dt
    if abs(now - was) > 1e-6 * dt and simulation.communicator.is_root:
        logging.getLogger("swmodel").warning(
            "%s is of %g s, which is not a multiple of dt = %g s: the run continues at %g s. Give a dt that divides "
            "%g s for a run without a jump of the clock.",
            path,
            was,
            dt,
            now,
            was,
        )


def _about(restart):
    """{"scalars", "attributes", "names", "dtypes"} of a Restart."""
    dtypes = {name: str(array.dtype) for name, array in restart.arrays.items()}
    attributes = {name: restart.attributes.get(name, "") for name in ("fingerprint", "time_stepper")}
    return {"scalars": restart.scalars, "attributes": attributes, "names": set(dtypes), "dtypes": dtypes}


# -- comparison with the run that wrote the restart -------------------------------------------------------------------


def _compared(simulation, path, tile, restart, step):
    """The list of Differences between a restart and this run; collective."""
    model, text = simulation.model, restart["attributes"]["fingerprint"]
    if not text:
        return _compared_without(model, path, restart)
    was = json.loads(text)
    facts = {name: fact for name, fact in simulation.facts.items() if name in was}  # older restarts have none
    found = differences(was, fingerprint(model, step, simulation.dt, like=was) | facts)
    if any(difference.name in LAND for difference in found):
        cells = _land_differences(model, tile("depth"))
        replaced = LAND if model.film is None or cells else {"depth"}
        found = cells + [difference for difference in found if difference.name not in replaced]
    return found


def _compared_without(model, path, restart):
    """The Differences from a restart of an older swmodel, which has no fingerprint and records the precision alone."""
    if model.communicator.is_root:
        logging.getLogger("swmodel").warning(
            "%s is of an older swmodel, which did not record depth, coast and physics of its run: they could not be "
            "compared with those of this run.",
            path,
        )
    was, now = restart["dtypes"].get("state_eta", str(model.dtype)), str(model.dtype)
    text = f"precision is {was} in the restart and {now} in the experiment"
    return [] if was == now else [Difference("precision", text)]


def _other_variables(simulation, names):
    """The Differences between the fields that a restart holds and the model's prognostic variables."""
    kept = [name.removeprefix(STATE) for name in sorted(names) if name.startswith(STATE)]
    stepped = simulation.state.names
    pairs = [(set(kept) - set(stepped), "restart", "experiment"), (set(stepped) - set(kept), "experiment", "restart")]
    return [
        Difference(f"tracers.{name}", f"the variable {name} is in the {there} and not in the {missing}")
        for found, there, missing in pairs
        for name in sorted(found)
    ]


def _land_differences(model, placed):
    """The Differences of coast and depth [m], as counts of cells beyond rounding; collective."""
    counts, largest, tiles = np.zeros(3), 0.0, model.communicator.tiles([placed])
    depth = model.water_depth()
    for rank, (was,) in tiles.items():
        rows, columns = model.decomposition.padding(rank)
        was, now = (np.asarray(x, float)[..., rows:, columns:] for x in (was, depth[rank]))
        was, now = np.broadcast_arrays(was, now)
        changed = np.abs(now - was)
        if model.film is None:  # with it, depths below 0 are heights of land that may be flooded
            counts += [((was > 0) & (now <= 0)).sum(), ((was <= 0) & (now > 0)).sum(), 0]
            changed = np.where((was > 0) & (now > 0), changed, 0.0)
        changed[changed <= ROUNDING * np.abs(was)] = 0.0
        counts[2] += np.count_nonzero(changed)
        largest = max(largest, changed.max(initial=0.0))
    dried, flooded, deeper = (int(n) for n in model.communicator.host_sum(counts))
    largest = model.communicator.host_maximum(float(largest))
    found = []
    if dried or flooded:
        parts = [
            (dried, "water in the restart and land in the experiment"),
            (flooded, "land in the restart and water in the experiment"),
        ]
        text = ", ".join(f"{_cells(n)} {'is' if n == 1 else 'are'} {what}" for n, what in parts if n)
        found.append(Difference("coast", f"the coast differs ({text})"))
    if deeper:
        found.append(Difference("depth", f"the depth differs in {_cells(deeper)}, by up to {largest:.4g} m"))
    return found


def _cells(n):
    return f"{n} cell{'s' * (n != 1)}"


def _refusal(path, refused):
    names = dict.fromkeys(difference.name for difference in refused)
    names = list(names) if len(names) <= 3 else list(dict.fromkeys(difference.group for difference in refused))
    return (
        f"{path} belongs to another experiment: {'; '.join(difference.text for difference in refused)}. "
        f"Resume it with the experiment that wrote it or, if the change is meant, with --force {','.join(names)} "
        f"(in Python: force={tuple(names)!r})."
    )


def _message(simulation, path, restart, found, same_stepper):
    """The message on what was resumed, and on what differs from the run that wrote the restart."""
    scalars, text = restart["scalars"], f"resumed {path} at step {simulation.step} ({simulation.time:g} s)"
    was, now = restart["attributes"]["time_stepper"], describe(simulation.scheme)
    if not same_stepper:
        was = f"{scalars['stepper']} with dt = {scalars['dt']:g} s"
        text += f"; the file was written by {was}, so the time stepper's history starts anew"
    elif restart["attributes"]["fingerprint"] and was != now:
        text += f"; the file was written by {was}, and the run continues with {now}"
    if found:
        text += f". As requested, it continues although {'; '.join(difference.text for difference in found)}"
        if same_stepper and any(difference.name != "precision" for difference in found):
            text += "; the time stepper's history starts anew"
    return f"{text}."


# -- restoring state and history --------------------------------------------------------------------------------------


def _masks_by_leaf(tree, model):
    """{name of a leaf: tile arrays that are 1 where the leaf may differ from 0} of all States in a tree.

    It may differ in wet cells and on faces that water can cross, which those of open sides are.
    """
    floor = model.sea_floor
    masks = {position: model.scatter(floor.mask(position, model.open_sides)) for position in "uvh"}
    at = each_state(lambda state: state.map(lambda _, position: position, state.positions), tree)
    return {name: masks[position] for name, position in named_leaves(at).items() if isinstance(position, str)}


def _values(simulation, tile, restart, keep_history):
    """{"state", "history"} of a restart; fields that it does not hold are the simulation's own."""
    parts = state_and_history(simulation)
    masks = _masks_by_leaf(parts, simulation.model)
    if keep_history:
        return _filled(parts, tile, restart, simulation.communicator, masks)
    parts = _filled({"state": parts["state"]}, tile, restart, simulation.communicator, masks)
    return {**parts, "history": simulation.start_history(parts["state"])}


def _filled(tree, tile, restart, communicator, masks=None):
    """A pytree like `tree`, with the numbers and arrays of a restart that have the names of its leaves.

    Arrays are 0 where their mask is, even over NaN.
    """

    def filled(path, leaf):
        name = name_of_leaf(path)
        if jnp.ndim(leaf) < 2:
            number = restart["scalars"].get(name, 0 if name == "history_failed" else None)  # which 0.2 did not have
            if number is None:
                raise DataError(
                    f"the restart holds no {name}: another version of swmodel wrote it; resume with that version."
                )
            number = np.asarray(json.loads(number) if jnp.ndim(leaf) else number, leaf.dtype)
            return communicator.place(lambda rank: number)
        if name not in restart["names"]:
            return leaf
        array, mask = jnp.asarray(tile(name)).astype(leaf.dtype), (masks or {}).get(name)
        return array if mask is None else jnp.where(jnp.broadcast_to(mask != 0, array.shape), array, 0)

    return jax.tree_util.tree_map_with_path(filled, tree)


def _continued(simulation, tile, restart, state, step):
    """([(output, its arrays)] of the products, the files of those that start anew); collective.

    Those whose descriptions in the restart equal the simulation's are continued. The others start after `step` from
    `state`.
    """
    communicator, scalars = simulation.communicator, restart["scalars"]
    stored, sums, anew = _stored_products(scalars), [], []
    for output in product_outputs(simulation):
        own, arrays = output.watcher.description(), None
        place = next((name for name, about in stored.items() if about | {"dt": simulation.dt} == own), None)
        if place is not None and {f"{place}_{name}" for name in output.arrays} <= {*restart["names"], *scalars}:
            dt = stored.pop(place)["dt"]  # each of two equal descriptions is continued once
            arrays = _filled({place: output.arrays}, tile, restart, communicator)[place]
            if dt != simulation.dt:
                since = np.int32(round(scalars[f"{place}_since"] * dt / simulation.dt))
                arrays = output.watcher.product.at_step_of(dt / simulation.dt, arrays, communicator)
                arrays = arrays and {**arrays, "since": communicator.place(lambda rank, since=since: since)}
        if arrays is None:
            arrays = output.watcher.start(simulation, state, step)
            anew.append(output.path)
        sums.append((output, arrays))
    return sums, anew


def _stored_products(scalars):
    """{prefix of the names of its arrays: description} of the products in a restart."""
    stored = {f"products_{k}": about for k, about in enumerate(json.loads(scalars.get("products", "[]")))}
    if "maxima_threshold" in scalars:  # written before maxima were products
        about = {"kind": "maxima", "dt": scalars["dt"], "every": 1, "first": 0}
        stored["maxima"] = about | {"threshold": scalars["maxima_threshold"]}
    return stored
