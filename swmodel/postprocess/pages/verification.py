"""The page of `swmodel verify --html`: an overview, then each case with its equation, its marks and its figure."""

from collections.abc import Sequence

from ...runtime.version import VERSION
from ...verification.case import draw
from ...verification.suite import Scores, shown, summary
from .frame import Markup, Section, as_figure, as_image, as_table, filled, joined, markup

VERDICTS = {
    True: Markup('<span class="pass">pass</span>'),
    False: Markup('<span class="fail">fail</span>'),
    None: Markup(""),
}


def verification_page(cases: Sequence[Scores]) -> str:
    """The page as text, which needs no other file."""
    heads = "case", "what it tests", "source", "main mark", "value", ""
    overview = Section("overview", "Overview", as_table(heads, map(_overview, cases), "words"))
    sections = [overview, *(Section(s.case.name, s.case.title, _body(s)) for s in cases)]
    short = " These are short forms at lower resolutions, where some ranges are wider."
    lead = f"{summary(cases)}{short if any(scores.quick for scores in cases) else ''} In double precision."
    return filled("Verification", lead, f"swmodel {VERSION}", sections, "swmodel verify --html")


def _overview(scores):
    """The case with its main mark: the first that is missed; else the first one with a range, or the first one."""
    case, rank = scores.case, {False: 0, True: 1, None: 2}
    first = min(scores.verdicts, key=lambda verdict: rank[verdict[2]], default=None)
    mark, value = ("", "") if first is None else (first[0].name, shown(first[1]))
    title = markup('<a href="#{}">{}</a>', case.name, case.title)
    return title, case.tests, case.source, markup("<code>{}</code>", mark), value, VERDICTS[scores.passed]


def _body(scores):
    case = scores.case
    doi = markup(', <a href="https://doi.org/{0}">doi:{0}</a>', case.doi) if case.doi else ""
    facts = {
        "source": markup("{}{}", case.source, doi),
        "resolutions": scores.resolutions,
        "norm": case.norm,
        "time": f"{scores.seconds:.0f} s",
    }
    listed = joined(markup("<dt>{}</dt><dd>{}</dd>", name, text) for name, text in facts.items() if text)
    failure = markup('<p class="fail">{}</p>', scores.failure) if scores.failure else ""
    form = "<p>It tests {}.</p><pre>{}</pre><dl>{}</dl>{}{}{}"
    return markup(form, case.tests, case.equation, listed, failure, _marks(scores), _figure(scores))


def _marks(scores):
    rows = [
        (
            markup("<code>{}</code>", mark.name),
            mark.meaning,
            shown(value),
            mark.limits(scores.quick) if passed is not None else "",
            VERDICTS[passed],
            mark.published,
        )
        for mark, value, passed in scores.verdicts
    ]
    return as_table(("mark", "meaning", "value", "wanted", "", "published"), rows, "words") if rows else ""


def _figure(scores):
    """The case's figure; nothing for a case without panels."""
    return as_figure(as_image(draw(scores.panels), scores.case.title)) if scores.panels else ""
