"""Pages of the losses, from docstrings, signatures and the advice of `docs/when.yaml`."""

import inspect
import re
from pathlib import Path
from typing import Any

import yaml

from rankgrad import losses
from rankgrad.losses.composed import takes_weights
from rankgrad.losses.traits import traits_of

from .templates import fill

ADVICE = Path(__file__).parents[1] / "when.yaml"
SHARED = ("scores", "labels", "mask", "offsets", "weights", "reduction")
FAMILIES = ("pointwise", "pairwise", "softmax and Plackett-Luce", "relaxed metrics", "learned")
COMPOSITIONS = ("relaxed", "gumbel", "weighted_sum")

Advice = dict[str, Any]


def read_advice() -> dict[str, Advice]:
    """Return the hand-written advice on each loss."""
    return dict(yaml.safe_load(ADVICE.read_text()))


def loss_page(name: str, advice: Advice) -> str:
    """Return the page of one loss."""
    doc = sections(getattr(losses, name))
    papers = "\n".join(f"- {fact}" for fact in advice.get("papers", []))
    # The blank line ends the output: the pages are doctests.
    example = f"```python\n>>> import torch\n>>> from rankgrad.losses import {name}\n{doc['example']}\n\n```"
    return fill(
        "loss",
        name=name,
        summary=doc["summary"],
        text=doc["text"],
        options="".join(f", {key} = {value}" for key, value in advice.get("options", {}).items()),
        metric=advice.get("shown", "nDCG"),
        when=advice["when"].strip(),
        facts=facts(getattr(losses, name), advice),
        measured=papers and f"Results in papers:\n\n{papers}",
        figures="\n\n".join(f"![{figure}](../figures/{figure}.svg)" for figure in advice.get("figures", [])),
        parameters=parameters(getattr(losses, name), doc["args"]),
        example=example,
        references=doc["references"],
    )


def facts(loss: Any, advice: Advice) -> str:
    """Return a table of what the loss needs and costs."""
    rows = [("labels", advice["labels"]), ("lists", advice["lists"]), ("metric", advice["metric"])]
    rows += [("learns from", f"lists with {traits_of(loss).signal}"), ("weights", ("no", "yes")[takes_weights(loss)])]
    rows += [("cost", f"O({advice['cost']}) per list")]
    return "| | |\n|---|---|\n" + "\n".join(f"| {key} | {value} |" for key, value in rows)


def sections(loss: Any) -> dict[str, str]:
    """Return the parts of a docstring, with its formula as `$$`."""
    found = re.split(r"^(Args|Example|References):\n", inspect.getdoc(loss) or "", flags=re.MULTILINE)
    body = dict(zip(found[1::2], found[2::2], strict=True))
    # Text at the left margin after an indented section, such as a note after the arguments, belongs to the main text.
    after = [re.split(r"\n\n(?=\S)", part, maxsplit=1) for part in body.values()]
    loose = [part[1].strip() for part in after if len(part) > 1]
    body = {key: part[0] for key, part in zip(body, after, strict=True)}
    summary, _, text = found[0].strip().partition("\n\n")
    return {
        "summary": " ".join(summary.split()),
        "text": "\n\n".join([formulas(text.strip()), *map(symbols, loose)]).strip(),
        "args": inspect.cleandoc(body.get("Args", "")),
        "example": inspect.cleandoc(body.get("Example", "")).strip(),
        "references": " ".join(inspect.cleandoc(body.get("References", "")).split()),
    }


def formulas(text: str) -> str:
    """Return the text with each `.. math::` block as a display formula."""

    def display(block: str) -> str:
        lines = block.removeprefix(".. math::").strip().splitlines()
        return "$$\n" + "\n".join(line.strip() for line in lines) + "\n$$"

    found = re.split(r"^(\.\. math::.*(?:\n[ \t]+.*)*)", text, flags=re.MULTILINE)
    return "".join(display(part) if part.startswith(".. math::") else symbols(part) for part in found)


def symbols(text: str) -> str:
    """Return the text with the Greek symbols of the formula, such as `pi_i`, as formulas."""
    return re.sub(r"\b(pi|delta)_(\w+)(@k)?", r"$\\\1_{\2}\3$", text)


def parameters(loss: Any, args: str) -> str:
    """Return a table of the parameters that not all losses share, with their descriptions from the docstring."""
    described: dict[str, str] = {}
    for match in re.finditer(r"^([\w, ]+): (.*(?:\n[ \t]+.*)*)", args, flags=re.MULTILINE):
        described |= dict.fromkeys(match[1].split(", "), " ".join(match[2].split()))
    signature = inspect.signature(loss).parameters
    specific = [p for name, p in signature.items() if name not in SHARED]
    rows = ["| parameter | default | |", "|---|---|---|"]
    for parameter in specific:
        default = "required" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        text = described.get(parameter.name, "").replace("|", r"\|")
        rows.append(f"| `{parameter.name}` | {default} | {text} |")
    shared = ", ".join(f"`{name}`" for name in SHARED if name in signature or isinstance(loss, type))
    taken = shared.replace("`weights`, ", "") if isinstance(loss, type) else shared
    note = f"Also {taken}, as in every loss: see [the index](README.md)."
    return "\n".join(rows) + f"\n\n{note}" if specific else note


def index_page(when: dict[str, Advice]) -> str:
    """Return the page of all losses by family."""
    parts = []
    for family in FAMILIES:
        rows = ["| loss | | cost |", "|---|---|---|"]
        for name in losses.__all__:
            if when[name]["family"] == family:
                rows.append(f"| [{name}]({name}.md) | {_summary(name)} | {when[name]['cost']} |")
        parts += [f"## {family[0].upper()}{family[1:]}", "\n".join(rows)]
    return fill(
        "losses",
        conventions=inspect.getdoc(losses) or "",
        families="\n\n".join(parts),
        compositions="\n".join(f"- `{name}`: {_summary(name)}" for name in COMPOSITIONS),
    )


def _summary(name: str) -> str:
    return sections(getattr(losses, name))["summary"]
