"""Experiments as texts: a box for runs, a bump whose sensitivity is asked for, a basin whose source is looked for."""

BOX = """\
grid = {type = "cartesian", nx = 24, ny = 16, x = [0, "240 km"], y = [0, "160 km"]}
bathymetry = {type = "flat", depth = "100 m"}
initial = {type = "gaussian", amplitude = "10 cm", centre = ["100 km", 80e3], radius = "30 km"}
"""
BUMP = """\
run = {title = "A bump in a box", until = "40 min", engine = "arrays"}
grid = {type = "cartesian", nx = 12, ny = 10, x = [0, "120 km"], y = [0, "100 km"]}
bathymetry = {type = "formula", depth = "100 + x / (10 * km)"}
coriolis = {type = "f_plane", f0 = 1e-4}
initial = {type = "gaussian", amplitude = "1 m", centre = ["60 km", "50 km"], radius = "30 km"}
dissipation = [{type = "linear_drag", rate = 1e-5}]
stepper = {type = "ab2", epsilon = 0.1, dt = 40}

[output.gauges.positions]
A = ["30 km", "40 km"]
21418 = ["90 km", "60 km"]

[adjoint]
controls = ["initial.eta", "dissipation.0.rate"]
amplitude = {"initial.eta" = "1 cm"}

[adjoint.cost]
type = "gauge_elevation"
gauges = "A"
window = ["20 min", "30 min"]
"""
WAVE = """\
[[boundary]]
type = "wave_maker"
sides = "west"
elevation = {file = "wave.csv"}
[inversion]
loops = 2
[[inversion.controls]]
type = "series"
name = "boundary.0.elevation.values"
deviation = 0.5
length = "5 min"
[inversion.twin.truth]
"boundary.0.elevation.file" = "true.csv"
"""
BASIN = """\
run = {until = "30 min"}
grid = {type = "cartesian", nx = 18, ny = 14, x = [0, "180 km"], y = [0, "140 km"]}
bathymetry = {type = "flat", depth = "1000 m"}
model = {precision = "float64"}
coriolis = {type = "f_plane", f0 = 1e-4}
stepper = {type = "forward_backward", dt = "1 min"}
[output]
folder = "out"
[output.gauges.positions]
near = ["40 km", "70 km"]
far = ["150 km", "30 km"]
north = ["120 km", "125 km"]
"""
PATCH = """\
[inversion]
loops = 4
[[inversion.controls]]
type = "unit_sources"
x = ["60 km", "120 km"]
y = ["40 km", "100 km"]
spacing = "20 km"
deviation = "1 m"
length = "20 km"
"""
TWIN = """\
[inversion.twin]
seed = 0
[inversion.twin.truth]
"initial.type" = "gaussian"
"initial.amplitude" = 1.0
"initial.centre" = ["90 km", "70 km"]
"initial.radius" = "30 km"
"""
GAUGES = """\
[inversion.observations]
type = "gauges"
window = ["4 min", "30 min"]
error = 0.05
independent = "2 min"
every = "2 min"
"""
FIELDS = """\
[[forcing]]
type = "wind_stress"
x = "0.1 * cos(pi * y / (140 * km))"
[[dissipation]]
type = "linear_drag"
rate = 1e-4
[inversion]
loops = 2
products = 20
residual = 1e-6
[[inversion.controls]]
type = "field"
name = "initial.eta"
deviation = 0.3
length = "40 km"
[[inversion.controls]]
type = "field"
name = "forcing.0.x"
deviation = 0.05
length = "60 km"
[[inversion.controls]]
type = "number"
name = "dissipation.0.rate"
deviation = 0.3
positive = true
[inversion.observations]
type = "tracks"
deviation = "1 cm"
every = "4 min"
apart = "20 km"
between = "60 km"
[inversion.twin]
[inversion.twin.truth]
"forcing.0.x" = "0.2 * cos(pi * y / (140 * km))"
"initial.type" = "gaussian"
"initial.amplitude" = 0.5
"initial.centre" = ["90 km", "70 km"]
"initial.radius" = "50 km"
"""
