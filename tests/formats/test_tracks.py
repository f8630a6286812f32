"""Tracks as agencies write them are read to their values; damaged ones are refused by the name of their format."""

import datetime
import itertools

import numpy as np
import pytest
import xarray as xr

from swmodel.defaults import EARTH_RADIUS
from swmodel.errors import ConfigError, DataError
from swmodel.forcing.track_files import KNOT, MILE
from swmodel.forcing.tracks import cyclone_of, largest_winds, read_track
from swmodel.forcing.wind_laws import RELATIONS
from tests.formats import example
from tests.selection import now

RADII = ",".join(12 * ["   0"])
HURDAT2 = f"""\
AL092008,                IKE,      2,
20080901, 0600,  , TD, 17.2N,  37.0W,  30, 1006,{RADII},   90
20080901, 1240, L, TS, 17.3N,  38.4W,  35, -999,{RADII}, -999
AL102008,          JOSEPHINE,      2,
20080902, 1200,  , TS, 13.0N,  25.1W,  -99, 1004,{RADII}
20080902, 1800,  , TS, 13.2N,  26.0W,  45, 1000,{RADII}
"""
JMA = """\
66666 9119    2 0045 9119 0 6             MIRREILE              19920701
91092706 002 5 325 1293  935     095     30180 0140 30400 0260         #
91092712 002 5 338 1308  945     090
66666 2001    2 0001 2001 0 6             VONGFONG              20200701
20051206 002 2  88 1282 1006     000
20051212 002 3  89 1281 1000     035     00000 0000 90060 0060
"""
IBTRACS = """\
SID,SEASON,NUMBER,NAME,ISO_TIME,LAT,LON,WMO_WIND,WMO_PRES,USA_LAT,USA_LON,USA_WIND,USA_PRES,USA_RMW,TOKYO_LAT,TOKYO_LON,TOKYO_WIND,TOKYO_PRES
 ,Year, , , ,degrees_north,degrees_east,kts,mb,degrees_north,degrees_east,kts,mb,nmile,degrees_north,degrees_east,kts,mb
1991259N09148,1991,80,MIREILLE,1991-09-27 06:00:00,32.5,129.3,95,935,32.4,129.2,100, ,20,32.5,129.3,95,935
1991259N09148,1991,80,MIREILLE,1991-09-27 12:00:00,33.8,130.8,90,945,33.9,130.9,95,940, ,33.8,130.8,90,945
1992001N00000,1992,1,AXEL,1992-01-05 00:00:00,6.0,170.0, , ,6.0,170.0,45,991, , , , ,
"""


@pytest.fixture
def read(tmp_path):
    def read(text, *options, **more):
        (tmp_path / "storm.txt").write_text(text)
        return read_track(tmp_path / "storm.txt", *options, **more)

    return read


def test_a_storm_of_hurdat2_is_read_by_its_identifier_or_name(read):
    track = read(HURDAT2, "josephine")
    assert track.moments == (datetime.datetime(2008, 9, 2, 12), datetime.datetime(2008, 9, 2, 18))
    np.testing.assert_allclose((track.longitude, track.latitude), ([-25.1, -26.0], [13.0, 13.2]))
    np.testing.assert_allclose(track.pressure, [100400.0, 100000.0])
    np.testing.assert_allclose(track.wind, [np.nan, 45 * KNOT])
    assert track.remarks[0] == "HURDAT2, AL102008 JOSEPHINE" and "2 radii of maximum wind by" in track.remarks[-1]
    track = read(HURDAT2, "AL092008", wind_pressure="atkinson_holliday_1977")
    assert track.moments[1] == datetime.datetime(2008, 9, 1, 12, 40) and track.radius[0] == 90 * MILE
    np.testing.assert_allclose(track.pressure, [100600.0, 100.0 * (1010 - (35 / 6.7) ** (1 / 0.644))])
    assert "1 pressures by atkinson_holliday_1977" in track.remarks


def test_a_storm_of_atcf_that_lasts_into_a_new_year_is_one(read):
    """As Zeta in 2005; number 30 of the next season is another storm."""
    dates = ("2005123018", "2005123100", "2006010100", "2006010106", "2006092000", "2006092006")
    lines = (f"AL, 30, {date}, , BEST, 0, {240 + k}N, {360 + k}W, 45, 1000" for k, date in enumerate(dates))
    text = "\n".join(lines)
    track = read(text, "AL302005")
    assert track.moments[0] == datetime.datetime(2005, 12, 30, 18) and len(track.moments) == 4
    assert track.moments[-1] == datetime.datetime(2006, 1, 1, 6) and "of AL302005" in track.remarks[0]
    assert len(read(text, "AL302006").moments) == 2


def test_a_storm_of_jma_is_read_by_its_number_or_name_in_either_century(read):
    for storm in ("9119", "Mirreile"):
        track = read(JMA, storm)
        assert track.moments[0] == datetime.datetime(1991, 9, 27, 6)
        np.testing.assert_allclose((track.longitude, track.latitude), ([129.3, 130.8], [32.5, 33.8]))
        np.testing.assert_allclose(track.pressure, [93500.0, 94500.0])
        np.testing.assert_allclose(track.wind, [95 * KNOT, 90 * KNOT])
    track = read(JMA, "2001")
    assert track.moments[0].year == 2020 and np.isnan(track.wind[0])
    assert "winds of 10 min" in track.remarks


def test_an_agency_of_ibtracs_is_chosen_in_csv_and_netcdf(read, tmp_path):
    usa, tokyo = (read(IBTRACS, "MIREILLE", agency) for agency in (None, "tokyo"))
    np.testing.assert_allclose(usa.pressure, [93500.0, 94000.0])  # that of the WMO where the first is blank
    np.testing.assert_allclose(usa.longitude, [129.3, 130.8])
    np.testing.assert_allclose(usa.wind, [100 * KNOT, 95 * KNOT])
    assert usa.radius[0] == 20 * MILE and tokyo.radius[0] != 20 * MILE
    np.testing.assert_allclose(tokyo.pressure, [93500.0, 94500.0])
    np.testing.assert_allclose(tokyo.longitude, [129.3, 130.8])
    assert "agency tokyo" in tokyo.remarks and "winds of 10 min" in tokyo.remarks
    lines = {"pres": tokyo.pressure / 100, "wind": tokyo.wind / KNOT, "lon": tokyo.longitude, "lat": tokyo.latitude}
    data = xr.Dataset({f"tokyo_{name}": ("date_time", values) for name, values in lines.items()})
    data = data.assign(time=("date_time", np.array(tokyo.moments, "datetime64[ns]")))
    data.to_netcdf(tmp_path / "storm.nc")
    same = read_track(tmp_path / "storm.nc", agency="tokyo")
    for name in ("longitude", "latitude", "pressure", "wind", "radius"):
        np.testing.assert_allclose(getattr(same, name), getattr(tokyo, name))
    with pytest.raises(DataError, match="IBTrACS: there is no agency 'bom'; it has tokyo."):
        read_track(tmp_path / "storm.nc", agency="bom")


@pytest.mark.parametrize("name", RELATIONS)
def test_a_vortex_with_a_pressure_by_a_relation_has_the_wind_of_its_track(read, name):
    """A forecast has winds and no pressures; B then follows from both, as for a best track."""
    winds = (40, 60, 90, 110)
    text = "\n".join(
        f"AL, 09, 2008090100, 03, OFCL, {12 * k:3d}, {220 + 10 * k}N,  {800 + 20 * k}W, {wind}, 0, HU"
        for k, wind in enumerate(winds)
    )
    track = read(text, wind_pressure=name)
    assert (np.diff(track.pressure) < 0).all() and 88000.0 < track.pressure[-1] < 96000.0
    storm = cyclone_of(track, track.moments[0], 36 * 3600.0)
    np.testing.assert_allclose(largest_winds(storm)[1:], track.wind[1:], rtol=1e-6)
    assert track.remarks[0] == "ATCF, forecast of OFCL of AL092008" and f"4 pressures by {name}" in track.remarks
    with pytest.raises(DataError, match="4 of 4 points have no central pressure.*or wind_pressure = 'atkinson"):
        read(text)


def test_pressures_by_a_relation_are_the_same_on_both_sides_of_the_date_line(read):
    """The relation of 2008 takes the speed of the centre, of which a step from 179 E to 179 W is no exception."""
    at = {"far": ("1770W", "1775W", "1780W", "1785W"), "across": ("1790E", "1795E", "1800E", "1795W")}
    pressures = {
        name: read(
            "\n".join(
                f"CP, 09, 2008090100, 03, OFCL, {12 * k:3d}, 220N, {place}, 60, 0, HU" for k, place in enumerate(places)
            ),
            wind_pressure="holland_2008",
        ).pressure
        for name, places in at.items()
    }
    np.testing.assert_allclose(pressures["across"], pressures["far"], rtol=1e-12)


def test_the_relation_of_2008_is_its_own_equation():
    pressure = RELATIONS["holland_2008"](50.0, 20.0, 5.0, 101300.0)
    deficit = (101300.0 - pressure) / 100.0
    b = -4.4e-5 * deficit**2 + 0.01 * deficit - 0.28 + 0.15 * 5.0 ** (0.6 * (1 - deficit / 215)) + 1.0
    assert np.sqrt(b * 100 * deficit / (1.22 * np.e)) == pytest.approx(50.0, rel=1e-4)


@pytest.mark.parametrize(
    "text, options, sentence",
    [
        (HURDAT2.replace("      2,", "      3,", 1), ("IKE",), "AL092008 of HURDAT2 has fewer than its 3 lines"),
        (HURDAT2, (), "holds 2 storms, AL092008, AL102008; name one of them"),
        (HURDAT2, ("IKE", "tokyo"), "has the analysis of one agency; leave agency = 'tokyo' out"),
        (JMA, ("9999",), "has no storm '9999'; it has 9119, 2001"),
        (IBTRACS, ("MIREILLE", "bom"), "IBTrACS: there is no agency 'bom'; it has tokyo, usa, wmo"),
        (
            IBTRACS.replace(",kts,mb,nmile", ",kts,Pa,nmile"),
            ("AXEL",),
            "USA_PRES .*'Pa', and must be in 'hPa'; convert",
        ),
        (IBTRACS.replace(",kts,mb,nmile", ",kts,mb,km"), ("AXEL",), "USA_RMW .*'km', and must be in 'nmile'; convert"),
        (IBTRACS.replace(", ,degrees_north,degrees_east", ", ,radian,degrees_east"), ("AXEL",), "LAT .*in 'degree'"),
        (IBTRACS.replace("degrees_east,kts", "arcmin,kts"), ("AXEL",), "LON .*'arcmin', and must be in 'degree'"),
        (IBTRACS.replace(",95,935,32.4", ",x,935,32.4"), ("MIREILLE",), "holds no track that can be read .*'x'"),
    ],
)
def test_a_damaged_file_or_a_wrong_choice_is_refused(read, text, options, sentence):
    with pytest.raises(DataError, match=sentence):
        read(text, *options)


def test_an_unknown_relation_is_refused(read):
    with pytest.raises(ConfigError, match="wind_pressure = 'dvorak' is unknown; give 'atkinson_holliday_1977' or"):
        read(JMA, "9119", wind_pressure="dvorak")


# -- radii of winds in quadrants ---------------------------------------------------------------------------------------

MILES = {34: (130.0, 110.0, 70.0, 100.0), 50: (60.0, 50.0, 0.0, 40.0), 64: (35.0, 30.0, 0.0, 25.0)}  # NE, SE, SW, NW
HOURS, EVERY = (0, 6, 12), ", ".join(f"{mile:.0f}" for row in MILES.values() for mile in row)


def of_hurdat2(hour):
    place = f"{20 + 0.1 * hour:.1f}N,  {60 + 0.2 * hour:.1f}W"
    return f"20080901, {hour:02d}00,  , HU, {place},  80,  960, {EVERY}, 20\n"


def of_atcf(hour, knots, code, turn):
    """A line for each wind, whose code names the first of the four quadrants."""
    place = f"20080901{hour:02d},   , BEST,   0, {200 + hour}N,  {600 + 2 * hour}W"
    miles = ", ".join(f"{mile:4.0f}" for mile in np.roll(MILES[knots], -turn))
    return f"AL, 09, {place},  80,  960, HU, {knots:3d}, {code}, {miles}, 1012,  250,  20,\n"


FIRST = {34: ("NEQ", 0), 50: ("SEQ", 1), 64: ("NEQ", 0)}
QUADRANTS = {
    "HURDAT2": "AL092008, IKE, 3,\n" + "".join(map(of_hurdat2, HOURS)),
    "ATCF": "".join(of_atcf(hour, knots, *FIRST[knots]) for hour in HOURS for knots in MILES),
}
COLUMNS = [f"USA_R{knots}_{q}" for knots in MILES for q in ("NE", "SE", "SW", "NW")]
QUADRANTS["IBTrACS"] = (
    f"SID,SEASON,NUMBER,NAME,ISO_TIME,LAT,LON,USA_LAT,USA_LON,USA_WIND,USA_PRES,USA_RMW,{','.join(COLUMNS)}\n"
    f" ,Year, , , ,degrees_north,degrees_east,degrees_north,degrees_east,kts,mb,nmile,{','.join(12 * ['nmile'])}\n"
    + "".join(
        f"2008245N17323,2008,1,IKE,2008-09-01 {hour:02d}:00:00,{20 + 0.1 * hour},{-60 - 0.2 * hour},{20 + 0.1 * hour},"
        f"{-60 - 0.2 * hour},80,960,20,{EVERY.replace(' ', '')}\n"
        for hour in HOURS
    )
)


PAIRS = list(itertools.product(QUADRANTS, ("holland_1980", "holland_2010")))


@pytest.mark.parametrize("name, profile", now(PAIRS, PAIRS[0], PAIRS[3], PAIRS[4]))
def test_the_vortex_has_all_winds_of_each_quadrant_at_their_radii(read, name, profile):
    """34, 50 and 64 kt in three quadrants, and 34 kt in the south-west, where there are no stronger ones."""
    track = read(QUADRANTS[name])
    wanted = MILE * np.array(list(MILES.values()))
    np.testing.assert_allclose(track.radii, np.broadcast_to(wanted, (3, 3, 4)), rtol=1e-6)
    assert "radii of winds in quadrants at 3 points" in track.remarks
    storm = cyclone_of(track, track.moments[0], 12 * 3600.0, 0.93, quadrants=True, profile=profile)
    assert np.ptp(storm.asymmetry, axis=1).min() > 0.1
    degree = np.deg2rad(EARTH_RADIUS)
    for (knots, miles), (k, (east, north)) in itertools.product(
        MILES.items(), enumerate(((1, 1), (1, -1), (-1, -1), (-1, 1)))
    ):
        if not miles[k]:
            continue
        away = np.sqrt(0.5) * MILE * miles[k]
        y = 20.6 + north * away / degree
        x = -61.2 + east * away / (degree * np.cos(np.deg2rad(y)))
        wind = np.hypot(*storm.wind_at(np.full((1, 1), x), np.full((1, 1), y), 6 * 3600.0))
        assert wind[0, 0] == pytest.approx(0.93 * knots * KNOT, rel=2e-3), (knots, k)
    alone = cyclone_of(track, track.moments[0], 12 * 3600.0, 0.93, profile=profile)
    assert alone.asymmetry is None
    np.testing.assert_allclose(largest_winds(storm), largest_winds(alone))


def test_points_and_quadrants_without_radii_are_symmetric_or_take_the_smallest_of_the_others(read):
    calm = QUADRANTS["HURDAT2"].replace("35, 30, 0, 25", "0, 0, 0, 0").replace("60, 50, 0, 40", "0, 0, 0, 0")
    first, *rest = calm.split("\n")
    rest[0] = rest[0].replace("130, 110, 70, 100", "0, 0, 0, 0")
    rest[1] = rest[1].replace("130, 110, 70, 100", "130, 110, 0, -999")
    storm = cyclone_of(track := read("\n".join([first, *rest])), datetime.datetime(2008, 9, 1), 3600.0, quadrants=True)
    shares = np.array(storm.asymmetry)
    np.testing.assert_allclose(shares[0], 1.0)
    np.testing.assert_allclose(shares[1, 2:4], shares[1, :2].min())
    np.testing.assert_allclose(shares[1], np.tile(shares[1, :4], 3))  # of 34 kt alone
    assert "radii of winds in quadrants at 2 points" in track.remarks
    wide = read(QUADRANTS["HURDAT2"].replace("60, 50, 0, 40", "135, 50, 0, 40", 1))  # 50 kt beyond 34 kt
    assert "1 radii of winds left out, beyond those of weaker winds" in wide.remarks
    assert np.isnan(wide.radii).sum() == 1 and np.isnan(wide.radii[0, 1, 0])
    with pytest.raises(DataError, match="the track has no radii of winds in quadrants; give HURDAT2 since 2004"):
        cyclone_of(read(JMA, "9119"), datetime.datetime(1991, 9, 27, 6), 3600.0, quadrants=True)
    with pytest.raises(ConfigError, match="asymmetry = .* is not a table of four numbers from 0.1 to 10"):
        cyclone_of(track, datetime.datetime(2008, 9, 1), 3600.0, asymmetry=[[1.0, 1.0]])


# -- examples ----------------------------------------------------------------------------------------------------------


def of_folder(text, options, longitude, damaged):
    def check(folder):
        path = folder / "storm.txt"
        path.write_text(text)
        assert read_track(path, *options).longitude[0] == pytest.approx(longitude)
        for changed, sentence in damaged:
            path.write_text(changed)
            yield lambda: read_track(path, *options), sentence

    return check


ATCF = """\
AL, 09, 2008090106,   , BEST,   0, 172N,  370W,  30, 1006, TD,   0,    ,    0,    0,    0,    0, 1012,  250,  90,
AL, 09, 2008090112,   , BEST,   0, 173N,  384W,  35, 1005, TS,  34, NEQ,   90,    0,    0,   90, 1012,  250,   0,
"""
example("HURDAT2")(
    of_folder(
        HURDAT2, ("IKE", None, "holland_2008"), -37.0, [(HURDAT2.replace("17.2N", "17.2"), "HURDAT2 does not end in N")]
    )
)
example("best tracks of JMA")(
    of_folder(
        JMA, ("9119",), 129.3, [(JMA.replace("9119    2", "9119    5"), "JMA's best tracks has fewer than its 5")]
    )
)
example("IBTrACS, CSV")(
    of_folder(
        IBTRACS,
        ("MIREILLE", "tokyo"),
        129.3,
        [
            (IBTRACS.replace(",kts,mb,nmile", ",m/s,mb,nmile"), "USA_WIND in .* is in 'm/s'"),
            (IBTRACS.replace(",TOKYO_PRES", ",X"), "IBTrACS: there is no agency 'tokyo'; it has usa, wmo"),
        ],
    )
)
example("ATCF")(of_folder(ATCF, (), -37.0, [(ATCF.replace("172N", "17.2N"), "is not a number of tenths of degrees")]))


@example("IBTrACS, netCDF")
def ibtracs_netcdf(folder):
    """Storms along `storm`, positions of each along `date_time`, and an agency's own columns."""
    path, columns = folder / "ibtracs.nc", {"pres": ("mb", 950.0), "wind": ("kts", 80.0)}
    axes = {"lon": ("degrees_east", 130.0), "lat": ("degrees_north", 30.0)}
    moments = np.array([["2019-10-12T06", "2019-10-12T12"]] * 2, "datetime64[ns]")

    def write(units, first="LEKIMA"):
        data = xr.Dataset({"sid": ("storm", ["A", "B"]), "name": ("storm", [first, "HAGIBIS"])})
        for name, (stated, value) in (axes | columns).items():
            values = np.add.outer([0.0, 1.0], value + np.arange(2.0))
            data[f"tokyo_{name}"] = ("storm", "date_time"), values, {"units": units.get(name, stated)}
        data.assign(time=(("storm", "date_time"), moments)).to_netcdf(path)
        return path

    track = read_track(write({}), "HAGIBIS", "tokyo")
    np.testing.assert_allclose(track.longitude, [131.0, 132.0])
    np.testing.assert_allclose(track.pressure, [95100.0, 95200.0])
    yield lambda: read_track(path, None, "tokyo"), "2 storms, A, B; name one"
    yield lambda: read_track(path, "HAGIBIS", "bom"), "there is no agency 'bom'"
    yield lambda: read_track(path, "FAXAI", "tokyo"), "FAXAI"
    write({}, "HAGIBIS")
    yield lambda: read_track(path, "hagibis", "tokyo"), "2 storms are called 'hagibis'; give an identifier, as 'A'"
    write({"wind": "m/h"})
    yield lambda: read_track(path, "HAGIBIS", "tokyo"), "tokyo_wind in .* is in 'm/h'"
