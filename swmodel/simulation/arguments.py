"""The rules of the arguments of Simulation and its methods."""

from ..fields.parameters import Flag, Moment, Number, Part, Stages, Text

__all__ = ["EVERY", "RULES", "SECONDS", "STEPS"]

STEPS = Number(None, "steps", minimum=0, whole=True, optional=True)
SECONDS = Number(None, "s", optional=True)
EVERY = Number(None, "s", above=0.0, optional=True)
RULES = {
    "model": Part(("dynamics", "at_rest"), "ShallowWater(grid, depth)"),
    "state": Part(("names", "map"), "model.at_rest()"),
    "stepper": Part(("step", "check", "history"), "RK4(dt=60.0)"),
    "start": Moment(),
    "title": Text(),
    "config": Text(),
    "overwrite": Flag(),
    "stages_per_exchange": Stages(),
}
