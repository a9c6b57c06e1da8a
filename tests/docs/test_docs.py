"""The documentation is what the code says: no page is stale, no public name is undocumented."""

import importlib.util
import shutil
import sys

import pytest
from paths import ROOT

from rankgrad import losses

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def build():
    """docs/build.py as a module."""
    sys.path.insert(0, str(DOCS))
    try:
        spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(DOCS))


def test_pages_are_fresh(build):
    assert build.check(DOCS) == []


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(DOCS, tmp_path / "docs")
    return tmp_path / "docs"


def test_a_stale_page_a_missing_picture_and_a_leftover_are_found(build, copy):
    page = copy / "losses" / "ranknet.md"
    page.write_text(page.read_text() + "x")
    (copy / "losses" / "pictures" / "hinge.svg").unlink()
    (copy / "losses" / "README.md").unlink()
    (copy / "losses" / "circle.md").write_text("# circle\n")
    assert build.check(copy) == [
        "docs/losses/ranknet.md is stale",
        "docs/losses/README.md is missing",
        "docs/losses/pictures/hinge.svg is missing",
        "docs/losses/circle.md belongs to no loss",
    ]


def test_an_undocumented_name_is_found(build, monkeypatch):
    def bare(scores, labels):
        return scores

    monkeypatch.setattr(losses, "bare", bare, raising=False)
    monkeypatch.setattr(losses, "__all__", [*losses.__all__, "bare"])
    problems = build.check(DOCS)
    assert "rankgrad.losses.bare has no docstring" in problems
    assert any("bare" in problem and "when.yaml" in problem for problem in problems)


def test_pictures_are_text_and_name_their_loss():
    for name in losses.__all__:
        picture = (DOCS / "losses" / "pictures" / f"{name}.svg").read_text()
        assert f">{name}</text>" in picture, name


def test_links_lead_somewhere():
    import re

    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if page.name != "which-loss.in.md" and not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
