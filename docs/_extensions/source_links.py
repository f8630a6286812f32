"""A Sphinx extension: the links from the pages of source code back to the reference lead to the entries there.

sphinx.ext.viewcode knows one name of each module. The reference has the names that users import: `swmodel.Control`, and
not `swmodel.adjoint.controls.controls.Control`.
"""

import re
from typing import Any

BACK = re.compile(r'(class="viewcode-back" href="(?:\.\./)*([^"#]+)\.html#)([^"]+)"')


def entry(name: str, page: str, entries: dict[str, str]) -> str:
    """The name of the entry on `page` that ends in the longest end of `name`; `name` if there is none.

    Args:
        name: a dotted name.
        page: a page of the reference.
        entries: {name of an entry: its page}.
    """
    parts = name.split(".")
    for first in range(len(parts)):
        end = "." + ".".join(parts[first:])
        found = [one for one, where in entries.items() if where == page and f".{one}".endswith(end)]
        if found:
            return min(found, key=len)
    return name


def process(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename.startswith("_modules/"):
        entries = {one.node_id: one.docname for one in app.env.get_domain("py").objects.values()}
        context["body"] = BACK.sub(lambda link: f'{link[1]}{entry(link[3], link[2], entries)}"', context["body"])


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
