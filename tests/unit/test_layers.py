"""Imports point downwards only: each module may load those on lower layers, and its own layer."""
import ast
import re
from pathlib import Path

import swmodel

PACKAGE = Path(swmodel.__file__).parent
LAYERS = [
    [
        "errors", "units", "pytrees", "version", "signals", "cores", "launch", "libraries", "devices", "resources",
        "compilation", "heap", "native", "paths", "budget", "defaults", "parameters",
    ],
    ["linear", "grid", "fields"],
    ["operators", "parallel", "progress"],
    ["geometry", "bathymetry", "regrid"],
    ["elliptic", "random_fields"],
    ["dynamics", "sources"],
    ["time_steppers", "integrating_factor", "semi_implicit", "marching", "diagnostics", "members"],
    ["kernels"],
    ["integration"],
    ["model", "vortices", "monitors", "output", "ensemble", "spectral_diagnostics"],
    ["stability", "performance"],
    ["simulation"],
    ["adjoint"],
    ["config", "build", "build_adjoint", "build_ensemble", "build_inversion", "build_states", "build_studies"],
    ["doctor"],
    ["cli", "__main__"],
]  # fmt: skip
LAYER_OF = {name: k for k, names in enumerate(LAYERS) for name in names}


def imported(file):
    """First parts of the modules of this package that a file imports at its top level."""
    package = ["swmodel", *file.relative_to(PACKAGE).with_suffix("").parts[:-1]]
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            named = [*base, *(node.module.split(".") if node.module else [])]
            for found in [named] if len(named) > 1 else [[*named, alias.name] for alias in node.names]:
                if len(found) > 1:
                    yield found[1]


def test_every_module_has_a_layer():
    modules = {file.stem for file in PACKAGE.glob("*.py")}
    modules |= {file.parent.name for file in PACKAGE.glob("*/__init__.py")}
    assert modules - {"__init__", "swmodel"} == set(LAYER_OF)


def test_imports_point_downwards():
    upwards = [
        f"{file.relative_to(PACKAGE)} imports {name}"
        for file in PACKAGE.rglob("*.py")
        if file.parent != PACKAGE or file.stem != "__init__"
        for name in imported(file)
        if name in LAYER_OF and LAYER_OF[name] > LAYER_OF[file.relative_to(PACKAGE).parts[0].removesuffix(".py")]
    ]
    assert not upwards


def test_physics_knows_no_communicator_by_name():
    for file in [*PACKAGE.glob("dynamics/*.py"), PACKAGE / "operators.py", PACKAGE / "time_steppers.py"]:
        assert not re.search(r"\b(mpi|mesh)", file.read_text().lower()), file
