"""The M2 tide of the world ocean, by experiments/global_tide at half a degree (ten minutes) and at 15' (half an hour).

Global tides from a potential alone, with a drag by internal waves: Arbic et al. (2004), doi:10.1016/j.dsr2.2004.09.014.
Power: 2.4 TW for M2, Egbert & Ray (2000), doi:10.1038/35015531.
"""

from collections.abc import Callable

from swmodel.verification import Case, Mark, Outcome
from tests.verification.experiments import scores

STEADY = ('run.until="35 day"', 'output.harmonics.begin="28 day"')  # after 15 days the tide is not steady enough
QUARTER = ("grid.nx=1440", "grid.ny=656")


def measure(_: tuple = ()) -> Outcome:
    """The power and the error of M2 at half a degree."""
    found = scores("global_tide", "run", "global_tide.toml", "harmonics.nc", hours=3, changes=STEADY)
    figures = {"global_m2_terawatts": found["m2_terawatts"], "global_m2_error_30": found["error_open_ocean"]}
    return Outcome(figures | {"global_m2_budget": found["m2_budget"]})


def measure_15(_: tuple = ()) -> Outcome:
    """The power and the error of M2 at 15'."""
    found = scores("global_tide", "run", "global_tide.toml", "harmonics.nc", hours=6, changes=QUARTER)
    return Outcome({"global_m2_terawatts_15": found["m2_terawatts"], "global_m2_error_15": found["error_open_ocean"]})


def declare(
    name: str, cells: str, largest_error: float, power: str, error: str, measured: Callable, *more: Mark
) -> Case:
    """The Case of cells of one size.

    Args:
        name: of the case. cells: their size, as "30'".
        largest_error: the mark of the error [cm].
        power, error: the names of the two figures.
        measured: the function that returns them.
        more: further marks.
    """
    return Case(
        name=name,
        group="tides",
        title=f"M2 of the world ocean at {cells}",
        tests="tidal potential, self-attraction and internal-wave drag together",
        source="Arbic et al. (2004)",
        doi="10.1016/j.dsr2.2004.09.014",
        equation="power of the potential: 2.4 TW, Egbert and Ray (2000), doi:10.1038/35015531",
        measure=measured,
        marks=(
            Mark(
                power,
                "power that the potential of M2 puts into the ocean [TW], at a nodal factor of 1",
                most=2.8,
                least=2.0,
            ),
            Mark(error, f"r.m.s. vector error of M2 at gauges of oceanic islands [cm], at {cells}", most=largest_error),
            *more,
        ),
    )


BUDGET = Mark("global_m2_budget", "power that both drags take over that of the potential, less 1 [1]", most=1e-3)
declare("global_tide", "30'", 20.0, "global_m2_terawatts", "global_m2_error_30", measure, BUDGET)
declare("global_tide_15", "15'", 15.0, "global_m2_terawatts_15", "global_m2_error_15", measure_15)
