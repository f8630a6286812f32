"""The base class of initial states of one's own, which files name by `[initial] type = "module:Class"`."""

import abc

from ..fields.methods import Result
from ..fields.parts import ModelPart
from ..fields.state import State
from .shallow_water import ShallowWater


def _no_state(value, arguments):
    return None if isinstance(value, State) else f"a {type(value).__name__}"


class InitialState(ModelPart, abc.ABC):
    """A state from which a run starts, by declared parameters."""

    kind = "initial"
    results = {"state": Result("a State, as model.state(eta=...) makes", _no_state)}

    @abc.abstractmethod
    def state(self, model: ShallowWater) -> State:
        """This tile's State of a model, which of a run with nests is that of one grid; collective."""
