"""Tables in CSV files, and the records of gauges: one reader for all of them, which refuses what is not certain."""

import datetime
import logging

import netCDF4
import numpy as np
import pytest

from swmodel.adjoint.costs.harmonics import constants_in
from swmodel.adjoint.costs.records import records_in
from swmodel.config.series import RecordFile
from swmodel.errors import DataError
from swmodel.forcing.tracks import read_track
from swmodel.grids.levees import read_levees
from swmodel.grids.observed_tables import gauge_files, read_columns, read_series
from swmodel.runtime.formats import read_csv
from swmodel.sources import read_source

postprocess = pytest.importorskip("swmodel.postprocess.series")

GAUGE = "time_s,elevation_m\n60,0.12\n120,0.25\n"
CONSTANTS = "name,longitude,latitude,M2_amplitude_m,M2_phase_deg,used\nA,178.2,-33.1,0.5,120,1\n"
TRACK = (
    "time_utc,longitude_deg,latitude_deg,radius_of_maximum_wind_m,central_pressure_pa\n"
    "2024-03-01T00:00Z,175,15.5,3e4,95000\n2024-03-01T06:00Z,176,16,3e4,95000\n"
)
ALONG = "x,y,time_s,elevation_m,deviation_m\n1,2,60,0.5,0.1\n"
LEVEES = "levee,x,y,crest_m\nwall,0,0.5,2\nwall,1,0,2\n"
FAULTS = (
    "longitude [degrees],latitude [degrees],depth [km],length [km],width [km],strike [degrees],dip [degrees],"
    "rake [degrees],slip [m]\n143,38,20,100,60,200,12,90,1.5\n"
)


def series_at_a_side(file):
    return RecordFile(file=file).record()


READERS = {
    "observations": (GAUGE, lambda file: records_in(file.parent, {"a": (0.0, 0.0)})),
    "scores": (GAUGE, lambda file: postprocess.read_observations(file.parent, ["a"])),
    "constants": (CONSTANTS, lambda file: constants_in(file, ["M2"], 0.06)),
    "along a track": (ALONG, lambda file: read_columns(file, ALONG.partition("\n")[0].split(","))),
    "storm": (TRACK, read_track),
    "levees": (LEVEES, read_levees),
    "faults": (FAULTS, read_source),
    "series": (GAUGE, series_at_a_side),
}


@pytest.mark.parametrize("kind", READERS)
def test_every_table_refuses_decimal_commas_short_rows_and_doubled_columns(kind, tmp_path):
    """Decimal commas were read as 0, and of a doubled column the last one was taken."""
    text, read = READERS[kind]
    file, (head, first, *rest) = tmp_path / "a.csv", text.splitlines()
    cells = head.count(",") + 1
    column = head.split(",")[1]
    for lines, sentence in (
        ((head, first.replace(".", ",", 1), *rest), f"line 2 has {cells + 1} cells and the header {cells}; .*points"),
        ((head, first.rsplit(",", 1)[0], *rest), f"line 2 has {cells - 1} cells and the header {cells};"),
        ((f"{head},{column}", *(f"{line},1" for line in (first, *rest))), "has the column '.*' twice in its header"),
    ):
        file.write_text("\n".join(lines) + "\n")
        with pytest.raises((DataError, postprocess.PlotError), match=sentence):
            read(file)
    file.write_text(f"# a comment\n\n{text}\n", encoding="utf-8-sig")
    read(file)


def test_lines_are_counted_in_the_file_and_a_comment_may_name_the_columns(tmp_path):
    (tmp_path / "a.csv").write_text("# made by hand\na,b\n\n1,2\n# a remark\n3,high,,\n")
    table = read_csv(tmp_path / "a.csv")
    assert table.names == ("a", "b") and table.lines == (4, 6) and table.texts("b") == ["2", "high"]
    with pytest.raises(DataError, match="line 6: 'high' in b is not a number"):
        table.numbers("b")
    np.savetxt(tmp_path / "b.csv", [[1.0, 2.0], [3.0, 4.0]], "%g", ",", header="a,b")
    table = read_csv(tmp_path / "b.csv")
    assert table.names == ("a", "b") and table.numbers("b").tolist() == [2.0, 4.0]


def folder_of(tmp_path, *names):
    for name in names:
        (tmp_path / name).write_text(GAUGE)
    return tmp_path


def test_a_record_is_that_of_one_gauge(tmp_path):
    """north.csv was the record of "north-east", too, and buoy.csv that of both buoys."""
    files = gauge_files(folder_of(tmp_path, "north.csv", "21418.csv"), ["north", "north-east", "DART 21418"])
    assert {name: file.name for name, file in files.items()} == {"north": "north.csv", "DART 21418": "21418.csv"}
    with pytest.raises(
        DataError, match="no file NAME.csv or NAME.nc in .* is named after one of the gauges north-east"
    ):
        gauge_files(tmp_path, ["north-east"], ["north"])
    with pytest.raises(DataError, match="buoy.csv could be the record of buoy 1 and of buoy 2; give it the whole name"):
        gauge_files(folder_of(tmp_path, "buoy.csv"), ["buoy 1", "buoy 2"])
    with pytest.raises(DataError, match="buoy 1 could have its record in .*1.csv or in buoy.csv"):
        gauge_files(folder_of(tmp_path, "1.csv"), ["buoy 1"])


def test_a_record_may_be_netcdf(tmp_path):
    for units, refusal in (("m", None), ("cm", "is in 'cm', and must be in 'm'")):
        with netCDF4.Dataset(tmp_path / "a.nc", "w") as data:
            data.createDimension("time_s", 3)
            for name, values, unit in (("time_s", [120, 60, 180], "s"), ("elevation_m", [0.25, 0.12, np.nan], units)):
                variable = data.createVariable(name, "f8", ("time_s",))
                variable[:], variable.units = values, unit
        if refusal is None:
            record = records_in(tmp_path, {"a": (1.0, 2.0)})["a"]
            scored = postprocess.read_observations(tmp_path, ["a"])["a"]
            for one in (record, scored):
                assert one.time.tolist() == [60, 120, 180]
                np.testing.assert_array_equal(one.value, [0.12, 0.25, np.nan])
            continue
        with pytest.raises(DataError, match=refusal):
            records_in(tmp_path, {"a": (1.0, 2.0)})
    with pytest.raises(DataError, match="has both a.csv and a.nc; leave one of them out"):
        records_in(folder_of(tmp_path, "a.csv"), {"a": (1.0, 2.0)})


def test_times_of_observations_may_be_dates(tmp_path):
    start = datetime.datetime(2024, 3, 1)
    for name, units in (("time", "hours since 2024-02-29 18:30 -6:00"), ("time_s", "minutes since 2024-03-01")):
        with netCDF4.Dataset(tmp_path / "a.nc", "w") as data:
            data.createDimension("n", 2)
            for variable, values, unit in ((name, [0.5, 1.5], units), ("elevation_m", [0.1, 0.2], "m")):
                data.createVariable(variable, "f8", ("n",))[:] = values
                data[variable].units = unit
        wanted = [3600.0, 7200.0] if name == "time" else [30.0, 90.0]
        assert records_in(tmp_path, {"a": (1.0, 2.0)}, start=start)["a"].time.tolist() == wanted
        assert postprocess.read_observations(tmp_path, ["a"], start)["a"].time.tolist() == wanted
        with pytest.raises(DataError, match="has dates, and the run has none; give run.start, or times in seconds"):
            records_in(tmp_path, {"a": (1.0, 2.0)})
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as data:
        data["time_s"].calendar = "noleap"  # 29 February is missing, and all later dates would be a day early
    with pytest.raises(DataError, match="the dates of .*a.nc are in the calendar noleap; convert them to the stand"):
        records_in(tmp_path, {"a": (1.0, 2.0)}, start=start)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as data:
        data.createDimension("n", 1)
        data.createVariable("time", str, ("n",))[0] = "2024-03-01T00:00"
        data.createVariable("elevation_m", "f8", ("n",))[:] = 0.1
    with pytest.raises(DataError, match="a.nc: time is text, and no numbers; dates are numbers with CF units there"):
        records_in(tmp_path, {"a": (1.0, 2.0)}, start=start)
    (tmp_path / "a.nc").unlink()
    (tmp_path / "a.csv").write_text("time,elevation_m\n2024-03-01T09:01+09:00,0.1\n2024-03-01T00:02Z,0.2\n")
    assert records_in(tmp_path, {"a": (1.0, 2.0)}, start=start)["a"].time.tolist() == [60.0, 120.0]
    with pytest.raises(DataError, match="a.csv has dates, and the run has none"):
        records_in(tmp_path, {"a": (1.0, 2.0)})
    (tmp_path / "a.csv").write_text("time,elevation_m\n60,0.1\n")
    with pytest.raises(DataError, match="line 2: '60' in time is no date; give dates, or name the column time_s"):
        records_in(tmp_path, {"a": (1.0, 2.0)}, start=start)


def test_an_observation_that_is_there_twice_counts_once_and_two_that_differ_are_refused(tmp_path, caplog):
    """Scores took the first of two, and misfits counted both."""
    file = tmp_path / "a.csv"
    file.write_text(f"{GAUGE}60,0.12\n180,\n180,0.3\n")
    with caplog.at_level(logging.WARNING, "swmodel"):
        time, value = read_series(file, ("elevation_m",))
    assert time.tolist() == [60, 120, 180] and value.tolist() == [0.12, 0.25, 0.3]
    assert "repeats 2 of its observations; each counts once" in caplog.text
    np.testing.assert_array_equal(postprocess.read_observations(tmp_path, ["a"])["a"].value, value)
    file.write_text(f"{GAUGE}60,5.12\n")
    for read in (READERS["observations"][1], READERS["scores"][1]):
        with pytest.raises((DataError, postprocess.PlotError), match="elevation_m is both 0.12 and 5.12 at 60 s"):
            read(file)
    (tmp_path / "b.csv").write_text(f"{ALONG}3,2,60,0.7,0.1\n")  # at one time, and another place
    assert read_columns(tmp_path / "b.csv", ALONG.partition("\n")[0].split(","))["elevation_m"].tolist() == [0.5, 0.7]
