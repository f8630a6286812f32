"""The M2 tide of the world ocean, by experiments/global_tide at half a degree (minutes) and at 15' (half an hour).

Global tides from a potential alone, with a drag by internal waves: Arbic et al. (2004), doi:10.1016/j.dsr2.2004.09.014.
Power: 2.4 TW for M2, Egbert & Ray (2000), doi:10.1038/35015531.
"""

from swmodel.verification import Case, Mark, Outcome
from tests.verification.experiments import scores

QUARTER = ("grid.nx=1440", "grid.ny=656")


def measure(_: tuple = ()) -> Outcome:
    """The power and the error of M2 at half a degree."""
    found = scores("global_tide", "run", "global_tide.toml", "harmonics.nc", hours=3)
    return Outcome({"global_m2_terawatts": found["m2_terawatts"], "global_m2_error_30": found["error_open_ocean"]})


def measure_15(_: tuple = ()) -> Outcome:
    """The power and the error of M2 at 15'."""
    found = scores("global_tide", "run", "global_tide.toml", "harmonics.nc", hours=6, changes=QUARTER)
    return Outcome({"global_m2_terawatts_15": found["m2_terawatts"], "global_m2_error_15": found["error_open_ocean"]})


Case(
    name="global_tide",
    group="tides",
    title="M2 of the world ocean",
    tests="tidal potential, self-attraction and internal-wave drag together",
    source="Arbic et al. (2004)",
    doi="10.1016/j.dsr2.2004.09.014",
    equation="power of the potential: 2.4 TW, Egbert and Ray (2000), doi:10.1038/35015531",
    measure=measure,
    marks=(
        Mark("global_m2_terawatts", "power that the potential of M2 puts into the ocean [TW]", most=2.8, least=2.0),
        Mark("global_m2_error_30", "r.m.s. vector error of M2 at gauges of oceanic islands [cm], at 30'", most=20.0),
    ),
)
Case(
    name="global_tide_15",
    group="tides",
    title="M2 of the world ocean at 15'",
    tests="the same at twice the resolution",
    source="Arbic et al. (2004)",
    doi="10.1016/j.dsr2.2004.09.014",
    equation="power of the potential: 2.4 TW, Egbert and Ray (2000), doi:10.1038/35015531",
    measure=measure_15,
    marks=(
        Mark("global_m2_terawatts_15", "power that the potential of M2 puts into the ocean [TW]", most=2.8, least=2.0),
        Mark("global_m2_error_15", "r.m.s. vector error of M2 at gauges of oceanic islands [cm], at 15'", most=15.0),
    ),
)
