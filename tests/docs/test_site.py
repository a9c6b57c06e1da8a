"""The documentation site: no page has a warning, every public name is listed, and no link or anchor is dead."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from browser import Browser, executable
from paths import ROOT
from programs import finished

sys.path.append(str(ROOT / "docs"))

from pages import api

PACKAGES = ("sphinx", "myst_parser", "pydata_sphinx_theme", "sphinx_gallery")


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.links |= {found[key] for key in ("href", "src") if found.get(key)}


def dead_links(pages):
    """Relative links that lead to no file, or to no anchor of a page."""
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                found.append(f"{path.name}: {link}")
    return sorted(found)


def undocumented(site, pages):
    """Public names without an anchor in the API reference."""
    found = []
    for module, names in api.modules().items():
        full = f"rankgrad.{module}" if module else "rankgrad"
        anchors = pages[site / "api" / f"{module or 'rankgrad'}.html"].anchors
        found += [f"{full}.{name}" for name in names if f"{full}.{name}" not in anchors]
    return found


def test_the_sources_of_the_site_have_no_warning(tmp_path):
    """Sphinx reads every page and docstring, and follows every link and anchor. Here it writes no HTML."""
    for package in PACKAGES:
        pytest.importorskip(package)
    docs = str(ROOT / "docs")
    # A process of its own, because Sphinx changes the signatures of functions.
    code = f"import runpy, sys; sys.path.insert(0, {docs!r}); "
    code += f"runpy.run_path({docs + '/build_site.py'!r}, run_name='__main__')"
    done = finished("--check", "--no-plots", "--out", tmp_path, code=code)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_name_is_in_the_reference():
    for module, names in api.modules().items():
        full = f"rankgrad.{module}" if module else "rankgrad"
        entries = re.findall(r"^\.\. (?:auto|py:)\w+:: (\S+)", api.package_page(module, names), re.MULTILINE)
        assert entries == [f"{full}.{name}" for name in names]


# One test, because a build takes a minute, and parallel tests would each build the site.
@pytest.mark.long
def test_the_site_builds_and_is_complete(tmp_path):
    for package in PACKAGES:
        pytest.importorskip(package)
    command = [sys.executable, "docs/build_site.py", "--no-plots", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    site = (tmp_path / "html").resolve()
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts}
    assert len(pages) > 100
    assert dead_links(pages) == []
    assert undocumented(site, pages) == []
    assert undocumented(site, dict.fromkeys(pages, pages[site / "index.html"]))  # the check finds what is missing
    if executable() is not None:
        with Browser() as browser:
            search_finds_a_loss(site, browser)
            for page in ("index", "losses/neural_ndcg", "api/losses", "which-loss"):
                for scheme in ("light", "dark"):
                    fits_a_phone(site / f"{page}.html", browser, scheme)
            for page in ("index", "start", "own-loop", "guides/evaluate", "coming-from/lightgbm", "losses/lambdaloss"):
                fits_a_laptop(site / f"{page}.html", browser)
    elif os.environ.get("RANKGRAD_BROWSER") == "required":
        pytest.fail("no Chromium, which RANKGRAD_BROWSER=required asks for")


def search_finds_a_loss(site, browser):
    """Search for a loss as a reader does, and open its page."""
    browser.open(site / "search.html", ready="document.readyState === 'complete'")
    browser.evaluate("location.search = '?q=neural_ndcg'")
    link = "#search-results ul.search li a[href*='losses/neural_ndcg.html']"
    browser.wait_for(f'document.querySelector("{link}") !== null')
    browser.click(link)
    browser.wait_for("location.pathname.endsWith('losses/neural_ndcg.html') && document.readyState === 'complete'")
    assert browser.evaluate("document.querySelector('h1').textContent").startswith("neural_ndcg")
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


def fits_a_phone(page, browser, scheme):
    """Nothing is wider than the screen, and the colours follow the system."""
    browser.open(page, width=390, height=844, ready="document.readyState === 'complete'", scheme=scheme)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390, page
    wide = "[...document.querySelectorAll('h1, h2')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.id)"
    assert browser.evaluate(wide) == [], page
    browser.wait_for(f"document.documentElement.dataset.theme === '{scheme}'")
    assert browser.errors == [], page


def fits_a_laptop(page, browser):
    """No code, table or formula is cut on a screen of 1280 pixels."""
    browser.open(page, width=1280, height=800, ready="document.readyState === 'complete'")
    drawn = "[...document.querySelectorAll('div.math')].every((e) => e.querySelector('svg') !== null)"
    browser.wait_for(drawn)
    boxes = "[...document.querySelectorAll('.bd-article :is(pre, table, div.math)')]"
    width = "Math.max(e.scrollWidth, ...[...e.querySelectorAll('svg')].map((s) => s.getBoundingClientRect().width))"
    assert browser.evaluate(f"{boxes}.filter((e) => {width} > e.clientWidth).map((e) => e.textContent)") == [], page


def test_dead_links_are_found(tmp_path):
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    first.write_text('<a href="second.html#here">x</a><a href="second.html#gone">x</a><img src="gone.png"><p id="a">')
    second.write_text('<p id="here"><a href="#">x</a><a href="first.html#a">x</a><a href="https://example.com/">x</a>')
    found = dead_links({path: Page(path) for path in (first, second)})
    assert found == ["first.html: gone.png", "first.html: second.html#gone"]
