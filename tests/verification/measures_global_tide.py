"""The M2 tide of the world ocean, by experiments/global_tide at half a degree: minutes on two cores.

Global tides from a potential alone, with a drag by internal waves: Arbic et al. (2004), doi:10.1016/j.dsr2.2004.09.014.
Power: 2.4 TW for M2, Egbert & Ray (2000), doi:10.1038/35015531.
"""

from swmodel.verification import Case, Mark, Outcome
from tests.verification.experiments import scores


def measure(_: tuple = ()) -> Outcome:
    """The power and the error of M2."""
    found = scores("global_tide", "run", "global_tide.toml", "harmonics.nc", hours=3)
    return Outcome({"global_m2_terawatts": found["m2_terawatts"], "global_m2_error_30": found["error_open_ocean"]})


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
        Mark("global_m2_terawatts", "power that the potential of M2 puts into the ocean [TW]"),
        Mark("global_m2_error_30", "r.m.s. vector error of M2 at gauges of oceanic islands [cm], at 30'"),
    ),
)
