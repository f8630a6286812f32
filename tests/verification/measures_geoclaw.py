"""The marks of Hurricane Ike beside GeoClaw (benchmarks/geoclaw/compare.py), where CLAW names a Clawpack."""

from swmodel.verification import Case, Mark, Outcome

from ..scripts import script


def ike() -> Outcome:
    """The ratio of the highest elevations, of the place on the coast where it is farthest from 1."""
    compare = script("benchmarks/geoclaw/compare.py")
    places, figures = compare.compared()
    ratios = [ours / theirs for ours, theirs in places.values() if ours > compare.LOWEST]
    worst = max(ratios, key=lambda ratio: abs(ratio - 1.0))
    return Outcome({"ike_maximum_ratio": worst, "ike_median_ratio": figures["median"]})


Case(
    name="ike_geoclaw",
    group="forcing",
    title="Hurricane Ike beside GeoClaw",
    tests="the vortex, the wind stress, the surge on a shelf",
    source="Mandli & Dawson (2014)",
    doi="10.1016/j.ocemod.2014.01.002",
    equation="the same grid, depth, track, vortex and drag law in both models",
    measure=lambda _: ike(),
    marks=(
        Mark(
            "ike_maximum_ratio", "highest elevation over GeoClaw's, at the worst place above 1 m", least=0.9, most=1.1
        ),
        Mark("ike_median_ratio", "the same, median of all cells above 1 m", least=0.9, most=1.1),
    ),
)
