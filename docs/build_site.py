"""Build the documentation site: `python docs/build_site.py`, then open `build/site/html/index.html`.

The site needs no network, neither to be built nor to be read. The pages of `docs` and `studies` are copied to
`build/site/source`, where links to other files of the repository become links to the repository, and the pages of the
API reference and of the command line are generated there. Sphinx reads that folder; each of its warnings is an error. A
second build is fast, because only changed pages are read again.
"""

import argparse
import os
import re
import shutil
import sys
import time
from pathlib import Path

from pages import api, command_line
from sphinx.cmd.build import build_main

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
STUDIES = ROOT / "studies"
OUT = ROOT / "build" / "site"
REPOSITORY = "https://github.com/rankgrad/rankgrad/blob/main"
PICTURES = (".svg", ".png")
# Files outside of `docs` that are pages of the site.
ALSO = {
    "CONTRIBUTING.md": "contributing/guide.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "contributing/security.md",
    "src/rankgrad/recipes/README.md": "recipes.md",
}
# Pages that are also read on GitHub, where a table of contents of the site would be shown as code.
CONTENTS = {
    "losses/README.md": ("*",),
    "guides/index.md": (  # in the order in which a new user needs them
        *("Installation <../install>", "Data <../data>", "Columns <../columns>", "Choosing a loss <../which-loss>"),
        *("Training <train>", "The estimator <../ranker>", "Trees <../trees>", "Auto <../auto>", "Text <../text>"),
        *("Evaluate and compare <evaluate>", "Metrics <metrics>", "Calibration <../calibration>"),
        *("Explaining a model <../importance>", "Your own loop <../own-loop>", "Kinds of rankers <../models>"),
        *("Export <export>", "Serving <../serving>", "Many machines <many-machines>"),
    ),
    "coming-from/index.md": ("*",),
}
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="folder for the site (default: build/site)")
    parser.add_argument("--no-plots", action="store_true", help="show the code of the examples, but do not run them")
    parser.add_argument("--check", action="store_true", help="read all pages and follow all links, but write no page")
    options = parser.parse_args()
    out = options.out.resolve()
    start = time.monotonic()
    if code := build(out, plots=not options.no_plots, check=options.check):
        sys.exit(code)
    print(f"The site is in {out / 'html' / 'index.html'} ({time.monotonic() - start:.0f} s).")


def build(out: Path, plots: bool = True, check: bool = False) -> int:
    """Build the site in `out/html`, and return the exit code of Sphinx. With `plots`, run the examples."""
    stage(out / "source")
    builder, jobs = ("dummy", "1") if check else ("html", "2")
    # A crash of autodoc, such as a package that cannot be imported, is a warning of Sphinx, and so an error.
    options = ["-b", builder, "-c", DOCS, "-d", out / "doctrees", "-j", jobs, "-W", "--keep-going", "-n", "-q"]
    options += ["-D", f"plot_gallery={plots:d}"]
    return build_main([*map(str, options), str(out / "source"), str(out / "html")])


def stage(folder: Path) -> None:
    """Write the sources of the site to a folder: files that did not change keep their times, others are deleted."""
    texts = pages()
    texts |= {f"api/{path}": text for path, text in api.pages().items()}
    texts |= {f"cli/{path}": text for path, text in command_line.pages().items()}
    drawn = pictures()
    wanted = {folder / path for path in [*texts, *drawn.values()]}
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
    for path, place in drawn.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != path.read_bytes():
            shutil.copyfile(path, target)
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted and "gallery" not in path.relative_to(folder).parts:
            path.unlink()


def pictures() -> dict[Path, str]:
    """Return the places of all pictures in the sources of the site."""
    found = [path for path in DOCS.rglob("*") if path.suffix in PICTURES and "_static" not in path.parts]
    places = {path: path.relative_to(DOCS).as_posix() for path in found}
    return places | {path: path.relative_to(ROOT).as_posix() for path in STUDIES.glob("*/*.svg")}


def pages() -> dict[str, str]:
    """Return the hand-written and measured pages, by their paths in the sources of the site."""
    sources = {path: path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "templates" not in path.parts}
    sources |= {path: path.relative_to(ROOT).as_posix() for path in STUDIES.glob("*/README.md")}
    sources |= {ROOT / path: place for path, place in ALSO.items()}
    places = sources | pictures()
    texts = {}
    for source, place in sources.items():
        text = relinked(source.read_text(encoding="utf-8"), source, place, places)
        if place in CONTENTS:
            text += "\n```{toctree}\n:hidden:\n:glob:\n\n" + "\n".join(contents(place, sources)) + "\n```\n"
        texts[place] = text
    return texts


def contents(place: str, places: dict[Path, str]) -> list[str]:
    """Return the entries of a table of contents whose pages exist."""
    known = places.values()
    entries = {entry: re.sub(r".*<(.*)>", r"\1", entry) for entry in CONTENTS[place]}
    there = {entry for entry, page in entries.items() if os.path.normpath(f"{Path(place).parent}/{page}.md") in known}
    return [entry for entry in CONTENTS[place] if entry == "*" or entry in there]


def relinked(text: str, source: Path, place: str, places: dict[Path, str]) -> str:
    """Return a page with links that fit its place in the site. Files that are not in the site are in the repository."""

    def new(match: re.Match[str]) -> str:
        target = match[2]
        if re.match(r"[a-z]+:", target):
            return match[0]
        file = Path(os.path.normpath(source.parent / target))
        if file in places:
            target = os.path.relpath(places[file], Path(place).parent)
        elif file.parent == DOCS and (DOCS / "templates" / file.name).exists():  # a page that waits for a measurement
            return f"{match[1]}{REPOSITORY}/docs/templates/{file.name}{match[4]}"
        elif not file.is_relative_to(DOCS) and file.exists():
            target = f"{REPOSITORY}/{file.relative_to(ROOT).as_posix()}"
        return f"{match[1]}{target}{match[3] or ''}{match[4]}"

    return LINK.sub(new, text)


if __name__ == "__main__":
    main()
