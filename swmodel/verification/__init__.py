"""The published suite: cases with known answers, from papers, and the marks that the model has to reach.

    case.py    what a case declares; errors, orders of convergence, the dot-product test
    suite.py   finds, runs and prints cases; page.py writes them as one HTML file, figures.py draws them
    planar/  sphere/  tides/  coasts/  nests/   the cases

`swmodel verify` runs them; docs/verification.md describes them.
"""

from .case import CASES, Case, Mark, Outcome, Panel, Twin
from .suite import Scores, UnknownCase, all_cases, select, verify

__all__ = [
    "CASES",
    "Case",
    "Mark",
    "Outcome",
    "Panel",
    "Scores",
    "Twin",
    "UnknownCase",
    "all_cases",
    "select",
    "verify",
]
