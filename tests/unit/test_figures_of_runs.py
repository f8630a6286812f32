"""What figures of tides, storms, floods, sensitivities and ensembles show."""

import json
import pathlib
import re
import shutil
import subprocess
import types

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402

from swmodel.cli.runs import _drawn  # noqa: E402
from swmodel.postprocess import cli, files, maps, maxima, overview, pages, sensitivity, spectra, statistics, style  # noqa: E402
from swmodel.postprocess.files import mesh_of  # noqa: E402
from swmodel.postprocess.pages import frames  # noqa: E402

NX, NY = 24, 16
X, Y = np.meshgrid(5e3 + 1e4 * np.arange(NX), 5e3 + 1e4 * np.arange(NY))
STORM = '[[forcing]]\ntype = "cyclone"\ntrack = "track.csv"\n'
TRACK = (
    "time_utc,longitude_deg,latitude_deg,radius_of_maximum_wind_m,central_pressure_pa,maximum_wind_m_s\n"
    "2024-09-10T00:00,1,1,3e4,95000,30\n2024-09-11T00:00,3,2,3e4,95000,50\n"
)


HOURS = 3600.0 * np.arange(7)


def dataset(config="", start="2024-09-10 00:00:00", spherical=False, **fields):
    """A file of fields over 240 km x 160 km, or 4.8 x 3.2 degrees; fields are (dims, values) or values at centres."""
    step, unit = (0.2, "degrees") if spherical else (1e4, "m")
    axes = {name: step * (np.arange(n) + 0.5 * (name[1] == "h")) for name, n in AXES.items()}
    coords = {name: (name, values, {"units": unit}) for name, values in axes.items()}
    coords["time"] = ("time", HOURS, {"units": f"seconds since {start}"})
    made = {name: value if isinstance(value, tuple) else (("yh", "xh"), value) for name, value in fields.items()}
    whole = xr.Dataset(made, coords, {"config": config})
    used = {dim for variable in made.values() for dim in variable[0]} | {"xh", "yh", "xq", "yq"}
    return whole if "time" in used else whole.drop_vars("time")


AXES = {"xh": NX, "yh": NY, "xq": NX + 1, "yq": NY + 1}


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_a_map_of_a_tide_has_numbered_phase_lines_gauges_and_ellipses():
    lag = np.rad2deg(np.arctan2(Y - 8e4, X - 12e4)) % 360.0
    at_u, at_v = ("yh", "xq"), ("yq", "xh")
    speed, quarter = np.linspace(0.1, 0.3, NY), 90.0
    data = dataset(
        eta_amplitude_M2=(("yh", "xh"), np.hypot(X - 12e4, Y - 8e4) / 1e5, {"units": "m"}),
        eta_phase_M2=lag,
        u_amplitude_M2=(at_u, np.tile(speed[:, None], NX + 1)),
        u_phase_M2=(at_u, np.zeros((NY, NX + 1))),
        v_amplitude_M2=(at_v, np.full((NY + 1, NX), 0.05)),
        v_phase_M2=(at_v, np.full((NY + 1, NX), quarter)),
    )
    assert statistics.names_of(data) == ["eta_amplitude_M2", "currents_M2"]
    gauge = types.SimpleNamespace(name="Brest", x=6e4, y=4e4)
    page = statistics.figure(data, gauges=[gauge])
    tide, currents = (axes for axes in page.axes if "M2" in axes.get_title("left"))
    assert {f"{level}°" for level in range(0, 360, 30)} <= set(texts(tide)) and "Brest" in texts(tide)
    ellipses = [line for line in currents.lines if len(line.get_xdata()) == 41]
    assert len(ellipses) == 12 * 8 and {line.get_color() for line in ellipses} == {style.VERMILLION}
    x, y = ellipses[-1].get_data()  # v is a quarter of a period behind u, so that the current turns anticlockwise
    assert np.ptp(y) / np.ptp(x) == pytest.approx(0.05 / speed[15], rel=0.1)
    tip = (x - x[:-1].mean()) + 1j * (y - y[:-1].mean())
    assert np.angle(tip[5] / tip[0]) > 0
    assert currents.images[0].get_array().max() == pytest.approx(speed[-1], rel=1e-6)


@pytest.mark.verify
def test_numbers_of_phase_lines_do_not_hide_each_other_and_a_strait_does_not_shrink_all_ellipses():
    """On a map of the world they did: twelve lines meet at each amphidrome, and straits have ten times the current."""
    lag = np.rad2deg(np.angle(np.sin(X / 2e4) + 1j * np.cos(Y / 2e4))) % 360.0
    speed = np.where((X > 8e4) & (X < 9e4), 3.0, 0.1)
    on_faces = {"u": (("yh", "xq"), np.pad(speed, ((0, 0), (1, 0)))), "v": (("yq", "xh"), np.zeros((NY + 1, NX)))}
    data = dataset(
        eta_amplitude_M2=np.ones((NY, NX)),
        eta_phase_M2=lag,
        **{f"{name}_{part}_M2": field for name, field in on_faces.items() for part in ("amplitude", "phase")},
    )
    page = statistics.figure(data)
    tide, currents = (axes for axes in page.axes if "M2" in axes.get_title("left"))
    boxes = [text.get_window_extent() for text in tide.texts]
    assert len(boxes) > 12 and not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    widths = [np.ptp(line.get_xdata()) for line in currents.lines if len(line.get_xdata()) == 41]
    assert len(widths) == 12 * 8 and min(widths[:3]) > 0.9 * max(widths)


def test_a_time_over_a_threshold_is_in_hours():
    hours = np.full((NY, NX), 20.0) * (X > 1e5)
    page = statistics.figure(dataset(time_over_threshold=(("yh", "xh"), 3600.0 * hours, {"units": "s"})))
    assert page.axes[0].images[0].get_array().max() == 20.0 and page.axes[1].get_ylabel() == "[h]"


@pytest.mark.verify
def test_storms_have_maps_with_their_track_and_wind_and_no_blank_panel(tmp_path):
    (tmp_path / "track.csv").write_text(TRACK)
    config = f"# experiment file: {tmp_path / 'storm.toml'}\n{STORM}"
    title = "A storm that cost $5, and one of $6"  # which is no formula
    eta = np.arange(7.0)[:, None, None] * np.sin(X / 1e5)
    moving = {name: (("time", "yh", "xh"), eta, {"units": "m"}) for name in ("eta", "u", "v")}
    data = dataset(config, spherical=True, **moving)
    assert cli._of_fields({"fields": data}, None) == "maps"
    assert cli._of_fields({"fields": dataset('[[forcing]]\ntype = "wind_stress"\n', **moving)}, None) == "circulation"
    page = maps.panels(data.assign_attrs(title=title), "eta", [12 * 3600.0 / 4, 6 * 3600.0])
    page.canvas.draw()
    (heading,) = page.texts
    assert heading.get_text() == title and not heading.get_parse_math()
    first, second = page.axes[:2]
    assert texts(first) == ["32 m s⁻¹"] and texts(second) == ["35 m s⁻¹"]
    (circle,) = second.patches
    assert circle.center == pytest.approx((1.5, 1.25)) and circle.height == pytest.approx(6e4 / 111.2e3)
    assert first.lines[0].get_xdata() == pytest.approx([1.0, 3.0])
    (quiver,) = second.collections
    (storm,) = style.storms_of(data)
    x, y = quiver.get_offsets().T + np.array([quiver.U, quiver.V]) / 2  # the middle of each arrow
    speed = np.hypot(quiver.U, quiver.V) * style.STRONG * style.ARROWS / 4.8
    np.testing.assert_allclose(speed, np.hypot(*storm.wind_at(x, y, 6 * 3600.0)), rtol=1e-6)
    assert speed.min() > style.WEAK and ((x - 1.5) * quiver.V > (y - 1.25) * quiver.U).all()
    (movie,) = frames.movies(data, ["eta"], [], 1e6)
    assert [path.count("M") for path in movie.winds] == [style.arrows(storm, mesh_of(data), t).shape[1] for t in HOURS]
    mesh, tilted = mesh_of(data), data.assign(eta=data["eta"] + data["xh"])
    assert maps._records(data, mesh, "eta", None) == [1, 2, 3, 4, 5, 6]
    assert maps._records(tilted, mesh, "eta", None) == [0, 1, 2, 4, 5, 6]
    bed = X / 1e5 - 1.2  # above the sea in the east: the level of dry land is no departure from rest
    shore = dataset(wet=np.ones((NY, NX)), depth=-bed, eta=(("time", "yh", "xh"), np.maximum(0.1 * eta, bed)))
    assert maps._records(shore, mesh, "eta", None) == [1, 2, 3, 4, 5, 6]
    (tmp_path / "track.csv").unlink()
    assert not style.storms_of(data)


def test_the_page_of_a_wave_begins_when_it_comes_in():
    """A quarter of a laboratory's record is still water, in which rounding and the foot of the wave move."""
    eta = np.where(HOURS < 4 * 3600.0, 1e-4, 1.0)[:, None, None] * np.sin(X / 1e5)
    data = dataset(eta=(("time", "yh", "xh"), eta, {"units": "m"}))
    assert maps._records(data, mesh_of(data), "eta", None) == [4, 5, 6] == overview._records(data, None)
    still = data.assign(eta=0.0 * data["eta"])
    assert overview._records(still, None)[-1] == 6 and maps._records(still, mesh_of(still), "eta", None)[0] == 0


@pytest.mark.parametrize("fall", [-1.0, 0.0, 1.0])
def test_a_plain_is_as_bright_as_level_ground_whichever_way_it_falls(fall):
    """Those that fall to the south-east, away from the light, were nearly black."""
    data = dataset(wet=np.ones((NY, NX)), depth=-(1.0 + fall * (X - Y) / 1e6))
    axes = Figure().add_axes((0, 0, 1, 1))
    style.draw_relief(axes, mesh_of(data), -data["depth"].values)
    assert 0.7 < np.median(np.asarray(axes.images[0].get_array())[..., :3]) < 0.9


def test_a_file_of_a_nest_has_the_levees_records_and_analysis_of_its_own_sections(tmp_path):
    """Its sections take the place of those of the file; levees keep the longitudes of the map."""
    for name, x in (("sea", 100.0), ("quay", 2.0)):
        (tmp_path / f"{name}.csv").write_text(f"levee,x,y,crest_m\nwall,{x},2,3\nwall,{x},9,3\n")
    config = f"# experiment file: {tmp_path / 'flood.toml'}\n[bathymetry]\nlevees = 'sea.csv'\n"
    config += "[output]\nharmonics = {begin = '2 day'}\ngauges = {observations = 'records'}\n"
    for name, more in (("quay", "bathymetry = {levees = 'quay.csv'}\noutput.harmonics.begin = '1 day'"), ("plain", "")):
        config += f"[[nest]]\nname = '{name}'\n{more}\n"
    found = {}
    for name in ("", "quay", "plain"):
        attributes = {"config": config} | ({"nest": name} if name else {})
        dataset = xr.Dataset(attrs=attributes)
        (line,) = style.levees_of(dataset)
        found[name] = line[0, 0], files.analysis_begins(dataset) / 86400.0
        gauges = files.experiment_of(attributes)[1]["output"]["gauges"]
        assert gauges == {"observations": "records"}
    assert found == {"": (100.0, 2.0), "quay": (2.0, 1.0), "plain": (100.0, -np.inf)}
    mesh = types.SimpleNamespace(scale=1.0, spherical=True, periodic_x=False, extent=(330.0, 400.0, 0.0, 30.0))
    axes = Figure().add_subplot()
    style.draw_lines(axes, xr.Dataset(attrs={"config": config, "nest": "quay"}), mesh)
    assert axes.lines[0].get_xdata().tolist() == [362.0, 362.0]


def test_a_map_of_a_flood_has_levees_and_its_legend_at_sea(tmp_path):
    (tmp_path / "levees.csv").write_text(
        "levee,x,y,crest_m\nwall,1.5e5,2e4,3\nwall,1.5e5,9e4,3\nring,2e5,2e4,3\nring,2e5,9e4,3\n"
    )
    config = f"# experiment file: {tmp_path / 'flood.toml'}\n[bathymetry]\nlevees = 'levees.csv'\n"
    depth = 10.0 - X / 1e4
    data = dataset(config, wet=np.ones((NY, NX)), depth=depth, maximum_elevation=np.maximum(1.0, -depth))
    page = maxima.maximum(data)
    lines = [line for line in page.axes[0].lines if line.get_color() == style.LEVEE]
    assert [line.get_xdata().tolist() for line in lines] == [[150, 150], [200, 200]]
    legend = page.axes[0].get_legend()
    assert "levees" in [text.get_text() for text in legend.get_texts()]
    page.canvas.draw()
    box = legend.get_window_extent().transformed(page.axes[0].transData.inverted())
    assert box.x1 < 120.0  # the sea is west of 100 km


def test_slopes_stay_near_the_spectrum_that_they_are_compared_with():
    """They ran on above a steep spectrum, by 3 to 4 decades at its end."""
    k = np.linspace(1e-6, 1e-4, 60)
    spectrum = (1 + (k / 5e-6) ** 2) ** -4.5
    with style.applied():
        axes = style.new_figure(4, 4).add_subplot()
        axes.loglog(k, spectrum)
        spectra._slopes(axes, k, spectrum, spectra.SLOPES)
        spectra._wavenumbers(axes)
    ticks = [axis.get_major_formatter() for axis in (axes.xaxis, axes.yaxis)]
    assert [tick(value) for tick in ticks for value in (2e-5, 0.5, 1e3)] == 2 * ["2 × 10⁻⁵", "0.5", "10³"]
    for line in axes.lines[1:]:
        ratio = line.get_ydata() / np.interp(line.get_xdata(), k, spectrum)
        assert 1.0 <= ratio.min() and ratio.max() <= spectra.NEAR and ratio.size > 2


def test_a_figure_of_sensitivities_has_numbers_and_the_units_of_its_map():
    wave = (("yh", "xh"), np.sin(X / 1e5), {"units": "m", "long_name": "sensitivity of J to initial.eta"})
    number = ((), -7.125, {"units": "m", "long_name": "sensitivity of J to dissipation.0.coefficient"})
    track = (("points",), np.array([1.0, -3.5]), {"units": "m Pa-1", "long_name": "sensitivity of J to forcing.0.b"})
    numbers = {"sensitivity_dissipation_0_coefficient": number, "sensitivity_forcing_0_b": track}
    data = dataset(sensitivity_initial_eta=wave, wet=np.ones((NY, NX)), **numbers)
    data.attrs["sensitivity_of"] = "transport through the section from (0, 80000) to (123456, 80000) at the end"
    page = sensitivity.figure(data)
    heading, numbers = (text for text in page.texts)
    assert "(0, 80) km to (123.456, 80) km" in heading.get_text()
    assert numbers.get_text() == "to dissipation.0.coefficient: −7.125 m\nto forcing.0.b (all 2 together): −2.5 m Pa⁻¹"
    page.canvas.draw()
    assert heading.get_window_extent().x1 <= page.bbox.x1
    small = data.assign_coords({name: data[name] * 1e-3 for name in AXES})
    assert page.axes[1].get_ylabel().startswith("per km²") and mesh_of(small).unit == "m"
    assert sensitivity.figure(small).axes[1].get_ylabel().startswith("per m²")


@pytest.mark.verify
def test_figures_of_an_ensemble_show_all_of_its_members(tmp_path):
    eta = np.stack([k * np.sin(X / 1e5) + 0.0 * np.arange(7.0)[:, None, None] for k in (1.0, 3.0)])
    members = dataset(eta=(("member", "time", "yh", "xh"), eta, {"units": "m"}), wet=np.ones((NY, NX)))
    members.to_netcdf(tmp_path / "fields.nc")
    assert [path.name for path in cli.plot(tmp_path / "fields.nc")] == ["fields.ensemble.png"]
    assert [path.name for path in cli.plot(tmp_path / "fields.nc", member=1)] == ["fields.maps.png"]


def test_figures_of_a_run_are_of_all_its_files_but_restarts(tmp_path):
    kinds = "fields", "gauges", "maxima", "harmonics", "means", "extremes", "spectra", "restart"
    files = {kind: [tmp_path / f"{kind}.nc"] for kind in kinds}
    for (path,) in files.values():
        path.touch()
    assert [path.stem for path in _drawn(files)] == list(kinds[:-1])


NODE = """
const listeners = {}, at = (name) => (kind, what) => { listeners[name + " " + kind] = what; };
const context = { clearRect() {}, drawImage() {} };
const shape = () => ({ dataset: {}, style: {}, width: 1, height: 1, setAttribute() {}, getContext: () => context });
const slider = { tagName: "INPUT", value: 0, max: 9, setAttribute() {}, addEventListener: at("slider") };
const play = { tagName: "BUTTON", addEventListener: at("play") };
const movie = { stamps: [..."0123456789"], seconds: [..."0123456789"], frames: [..."0123456789"],
  winds: [..."0123456789"] };
const parts = { "input[type=range]": slider, output: {}, ".controls button": play, canvas: shape(),
  "script[type='application/json']": { textContent: JSON.stringify([movie]) } };
const sheet = { querySelector: () => shape() };
const map = { querySelector: (what) => parts[what], querySelectorAll: (what) => (what === ".sheet" ? [sheet] : []),
  closest: () => ({ hidden: false, dataset: {} }) };
globalThis.Image = class {};
globalThis.setInterval = () => 1;
globalThis.clearInterval = () => {};
const moments = [0, 1, 9].map((k) => ({ dataset: { moment: k } }));
const all = { ".map": [map], "[data-moment]": moments };
globalThis.document = { querySelectorAll: (what) => all[what] || [], addEventListener: at("document") };
eval(require("fs").readFileSync(process.argv[2], "utf8"));
const pressed = [slider, slider, { tagName: "BODY" }, play].map((target) => {
  listeners["document keydown"]({ key: " ", target, preventDefault() {} });
  return play.textContent;
});
const shown = [0, 1].map((k) => {
  slider.value = k;
  listeners["slider input"]();
  return moments.map((moment) => moment.hidden);
});
console.log(JSON.stringify([pressed, shown]));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("maps", [True, False])
def test_the_space_bar_plays_a_page_whose_slider_was_moved_and_the_slider_shows_the_parts_of_its_time(tmp_path, maps):
    """The bar did nothing while the slider had the focus; a button plays by itself."""
    (tmp_path / "page.js").write_text(NODE if maps else NODE.replace("[sheet] : []", "[] : []"))
    script = pathlib.Path(pages.__file__).with_name("page.js")
    run = subprocess.run(["node", tmp_path / "page.js", script], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [["Pause", "Play", "Pause", "Pause"], [[False, True, True], [True, False, True]]]


def test_a_report_shows_harmonic_constants_extremes_and_all_members(tmp_path):
    eta = np.stack([k * np.sin(X / 1e5) + 0.0 * np.arange(7.0)[:, None, None] for k in (1.0, 3.0)])
    members = dataset(eta=(("member", "time", "yh", "xh"), eta, {"units": "m"}), wet=np.ones((NY, NX)))
    lag = np.rad2deg(np.arctan2(Y - 8e4, X - 12e4)) % 360.0
    files = {
        "fields": members,
        "harmonics": dataset(eta_amplitude_M2=X / 1e5, eta_phase_M2=lag),
        "extremes": dataset(maximum_elevation=X / 1e5, minimum_elevation=-X / 1e5),
    }
    for name, data in files.items():
        data.assign_attrs(title="Two waves").to_netcdf(tmp_path / f"{name}.nc")
    text = pages.report(tmp_path).read_text()
    for heading in ("Ensemble", "Extremes", "Harmonic constants"):
        assert re.search(f'<h2 id="{heading.split()[0].lower()[:8]}\\w*">{heading}</h2><figure>', text), heading
    assert "<h1>Two waves</h1>" in text and "The other sections show member 0; --member takes another." in text


def test_names_of_nests_beside_the_sides_of_a_map_lie_within_it():
    """Also of a box across the seam of a globe, which is drawn at both ends."""
    boxes = {"north_west_harbour": [[0, 30], [60, 80]], "south_east_harbour": [[330, 360], [-80, -60]]}
    boxes["harbour_on_the_seam"] = [[350, 380], [-10, 10]]
    axes = Figure(figsize=(4, 2)).subplots()
    axes.set(xlim=(0, 360), ylim=(-90, 90))
    mesh = types.SimpleNamespace(scale=1.0, extent=(0, 360, -90, 90), periodic_x=True, spherical=True)
    style.draw_boxes(axes, xr.Dataset(attrs={"nest_boxes": json.dumps(boxes)}), mesh)
    assert len(axes.patches) == 4 and len(axes.texts) == 3
    window = axes.get_window_extent()
    for text in axes.texts:
        place = text.get_window_extent()
        assert window.x0 <= place.x0 and place.x1 <= window.x1, text.get_text()
