"""A key of an experiment file that is left out means what the argument of the Python API means that is left out."""

import dataclasses
import inspect

import pytest

import swmodel as sw
from swmodel import sources
from swmodel.config import adjoint as adjoint_section
from swmodel.config import from_files, initial, inversion, nests, physics, scenario, solvers, source
from swmodel.config.reading import Section
from swmodel.dynamics.dissipation import FreeSlip
from swmodel.dynamics.layer import EnergyConserving
from swmodel.forcing import wind_laws
from swmodel.grids import bathymetry

# Every section of a file with optional keys: what takes these keys in Python; None where there is no such thing.
COUNTERPARTS = {
    scenario.DepthFormula: bathymetry.from_depth,
    scenario.BathymetryFile: bathymetry.onto_grid,
    physics.Model: sw.ShallowWater,
    from_files.WindFile: wind_laws.wind_stress,
    source.Fault: sources.Fault,
    scenario.Spectra: sw.Simulation.spectra,
    scenario.Run: sw.Simulation,
}
# Those that are made of the classes of parts have the defaults of these.
DERIVED = {
    section: section.part
    for known in (
        *(physics.CORIOLIS, scenario.GRIDS, physics.STEPPERS, physics.FORCING, physics.DISSIPATION, physics.BOUNDARY),
        *(adjoint_section.COSTS, scenario.PRODUCTS),
    )
    for section in known.values()
    if section is not from_files.WindFile
}
# Keys that mean something else in Python, or are written in another way there: (section, key): the Python value.
WRITTEN = {
    (physics.Model, "momentum"): ("energy_conserving", EnergyConserving()),
    (physics.Model, "side"): ("free_slip", FreeSlip()),
    (physics.Model, "core"): ("finite_differences", sw.FiniteDifferences()),
    (physics.DISSIPATION["internal_wave_drag"], "roughness"): (None, dataclasses.MISSING),  # see rough_bottom
}
# Keys whose Python counterpart is no constructor's argument, or that only files have.
OTHERWISE = set(
    "dt fraction solver preconditioner tolerance iterations precision file title layout devices communicator engine "
    "variable u v spectral until gauges positions window".split()
)


def sections():
    modules = (physics, from_files, solvers, initial, source, scenario, nests, adjoint_section, inversion)
    for module in modules:
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, Section) and cls.__module__ == module.__name__:
                yield cls


def python_default(function, name):
    if dataclasses.is_dataclass(function):
        field = {f.name: f for f in dataclasses.fields(function)}.get(name)
        return inspect.Parameter.empty if field is None else field.default
    found = inspect.signature(function).parameters.get(name)
    return inspect.Parameter.empty if found is None else found.default


@pytest.mark.parametrize("section", [*COUNTERPARTS, *DERIVED], ids=lambda cls: cls.__name__)
def test_defaults_of_the_file_are_those_of_python(section):
    compared = 0
    for name, field in section.schema().items():
        if field.is_required or name in OTHERWISE:
            continue
        given = python_default({**COUNTERPARTS, **DERIVED}[section], name)
        if (section, name) in WRITTEN:
            assert (field.default, given) == WRITTEN[section, name]
        elif given is inspect.Parameter.empty:
            continue
        else:
            assert field.default == given, f"{section.__name__}.{name}"
        compared += 1
    assert compared or section in DERIVED


def test_every_number_that_both_sides_have_is_compared():
    """A section with a default number is either compared above, or no part of the Python API has such an argument."""
    everything = {name: getattr(sw, name) for name in sw.__all__ if isinstance(getattr(sw, name), type)}
    left_out = []
    for section in set(sections()) - set(COUNTERPARTS):
        twin = everything.get(section.__name__)
        for name, field in section.schema().items():
            number = isinstance(field.default, (int, float)) and not isinstance(field.default, bool)
            if twin is not None and number and python_default(twin, name) is not inspect.Parameter.empty:
                left_out.append(f"{section.__name__}.{name}")
    assert not left_out
