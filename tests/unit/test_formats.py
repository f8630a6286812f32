"""Files in formats that are recognised and not read: one sentence that names the format and the remedy."""

import datetime

import netCDF4
import numpy as np
import pytest
import xarray as xr

from swmodel.config.series import RecordFile
from swmodel.errors import DataError
from swmodel.forcing.harmonic_files import harmonic_constants
from swmodel.forcing.tracks import read_track
from swmodel.grids.bathymetry import onto_grid
from swmodel.grids.grid import SphericalGrid
from swmodel.grids.observed_tables import read_table
from swmodel.runtime.formats import FORMATS, check_format, format_of
from swmodel.sources import read_source

GRID = SphericalGrid(4, 4, (0.0, 4.0), (40.0, 44.0))
SAMPLES = {
    "srcmod": b"% ------ FINITE-SOURCE RUPTURE MODEL ------\n%\n% Event : Testland",
    "usgs": b"#Total number of fault_segments=     1\n#Fault_segment =   1 nx(Along-strike)=   2",
    "usgs_geojson": b'{"type": "FeatureCollection", "features": [{"properties": {"slip": 5.0, "rake": 90.0}}]}',
    "geojson": b'{"type": "FeatureCollection", "features": []}',
    "json": b'{\n  "depth": 4000}',
    "subfaults": b"Longitude,Latitude,Depth(km),Length,Width,Strike,Dip,Rake,Slip\n143.2,37.6,13,100,50,200,15,90,5\n",
    "dtopo": b"25 mx\n17 my\n1 mt\n140.0 xlower\n",
    "ascii_grid": b"NCOLS 3\nNROWS 2\nXLLCORNER 0\n",
    "xyz": b"140.25  37.25 -1251.5\n",
    "txyz": b"0.0 140.25  37.25 1.5\n",
    "surfer": b"DSAA\n3 2\n",
    "tiff": b"II*\x00\x08\x00\x00\x00",
    "grib": b"GRIB\x00\x00\x00\x02",
    "hdf4": b"\x0e\x03\x13\x01\x00",
    "owi": b"Oceanweather WIN/PRE Format          2020091000     2020091300",
    "hurdat2": b"AL192020,             TESTER,     13,\n20200910, 0000,  , HU, 22.0N, 80.0W,  45, 1000",
    "ibtracs_csv": b"SID,SEASON,NUMBER,BASIN\n ,Year, ,\n",
    "jma": b"66666 9119 150 0045 9119 0 6 MIRREILE 19920701\n",
    "atcf": b"AL, 19, 2020091000, 03, OFCL,   0, 220N,  800W,  45, 1000, HU",
    "coops_csv": b"Date Time, Water Level, Sigma, O or I (for verified), F, R, L, Quality \n",
    "coops_json": b'{"metadata": {"id": "1619910"}, "data": [{"t": "2011-03-11 05:48", "v": "0.412"}]}',
    "ioc": b"Time (UTC)\tprs(m)\n2011-03-11 05:46:00\t2.5\n",
    "ioc_json": b'[{"slevel": 2.5, "stime": "2011-03-11 05:46:00", "sensor": "prs"}]',
    "dart": b"#YY  MM DD hh mm ss T   HEIGHT\n#yr  mo dy hr mn  s -        m\n",
    "uhslc_csv": b"2011,3,11,5,1234\n2011,3,11,6,-32767\n",
    "uhslc_dat": b"001A Pohnpei            Fd St Micronesia    2011 06587N 158143E 0010 1 00010R MM\n",
    "sift": b"name,longitude_deg,latitude_deg,strike_deg,dip_deg,depth_km,length_km,width_km,rake_deg\n",
    "shapefile": b"\x00\x00\x27\x0a" + bytes(96),
    "image": b"\x89PNG\r\n\x1a\n\x00",
    "pdf": b"%PDF-1.7\n",
    "zip": b"PK\x03\x04\x14\x00",
    "compressed": b"\x1f\x8b\x08\x00",
    "numpy": b"\x93NUMPY\x01\x00",
    "matlab": b"MATLAB 5.0 MAT-file",
    "web_page": b"\n<!DOCTYPE html><html>",
    "utf16": "time_s,eta_m\n0,1\n".encode("utf-16"),
    "binary": b"\x01\x02\x00\x03",
    "text": b"time_s,eta_m\n0,1\n",
}
OF_NETCDF = {"netcdf", "netcdf_groups", "tpxo", "uhslc", "altimeter_tracks", "swot_l2", "ssha"}


def write_netcdf(path, *names, group=None):
    with netCDF4.Dataset(path, "w") as data:
        inner = data if group is None else data.createGroup(group)
        inner.createDimension("n", 2)
        for name in names:
            inner.createVariable(name, "f4", ("n",)).units = "millimeter"
    return path


def test_each_format_is_recognised_by_its_contents(tmp_path):
    for name, text in SAMPLES.items():
        (tmp_path / name).write_bytes(text)
    write_netcdf(tmp_path / "netcdf", "depth")
    write_netcdf(tmp_path / "tpxo", "hRe", "hIm")
    write_netcdf(tmp_path / "uhslc", "sea_level", "record_id")
    write_netcdf(tmp_path / "netcdf_groups", "U10", group="Main")
    write_netcdf(tmp_path / "altimeter_tracks", "latitude", "sla_filtered")
    write_netcdf(tmp_path / "swot_l2", "latitude", "ssha_karin", "ssh_karin")
    write_netcdf(tmp_path / "ssha", "time", "ssha_unfiltered", "latitude")
    assert {each.name for each in FORMATS} == SAMPLES.keys() | OF_NETCDF
    for each in FORMATS:
        assert format_of(tmp_path / each.name).name == each.name
    assert format_of(tmp_path / "netcdf_groups").words.endswith("in groups, Main")
    assert check_format(tmp_path / "absent", (), "") == ""
    whole = (tmp_path / "netcdf").read_bytes()
    (tmp_path / "damaged").write_bytes(whole[: len(whole) // 3])
    assert format_of(tmp_path / "damaged").name == "netcdf"


@pytest.mark.parametrize(
    "read, names, remedy",
    [
        (
            read_source,
            "dtopo txyz",
            "and not a slip model, or a CSV or TOML table of faults; file of .source. reads it",
        ),
        (lambda path: onto_grid(path, GRID), "dtopo", "give such a file"),
        (read_source, "image netcdf atcf", "or a CSV or TOML table of faults; give such a file"),
        (
            lambda path: onto_grid(path, GRID),
            "hdf4",
            "not a netCDF file, or another one of docs/guide/files.md; gdal_translate",
        ),
        (lambda path: onto_grid(path, GRID), "grib", "cdo -f nc copy"),
        (lambda path: onto_grid(path, GRID), "netcdf_groups", r"in groups, Main, and not one with variables.*ncks -G"),
        (
            lambda path: onto_grid(path, GRID),
            "srcmod text image zip",
            "not a netCDF file, or another one of docs/guide/files.md; give",
        ),
        (read_track, "image zip web_page", "not a track in ATCF, CSV, HURDAT2, IBTrACS or JMA's format; give such a"),
        (
            lambda path: onto_grid(path, GRID),
            "hurdat2 jma",
            "not a netCDF file, or another one of docs/guide/files.md; give",
        ),
        (
            lambda path: read_table(path, ["time_s"]),
            "image utf16 compressed",
            "not a CSV or netCDF file of observations",
        ),
        (lambda path: series(path).record(), "image tiff", "not a CSV or netCDF file of a series"),
        (lambda path: harmonic_constants(path, {"M2": ("hRe", "hIm")}, GRID), "tpxo", "give it as `atlas`"),
        (lambda path: harmonic_constants(path, ["M2"], GRID), "tpxo", "give it as `atlas`"),
    ],
)
def test_a_file_in_another_format_is_refused_by_name_with_a_remedy(tmp_path, read, names, remedy):
    for name in names.split():
        path = tmp_path / name
        path.write_bytes(SAMPLES.get(name, b""))
        if name in OF_NETCDF:
            names = ("hRe", "hIm") if name == "tpxo" else ("U10",)
            write_netcdf(path, *names, group="Main" if name == "netcdf_groups" else None)
        words = next(each.words for each in FORMATS if each.name == name).split("{")[0]
        with pytest.raises(DataError, match=remedy) as raised:
            read(path)
        assert str(raised.value).startswith(f"{path} is {words}") and "\n" not in str(raised.value)


def series(path):
    return RecordFile(file=path)


def test_a_series_in_csv_may_have_dates(tmp_path):
    path, start = tmp_path / "level.csv", datetime.datetime(2011, 3, 11, 6, 0, tzinfo=datetime.UTC)
    path.write_text("time,eta_m\n2011-03-11T05:30:00Z,0.1\n2011-03-11 06:00,0.2\n2011-03-11T15:30:00+09:00,0.4\n")
    record = series(path).record(start)
    assert record.times.tolist() == [-1800.0, 0.0, 1800.0] and record.values.tolist() == [0.1, 0.2, 0.4]
    assert series(path).record().times.tolist() == [0.0, 1800.0, 3600.0]
    for text, sentence in (
        ("2011-03-11,0.1\n86400,0.2\n", "line 3: '86400' in time is not a date, as others are"),
        ("0,0.1\n2011-03-11,0.2\n", "line 3: '2011-03-11' in time is a date where a number is needed; give seconds"),
        ("0,0.1\n60,\n", "line 3: eta_m is empty; leave the line out"),
    ):
        path.write_text("time,eta_m\n" + text)
        with pytest.raises(DataError, match=sentence):
            series(path).record()


def test_the_contents_of_a_file_count_and_not_the_end_of_its_name(tmp_path):
    data = xr.Dataset({"eta": ("time", [0.1, 0.2])}, coords={"time": ("time", [0.0, 60.0])})
    data.to_netcdf(tmp_path / "level.csv")
    assert series(tmp_path / "level.csv").record().times.tolist() == [0.0, 60.0]
    xr.Dataset({"time_s": ("n", [1.0, 2.0])}).to_netcdf(tmp_path / "A.csv")
    np.testing.assert_array_equal(read_table(tmp_path / "A.csv", ["time_s"])["time_s"], [1.0, 2.0])
