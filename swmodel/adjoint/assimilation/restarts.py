"""Where a minimisation is, in a file: on any number of ranks it goes on from there.

Parameters and the pairs of L-BFGS are kept as global arrays and numbers, beside the history and what else was
computed at length (Green's functions). The file is complete or absent, as all restarts are (output/restart.py).
"""

import numpy as np

from ...errors import DataError
from ...output.restart import read_restart, write_restart

__all__ = ["keep", "kept"]


def keep(path, model, vectors, arrays, about):
    """Write control dicts and arrays; collective.

    Args:
        path: of the file.
        model: a ShallowWater.
        vectors: {name: control dict}.
        arrays: {name: array that every rank holds}.
        about: text that must be the same when it is read: the experiment.
    """
    whole = {f"{key}@{name}": _whole(value, model) for key, vector in vectors.items() for name, value in vector.items()}
    model.communicator.from_root(
        lambda: write_restart(path, model.grid, {**whole, **arrays}, {"swmodel_inversion": True}, {"about": about})
    )


def kept(path, model, like, about):
    """({name: control dict}, {name: array}) of a file.

    Args:
        like: a control dict with the names and shapes that the inversion has.
        about: as it was written.

    Raises:
        DataError: if it is no such file, or of another inversion.
    """
    restart = model.communicator.from_root(lambda: read_restart(path, model.grid))
    if not restart.scalars.get("swmodel_inversion"):
        raise DataError(f"{path} is no restart of an inversion; give the one that `swmodel invert` has written.")
    if restart.attributes.get("about", "") != about:
        raise DataError(f"{path} belongs to another inversion than this file describes; start anew, or use that file.")
    vectors, arrays = {}, {}
    for name, value in restart.arrays.items():
        key, at, part = name.partition("@")
        if not at:
            arrays[name] = value
        elif part in like:
            vectors.setdefault(key, {})[part] = _tile(value, like[part], model)
    return vectors, arrays


def _whole(value, model):
    return model.gather(value) if np.ndim(value) >= 2 else np.asarray(value)


def _tile(value, like, model):
    return model.scatter(value) if np.ndim(like) >= 2 else np.asarray(value, np.asarray(like).dtype)
