"""Random experiments: every type and key that the declarations have, in sizes that suit a small basin.

    name, tables = drawn(seed)      # a subfolder, and the sections of an experiment chosen by the number `seed`

Types, keys, units and limits come from the sections of experiment files (swmodel/config/), so that a new part is drawn
without a change here. What sections do not tell stands below: basins, sizes that are typical of a unit, names of files.
Some draws cannot be combined; `swmodel check` refuses these.
"""

import functools
import math
import types
import typing

import hypothesis
from hypothesis import strategies as st

from swmodel import elliptic
from swmodel.config import initial, physics
from swmodel.config.initial import TracerSection
from swmodel.config.parts import ClassNamed, section_for
from swmodel.config.reading import Section
from swmodel.config.sections import Formula
from swmodel.config.toml import dump
from swmodel.diagnostics.derived import FIELDS
from swmodel.dynamics.boundaries import OpenBoundary
from swmodel.dynamics.shores import WettingDrying
from swmodel.dynamics.terms import Term
from swmodel.dynamics.waters import WaterSource
from swmodel.fields.parameters import Choice, Number
from swmodel.fields.parts import positions_of
from swmodel.forcing.wind_laws import DRAG_LAWS

from .. import own_parts
from .basins import BASINS, DEPTH, START, at, width

__all__ = [
    "ON_GLOBE",
    "ON_LAND",
    "PARTS",
    "SUBJECTS",
    "TOGETHER",
    "completed",
    "drawn",
    "is_at_rest",
    "is_closed",
    "kinds",
    "section",
    "simplest",
]
__all__ += ["text_of"]

# Sizes by unit, for parameters that are required or whose default is 0, and by class where the unit does not tell.
SIZES = {
    "": 0.05, "m": 0.2, "m s-1": 0.1, "s": 600.0, "s-1": 1e-4, "m-1 s-1": 2e-11, "m2 s-1": 50.0, "m4 s-1": 1e9,
    "s m-1/3": 0.05, "N m-2": 0.1, "Pa": 300.0, "degree": 90.0, "m s-2": 1e-5, "kg m-3": 1e3, "m3 s-1": 100.0,
    "Wind.x": 10.0, "Wind.y": 10.0, "GaussianBump.radius": 30e3, "RandomVortices.length": 80e3,
    "SolitaryWaveSection.depth": DEPTH, "CnoidalWaveSection.depth": DEPTH, "CnoidalWaveSection.period": 300.0,
}  # fmt: skip
SIGNED = ("m s-1", "N m-2", "degree")  # units of numbers that may be negative
ON_SPHERE = ("cyclone", "tidal_potential", "wind_file")  # forcings that a plane does not have
ON_GLOBE = ("self_attraction_loading",)  # those that only the globe has
ON_LAND = ("infiltration",)  # those that only models with wetting have
TOGETHER = {
    "internal_wave_drag": {"roughness": 20.0},
    "self_attraction_loading": {"degree": 3},
}  # keys without which a type is refused
# Values of keys that are neither numbers nor one of several names.
VALUES = {
    "Cyclone.track": st.sampled_from(("track.csv", "track2.csv")),
    "RecordFile.file": st.sampled_from(("series.csv", "series2.csv")),
    "WindFile.file": st.just("wind.nc"),
    "FormulaSection.formula": st.just("5e-4 * (1 + 0.5 * sin(PHASE + t / 300))"),  # also of rain and evaporation
    "Sponge.width": st.just("WIDTH"),
    "River.positions": st.just("PLACES"),
    "River.discharge": st.sampled_from((50.0, 120.0, -20.0, {"file": "series.csv"})),
    "Pump.discharge": st.sampled_from((50.0, {"file": "series.csv"})),
    **{f"{name}.{key}": st.just(key.upper()) for name in ("Gate", "Culvert", "Pump") for key in ("inlet", "outlet")},
    **{f"{name}.opening": st.sampled_from((0.5, 2.0)) for name in ("Gate", "Culvert")},
    **{
        f"{name}.rate": st.sampled_from(
            (1e-5, "1e-5 * (1 + 0.5 * sin(PHASE))", {"formula": "1e-5 * (1 + sin(t / 300))"})
        )
        for name in ("Rain", "Evaporation")
    },
    "Infiltration.conductivity": st.sampled_from((1e-5, "1e-5 * (1 + 0.5 * sin(PHASE))")),
    **{f"{name}.concentrations": st.just({"dye": 20.0, "salt": 0.5}) for name in ("Rain", "River")},
    **{f"{name}.file": st.just("map.nc") for name in ("MapFile", "FieldFile", "FieldRecord")},
    **{f"{name}.variable": st.just("n") for name in ("MapFile", "FieldFile", "FieldRecord")},
    **{f"{name}.drag": st.sampled_from((*DRAG_LAWS, 1.3e-3)) for name in ("Wind", "WindFile", "Cyclone")},
    **{f"{name}.solver": st.sampled_from(elliptic.names()) for name in ("SemiImplicit", "RigidLid")},
    "AirPressure.pressure": st.sampled_from(
        (101000.0, "101000 + 500 * sin(PHASE)", {"formula": "101000 + 500 * sin(PHASE + t / 300)"})
    ),
    "Cyclone.ambient_pressure": st.sampled_from((101500.0, 102000.0)),
    "SolitaryWaveSection.wave": st.just("solitary"),
    "CnoidalWaveSection.wave": st.just("cnoidal"),
    **{f"{name}.reference": st.just(101325.0) for name in ("BarometerSection", "TideSection")},
    "TidalPotential.constituents": st.sampled_from((["M2"], ["K1", "O1"], ["M2", "S2", "Q1"])),
}
SERIES = ("Tide", "RecordFile", "FormulaSection", "SolitaryWaveSection", "CnoidalWaveSection")
VALUES |= {f"{name}.{key}": None for name in SERIES for key in ("inverse_barometer", "reference")}  # refused by most
NX, NY = 19, 9  # of all grids, so that draws share programs; two tiles have different shapes
ANOTHER = {"track.csv": "track2.csv", "series.csv": "series2.csv"}  # {a file: one that other members may have}
SUBJECTS = (
    *("tides", "storms", "wetting", "levees", "tracers", "ensembles", "zarr", "implicit", "own parts", "open sides"),
    *("sources", "layers", "nests"),
)  # each of which is to meet each other
OUTPUTS = ("maxima", "gauges", "spectra", "means", "extremes", "drifters")  # an ensemble has the first two


# -- values of the keys of a section -----------------------------------------------------------------------------------


@functools.cache
def _keys(cls):
    """({key: strategy} of required keys, that of others) of a section; None if a required key can have no value."""
    required, others = {}, {}
    for key, info in cls.schema().items():
        values = _values(info.annotation, f"{cls.__name__}.{key}", info.default)
        if values is not None:
            needed = info.is_required or (key == "constituents" and info.default == {})  # an atlas may replace them
            (required if needed else others)[key] = values
        elif info.is_required and key not in ("sides", "name", "centre", "type"):
            return None
    return required, others


@st.composite
def section(draw, cls, most=2, **fixed):
    """A table for a section: `fixed`, the required keys, and at `most` so many of the others: most keep defaults."""
    required, others = _keys(cls)
    names = draw(st.sets(st.sampled_from(sorted(others)), max_size=most)) if others else ()
    chosen = {key: values for key, values in {**others, **required}.items() if key in names or key in required}
    return {**{key: draw(values) for key, values in sorted(chosen.items()) if key not in fixed}, **fixed}


def _values(annotation, name, default, metadata=()):
    """The strategy of values of an annotation; None if there are none here."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if name in VALUES:
        return VALUES[name]
    if origin is typing.Annotated:
        return _values(inner[0], name, default, (*inner[1:], *metadata))
    rule = next((each for each in metadata if isinstance(each, (Number, Choice, Formula))), None)
    if isinstance(rule, Choice):
        return st.sampled_from(rule.choices)
    if named := [each for each in metadata if isinstance(each, ClassNamed)]:
        return st.sampled_from(sorted(named[0].classes))
    if isinstance(rule, (Number, Formula)) or annotation is float:
        return _numbers(name, default, rule or Number())
    if origin in (typing.Union, types.UnionType):
        kinds = [_values(each, name, default) for each in inner]
        return st.one_of(*kinds) if (kinds := [kind for kind in kinds if kind is not None]) else None
    if origin is typing.Literal:
        return st.sampled_from(inner)
    if annotation is bool:
        return st.booleans()
    if origin is dict and (one := _values(inner[1], name, default)) is not None:
        return st.dictionaries(st.sampled_from(("M2", "K1")), one, min_size=1)
    if isinstance(annotation, type) and issubclass(annotation, Section) and _keys(annotation) is not None:
        return section(annotation)
    return None


def _numbers(name, default, rule):
    """Numbers of about the size of `default`, else of their unit, within their limits; or formulas with such a mean."""
    number = rule.rule if isinstance(rule, Formula) else rule
    if number.whole:
        return None
    unit = "" if number.units == "1" else number.units
    usual = default if isinstance(default, float) and default else SIZES.get(name) or SIZES[unit]
    low = max((limit for limit in (number.minimum, number.above) if limit is not None), default=-math.inf)
    high = min((limit for limit in (number.maximum, number.below) if limit is not None), default=math.inf)
    signs = (1.0, -1.0) if low < 0 and not default and unit in SIGNED else (1.0,)
    factors = st.builds(lambda eighths, sign: sign * eighths / 8, st.integers(4, 12), st.sampled_from(signs))
    values = factors.map(lambda factor: float(min(max(factor * usual, low), high)))
    if not isinstance(rule, Formula):
        return values
    shape = "1 + 0.5 * sin(PHASE)" if math.isinf(high) else "0.75 + 0.25 * sin(PHASE)"  # at most 1
    return values | values.map(lambda value: f"{value!r} * ({shape})")


# -- experiments -------------------------------------------------------------------------------------------------------


def _own(base, kind):
    """{"module:Class": its section} of the parts in docs/guide/own_parts.md."""
    defined = vars(own_parts.everything())
    return {
        name: section_for(cls, name)
        for file, text in own_parts.files().items()
        for cls in defined.values()
        if isinstance(cls, type)
        and issubclass(cls, base)
        and cls.kind in (None, kind)
        and f"class {cls.__name__}(" in text
        for name in [f"{file.removesuffix('.py')}:{cls.__name__}"]
    }


PARTS = {
    "forcing": physics.FORCING | _own(Term, "forcing"),
    "dissipation": {name: cls for name, cls in physics.DISSIPATION.items() if not cls.part.between_layers},
    "boundary": physics.BOUNDARY | _own(OpenBoundary, "boundary"),
}


def _conserves_momentum(model):
    return physics.FORMS.classes[model.get("momentum", "energy_conserving")].conserves_momentum


def _suitable(model, stepper):
    """PARTS without those that a linear model, one that conserves momentum, or an implicit stepper does not have."""
    conserving = _conserves_momentum(model)
    implicit = physics.STEPPERS[stepper["type"]].part.is_implicit

    def suits(part):
        closing = getattr(part, "closes_volume", False)
        keeping = part.memory if issubclass(part, OpenBoundary) else part.state_variables is not Term.state_variables
        nonlinear = getattr(part, "nonlinear", False) and model.get("linear", False)
        return not (nonlinear or (closing and (conserving or implicit)) or (implicit and keeping))

    return {kind: {name: cls for name, cls in classes.items() if suits(cls.part)} for kind, classes in PARTS.items()}


@st.composite
def experiments(draw):
    """(folder, tables) of an experiment: the sections that all draws have, and some of the others."""
    draw(st.integers(0, 2**30))  # see `_examples`
    folder = draw(st.sampled_from(("plane", "plane", "plane", "sphere", "sphere", "globe")))
    grid, x, y, seconds = BASINS[folder]
    spherical, calm, coast = folder != "plane", draw(st.integers(0, 3)) == 0, draw(st.booleans())
    tables = {"run": {"until": 8 * seconds, "start": START}}
    tables["grid"] = {**grid, "nx": NX, "ny": NY}
    if not spherical:
        tables["grid"]["periodic"] = draw(st.sampled_from(("", "", "x", "y", "xy")))
    periodic = "x" if folder == "globe" else tables["grid"].get("periodic", "")
    tables["model"] = model = draw(_models(folder, coast))
    spectral = model["core"] == "pseudo_spectral"
    tables["bathymetry"] = draw(_floors(grid, x, y, "wetting" in model, spectral))
    suitable = {name: cls for name, cls in physics.CORIOLIS.items() if cls.part.spherical in (spherical, None)}
    tables["coriolis"] = draw(_one_of(suitable))
    tables["initial"] = {"type": "rest"} if calm else draw(_states(grid, x, y))
    without = (*(() if spherical else ON_SPHERE), *(() if folder == "globe" else ON_GLOBE))
    without = (*without, *(() if "wetting" in model else ON_LAND))
    brief = min(seconds, 2500.0)  # steps that the rotation of the globe allows
    tables["stepper"] = draw(_steppers(brief, model))
    parts = _suitable(model, tables["stepper"])
    forcings = {name: cls for name, cls in parts["forcing"].items() if name not in without}
    tables["forcing"] = [] if calm else draw(st.lists(_one_of(forcings), max_size=2))
    tables["dissipation"] = draw(st.lists(_one_of(parts["dissipation"]), max_size=2))
    tables["boundary"] = [] if spectral else draw(_sides(periodic, calm, parts["boundary"]))
    names = ("dye", "salt")[: 0 if spectral else draw(st.sampled_from((0, 0, 1, 2)))]
    limited = {"scheme": "flux_limited"} if "wetting" in model else {}  # what takes no more than a cell holds
    tables["tracer"] = [draw(section(TracerSection, 3, name=name, **limited)) for name in names]
    if tables["stepper"]["dt"] != "auto":
        tables["run"]["until"], seconds = 8 * brief, brief
    _leave_out_what_others_exclude(tables)
    if not calm and folder != "globe" and draw(st.integers(0, 9)) == 0:
        tables["source"] = _source(grid, x, y)
    if not calm and draw(st.integers(0, 2)) == 0:
        tables["ensemble"] = draw(_ensembles(tables))
    kinds = OUTPUTS[:2] if "ensemble" in tables else OUTPUTS
    if tables["stepper"]["type"] == "rigid_lid":
        kinds = tuple(kind for kind in kinds if kind not in ("maxima", "extremes"))
    conserving = _conserves_momentum(model)
    unsuitable = tables["boundary"] or spherical or conserving or tables["bathymetry"]["type"] != "flat"
    if unsuitable:  # spectra are of basins that are periodic or mirrored, and of fluxes that can be split
        kinds = tuple(kind for kind in kinds if kind != "spectra")
    tables["output"] = draw(_outputs(grid, x, y, names, seconds, kinds))
    draw(_files(tables, calm, seconds))  # these two are last: they leave all other choices of a seed as they are
    draw(_layers_or_nest(tables, (grid, x, y), seconds))
    phase = f"2 * pi * ({x} / {width(grid[x])!r} + {y} / {width(grid[y])!r})"
    places = [at(grid, x, y, *shares) for shares in ((0.25, 0.45), (0.35, 0.6))]
    return folder, completed(tables, phase, 75 * seconds, places)


@st.composite
def _files(draw, tables, calm, seconds):
    """Put files of several formats, and beds finer than the grid, in place of some parts of an experiment."""
    members, floor, fields = tables.get("ensemble", {}), tables["bathymetry"], tables["output"]["fields"][0]

    def chosen(name, one_in):
        return draw(st.integers(1, one_in)) == 1 and not any(path.startswith(name) for path in members)

    if floor["type"] == "formula" and tables["model"]["core"] != "pseudo_spectral" and chosen("bathymetry", 3):
        patch = {"file": "patch.xyz", "datum": draw(st.sampled_from((-0.5, 0.0)))}
        floor |= {"type": "file", "file": "floor.asc", "patches": [patch], "margin": draw(st.integers(0, 2))}
        floor.pop("depth")
    gates = {"gate", "culvert", "pump"} & {entry["type"] for entry in tables["forcing"]}
    if "wetting" in tables["model"] and not members and not gates and chosen("bathymetry", 2):
        floor["subgrid"] = draw(st.integers(2, 5))
    if not calm and chosen("initial", 6):
        tables["initial"] = {"type": "level", "file": "level.xyz"}
    if "source" in tables and chosen("source", 2):
        tables["source"] = {"file": "slide.tt3"}
    for entry in tables["forcing"]:
        if entry["type"] == "cyclone" and chosen("forcing", 2):
            entry |= {"track": "hurdat2.txt", "quadrants": draw(st.booleans())}
    if fields["file"].endswith(".nc") and chosen("output", 3):
        fields |= {"coarsen": 2}
    if "drifters" in tables["output"] and chosen("output", 2):
        tables["output"]["drifters"]["release"] = [0.0, 3 * seconds]


@st.composite
def _layers_or_nest(draw, tables, coordinates, seconds):
    """Put layers, or a nest in the middle, into experiments that can have them."""
    stepper = physics.STEPPERS[tables["stepper"]["type"]].part
    wanted, model = draw(st.sampled_from(("", "", "layers", "nest"))), tables["model"]
    if model["core"] != "finite_differences" or "subgrid" in tables["bathymetry"]:
        return
    if wanted == "layers" and not _conserves_momentum(model) and "ensemble" not in tables:
        draw(_layers(tables))
    if wanted == "nest" and not (stepper.is_implicit or stepper.has_solver):
        grid, x, y = coordinates
        tables["bathymetry"].pop("levees", None)  # which would cross the border
        box = {}
        for key, axis, cells, ends in (("x", x, 26, (8, 16)), ("y", y, 18, (7, 11))):  # with room for the frame
            tables["grid"][f"n{key}"] = cells
            box[key] = [grid[axis][0] + end / cells * width(grid[axis]) for end in ends]
        nest = {"name": "nest", **box, "ratio": draw(st.integers(3, 5)), "two_way": draw(st.integers(0, 3)) > 0}
        nest |= {"start": 3.0 * seconds} if draw(st.integers(0, 4)) == 0 else {}
        nest["output"] = {"fields": [tables["output"]["fields"][0] | {"every": 4 * seconds}]}
        tables["nest"] = [nest]


@st.composite
def _layers(draw, tables):
    """Put two layers into an experiment, in deep water everywhere, without the parts that layers do not have."""
    deep = draw(st.integers(0, 3)) == 0
    densities = [1025.0, draw(st.sampled_from((1026.0, 1040.0))), *([1041.0] if deep else [])]
    tables["layers"] = {"thickness": [DEPTH / 8], "densities": densities, "deep_at_rest": deep}
    floor = draw(st.sampled_from((DEPTH, f"{DEPTH} * (1 + 0.3 * sin(PHASE))")))
    tables["bathymetry"] = {"type": "formula" if isinstance(floor, str) else "flat", "depth": floor}
    tables.pop("source", None)
    exchanging = ("gate", "culvert", "pump")
    tables["forcing"] = [entry for entry in tables["forcing"] if entry["type"] not in exchanging]
    parts = {entry["type"]: PARTS["boundary"][entry["type"]].part for entry in tables["boundary"]}
    taking = [name for name, part in parts.items() if not issubclass(part, OpenBoundary) or part.takes_modes]
    tables["boundary"] = [entry for entry in tables["boundary"] if entry["type"] in taking]
    if draw(st.booleans()):
        tables["dissipation"].append({"type": "interfacial_friction", "coefficient": 1e-4})


def _leave_out_what_others_exclude(tables):
    """Drop limiters of other schemes, options of other solvers and forms, and concentrations of tracers that it lacks.

    Where no open side holds the level, a sponge does.
    """
    names = {entry["name"] for entry in tables["tracer"]}
    if not _conserves_momentum(tables["model"]):
        tables["model"].pop("damping", None)
    for entry in tables["tracer"]:
        if entry.get("scheme", "flux_limited") != "flux_limited":
            entry.pop("limiter", None)
    for entry in tables["forcing"]:
        if "concentrations" in entry:
            entry["concentrations"] = {name: c for name, c in entry["concentrations"].items() if name in names}
    if tables["stepper"].get("solver") != "conjugate_gradients":
        for key in ("preconditioner", "tolerance", "iterations"):
            tables["stepper"].pop(key, None)
    if {entry["type"] for entry in tables["boundary"]} == {"radiation_nudging"}:
        side = tables["boundary"][0]["sides"]
        tables["boundary"].append({"type": "sponge", "sides": side, "width": "WIDTH", "rate": 1e-4})


@st.composite
def _models(draw, folder, coast):
    core = draw(
        st.sampled_from(
            (
                *("finite_differences",) * 6,
                *("filtered_differences",) * (folder == "globe"),
                *("pseudo_spectral",) * (folder == "plane"),
            )
        )
    )
    own = {} if core == "finite_differences" else {"momentum": "energy_conserving", "coriolis_form": None}
    own |= {"side": "free_slip"} if core == "pseudo_spectral" else {}
    fixed = {"core": core, **own, "precision": draw(st.sampled_from(("float64", "float64", "float32")))}
    if coast and core == "finite_differences":
        fixed |= {
            "momentum": "momentum_conserving",
            "linear": False,
            "wetting": draw(section(section_for(WettingDrying), 1)),
        }
    table = draw(section(physics.Model, **fixed))
    return {key: value for key, value in table.items() if value is not None and (key != "wetting" or key in fixed)}


def _one_of(sections, **fixed):
    """A table of one of several types."""
    names = sorted(name for name, cls in sections.items() if _keys(cls) is not None)
    return st.sampled_from(names).flatmap(
        lambda name: section(sections[name], type=name, **fixed, **TOGETHER.get(name, {}))
    )


def _floors(grid, x, y, levees, spectral):
    (east, _), wide = at(grid, x, y, 0.6, 0.5), width(grid[x])
    beach = f"{DEPTH} * (1 - 1.2 * ({x} - {grid[x][0]}) / {wide})"
    island = f"{DEPTH} - 80 * exp(-(({x} - {east}) / {0.15 * wide})**2)"
    floors = [{"type": "flat", "depth": DEPTH}, *({"type": "formula", "depth": text} for text in (beach, island))]
    floors.append({"type": "formula", "depth": f"{DEPTH} * (1 + 0.3 * sin(PHASE))"})
    plain = st.sampled_from([floors[0], floors[-1]] if spectral else floors)
    return plain | plain.map(lambda floor: {**floor, "levees": "levees.csv"}) if levees else plain


def _states(grid, x, y):
    kinds = {"gaussian": initial.GaussianBump, "formula": initial.InitialFormula, "rest": initial.Rest}
    if grid["type"] == "cartesian":
        kinds["random_vortices"] = initial.RandomVortices
    centre = {"gaussian": {"centre": at(grid, x, y, 0.3, 0.4)}}
    return st.sampled_from(sorted(kinds)).flatmap(lambda k: section(kinds[k], 3, type=k, **centre.get(k, {})))


@st.composite
def _sides(draw, periodic, calm, conditions):
    """Tables of open sides and sponges, no side of which is open twice; on calm draws without a flow from outside."""
    sides = [
        side
        for side in ("west", "east", "south", "north")
        if ("x" if side in ("west", "east") else "y") not in periodic
    ]
    count, entries = draw(st.sampled_from((0, 0, 1, 2))), []
    for side in draw(st.permutations(sides))[:count]:
        entry = draw(_one_of(conditions, sides=side))
        part = PARTS["boundary"][entry["type"]].part
        entries.append({key: 0.0 if calm and key in positions_of(part) else value for key, value in entry.items()})
    return entries


@st.composite
def _steppers(draw, seconds, model):
    """A table of a stepper that the core and the form of the momentum equation allow."""
    conserving = _conserves_momentum(model)
    names = {
        name
        for name, part in ((name, cls.part) for name, cls in physics.STEPPERS.items())
        if not (part.is_implicit and model["core"] != "finite_differences")
        and (model["core"] == "pseudo_spectral" or not part.needs_modes)
        and not (part.needs_parts and model["core"] != "finite_differences")
        and (part.conserves_momentum if conserving else not part.needs_momentum_form)
    }
    name = draw(st.sampled_from(sorted(names)))
    dt = 4 / 3 * seconds if physics.STEPPERS[name].part.is_implicit else "auto"  # so that a run has a few steps
    return draw(section(physics.STEPPERS[name], 1, type=name, dt=dt))


@st.composite
def _outputs(draw, grid, x, y, tracers, seconds, kinds):
    ending = draw(st.sampled_from(("nc",) if "means" not in kinds else ("nc", "nc", "zarr")))
    variables = draw(st.sets(st.sampled_from((*FIELDS, *tracers)), min_size=1, max_size=3))
    output = {"fields": [{"file": f"fields.{ending}", "variables": sorted(variables), "every": 4 * seconds}]}
    keys = {"spectra": {"every": 4 * seconds}}
    keys["gauges"] = {"positions": {"A": at(grid, x, y, 0.25, 0.45), "B": at(grid, x, y, 0.35, 0.6)}}
    keys["drifters"] = {"every": 4 * seconds, "positions": list(keys["gauges"]["positions"].values())}
    for name in sorted(draw(st.sets(st.sampled_from(kinds), max_size=2))):
        output[name] = keys.get(name, {})
    output["restart"] = {"file": f"restart.{draw(st.sampled_from(('nc', 'nc', 'zarr')))}", "every": 4 * seconds}
    return output


def _source(grid, x, y):
    longitude, latitude = at(grid, x, y, 0.4, 0.5)
    fault = {"longitude": longitude, "latitude": latitude, "depth": 1e4, "length": 4e4, "width": 2e4}
    return {"faults": [{**fault, "strike": 20, "dip": 30, "rake": 90, "slip": 1.0, "rise_time": 300.0}]}


@st.composite
def _ensembles(draw, tables):
    """A table in which one or two of the numbers and files of an experiment have a value for each of two members."""
    shared = ("run", "grid", "stepper", "output", "tracer", "source", "model", "initial.centre")
    leaves = {k: value for k, value in _leaves(tables) if not (k.startswith(shared) or k.endswith(".period"))}
    if not leaves:
        return {"members": 2, "perturbation": 0.01, "radius": 3e4}
    paths = draw(st.sets(st.sampled_from(sorted(leaves)), min_size=1, max_size=2))
    return {path: [leaves[path], ANOTHER.get(leaves[path]) or 1.125 * leaves[path]] for path in sorted(paths)}


def _leaves(value, path=""):
    """(path, value) of numbers that are not whole, and of files that have another one in their place."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    if isinstance(value, float) or (isinstance(value, str) and value in ANOTHER):
        yield path, value


def completed(value, phase, width=1e5, places=((0.0, 0.0), (1.0, 1.0))):
    """Tables with the `phase` of formulas in coordinates of their grid, a `width` of many cells [m] and `places`."""
    known = {"WIDTH": width, "PLACES": [list(places[0])], "INLET": list(places[0]), "OUTLET": list(places[1])}
    if isinstance(value, dict):
        return {key: completed(inner, phase, width, places) for key, inner in value.items()}
    if isinstance(value, list):
        return [completed(inner, phase, width, places) for inner in value]
    return known.get(value, value.replace("PHASE", phase)) if isinstance(value, str) else value


def drawn(seed):
    """(folder, tables) of the experiment number `seed`."""
    return _examples(experiments(), seed)[1]


def simplest(strategy):
    """The simplest example of a strategy."""
    return _examples(strategy, 0)[0]


def _examples(strategy, seed):
    """Two examples of a strategy: the simplest one, and one that differs from it in its first choice."""
    examples = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=2,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(example):
        examples.append(example)

    collect()
    return examples


def text_of(tables):
    """TOML of the sections that are not empty."""
    return dump({name: table for name, table in tables.items() if table})


def kinds(folder, tables):
    """What an experiment is a case of: a word for each type, form and subject in it; those in SUBJECTS are a few."""
    types = [tables["grid"]["type"], tables["model"]["core"], tables["model"]["precision"]]
    types += [tables[name]["type"] for name in ("coriolis", "initial", "stepper")]
    types += [entry["type"] for name in PARTS for entry in tables[name]]
    series = [
        key for entry in tables["boundary"] for value in entry.values() if isinstance(value, dict) for key in value
    ]
    types += [f"{key} at a side" for key in ("constituents", "file", "wave", "inverse_barometer") if key in series]
    forcing = {entry["type"] for entry in tables["forcing"]}
    output = tables["output"]
    floor = tables["bathymetry"]
    types += [floor["type"], *(["subgrid"] if "subgrid" in floor else [])]
    files = [table["file"] for table in (*output["fields"], output["restart"])]
    subjects = {
        "tides": forcing & {"tidal_potential", "self_attraction", "self_attraction_loading"}
        or "constituents" in series,
        "storms": forcing & {"cyclone", "wind_file", "air_pressure"},
        "wetting": "wetting" in tables["model"],
        "levees": "levees" in floor,
        "tracers": tables["tracer"],
        "ensembles": "ensemble" in tables,
        "zarr": any(name.endswith(".zarr") for name in files),
        "implicit": physics.STEPPERS[tables["stepper"]["type"]].part.is_implicit,
        "own parts": any(":" in name for name in types),
        "open sides": tables["boundary"],
        "sources": "source" in tables,
        "layers": "layers" in tables,
        "nests": "nest" in tables,
    }
    return {folder, *types, *output, *(subject for subject in SUBJECTS if subjects[subject])}


def is_at_rest(tables):
    """Whether nothing moves the water of an experiment, so that it stays at rest."""
    moving = any(tables.get(name) for name in ("forcing", "source", "ensemble"))
    return (
        not moving
        and tables["initial"]["type"] == "rest"
        and not any(
            entry.get(key)
            for entry in tables["boundary"]
            for key in positions_of(PARTS["boundary"][entry["type"]].part)
        )
    )


def is_closed(tables):
    """Whether no water enters or leaves the basin of an experiment."""
    entering = [name for name, cls in PARTS["forcing"].items() if issubclass(cls.part, WaterSource)]
    forced = any(":" in entry["type"] or entry["type"] in entering for entry in tables["forcing"])
    return not tables["boundary"] and "source" not in tables and not forced
