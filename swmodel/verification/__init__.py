"""The published suite: cases with known answers, from papers, and the marks that the model has to reach.

    case.py    what a case declares, its figure; errors, orders of convergence, the dot-product test
    suite.py   finds, runs and prints cases, and writes them as one HTML file
    all other modules hold the cases, and exact_flows.py solutions for those of coasts

`swmodel verify` runs them; docs/developers/verification.md describes them.
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
