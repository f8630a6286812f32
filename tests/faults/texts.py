"""Small valid experiments that between them have every section, and the data files that they name."""

import numpy as np

__all__ = ["experiments"]

RUN = 'run = {until = "2 hour", start = 2011-03-11T05:46:23}\n'
PLANE = 'grid = {type = "cartesian", nx = 12, ny = 10, x = [0, "1200 km"], y = [0, "1000 km"]}\n'
SPHERE = 'grid = {type = "spherical", nx = 12, ny = 10, longitude = [140, 152], latitude = [30, 40]}\n'

GYRE = """\
[bathymetry]
type = "flat"
depth = "1000 m"

[model]
gravity = 0.02
momentum = "enstrophy_conserving"
side = "no_slip"

[coriolis]
type = "beta_plane"
f0 = 7e-5
beta = 2e-11

[[forcing]]
type = "wind_stress"
x = "-0.1 * cos(2 * pi * y / (1000 * km))"

[[dissipation]]
type = "laplacian"
viscosity = "1000 m2 s-1"

[[dissipation]]
type = "linear_drag"
rate = 1e-7

[stepper]
type = "ab2"
epsilon = 0.1
dt = "10 min"

[output]
folder = "output"

[[output.fields]]
file = "fields.nc"
variables = ["eta", "u", "vorticity"]
every = "1 hour"

[output.spectra]
every = "1 hour"

[output.restart]
every = "1 hour"
"""

TSUNAMI = """\
bathymetry = {type = "file", file = "depth.nc", minimum_depth = "50 m"}
coriolis = {type = "rotating_sphere"}
dissipation = [{type = "manning_drag", roughness = 0.025}]
boundary = [
    {type = "flather", sides = ["east", "south"]},
    {type = "sponge", sides = "north", width = "200 km", rate = 1e-4},
]
forcing = [{type = "wind_file", file = "wind.nc", drag = 1.3e-3}]

[source]
every = "30 s"

[[source.faults]]
longitude = 143
latitude = 37
depth = "20 km"
length = "200 km"
width = "100 km"
strike = 200
dip = 12
rake = 90
slip = "10 m"
rise_time = "1 min"

[stepper]
type = "forward_backward"

[output.gauges.positions]
A = [148.5, 36.5]
B = [150.5, 33.5]

[output.maxima]
threshold = "1 cm"

[adjoint]
controls = ["initial.eta", "depth", "dissipation.0.roughness"]
until = "1 hour"
memory = "1 GB"

[adjoint.cost]
type = "gauge_elevation"
gauges = "A"
time = "1 hour"
"""

TURBULENCE = """\
bathymetry = {type = "flat", depth = 500}
model.core = "pseudo_spectral"
model.precision = "float64"
model.spectral = {dealias = true, hyperviscosity = {rate = "1 hour-1", order = 4}}
coriolis = {type = "f_plane", f0 = 1e-4}
initial = {type = "random_vortices", speed = 0.1, length = "600 km", seed = 3}
ensemble = {members = 2, perturbation = "1 cm", radius = "300 km", "initial.speed" = [0.1, 0.2]}
stepper = {type = "rk4", fraction = 0.5}
output.fields = [{file = "fields.nc", variables = ["eta"], every = "1 hour"}]
"""

INVERSION = """\
bathymetry = {type = "formula", depth = "1000 + 100 * sin(x / (100 * km))"}
coriolis = {type = "f_plane", f0 = 1e-4}
initial = {type = "gaussian", amplitude = 1, centre = ["600 km", "500 km"], radius = "200 km"}

[stepper]
type = "semi_implicit"
dt = "10 min"
theta = 0.6
solver = "conjugate_gradients"
preconditioner = "multigrid"
tolerance = 1e-6
iterations = 50

[output.gauges.positions]
A = ["800 km", "500 km"]

[inversion]
method = "incremental"
loops = 2
products = 4
controls = [{type = "balanced", deviation = "1 m", length = "300 km"}]
observations = {type = "gauges", window = ["10 min", "1 hour"]}
twin = {seed = 1, truth = {"initial.amplitude" = 2}}
"""

DYE = """\
bathymetry = {type = "flat", depth = "500 m"}
model = {gravity = 0.02}
coriolis = {type = "f_plane", f0 = 1e-4}
forcing = [{type = "wind_stress", x = "0.1 * sin(2 * pi * y / (1000 * km))", y = 0.02}]

[[tracer]]
name = "dye"
units = "kg m-3"
initial = "exp(-((x - 350 * km)**2 + (y - 500 * km)**2) / (150 * km)**2)"
limiter = "koren"
diffusivity = "20 m2 s-1"
outside = 0.5

[[tracer]]
name = "age"
units = "s"
scheme = "centred"
source = 1.0
flux = "1e-6 * x / km"

[[boundary]]
type = "flather"
sides = "west"

[stepper]
type = "ssprk3"
fraction = 0.6

[output]
fields = [
    {file = "fields.nc", variables = ["dye", "age"], every = "1 hour"},
    {file = "means.nc", variables = ["eta", "dye"], every = "1 hour"},
]
gauges = {positions = {A = ["800 km", "500 km"]}}
"""

SOURCES = """\
bathymetry = {type = "file", file = "depth.nc", variable = "z"}
model = {precision = "float64"}
coriolis = {type = "rotating_sphere"}
dissipation = [{type = "quadratic_drag", coefficient = 2.5e-3}]
stepper = {type = "forward_backward", dt = "1 min"}

[inversion]
method = "green"
withhold = ["B"]
members = 5

[[inversion.controls]]
type = "unit_sources"
x = [142, 146]
y = [33, 37]
spacing = 2
deviation = "1 m"
length = "200 km"
uplift_only = "0.5 m"

[inversion.observations]
type = "gauges"
deviation = "2 cm"
error = 0.1
independent = "5 min"
window = ["5 min", "2 hour"]

[inversion.twin.truth]
"initial" = { type = "gaussian", amplitude = 1, centre = [144, 35], radius = "150 km" }

[output]
folder = "elsewhere"
gauges = {file = "records.nc", positions = {A = [148.5, 36.5], B = [150.5, 33.5]}}
"""


def experiments(folder):
    """{name: text} of valid experiments; the data files that they name are written to `folder`."""
    import xarray as xr

    lon, lat = np.arange(139.5, 153.0, 0.5), np.arange(29.5, 41.0, 0.5)
    axes = {"lat": ("lat", lat, {"units": "degrees_north"}), "lon": ("lon", lon, {"units": "degrees_east"})}
    depth = -4000.0 + 300.0 * np.add.outer(np.cos(lat), np.sin(lon))
    depth[:4, :4] = 200.0
    xr.Dataset({"z": (("lat", "lon"), depth, {"units": "m"})}, axes).to_netcdf(folder / "depth.nc")
    wind = {name: (("lat", "lon"), 5.0 + 0.0 * depth, {"units": "m s-1"}) for name in ("u10", "v10")}
    xr.Dataset(wind, axes).to_netcdf(folder / "wind.nc")
    periodic = PLANE.replace("}", ', periodic = "xy"}')
    return {
        "gyre": f"{RUN}\n{PLANE}\n{GYRE}",
        "tsunami": f"{RUN}\n{SPHERE}\n{TSUNAMI}",
        "turbulence": f"{RUN}\n{periodic}\n{TURBULENCE}",
        "inversion": f"{RUN}\n{PLANE}\n{INVERSION}",
        "dye": f"{RUN}\n{PLANE}\n{DYE}",
        "sources": f"{RUN}\n{SPHERE}\n{SOURCES}",
    }
