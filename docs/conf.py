"""The site: `make docs` builds it from the Markdown pages of this repository, as they are read on GitHub too.

The tables of an index page are the navigation: a row with a link is an entry, a heading a part. There is no
other list of pages, and a page that no table names fails the build.
"""

import re
from pathlib import Path

project = "coterie"
extensions = ["myst_parser"]
root_doc = "docs/index"
source_suffix = {".md": "markdown"}
include_patterns = ["docs/**.md", "*.md", "benchmarks/RESULTS.md"]
exclude_patterns = [".*", "build", "deploy", "papers", "runs", "scripts", "src", "tests"]
myst_heading_anchors = 4
highlight_language = "none"  # what has no language is a terminal's
pygments_style, pygments_dark_style = "friendly", "github-dark"

html_theme = "furo"
html_title = "coterie"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "redirect.html"}  # pages lie in docs/, as their links say
templates_path = ["_templates"]
html_copy_source = False
html_show_sphinx = False

HEADING_OR_ENTRY = re.compile(
    r"^## (?P<part>.+)$|^\| \[(?P<title>[^\]]+)\]\((?P<page>[^)#]+)\.md\)", re.MULTILINE
)


def setup(app):
    """Let every index page list the pages of its tables."""
    app.connect("source-read", add_contents)


def add_contents(app, page, source):
    """Put hidden tables of contents, one a part, at the end of an index page, or of the summary of the results."""
    if Path(page).name not in ("index", "results"):
        return
    parts = [""]
    for entry in HEADING_OR_ENTRY.finditer(source[0]):
        if entry["part"]:
            parts.append(f":caption: {entry['part']}\n")
        else:
            parts[-1] += f"\n{entry['title'].partition(':')[0]} <{entry['page']}>"
    source[0] += "".join(f"\n\n```{{toctree}}\n:hidden:\n{part}\n```\n" for part in parts if "<" in part)
