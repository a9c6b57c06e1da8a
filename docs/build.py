"""Make the generated pages and pictures of the documentation: `python docs/build.py`, or `--check` that they are fresh.

The check compares texts, asks for every picture, and refuses a public name that nothing documents. It draws nothing, so
it is fast and the same wherever it runs.
"""

import argparse
import inspect
import sys
from pathlib import Path

from pages import (
    learndcg,
    learndcg_findings,
    mq2008_study,
    neural_loss,
    performance,
    scale,
    training,
    trees,
    which_loss,
)
from pages.losses import Advice, index_page, loss_page, read_advice, sections

from rankgrad import backend, losses, metrics, relax

DOCS = Path(__file__).parent
LARGEST = 40_000  # bytes of a picture: they are committed
NOTE = "<!-- Made by docs/build.py from the code and docs/when.yaml; change those. -->"
FIGURES = ("neuralndcg-figure1", "neuralndcg-figure2")  # of loss_pictures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail where something is stale or missing")
    if parser.parse_args().check:
        problems = check(DOCS)
        print(*problems, sep="\n")
        sys.exit(f"{len(problems)} problems; run python docs/build.py" if problems else 0)
    build(DOCS)


def build(docs: Path) -> None:
    """Write all pages and pictures below `docs`, and remove those of losses that are gone."""
    from pages import loss_pictures

    when = read_advice()
    with backend("plain"):  # the same curves without compiling kernels first
        drawn = {f"losses/pictures/{name}.svg": loss_pictures.loss_picture(name, when[name]) for name in losses.__all__}
        drawn |= {f"figures/{name}.svg": loss_pictures.FIGURES[name]() for name in FIGURES}
    drawn |= learndcg.pictures()
    made = page_texts(when) | drawn
    for path, text in made.items():
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        (docs / path).write_text(text)
    for path in leftovers(docs, set(made)):
        path.unlink()


def page_texts(when: dict[str, Advice]) -> dict[str, str]:
    """Return the text of every generated page, by its path below `docs`."""
    texts = {f"losses/{name}.md": loss_page(name, when[name]) for name in losses.__all__}
    texts |= {
        "losses/README.md": index_page(when),
        "which-loss.md": which_loss.page(when),
        "performance.md": performance.page(),
        "training.md": training.page(),
        "scale.md": scale.page(),
        "trees.md": trees.page(),
        "learndcg.md": learndcg.page(),
        "neural_loss.md": neural_loss.page(),
        "mq2008-study.md": mq2008_study.page(),
        "learndcg-findings.md": learndcg_findings.page(),
    }
    return {path: f"{NOTE}\n\n{text}" for path, text in texts.items()}


def check(docs: Path) -> list[str]:
    """What is wrong with the documentation below `docs`, one sentence each; nothing if all is well."""
    problems = undocumented()
    when = read_advice()
    if set(when) != set(losses.__all__):
        return [
            *problems,
            f"docs/when.yaml and rankgrad.losses.__all__ differ in {sorted(set(when) ^ set(losses.__all__))}",
        ]
    texts = page_texts(when)
    for path, text in texts.items():
        if not (docs / path).exists():
            problems.append(f"docs/{path} is missing")
        elif (docs / path).read_text() != text:
            problems.append(f"docs/{path} is stale")
    pictures = [f"losses/pictures/{name}.svg" for name in losses.__all__] + [f"figures/{name}.svg" for name in FIGURES]
    pictures += [f"figures/{name}.svg" for name in learndcg.PICTURES]
    for path in pictures:
        if not (docs / path).exists():
            problems.append(f"docs/{path} is missing")
        elif (docs / path).stat().st_size > LARGEST:
            problems.append(f"docs/{path} is larger than {LARGEST} bytes")
    gone = leftovers(docs, {*texts, *pictures})
    return problems + [f"docs/{path.relative_to(docs)} belongs to no loss" for path in gone]


def undocumented() -> list[str]:
    """Public names without a docstring, and losses whose docstring has no example or no reference."""
    problems = []
    for package in (losses, relax, metrics):
        for name in package.__all__:
            if not inspect.getdoc(getattr(package, name)):
                problems.append(f"{package.__name__}.{name} has no docstring")
    for name in losses.__all__:
        found = sections(getattr(losses, name))
        problems += [f"rankgrad.losses.{name} has no {part}" for part in ("example", "references") if not found[part]]
    return problems


def leftovers(docs: Path, wanted: set[str]) -> list[Path]:
    """Files among the generated ones that nothing makes any more."""
    present = [*docs.glob("losses/*.md"), *docs.glob("losses/pictures/*.svg"), *docs.glob("figures/*.svg")]
    return sorted(path for path in present if path.relative_to(docs).as_posix() not in wanted)


if __name__ == "__main__":
    main()
