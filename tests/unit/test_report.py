"""The page of a run: one file without links to others, small enough, with a slider that a browser follows."""

import base64
import functools
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("matplotlib")

from matplotlib.image import imread  # noqa: E402

import swmodel as sw  # noqa: E402
from swmodel import postprocess  # noqa: E402
from swmodel.cli import files, logs  # noqa: E402
from swmodel.cli.options import Page  # noqa: E402
from swmodel.errors import PlotError, SwmodelError  # noqa: E402
from swmodel.postprocess.files import mesh_of  # noqa: E402
from swmodel.postprocess.pages import frames, sections  # noqa: E402
from swmodel.postprocess.pages.frame import Markup, json_markup, markup  # noqa: E402
from swmodel.postprocess.scores import Series  # noqa: E402

NX, NY, TIMES = 24, 16, np.arange(4) * 900.0
CONFIG = """# experiment file: {folder}/wave.toml
[run]           # of an hour
title = "a # b"
[output.gauges]
observations = "records"
"""


def field(values, at, long_name):
    return ("time", f"y{at[0]}", f"x{at[1]}"), values, {"units": "m", "long_name": long_name}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The output of a wave on the sphere with an island: fields, maxima, gauges with a record of one, timing."""
    root = tmp_path_factory.mktemp("run")
    out = root / "out"
    (root / "records").mkdir()
    out.mkdir()
    x, y = np.linspace(140, 152, NX + 1), np.linspace(30, 38, NY + 1)
    xh, yh = (0.5 * (edges[1:] + edges[:-1]) for edges in (x, y))
    wet = np.ones((NY, NX), np.int8)
    wet[5:8, 3:6] = 0
    eta = np.sin(xh[None, None] / 2 - TIMES[:, None, None] / 900) * np.where(wet, 1.0, np.nan) + 0 * yh[:, None]
    units = {"units": "seconds since 2011-03-11 05:46:23"}
    coords = {"time": ("time", TIMES, units)}
    names = {"x": "degrees_east", "y": "degrees_north"}
    for name, values in (("xh", xh), ("xq", x), ("yh", yh), ("yq", y)):
        coords[name] = (name, values, {"units": names[name[0]]})
    attributes = {
        "title": "A <wave>",
        "source": f"swmodel {sw.VERSION}",
        "config": CONFIG.format(folder=root),
        "gravity": 9.81,
        "time_step_seconds": 10.0,
        "ranks": 2,
        "layout": "2 x 1 tiles (y x x)",
        "communicator": "mpi",
        "references": "Sadourny (1975), doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2; Flather (1976)",
    }
    u, v = np.zeros((4, NY, NX + 1)) + 3.0, np.zeros((4, NY + 1, NX)) - 4.0
    fixed = {"depth": (("yh", "xh"), 1000.0 * wet), "wet": (("yh", "xh"), wet)}
    moving = {"eta": field(eta, "hh", "elevation"), "u": field(u, "hq", "u"), "v": field(v, "qh", "v")}
    xr.Dataset(fixed | moving, coords, attributes).to_netcdf(out / "fields.nc")
    high = xr.Dataset(fixed | {"maximum_elevation": (("yh", "xh"), np.max(eta, axis=0))}, coords, attributes)
    high.to_netcdf(out / "maxima.nc")
    t = np.arange(0, 2701, 10.0)
    series = np.stack([np.sin(t / 400), 0.3 * np.sin(t / 300)])
    points = {
        "time": ("time", t, units),
        "gauge_name": ("gauge", ["A", "B"], {"cf_role": "timeseries_id"}),
        "longitude": ("gauge", [145.0, 148.0], {"standard_name": "longitude"}),
        "latitude": ("gauge", [33.0, 36.0], {"standard_name": "latitude"}),
    }
    xr.Dataset({"eta": (("gauge", "time"), series)}, points, attributes).to_netcdf(out / "gauges.nc")
    rows = "\n".join(f"{a},{b}" for a, b in zip(t, 0.9 * series[0]))
    (root / "records" / "A.csv").write_text(f"time_s,elevation_m\n{rows}\n")
    leg = {"steps": 135, "model_seconds": 1350.0, "wall_seconds": 2.0, "first_step_after_seconds": 1.5, "ranks": 2}
    logs.append_entry(out, leg)
    logs.append_entry(out, leg)
    return out


@pytest.fixture(scope="module")
def page(folder):
    return postprocess.report(folder)


@pytest.fixture(scope="module")
def nested(folder, tmp_path_factory):
    """The page of such a run with a nest in a box of its grid, whose files lie in a folder of its own."""
    out, boxes = tmp_path_factory.mktemp("nested"), {"nest_boxes": '{"harbour": [[146, 149], [32, 36]]}'}
    (out / "harbour").mkdir()
    for file in ("fields.nc", "maxima.nc", "gauges.nc"):
        with xr.open_dataset(folder / file, decode_times=False) as data:
            data.assign_attrs(boxes).to_netcdf(out / file)
            finer = data.assign_attrs(nest="harbour")
            for name in set(data.coords) & {"xh", "xq", "yh", "yq"}:
                finer[name] = (name, data[name].values / 4 + (111 if name[0] == "x" else 25.5), data[name].attrs)
            finer.to_netcdf(out / "harbour" / file)
    (out / "records").mkdir()
    shutil.copy(folder / "fields.nc", out / "records")  # of another run
    return postprocess.report(out)


class Outline(HTMLParser):
    """The tags that are open, the identifiers, and what other files the page names."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.others, self.headings, self.data = [], [], [], [], ""
        self.tags, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.attributes += [(tag, key) for key in attributes]
        if tag not in ("meta", "input", "img", "br", "link"):
            self.open.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        places = [attributes.get(key, "") for key in ("src", "href", "xlink:href", "data")]
        self.others += [place for place in places if place and not place.startswith(("#", "data:", "https://doi.org/"))]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)
        if self.open[-1:] == ["script"] and data.startswith("[{"):
            self.data = data


def test_the_page_is_well_formed_complete_and_needs_no_other_file(page, folder):
    text = page.read_text()
    outline = Outline(text)
    assert page == folder / "report.html" and not outline.open
    assert not outline.others and "@import" not in text and "url(http" not in text
    assert len(outline.ids) == len(set(outline.ids))
    wanted = ["Summary", "Maps", "Maximum elevation", "Gauges", "Volume and energy", "Configuration and files"]
    assert outline.headings == wanted
    assert "A &lt;wave&gt;" in text and "A <wave>" not in text
    assert "24 × 16 cells" in text and "2, 2 × 1 tiles" in text
    assert 'href="https://doi.org/10.1175/1520-0469(1975)032&lt;0680:TDOFDM&gt;2.0.CO;2"' in text
    assert '<span class="c"># of an hour</span>' in text and "a # b" in text


def test_a_page_has_a_button_and_the_sections_of_each_grid(nested):
    """The box of the nest is a button over the map of the outer grid, and all images share the page's bytes."""
    text = nested.read_text()
    outline = Outline(text)
    assert not outline.open and len(outline.ids) == len(set(outline.ids)) and "Not shown" not in text
    grids = ["Summary", "Maps", "Maximum elevation", "Gauges", "Volume and energy"]
    assert outline.headings == [*grids, "Configuration and files", *grids, "Files"]
    assert re.findall(r'<label for="grid-.">([^<]*)', text) == ["Outermost grid", "harbour"]
    zooms = re.findall(r'class="zoom" value="(.*?)" title=".*?" style="left: (.*?)%; .*? width: (.*?)%;', text)
    left, width = map(float, re.search(r'<canvas .*?style="left: (.*?)%;.*? width: (.*?)%', text).groups())
    assert [name for name, *_ in zooms] == ["harbour", "harbour"]  # over the maps of both variables
    np.testing.assert_allclose(float(zooms[0][2]), width * 3 / 12, rtol=1e-3)
    np.testing.assert_allclose(float(zooms[0][1]), left + width * 6 / 12, rtol=1e-3)
    assert text.count('"frames":[') == 4


def test_the_title_of_the_run_is_the_heading_of_the_page_alone(page):
    assert page.read_text().count(">A &lt;wave&gt;<") == 2  # <title> and <h1>


def test_timing_adds_up_the_starts_of_a_run(page):
    text = page.read_text()
    assert "4 s for 45 min of model time, in 2 runs" in text and "675 times as fast as real time" in text
    assert "270, 67.5 a second" in text and "0.0259 million cell updates" in text


def test_scores_use_the_records_that_the_experiment_names(page):
    cells = re.findall(r"<td>([^<]*)</td>", page.read_text())
    row = cells[cells.index("A") :][:9]
    assert row[6] == "1.11" and row[7] == "0.99"  # the record is 0.9 of the model: ratio 1 / 0.9, and 1 - 0.1^2 / 0.9^2
    assert cells[cells.index("B") :][2] == "–"


def test_an_image_shows_the_field_north_up_with_transparent_land(page, folder):
    movies = json.loads(Outline(page.read_text()).data)
    assert [len(movie["frames"]) for movie in movies] == [4, 4]
    assert movies[0]["stamps"][1] == "T+00:15 (06:01 UTC)" and movies[0]["seconds"] == TIMES.tolist()
    picture = imread(io.BytesIO(base64.b64decode(movies[0]["frames"][2].partition(",")[2])), format="png")
    with xr.open_dataset(folder / "fields.nc", decode_times=False) as dataset:
        eta = dataset["eta"].values[2, ::-1]
    assert picture.shape[:2] == (NY, NX)
    np.testing.assert_array_equal(picture[..., 3] == 0, np.isnan(eta))
    blue, red = eta < -0.2, eta > 0.2
    assert (picture[blue][:, 2] > picture[blue][:, 0]).all() and (picture[red][:, 0] > picture[red][:, 2]).all()


def test_speed_is_that_of_the_faces_around_a_centre(folder):
    with postprocess.open_output(folder / "fields.nc") as dataset:
        assert frames.variables_of(dataset) == ["eta", "speed"]
        speed = frames.at_centres(dataset, mesh_of(dataset), "speed", 1)
        np.testing.assert_allclose(speed, 5.0, rtol=1e-12)
        with pytest.raises(PlotError, match="no variable 'salt' over time; it has eta, u, v, speed"):
            frames.variables_of(dataset, ["salt"])


def test_the_relief_of_land_that_may_be_flooded_lies_below_the_water(folder):
    """It hid the images of the water: what is drawn above them is transparent but for other land."""
    with postprocess.open_output(folder / "fields.nc") as dataset:
        assert not frames.movies(dataset, ["eta"], [], 1e6)[0].ground
        shore = dataset.assign(depth=dataset["depth"].where(dataset["xh"] < 148.0, -5.0))
        (floods,) = frames.movies(shore, ["eta"], [], 1e6)
    above = [imread(io.BytesIO(base64.b64decode(x)), format="png") for x in re.findall('base64,([^"]+)"', floods.base)]
    land = max(above, key=np.size)
    assert land.shape[1] > 500 and 0 < np.mean(land[..., 3] > 0.5) < 0.2
    picture = imread(io.BytesIO(base64.b64decode(floods.ground.partition(",")[2])), format="png")
    assert picture.shape == (NY, NX, 4) and np.isin(picture[..., 3], (0, 1)).all() and picture[0, -1, 3] == 1


@pytest.mark.parametrize("largest", (1e6, 2000, 900))
def test_images_stay_within_their_number_of_bytes(folder, largest):
    with postprocess.open_output(folder / "fields.nc") as dataset:
        (movie,) = frames.movies(dataset, ["eta"], [], largest)
    assert 0 < movie.bytes <= largest
    assert movie.left_out == 4 - len(movie.frames) and (movie.left_out > 0) == (largest == 900)


def test_coarse_images_keep_means_and_cover_the_domain():
    values = np.arange(30.0 * 21).reshape(30, 21)
    values[:10, :9] = np.nan
    coarse = frames._coarse(values, 10)
    assert coarse.shape == (10, 7) and np.isnan(coarse[:3, :3]).all() and np.isfinite(coarse[4:]).all()
    np.testing.assert_allclose(coarse[5, 5], values[15:18, 15:18].mean(), rtol=1e-6)
    odd = frames._coarse(np.ones((25, 13)), 10)
    assert max(odd.shape) <= 10 and (odd == 1).all()


def test_a_long_series_keeps_its_extremes():
    value = np.zeros(100_001)
    value[[77, 50_000]] = 3.0, -2.0
    thin = sections._thinned(Series("A", np.arange(value.size) * 1.0, value))
    assert thin.time.size <= sections.MOST_TIMES + 2 and (thin.value.max(), thin.value.min()) == (3.0, -2.0)
    assert thin.time[0] == 0 and thin.time[-1] == 100_000 and (np.diff(thin.time) > 0).all()


HOSTILE = """{b"'><img src=x onerror=alert(1)></script></svg></pre>"""


def test_no_text_of_a_file_is_read_as_a_tag(folder, tmp_path):
    """Names, titles, units, histories and gauges are text, whatever they hold."""
    name = "u" + HOSTILE.replace("/", "")  # netCDF names begin with a letter, and have no slash
    for file in ("fields.nc", "maxima.nc", "gauges.nc"):
        with xr.open_dataset(folder / file, decode_times=False) as data:
            data = data.load().rename({"u": name, "v": "v2"} if file == "fields.nc" else {})
        for key in ("title", "source", "history", "git_commit", "references", "layout", "communicator", "time_stepper"):
            data.attrs[key] = HOSTILE
        data.attrs["config"] += f"# {HOSTILE}\n[{json.dumps(HOSTILE)}]\n"
        for variable in data.data_vars.values():
            variable.attrs |= {"long_name": HOSTILE, "units": HOSTILE}
        if "gauge_name" in data:
            data["gauge_name"] = ("gauge", [HOSTILE, "B"], data["gauge_name"].attrs)
        data.to_netcdf(tmp_path / file)
    (tmp_path / f"{name}.nc").write_bytes(b"none")
    outline = Outline(postprocess.report(tmp_path, variables=("eta", name)).read_text())
    assert not outline.open and not outline.others and len(outline.ids) == len(set(outline.ids))
    assert not [key for _, key in outline.attributes if key.startswith("on")] and outline.tags.count("script") == 2
    assert markup("{:.1f} {}", 1.0, Markup("<b>")) == "1.0 <b>" and json_markup(["</script>"]) == '["\\u003c/script>"]'


def test_mistakes_are_one_sentence(folder, tmp_path):
    refused = functools.partial(pytest.raises, PlotError)
    with refused(match="holds no file of a run"):
        postprocess.report(tmp_path)
    with refused(match="there is no .*none"):
        postprocess.report(tmp_path / "none")
    with refused(match="ends in .html"):
        postprocess.report(folder, tmp_path / "page.pdf")
    with refused(match="does not exist; make it first"):
        postprocess.report(folder, tmp_path / "none" / "page.html")
    with refused(match="none of .* can be drawn: .*fields.nc has no member 3; it holds 1, counted from 0"):
        postprocess.report(folder, tmp_path / "a.html", member=3)
    with refused(match="the run has no gauges"):
        postprocess.report(folder / "fields.nc", tmp_path / "a.html", observations=folder)
    (tmp_path / "x.nc").write_text("no netCDF")
    with pytest.raises(SwmodelError, match="cannot be read as netCDF"):
        files.report_files([tmp_path / "x.nc"], Page())


def test_the_page_names_the_files_that_it_does_not_show(folder, page, tmp_path):
    assert "Not shown" not in page.read_text()
    for name in ("fields.nc", "later.nc"):
        shutil.copy(folder / "fields.nc", tmp_path / name)
    (tmp_path / "gauges.nc").write_bytes((folder / "gauges.nc").read_bytes()[:1000])  # a run that was interrupted
    text = postprocess.report(tmp_path).read_text()
    assert "Not shown: later.nc. fields.nc holds fields, too, and was shown;" in text
    assert re.search(r"Not shown: gauges.nc. \S+gauges.nc cannot be read as netCDF", text)


def test_a_page_that_does_not_fit_on_the_disk_leaves_the_earlier_one(folder, tmp_path, monkeypatch):
    page, write = tmp_path / "page.html", Path.write_text
    page.write_text("earlier")

    def full(self, text, **options):
        write(self, text[:100], **options)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(PlotError, match="page.html cannot be written .No space left on device.; name another"):
        postprocess.report(folder / "maxima.nc", page)
    assert page.read_text() == "earlier" and [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("draw", [postprocess.report, postprocess.plot])
def test_damaged_values_are_one_sentence(folder, tmp_path, draw):
    file = tmp_path / "fields.nc"
    with xr.open_dataset(folder / "fields.nc", decode_times=False) as data:
        data.to_netcdf(file, encoding={"eta": {"fletcher32": True, "chunksizes": (4, NY, NX)}})
        row = data.eta.values[2, 12].tobytes()
    raw = file.read_bytes()
    at = raw.index(row)
    file.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
    with pytest.raises(
        PlotError, match=r"fields.nc is damaged \(NetCDF: .*\); give a file that a run has written whole"
    ):
        draw(file)


def test_view_opens_a_browser_where_there_is_a_display_and_else_prints_the_path(folder, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(files.webbrowser, "open", lambda address: opened.append(address) or True)
    for key in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(key, raising=False)
    files.open_page(folder / "a.html")
    assert not opened and "no browser was opened" in capsys.readouterr().out
    monkeypatch.setenv("DISPLAY", ":0")
    files.open_page(folder / "a.html")
    assert opened == [(folder / "a.html").as_uri()] and capsys.readouterr().out == f"{folder / 'a.html'}\n"


SCRIPT = """<script>
const key = (name) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
const slider = document.querySelector("input[type=range]");
addEventListener("load", () => setTimeout(() => {
  key("ArrowRight");
  document.querySelectorAll("#variable input")[1].click();
  document.querySelector(".sheet:not([hidden]) .zoom").click();
  setTimeout(() => {
    const canvas = document.querySelectorAll(".sheet")[1].querySelector("canvas");
    const pixel = canvas.getContext("2d").getImageData(0, 0, 1, 1).data;
    const hidden = ["#maps", "#harbour-maps"].map((name) => document.querySelector(name).closest("section").hidden);
    document.title = [slider.value, canvas.dataset.record, pixel[3], document.querySelector("output").textContent,
      document.querySelector(".sheet").hidden, document.querySelector(".now").style.left, hidden,
      document.querySelectorAll("input[type=range]")[1].value,
      document.querySelectorAll("#grid input")[1].checked].join("|");
  }, 300);
}, 300));
</script>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_in_a_browser_keys_move_the_slider_and_buttons_choose_the_variable_and_the_grid(nested, tmp_path):
    copy = tmp_path / "page.html"
    copy.write_text(nested.read_text().replace("</body>", SCRIPT + "</body>"))
    browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [*browser, "--virtual-time-budget=5000", "--dump-dom", copy.as_uri()]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    value, record, opacity, stamp, hidden, left, *grid = re.search(r"<title>(.*?)</title>", found)[1].split("|")
    # the nest's maps alone show, of the same time, and its button is pressed
    assert grid == ["true,false", "2", "true"]
    assert (value, record, opacity, stamp, hidden) == ("2", "2", "255", "T+00:30 (06:16 UTC)", "true")
    assert 50 < float(left.rstrip("%")) < 75  # two thirds of the axes' width
