"""Fill Markdown templates, those of `docs/templates` and of studies; write tables and paragraphs in Markdown.

A place in a template is written `{{ name }}`. A paragraph with places is wrapped again after filling. A place that is
the only content of a paragraph accepts any text, such as a table or a section; if the text is empty, the paragraph is
left out.
"""

import re
import textwrap
from pathlib import Path

TEMPLATES = Path(__file__).parents[1] / "templates"
PLACE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
UNWRAPPED = re.compile(r"^(#|!|- |1\. |```)", re.MULTILINE)  # headings, pictures, lists and code keep their lines


def fill(template: str | Path, **values: str) -> str:
    """Return a template, a path or a name in `docs/templates`, with each `{{ name }}` replaced by its value."""
    path = template if isinstance(template, Path) else TEMPLATES / f"{template}.md"
    text = path.read_text()
    differing = set(PLACE.findall(text)) ^ set(values)
    if differing:
        raise ValueError(
            f"values must match the places of {path.parent.name}/{path.name}; got differences in {sorted(differing)}"
        )
    filled = []
    for block in text.strip("\n").split("\n\n"):
        new = PLACE.sub(lambda match: values[match[1]].strip("\n"), block)
        if new == block or PLACE.fullmatch(block) or UNWRAPPED.search(block):
            filled.append(new)
        else:
            filled.append(paragraph(new))
    return "\n\n".join(block for block in filled if block) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def paragraph(text: str) -> str:
    """Return the text in lines of at most 120 characters."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)
