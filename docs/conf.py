"""Settings of Sphinx for the documentation site; `docs/build_site.py` prepares its sources and runs it."""

import re
import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from docutils import nodes

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

from pages import api  # noqa: E402

import rankgrad  # noqa: E402

project = "rankgrad"
author = copyright = "The rankgrad developers"
version = release = rankgrad.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
# Links to classes of PyTorch and NumPy have no target without a network; all other links are checked.
nitpick_ignore_regex = [(r"py:.*", r".*")]

# The examples run when the site is built; `-D plot_gallery=0` only prints their code.
sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    "ignore_pattern": r"serve_",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
    "min_reported_time": 1e9,
}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 6

default_role = "code"  # docstrings write `code`
add_module_names = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "rankgrad"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it needs a server: browsers do not fetch pages from a folder
html_context = {"default_mode": "auto"}
html_theme_options: dict[str, Any] = {
    "logo": {"text": "rankgrad"},
    "icon_links": [
        {"name": "Repository", "url": "https://github.com/rankgrad/rankgrad", "icon": "fa-brands fa-github"},
    ],
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# One file that draws formulas as SVG: no network, and no fonts, which browsers refuse to load from a folder.
MATHJAX = "tex-svg-full.js"
mathjax_path = MATHJAX


def copy_mathjax(app: Any) -> None:
    """Put MathJax, from an installed package, into the static files of the site."""
    files = distribution("sphinx-mathjax-offline").files or []
    (found,) = [file for file in files if file.name == MATHJAX]
    target = Path(app.outdir) / "_static" / MATHJAX
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(str(found.locate()), target)


def describe_arguments(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Add descriptions of arguments that are not in the docstring itself."""
    api.complete(what, thing, lines)


def skip_foreign(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members that other packages add to our classes, such as scikit-learn's."""
    module = getattr(thing, "__module__", None) or getattr(getattr(thing, "fget", None), "__module__", None)
    return True if module and not module.startswith("rankgrad") else None


def unlink_metrics(app: Any, tree: nodes.document) -> None:
    """Make plain text of links such as `mailto:nDCG@10`: reStructuredText reads a metric with a cutoff as address."""
    for link in [*tree.findall(nodes.reference)]:
        if re.fullmatch(r"mailto:[^.]+", link.get("refuri", "")):
            link.replace_self(link.children)


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", copy_mathjax)
    app.connect("autodoc-process-docstring", describe_arguments, priority=400)  # before napoleon
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("doctree-read", unlink_metrics)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
