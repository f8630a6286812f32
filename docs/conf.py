"""Configuration of the documentation site: `make docs`, which writes output/docs/index.html."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_extensions")]

from swmodel.runtime.packages import VERSION  # noqa: E402

project = "swmodel"
author = "swmodel developers"
release = version = VERSION
copyright = "swmodel developers; MIT licence"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "plain_docstrings",
    "source_links",
]
root_doc = "index"
exclude_patterns = ["_extensions"]

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 4

highlight_language = "none"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "swmodel"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
# pages without others below them
html_sidebars = {page: [] for page in ("first_run", "install", "gallery/index", "questions", "limits")}
html_search_scorer = str(HERE / "_extensions" / "search_scorer.js")
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 9,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_nav_level": 2,
}
copybutton_prompt_text = "$ "


def _links_of_included_pages(app, relative_path, parent, content):
    """README and CONTRIBUTING link to each other as files of the repository; here they are pages of the site."""
    content[0] = content[0].replace("](CONTRIBUTING.md", "](developers/contributing.md")


def setup(app):
    app.connect("include-read", _links_of_included_pages)
