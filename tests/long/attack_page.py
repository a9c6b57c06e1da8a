"""Hostile texts in every field of a study: the page must show them as text, in a real browser where there is one."""

import atexit
import tempfile
from functools import cache
from pathlib import Path

from browser import Browser, executable
from hostile_study import LOOK, USE, Hostile, faults
from made_results import make

from rankgrad.experiments.report import writer

_EACH = 3  # studies on one page: opening a page is what takes time


@cache
def _study():
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "made", epochs=3, rates=(0.001, 0.01))
        return writer.gather(Path(folder) / "made")[0]


@cache
def _browser():
    browser = Browser()
    atexit.register(browser.__exit__)
    return browser


def case(rng, folder):
    studies = [Hostile(rng).study(_study()) for _ in range(_EACH)]
    page = writer.write_page(studies, folder / "page.html")
    found = faults(page.read_text(encoding="utf-8"))
    assert not found, f"the page holds {found}"
    for table in studies[0].tables:
        table.markdown(), table.latex()
    if executable() is None:
        return "parsed"
    browser = _browser()
    browser.open(page)
    assert browser.evaluate(USE) > 0, "no chart showed a tooltip"
    found = browser.evaluate(LOOK)
    assert not found, f"the page holds {found}"
    assert browser.errors == [], browser.errors
    assert browser.requests == [page.resolve().as_uri()], browser.requests
    return "clean"
