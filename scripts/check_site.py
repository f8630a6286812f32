"""Check the documentation site: links within it lead somewhere, and its search answers common questions.

    python scripts/check_site.py output/docs        # after `make docs`, which also calls it

Every `href` and `src` of every page that is no address of the web must name a file of the site, and its fragment an
element of that page. The search is that of the site itself, searchtools.js, run by node; without node it is not
checked. Each query of QUERIES must find one of its pages among the first FIRST results. The exit status is 1 if
anything is wrong.
"""

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

FIRST = 3  # results that a reader looks at
# What a newcomer may type, and the pages that answer it.
QUERIES = {
    "How do I open a side for a tide?": ("questions", "guide/tides"),
    "how do I open a side for a tide": ("questions", "guide/tides"),
    "open side tide": ("questions", "guide/tides"),
    "tide open boundary": ("questions", "guide/tides"),
    "how much memory does a gradient need": ("questions", "theory/adjoint"),
    "gradient memory": ("questions", "theory/adjoint"),
    "what does the adjoint assume at coasts": ("questions",),
    "adjoint coast": ("questions",),
    "how do I run 8 GPUs": ("questions", "guide/sharded"),
    "several GPUs": ("questions", "guide/sharded"),
    "how large a problem fits on a GPU": ("questions",),
    "own region": ("questions",),
    "fault table columns": ("questions",),
    "blow up NaN": ("questions",),
    "Slurm": ("guide/performance", "questions"),
    "times begin 2000": ("questions",),
    "own bathymetry": ("notebooks/own_bathymetry",),
    "own term": ("notebooks/own_term", "guide/own_parts"),
    "4D-Var": ("notebooks/four_d_var", "guide/inversion", "reference/inversion"),
    "gauge by name": ("questions", "notebooks/postprocessing"),
    "select a gauge": ("questions", "notebooks/postprocessing"),
    "reduced gravity": ("questions",),
    "restart": ("guide/restarts",),
    "restart on more ranks": ("guide/restarts", "guide/many_ranks"),
    "bathymetry formats": ("questions",),
    "GeoTIFF": ("guide/files", "questions"),
    "river": ("guide/waters", "questions"),
    "nested grids": ("guide/nests",),
    "limits": ("limits",),
    "halo exchange": ("reference/parallel", "guide/parallel_tools"),
    "ensemble": ("guide/ensembles", "notebooks/ensembles"),
}
RUN_SEARCH = """
const fs = require("fs"), path = require("path"), vm = require("vm");
const [site, queries] = [process.argv[1], JSON.parse(process.argv[2])];
const nothing = () => null;
const context = {
  _ready: nothing, _: (text) => text, console, SPHINX_HIGHLIGHT_ENABLED: false,
  document: {getElementById: nothing, querySelectorAll: () => []}, DOCUMENTATION_OPTIONS: {},
};
context.window = context;
vm.createContext(context);
const files = ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"];
const source = files.map((name) => fs.readFileSync(path.join(site, name), "utf8")).join("\\n;\\n");
const performed = "(query) => Search._performSearch(...Search._parseQuery(query))";
vm.runInContext(`${source}\\n;globalThis.found = ${performed};`, context);
const found = Object.fromEntries(queries.map((query) => [query, context.found(query).reverse().map((hit) => hit[0])]));
process.stdout.write(JSON.stringify(found));
"""


@dataclasses.dataclass
class Page:
    """What other pages may point to, and what this one points to.

    Attributes:
        anchors: the names of its elements.
        links: its `href`s and `src`s.
    """

    anchors: set[str] = dataclasses.field(default_factory=set)
    links: list[str] = dataclasses.field(default_factory=list)


def read(file: Path) -> Page:
    """The Page of an HTML file."""
    page = Page()

    def tag(name, attributes):
        for key, value in attributes:
            if key in ("id", "name") and value:
                page.anchors.add(value)
            elif key in ("href", "src") and value:
                page.links.append(value)

    parser = HTMLParser()
    parser.handle_starttag = tag
    parser.feed(file.read_text(encoding="utf-8"))
    return page


def dead_links(site: Path) -> list[str]:
    """A sentence for each link within the site that leads nowhere."""
    pages = {file.resolve(): read(file) for file in site.rglob("*.html") if "_static" not in file.parts}  # templates
    wrong = []
    for file, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = urllib.parse.unquote(parts.path)
            target = (file.parent / path).resolve() if path else file
            if target.is_dir():
                target /= "index.html"
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.exists():
                wrong.append(f"{file.relative_to(site.resolve())}: {link} does not exist.")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                wrong.append(f"{file.relative_to(site.resolve())}: {link} names no element of that page.")
    return wrong


def search(site: Path, queries: list[str]) -> dict[str, list[str]]:
    """{query: pages, best first} by the search of the site, in node."""
    command = ["node", "-e", RUN_SEARCH, str(site), json.dumps(queries)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


def unanswered(site: Path) -> list[str]:
    """A sentence for each query whose first results are none of the pages that answer it."""
    found = search(site, list(QUERIES))
    return [
        f"the search for {query!r} finds {', '.join(found[query][:FIRST]) or 'nothing'}, and not {' or '.join(pages)}."
        for query, pages in QUERIES.items()
        if not set(pages) & set(found[query][:FIRST])
    ]


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    site = parser.parse_args(arguments).site
    wrong = dead_links(site)
    if shutil.which("node"):
        wrong += unanswered(site)
    else:
        print("check_site: the search is not checked, as there is no node on PATH.")
    print(*wrong, sep="\n", end="\n" * bool(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
