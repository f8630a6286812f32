"""The suite as one HTML file, with its figures, which needs no network."""

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path

from ..runtime.version import VERSION
from .suite import Scores, shown, summary

STYLE = """
:root { color-scheme: light dark; --line: #8886; --pass: #2e7d32; --fail: #c62828; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem; font-size: 0.92rem; }
th, td { text-align: left; padding: 0.3rem 0.7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
code, .equation { font-family: ui-monospace, monospace; font-size: 0.9em; }
.equation { display: block; padding: 0.4rem 0.8rem; border-left: 3px solid var(--line); overflow-x: auto; }
.pass { color: var(--pass); font-weight: 600; } .fail { color: var(--fail); font-weight: 600; }
img { max-width: 100%; background: white; border-radius: 4px; }
section { margin-top: 2.5rem; }
"""
VERDICTS = {True: '<span class="pass">pass</span>', False: '<span class="fail">fail</span>', None: ""}


def write_page(found: Sequence[Scores], file: Path) -> None:
    """Write `page(found)` to a file."""
    file.write_text(page(found), encoding="utf-8")


def page(found: Sequence[Scores]) -> str:
    """The page as text: an overview, then each case with its equation, marks and figure."""
    overview = "".join(_overview_row(scores) for scores in found)
    sections = "".join(_section(scores) for scores in found)
    short = " These are short forms at lower resolutions, where some ranges are wider." if _any_quick(found) else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Verification of swmodel {VERSION}</title><style>{STYLE}</style></head><body>"
        f"<h1>Verification of swmodel {VERSION}</h1><p>{html.escape(summary(found))}{short} "
        "Made by <code>swmodel verify --html</code>, in double precision.</p>"
        "<table><thead><tr><th>case</th><th>what it tests</th><th>source</th><th>main mark</th><th>value</th><th></th>"
        f"</tr></thead><tbody>{overview}</tbody></table>{sections}</body></html>\n"
    )


def _any_quick(found):
    return any(scores.quick for scores in found)


def _overview_row(scores):
    case = scores.case
    mark, value = _main_mark(scores.verdicts)
    return (
        f'<tr><td><a href="#{case.name}">{html.escape(case.title)}</a></td><td>{html.escape(case.tests)}</td>'
        f'<td>{html.escape(case.source)}</td><td><code>{mark}</code></td><td class="number">{value}</td>'
        f"<td>{VERDICTS[scores.passed]}</td></tr>"
    )


def _main_mark(verdicts):
    """(name, value) of the first mark that is missed; otherwise of the first one with a range, or of the first one."""
    rank = {False: 0, True: 1, None: 2}
    first = min(verdicts, key=lambda verdict: rank[verdict[2]], default=None)
    return ("", "") if first is None else (first[0].name, shown(first[1]))


def _section(scores):
    case = scores.case
    used = case.quick if scores.quick else case.resolutions
    facts = [
        ("source", _source(case)),
        ("resolutions", html.escape(", ".join(str(n) for n in used))),
        ("norm", html.escape(case.norm)),
        ("time", f"{scores.seconds:.0f} s"),
    ]
    listed = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in facts if text)
    failure = f'<p class="fail">{html.escape(scores.failure)}</p>' if scores.failure else ""
    return (
        f'<section id="{case.name}"><h2>{html.escape(case.title)}</h2><p>It tests {html.escape(case.tests)}.</p>'
        f'<span class="equation">{html.escape(case.equation)}</span><table>{listed}</table>{failure}'
        f"{_marks(scores)}{_figure(scores)}</section>"
    )


def _source(case):
    if not case.doi:
        return html.escape(case.source)
    return (
        f'{html.escape(case.source)}, <a href="https://doi.org/{html.escape(case.doi)}">doi:{html.escape(case.doi)}</a>'
    )


def _marks(scores):
    rows = "".join(
        f"<tr><td><code>{mark.name}</code></td><td>{html.escape(mark.meaning)}</td>"
        f'<td class="number">{shown(value)}</td>'
        f'<td class="number">{html.escape(mark.limits(scores.quick)) if passed is not None else ""}</td>'
        f"<td>{VERDICTS[passed]}</td>"
        f"<td>{html.escape(mark.published)}</td></tr>"
        for mark, value, passed in scores.verdicts
    )
    head = "".join(f"<th>{name}</th>" for name in ("mark", "meaning", "value", "wanted", "", "published"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""


def _figure(scores):
    """The case's figure as an image within the page; nothing for a case without panels."""
    if not scores.panels:
        return ""
    from .figures import draw

    file = io.BytesIO()
    draw(scores.panels).savefig(file, format="png", dpi=110)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(scores.case.title)}" src="data:image/png;base64,{data}">'
