"""Records of gauges are read as their providers write them; damaged ones are refused by the name of their format."""

import datetime
import json

import netCDF4
import numpy as np
import pytest

from swmodel.adjoint import records_in
from swmodel.adjoint.assimilation.observations import gauge_records
from swmodel.errors import DataError
from swmodel.observed.folder import Steps, read_folder, read_gauge
from swmodel.postprocess.series import read_observations
from tests.formats import example

START = datetime.datetime(2011, 3, 11, 5, 46)
COOPS_JSON = {
    "metadata": {"id": "1619910", "name": "Midway", "lat": "28.2", "lon": "-177.36"},
    "data": [
        {"t": "2011-03-11 05:48", "v": "0.412", "s": "0.003", "f": "0,0,0,0", "q": "v"},
        {"t": "2011-03-11 05:54", "v": "", "s": "", "f": "1,0,1,0", "q": "v"},
        {"t": "2011-03-11 06:00", "v": "0.402", "s": "0.003", "f": "0,0,0,0", "q": "v"},
    ],
}
IOC_JSON = [
    {"slevel": level, "stime": f"2011-03-11 05:{minute}:00", "sensor": sensor}
    for sensor, minute, level in (("prs", 46, 2.5), ("prs", 47, 2.6), ("rad", 46, 1.1))
]
TEXTS = {
    "coops_csv": "Date Time, Water Level, Sigma, O or I (for verified), F, R, L, Quality \n"
    "2011-03-11 05:48,0.412,0.003,0,0,0,0,v\n2011-03-11 05:54,,,0,0,1,0,v\n2011-03-11 06:00,0.402,0.003,0,0,0,0,v\n",
    "coops_page": '"Date","Time (GMT)","Predicted (ft)","Preliminary (ft)","Verified (ft)"\n'
    '"2011/03/11","05:48","1.0","1.5","-"\n"2011/03/11","06:00","1.0","2.0","1.2"\n',
    "coops_json": json.dumps(COOPS_JSON),
    "ioc": "Sealevel at Midway\nTime (UTC)\tprs(m)\trad(m)\n"
    "2011-03-11 05:46:00\t2.5\t1.1\n2011-03-11 05:47:00\t2.6\t\n",
    "ioc_json": json.dumps(IOC_JSON),
    "dart": "#YY  MM DD hh mm ss T   HEIGHT\n#yr  mo dy hr mn  s -        m\n2011 03 11 06 15 00 1 5823.120\n"
    "2011 03 11 06 00 15 3 5823.130\n2011 03 11 06 00 00 3 5823.110\n2011 03 11 06 00 00 1 5823.100\n"
    "2011 03 11 05 45 00 1 9999.000\n",
    "uhslc_csv": "2011,3,11,5,1234\n2011,3,11,6,-32767\n2011,3,11,7,1250\n",
    "uhslc_daily": "2011,3,11,1234\n2011,3,12,1250\n",
    "uhslc_dat": f"001A {'Pohnpei':18s} {'Fd St Micronesia':19s} 2011 06587N 158143E 0010 1 00010R MM\n"
    "001APOHNPEI2011 3111" + "".join(f"{level:5d}" for level in (1234, 9999, *range(1200, 1300, 10))) + "\n",
}
EXPECTED = {  # seconds from START, metres, what is told
    "coops_csv": (
        [120, 480, 840],
        [0.412, np.nan, 0.402],
        "CO-OPS in m (assumed); dates in UTC (assumed); above the datum",
    ),
    "coops_page": ([120, 840], [1.5 * 0.3048, 1.2 * 0.3048], "in ft; dates in UTC; above the datum of the request"),
    "coops_json": ([120, 480, 840], [0.412, np.nan, 0.402], "station 1619910; 1 samples flagged"),
    "ioc": ([0, 60], [2.5, 2.6], "in m; dates in UTC; above a level of the sensor's own; sensor prs and not rad"),
    "ioc_json": ([0, 60], [2.5, 2.6], "sensor prs and not rad; 2 samples"),
    "dart": ([840, 855, 1740], [-0.01, 0.01, 0.0], "column of 5823.12 m; samples: 1 of 15 min, 2 of 15 s; 3 samples"),
    "uhslc_csv": ([-2760, 840, 4440], [1.234, np.nan, 1.25], "in mm; dates in UTC; above the zero of the station"),
    "uhslc_daily": ([22440, 108840], [1.234, 1.25], "daily means, without tides"),
    "uhslc_dat": (
        3600 * np.arange(-1, 11) - (5 * 3600 + 46 * 60),  # an hour ahead of GMT
        [1.244, np.nan, *np.arange(1.21, 1.305, 0.01)],
        "in mm; dates in UTC; above the zero of the station; times were +1 h from UTC",
    ),
    "uhslc": ([-2760, 840], [1.234, np.nan], "in mm; dates in UTC; above the zero of the station"),
}


def write_uhslc(path, units="millimeters", records=1):
    with netCDF4.Dataset(path, "w") as data:
        data.createDimension("record_id", records)
        data.createDimension("time", 2)
        data.createVariable("record_id", "i2", ("record_id",))[:] = 570
        time = data.createVariable("time", "f8", ("time",))
        time.units = "days since 1800-01-01 00:00:00"
        time[:] = (datetime.datetime(2011, 3, 11, 5) - datetime.datetime(1800, 1, 1)).days + np.array([5, 6]) / 24.0
        level = data.createVariable("sea_level", "f4", ("record_id", "time"), fill_value=-32767.0)
        level.units = units
        level[:] = np.tile([1234.0, -32767.0], (records, 1))


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_record_is_read_to_its_values_with_what_was_assumed(tmp_path, kind):
    path = tmp_path / "Midway.txt"  # the contents count, and not the end of the name
    if kind == "uhslc":
        write_uhslc(path)
    else:
        path.write_text(TEXTS[kind])
    time, value, words = EXPECTED[kind]
    record = read_gauge(path, START)
    np.testing.assert_allclose(record.time, time, atol=1e-3)
    np.testing.assert_allclose(record.value, value, atol=1e-6)
    assert words in str(record)
    with pytest.raises(DataError, match="has dates, and the run has none; give run.start"):
        read_gauge(path)


def test_a_small_negative_level_of_uhslc_is_no_mark_of_a_daily_file(tmp_path):
    path = tmp_path / "d001.dat"
    path.write_text(TEXTS["uhslc_dat"].replace(" 1230", "   -5"))
    assert read_gauge(path, START).value[5] == pytest.approx(0.005)  # [m], with the offset of 10 mm


DAMAGED = [
    ("uhslc_dat", "R MM", "R CM", "levels in 'CM', and only those in MM are read"),
    ("coops_csv", "0.412", "high", "water levels of CO-OPS: 'high' is not a number"),
    ("coops_csv", "-11 05:48", "-11 25:48", "CO-OPS: '2011-03-11 25:48' is no date"),
    ("coops_csv", ",0,0,0,0,v\n2011-03-11 05:54", ",0\n2011-03-11 05:54", "line 2 has 4 cells and the header 8"),
    ("coops_page", "GMT", "LST/LDT", "times are in LST/LDT, local ones; get it again in GMT"),
    ("coops_json", '"q": "v"}]', "", "JSON file of CO-OPS that ends early"),
    ("coops_json", '"v"', '"w"', "CO-OPS with samples without t or v"),
    ("ioc", "2.6", "2,6", "levels of the IOC's monitoring facility: '2,6' is not a number"),
    ("ioc", TEXTS["ioc"].partition("\trad(m)\n")[2], "", "IOC's monitoring facility: it has no samples"),
    ("ioc", "prs(m)", "prs(ft)", "column prs.ft. is not in m"),
    ("ioc_json", "}]", "", "damaged JSON file of levels of the IOC"),
    ("dart", "06 15 00 1 5823.120", "06 15 00 5823.120", "line 3 of heights of the water column of DART has 7 numbers"),
    ("dart", "2011 03 11 06 15", "2011 13 11 06 15", "is no date in heights of the water column of DART"),
    ("dart", "2011 03 11 06 15", "2011 02 31 06 15", r"\[2011, 2, 31, 6, 15, 0\] is no date in heights"),
    ("dart", "2011 03 11 06 15", "2011 03 11 06 75", r"\[2011, 3, 11, 6, 75, 0\] is no date in heights"),
    ("uhslc_csv", "7,1250", "7", "levels of UHSLC: rows have 4 to 5 cells"),
    ("uhslc_csv", "2011,3,11,7", "2011,3,31,31", r"\[2011, 3, 31, 31, 0, 0\] is no date in levels of UHSLC"),
    ("uhslc_csv", "2011,3,11,7", "2011,2,29,7", r"\[2011, 2, 29, 7, 0, 0\] is no date in levels of UHSLC"),
    ("uhslc_csv", "2011,3,11,7", "2011,3,11,", r"\[2011, 3, 11, nan, 0, 0\] is no date in levels of UHSLC"),
    ("dart", "2011 03 11 06 15", "2011 03 11 06 -5", r"\[2011, 3, 11, 6, -5, 0\] is no date in heights"),
    ("dart", "2011 03 11 06 15", "2011 nan 11 06 15", r"\[2011, nan, 11, 6, 15, 0\] is no date in heights"),
    ("uhslc_dat", " 3111 1234", " 3113 1234", "line 2 of levels of UHSLC: neither the first nor the second half"),
    ("uhslc_dat", " 1200", " 12OO", "line 2 of levels of UHSLC: could not convert"),
    ("uhslc_dat", "2011 06587N", "2011-2012 06587N", "a .dat file of daily levels of UHSLC; get hourly ones"),
]


@pytest.mark.parametrize("kind, before, after, sentence", DAMAGED)
def test_a_damaged_file_is_refused_by_the_name_of_its_format(tmp_path, kind, before, after, sentence):
    path = tmp_path / "Midway.csv"
    assert before in TEXTS[kind]
    path.write_text(TEXTS[kind].replace(before, after))
    with pytest.raises(DataError, match=sentence):
        read_gauge(path, START)


def test_files_that_hold_a_message_several_records_or_other_units_are_refused(tmp_path):
    path = tmp_path / "Midway.nc"
    path.write_text('{"error": {"message": "No data was found."}}')
    with pytest.raises(DataError, match="holds no levels, but a message of CO-OPS, 'No data was found.'"):
        read_gauge(path, START)
    write_uhslc(path, "meters")
    with pytest.raises(DataError, match="levels of UHSLC: sea_level is in 'meters'"):
        read_gauge(path, START)
    write_uhslc(path, records=2)
    with pytest.raises(DataError, match="levels of UHSLC: it holds 2 records"):
        read_gauge(path, START)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="Midway.nc is "):
        read_gauge(path, START)
    path.write_text("<html><body>503</body></html>")
    with pytest.raises(DataError, match="is a web page.*not levels of CO-OPS, IOC, DART or UHSLC"):
        read_gauge(path, START)


def test_scores_and_misfits_read_a_folder_of_any_formats_in_the_same_way(tmp_path):
    for name, kind in (("CO-OPS_1619910_met.csv", "coops_csv"), ("21413t2011.txt", "dart"), ("h057.txt", "ioc")):
        (tmp_path / name).write_text(TEXTS[kind])
    (tmp_path / "records.toml").write_text(
        'datum = "mean"\n[gauges.Honolulu]\nfile = "h057.txt"\nsensor = "rad"\ndatum = 1.0\n'
    )
    places = {"Midway 1619910": (1.0, 2.0), "DART 21413": (3.0, 4.0), "Honolulu": (5.0, 6.0), "none": (7.0, 8.0)}
    records, series = records_in(tmp_path, places, start=START), read_observations(tmp_path, places, START)
    assert list(records) == list(series) == list(places)[:3]
    for name, record in records.items():
        np.testing.assert_array_equal(record.time, series[name].time)
        np.testing.assert_array_equal(record.value, series[name].value)
    np.testing.assert_allclose(records["Midway 1619910"].value, [0.005, np.nan, -0.005])
    np.testing.assert_allclose(records["Honolulu"].value, [0.1, np.nan])
    weighed = gauge_records({"DART 21413": records["DART 21413"]}, (0.0, 1e4), independent=120.0)["DART 21413"]
    shares = [15 / 120, (15 / 120 + 1) / 2, 1.0]  # by the intervals before and after each sample
    np.testing.assert_allclose(1 / weighed.observations_per_datum, shares)


def test_steps_take_off_spikes_tides_and_a_datum_and_say_what_they_did(tmp_path):
    time = np.arange(0, 3 * 86400.0, 360.0)
    wave = 0.3 * np.exp(-(((time - 1e5) / 1200.0) ** 2))
    tide = 0.8 * np.cos(2 * np.pi * time / 44714.16 + 1.0) + 0.3 * np.cos(2 * np.pi * time / 86164.09)
    level = 2.0 + tide + wave
    level[[50, 400]] += 3.0
    path = tmp_path / "buoy.csv"
    np.savetxt(path, np.column_stack([time, level]), delimiter=",", header="time_s,elevation_m", comments="")
    record = read_gauge(path, None, Steps(spikes=0.5, detide=("M2", "K1"), datum="median"))
    assert np.isnan(record.value).sum() == 2 and np.isnan(record.value[[50, 400]]).all()
    assert np.nanmax(np.abs(record.value - wave)) < 0.03 < np.nanmax(np.abs(level - wave))
    assert "2 spikes of more than 0.5 m left out" in str(record)
    assert "tide of M2, K1 and a line in time subtracted, standard deviation from 0.579 to 0.0222 m" in str(record)
    assert "datum: the median of" in str(record)
    with pytest.raises(DataError, match="spans 2 h, and the fit of a tide needs 12 h"):
        Steps(detide=("M2",)).applied("buoy.csv", time[:21], level[:21])


def test_zones_and_units_that_a_file_lacks_are_declared(tmp_path):
    (tmp_path / "Ofunato.csv").write_text(TEXTS["coops_csv"].replace("-11 0", "-11 1"))
    (tmp_path / "records.toml").write_text('zone = "+09:00"\nunit = "ft"\n')
    record = read_folder(tmp_path, ["Ofunato"], START)["Ofunato"]
    np.testing.assert_allclose(record.time[0], 10 * 3600 + 120 - 9 * 3600)
    np.testing.assert_allclose(record.value[0], 0.412 * 0.3048)
    assert "in ft; dates in +09:00" in str(record)


@pytest.mark.parametrize("kind", ["ioc", "ioc_json", "dart", "uhslc_csv", "coops_page"])
def test_another_zone_than_that_of_the_file_is_refused_and_not_ignored(tmp_path, kind):
    (tmp_path / "Midway.txt").write_text(TEXTS[kind])
    for zone, other in (("+09:00", True), ("Z", False), ("+00:00", False)):
        (tmp_path / "records.toml").write_text(f'zone = "{zone}"\n')
        if other:
            with pytest.raises(
                DataError, match="has dates in UTC, and records.toml has the zone .09:00; leave zone out"
            ):
                read_folder(tmp_path, ["Midway"], START)
        else:
            np.testing.assert_allclose(read_folder(tmp_path, ["Midway"], START)["Midway"].time, EXPECTED[kind][0])


def ioc_of(levels):
    return "Time (UTC)\trad(m)\n" + "".join(f"2011-03-11 05:{k:02d}:00\t{x}\n" for k, x in enumerate(levels))


@pytest.mark.parametrize("code", [9.999, -9.99, 99.99, -99.9999, -999.0, 9999.0, -777.0, -32767.0])
def test_numbers_that_stand_for_gaps_are_left_out_of_the_records_of_providers_and_told(tmp_path, code):
    level = [0.5, 0.7, code, code, 0.9, 0.6, 0.5]
    (tmp_path / "Midway.txt").write_text(ioc_of(level))
    record = read_gauge(tmp_path / "Midway.txt", START)
    np.testing.assert_array_equal(record.value, [0.5, 0.7, np.nan, np.nan, 0.9, 0.6, 0.5])
    assert f"2 samples of {code:g}, which stand for gaps, left out; 5 samples" in str(record)
    table = "time_s,elevation_m\n" + "".join(f"{60 * k},{x}\n" for k, x in enumerate(level))
    (tmp_path / "Midway.csv").write_text(table)
    with pytest.raises(DataError, match=f"elevation_m is {code:g} at 120 s, .*; leave gaps empty"):
        read_gauge(tmp_path / "Midway.csv", START)


@pytest.mark.parametrize(
    "level",
    [
        [8.8, 9.5, 9.99, 9.999, 10.4],
        [0.1, 9.9, 0.2],
        [9.99, 0.0, 9.0, 0.3, 10.9],
        [25.0, 25.0, 0.0],
        [-8.0, 12.0, 12.0],
    ],
)
def test_water_that_goes_there_is_no_gap(tmp_path, level):
    (tmp_path / "Midway.txt").write_text(ioc_of(level))
    np.testing.assert_array_equal(read_gauge(tmp_path / "Midway.txt", START).value, level)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("spike = 1", "there is no key 'spike'; there are file, sensor"),
        ("spikes = -1", "spikes = -1 is not a positive number of metres"),
        ("detide = 3", "detide = 3; write true, or constituents"),
        (
            "detide = true\n[gauges.Bay]\ndatum = 3.5",
            "Bay: detide subtracts the mean, too, and datum = 3.5 would shift",
        ),
        ("zone = 'JST'", "zone = 'JST'; write hours and minutes"),
        ("unit = 'fathom'", "unit = 'fathom'; write one of m, cm, mm, ft"),
        ("datum = 'MSL'", "datum = 'MSL'; write 'mean', 'median', or a number"),
        ("file = 'a.csv'", "file belongs to one gauge"),
        ("[gauges.Hilo]\nfile = 'a.csv'", "there is no gauge 'Hilo'; there are Midway"),
        ("[gauges.Midway]\nfile = 'b.csv'", "there is no file .*b.csv; correct its name in records.toml"),
        ("datum = ", "cannot be read as TOML"),
    ],
)
def test_a_mistake_in_the_declared_steps_is_told(tmp_path, text, sentence):
    (tmp_path / "Midway.csv").write_text(TEXTS["coops_csv"])
    (tmp_path / "records.toml").write_text(text + "\n")
    with pytest.raises(DataError, match=sentence):
        read_folder(tmp_path, ["Midway"], START)


NAMES = {
    "coops_csv": "CO-OPS, CSV of the interface",
    "coops_page": "CO-OPS, CSV of its pages",
    "coops_json": "CO-OPS, JSON",
    "ioc": "IOC monitoring facility, text",
    "ioc_json": "IOC monitoring facility, JSON",
    "dart": "DART, text of NDBC",
    "uhslc_csv": "UHSLC, CSV",
    "uhslc": "UHSLC, netCDF",
}


def of_folder(kind):
    def check(folder):
        test_a_record_is_read_to_its_values_with_what_was_assumed(folder, kind)
        for one, before, after, sentence in DAMAGED:
            if one == kind:
                path = folder / "damaged.csv"
                path.write_text(TEXTS[kind].replace(before, after))
                yield lambda path=path: read_gauge(path, START), sentence
        if kind == "uhslc":
            write_uhslc(folder / "feet.nc", "feet")
            yield lambda: read_gauge(folder / "feet.nc", START), "levels of UHSLC: sea_level is in 'feet'"

    return check


for _kind, _name in NAMES.items():
    example(_name)(of_folder(_kind))
