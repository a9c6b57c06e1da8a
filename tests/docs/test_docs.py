"""Documentation: no page is stale, no public name is undocumented, every template is filled."""

import importlib.util
import re
import shutil
import sys

import pytest
from paths import ROOT

from rankgrad import losses

DOCS = ROOT / "docs"
PAGES = [page for page in DOCS.rglob("*.md") if page.parent.name != "templates"]
PAGES += ROOT.glob("studies/*/README.md")


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
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path / "docs"


def test_a_stale_page_a_missing_picture_and_a_leftover_are_found(build, copy, monkeypatch):
    fresh = {f"losses/{page.name}": page.read_text() for page in DOCS.glob("losses/*.md")}
    monkeypatch.setattr(build, "page_texts", lambda when: fresh)  # the test above computes them
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
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_first_commands_of_the_readme_work_in_a_clone():
    """No package index has rankgrad: nothing that a reader types first may need one that does."""
    first = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert [*re.findall(r"^make (\w+)", first, re.MULTILINE)] == ["demo", "test"]
    assert {"demo", "test"} < set(targets)
    pages = [ROOT / "README.md", *PAGES]
    assert [page for page in pages if re.search(r"pip install rankgrad\b", page.read_text())] == []


def test_links_of_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    addresses = dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", text, re.MULTILINE))
    assert set(re.findall(r"\]\[([\w-]+)\]", text)) == set(addresses)
    assert not re.findall(r"\]\((?!https:)", text)  # PyPI also shows the README: relative links would be dead there
    for address in addresses.values():
        _, here, path = address.partition("/main/")
        assert here, address
        assert (ROOT / path).exists(), address


@pytest.fixture
def templates(build, monkeypatch, tmp_path):
    """docs/pages/templates.py with an empty folder of templates."""
    monkeypatch.setattr(sys.modules["pages.templates"], "TEMPLATES", tmp_path)
    return sys.modules["pages.templates"]


def test_places_of_a_template_are_filled(templates, tmp_path):
    long = " ".join(["word"] * 30)
    (tmp_path / "page.md").write_text(
        "# {{ title }}\n\nA line\nof {{ long }}.\n\n{{ table }}\n\n{{ nothing }}\n\nEnd.\n"
    )
    table = templates.table(["a", "b"], [["1", "2"]])
    text = templates.fill("page", title="Title", long=long, table=table, nothing="")
    assert text.startswith("# Title\n\nA line of word word")
    assert text.endswith("word.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\nEnd.\n")
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("values", [{}, {"title": "x", "author": "y"}], ids=["unfilled place", "unknown value"])
def test_places_and_values_must_match(templates, tmp_path, values):
    (tmp_path / "page.md").write_text("# {{ title }}\n")
    with pytest.raises(ValueError, match=r"values must match the places of .*/page.md"):
        templates.fill("page", **values)


def test_no_page_has_an_unfilled_place():
    assert [page for page in PAGES if "{{" in page.read_text()] == []


def test_every_template_is_used():
    code = "".join(path.read_text() for path in (DOCS / "pages").glob("*.py"))
    for template in (DOCS / "templates").glob("*.md"):
        name = re.sub("-(cpu|gpu)$", "-{device}", template.stem)
        assert f'"{name}"' in code, template.name
