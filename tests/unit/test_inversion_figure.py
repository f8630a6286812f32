"""The figure of an inversion with many gauges: some series, dots for all, and a line that names the others."""

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("matplotlib")

from swmodel.errors import PlotError  # noqa: E402
from swmodel.postprocess import inversion  # noqa: E402


def output(gauges, times):
    """A file of an inversion; the signal of gauge n is n + 1 times the error."""
    names = np.repeat([f"G{n:02d}" for n in range(gauges)], times)
    number, time = np.repeat(np.arange(gauges), times), np.tile(np.arange(times) * 60.0, gauges)
    observed = 0.1 * (number + 1) * np.sin(2 * np.pi * time / (60.0 * max(times, 2)) + 0.5)
    columns = {"x": 1e3 * (number + 0.5), "y": 5e3 + 0 * number, "time": time, "deviation": 0.1 + 0 * time}
    columns |= {"observed": observed, "background": 0 * observed, "analysis": 0.9 * observed}
    data = {f"observation_{name}": ("observation", values) for name, values in columns.items()}
    data["observation_gauge"] = ("observation", names)
    bump = np.exp(-((np.arange(20) - 10.0) ** 2)) * np.ones((10, 1))
    for role, factor in (("background", 0.0), ("analysis", 1.0)):
        data[f"uplift_{role}"] = (("yh", "xh"), factor * bump, {"units": "m", "long_name": "uplift"})
    x, y = (np.arange(n) * 1e3 + 500.0 for n in (20, 10))
    coords = {"xh": ("xh", x, {"units": "m"}), "yh": ("yh", y, {"units": "m"})}
    return xr.Dataset(data, coords, {"title": "A twin", "inversion_of": "gauges"})


def test_of_many_gauges_those_with_the_largest_signal_have_series_and_the_others_are_named():
    page = inversion.figure(output(gauges=14, times=6))
    titles = [axes.get_title(loc="left") for axes in page.axes]
    assert [title for title in titles if title.startswith("G")] == [f"G{n:02d}" for n in range(6, 14)]
    assert "Not shown: G00, G01, G02, G03 and 2 more" in [text.get_text() for text in page.texts]
    dots = [line for line in page.axes[0].lines if line.get_marker() == "o"]
    assert len(dots) == 14 and not page.axes[0].texts


def test_few_gauges_have_names_on_the_map_and_tracks_have_no_dots():
    page = inversion.figure(output(gauges=3, times=6))
    assert {text.get_text() for text in page.axes[0].texts} == {"G00", "G01", "G02"}
    assert not any(text.get_text().startswith("Not shown") for text in page.texts)
    track = inversion.figure(output(gauges=40, times=1))
    assert not track.axes[0].lines and "40 observations" in track.axes[-1].get_xlabel()


def test_tracks_that_pass_the_same_points_again_have_one_histogram():
    page = inversion.figure(output(gauges=14, times=6).assign_attrs(inversion_kind="tracks"))
    assert not page.axes[0].lines and "84 observations" in page.axes[-1].get_xlabel()


def test_harmonic_constants_lie_in_the_plane_of_their_cosines_and_sines():
    file = output(gauges=3, times=4)  # two constituents, A cos g and A sin g each
    text = {"kind": ["harmonics"] * 12, "constituent": ["M2", "M2", "S2", "S2"] * 3, "part": ["A cos g", "A sin g"] * 6}
    for name, values in text.items():
        file[f"observation_{name}"] = ("observation", values)
    page = inversion.figure(file.assign_attrs(inversion_kind="harmonics"))
    titles = [axes.get_title(loc="left") for axes in page.axes]
    assert titles[-2:] == ["M2", "S2"] and not any(title.startswith("G") for title in titles)
    observed = next(drawn for drawn in page.axes[-1].collections if drawn.get_label() == "observed")
    gauge = np.asarray(file.observation_observed).reshape(3, 4)
    np.testing.assert_allclose(observed.get_offsets(), gauge[:, 2:])
    assert page.axes[-1].get_xlabel() == "A cos g [m]" and page.axes[-2].get_ylabel() == "A sin g [m]"


def test_what_was_changed_has_a_map_of_its_own():
    file = output(gauges=3, times=6)
    file["uplift_background"] = file.uplift_background + 1.0
    titles = [axes.get_title(loc="left") for axes in inversion.figure(file).axes]
    assert "uplift, found less first guess" in titles and "uplift, first guess" in titles


def test_the_series_of_a_single_gauge_has_the_whole_width():
    page = inversion.figure(output(gauges=1, times=6))
    assert page.axes[-1].get_title(loc="left") == "G00" and page.axes[-1].get_position().width > 0.8


def test_controls_that_are_given_at_times_have_a_panel_with_their_errors():
    times, found = np.arange(5) * 600.0, output(gauges=2, times=6).drop_vars(["uplift_background", "uplift_analysis"])
    along = ("side_time", times, {"units": "seconds since 2008-09-10 00:00:00"})
    found = found.assign_coords(side_time=along)
    for role, value in (("background", 0.0), ("analysis", 0.4), ("truth", 0.5), ("analysis_deviation", 0.1)):
        attributes = {"units": "m", "long_name": f"boundary.0.elevation.values, {role}"}
        found[f"side_{role}"] = ("side_time", value + 0.0 * times, attributes)
    page = inversion.figure(xr.decode_cf(found), "side")
    assert [axes.get_title(loc="left") for axes in page.axes] == ["G00", "G01", "boundary.0.elevation.values [m]"]
    drawn = {float(line.get_ydata()[0]): line.get_xdata() for line in page.axes[-1].lines}
    assert set(drawn) == {0.0, 0.4, 0.5} and np.allclose(drawn[0.4], times / 60.0)
    (band,) = page.axes[-1].collections
    assert np.allclose(band.get_paths()[0].vertices[:, 1].min(), 0.3)
    with pytest.raises(PlotError, match="there is no map or series of 'other'; the file has side"):
        inversion.figure(found, "other")


def on_the_sphere(gauges):
    """A file with a small source near 141 to 145 E, 36 to 40 N, its truth, and gauges {name: (longitude, latitude)}."""
    x, y = np.arange(120.25, 180.0, 0.5), np.arange(15.25, 60.0, 0.5)
    bump = np.exp(-((x - 143.0) ** 2) - (y[:, None] - 38.0) ** 2)
    attributes = {"units": "m", "long_name": "uplift"}
    data = {
        f"uplift_{role}": (("yh", "xh"), f * bump, attributes) for role, f in (("background", 0.0), ("analysis", 0.9))
    }
    data["uplift_truth"] = (("yh", "xh"), bump, attributes)
    names, times = np.repeat(list(gauges), 6), np.tile(np.arange(6) * 60.0, len(gauges))
    places = np.repeat(list(gauges.values()), 6, axis=0)
    columns = {"x": places[:, 0], "y": places[:, 1], "time": times, "deviation": 0.1 + 0 * times}
    columns |= {"observed": np.sin(times), "background": 0 * times, "analysis": 0.9 * np.sin(times)}
    data |= {f"observation_{name}": ("observation", values) for name, values in columns.items()}
    data["observation_gauge"] = ("observation", names)
    coords = {"xh": ("xh", x, {"units": "degrees_east"}), "yh": ("yh", y, {"units": "degrees_north"})}
    return xr.Dataset(data, coords, {"title": "A twin", "inversion_of": "gauges"})


def test_a_map_of_a_small_source_has_the_gauges_around_it_with_their_names():
    page = inversion.figure(on_the_sphere({"KPG1": (144.4, 41.7), "21413": (152.1, 30.5)}))
    assert {text.get_text() for text in page.axes[0].texts} == {"KPG1", "21413"}
    assert page.axes[0].get_xlim()[1] > 152.1 and page.axes[0].get_xlim()[1] < 170
    far = inversion.figure(on_the_sphere({"KPG1": (144.4, 41.7), "Midway": (179.0, 28.2)}))
    assert {text.get_text() for text in far.axes[0].texts} == {"KPG1"} and far.axes[0].get_xlim()[1] < 160


def test_names_of_gauges_lie_within_the_frame_of_a_part_of_the_map():
    page = inversion.figure(on_the_sphere({"21418": (148.7, 38.7), "21401": (152.6, 42.6), "21413": (152.1, 30.5)}))
    page.canvas.draw()
    frame = page.axes[0].get_window_extent()
    assert len(page.axes[0].texts) == 3
    assert all(text.get_window_extent().x1 <= frame.x1 for text in page.axes[0].texts)


def test_where_the_truth_is_known_the_error_is_drawn():
    titles = [
        axes.get_title() or axes.get_title(loc="left")
        for axes in inversion.figure(on_the_sphere({"A": (150, 40)})).axes
    ]
    assert "uplift, found less truth" in titles
    assert "uplift, found less truth" not in [a.get_title(loc="left") for a in inversion.figure(output(3, 6)).axes]
