"""The M2 tide of the north-west European shelf, by the inversion of experiments/northwest_europe: over an hour.

The gauges that the inversion does not use judge it. Their amplitudes and phase lags are those of TICON-4 (Hart-Davis et
al. 2022, doi:10.1002/gdj3.165).
"""

from swmodel.verification import Case, Mark, Outcome
from tests.verification.experiments import scores


def measure(_: tuple = ()) -> Outcome:
    """The errors of M2 at the gauges that are left out, of the first guess and of the analysis."""
    found = scores("northwest_europe", "invert", "inversion.toml", "inversion.nc", hours=6)
    return Outcome(
        {
            "shelf_m2_error_first_guess": found["error_left_out_first_guess"],
            "shelf_m2_share_first_guess": found["share_left_out_first_guess"],
            "shelf_m2_error": found["error_left_out_analysis"],
            "shelf_m2_share": found["share_left_out_analysis"],
            "shelf_m2_error_at_sea": found["error_at_sea_analysis"],
            "shelf_m2_within_expected": found["within_1_left_out"],
            "shelf_m2_within_twice_expected": found["within_2_left_out"],
        }
    )


Case(
    name="shelf_tide",
    group="tides",
    title="M2 of the north-west European shelf, from depths and public gauges",
    tests="4D-Var of the tide at open sides, of the drag and of the depth, from harmonic constants",
    source="TICON-4 (Hart-Davis et al. 2022)",
    doi="10.1002/gdj3.165",
    equation="|A exp(-i g) - A' exp(-i g')| at the gauges that are left out",
    measure=measure,
    marks=(
        Mark("shelf_m2_error_first_guess", "median vector error of the first guess at gauges left out [cm]"),
        Mark("shelf_m2_share_first_guess", "the same as a share of the amplitude [%]"),
        Mark("shelf_m2_error", "median vector error of the analysis at gauges left out [cm]", most=15.0),
        Mark("shelf_m2_share", "the same as a share of the amplitude [%]", most=12.0),
        Mark("shelf_m2_error_at_sea", "median vector error of the analysis at those outside of rivers [cm]"),
        Mark("shelf_m2_within_expected", "share of the gauges left out with at most the expected error [%]"),
        Mark("shelf_m2_within_twice_expected", "share of them with at most twice the expected error [%]"),
    ),
)
