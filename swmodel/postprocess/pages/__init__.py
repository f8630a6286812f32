"""One self-contained HTML page of a run, for any browser and without a network: `swmodel report` and `swmodel view`.

report    the files that a page shows, and the page around its sections
sections  the sections
frames    the records of a field as images for a slider, within a number of bytes
markup    HTML in which all text is escaped
drawings  figures as SVG that take the colours of the page, light or dark
facts     properties of the run from its files: grid, time step, timing, scores
page.*    the page's frame, style and script
"""

from .report import report

__all__ = ["report"]
