"""Fill the Markdown templates of `docs/templates`; write tables and paragraphs in Markdown.

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


def fill(template: str, **values: str) -> str:
    """Return the text of `docs/templates/<template>.md` with each `{{ name }}` replaced by the value of that name."""
    text = (TEMPLATES / f"{template}.md").read_text()
    differing = set(PLACE.findall(text)) ^ set(values)
    if differing:
        raise ValueError(
            f"values must match the places of docs/templates/{template}.md; got differences in {sorted(differing)}"
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
