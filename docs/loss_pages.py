"""The pages of the losses as text: what the docstring and the signature say, and the advice of `when.yaml`."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import yaml
from findings_page import findings_page
from learndcg_page import page as learndcg_page
from neural_loss_page import neural_loss_page
from performance_page import performance_page
from study_page import study_page
from training_page import scale_page, training_page
from trees_page import page as trees_page

from rankgrad import losses

DOCS = Path(__file__).parent
SHARED = ("scores", "labels", "mask", "offsets", "weights", "reduction")
FAMILIES = ("pointwise", "pairwise", "softmax and Plackett-Luce", "relaxed metrics", "learned")
NOTE = "<!-- Made by docs/build.py from the code and docs/when.yaml; change those. -->"

Advice = dict[str, Any]


def advice() -> dict[str, Advice]:
    """The hand-written part, by loss."""
    return dict(yaml.safe_load((DOCS / "when.yaml").read_text()))


def pages(when: dict[str, Advice]) -> dict[str, str]:
    """Every generated text, by its path below docs/."""
    made = {f"losses/{name}.md": loss_page(name, when[name]) for name in losses.__all__}
    made |= {"losses/README.md": index_page(when), "which-loss.md": which_page(when)}
    measured = {
        "performance": performance_page(),
        "training": training_page(),
        "scale": scale_page(),
        "trees": trees_page(),
        "learndcg": learndcg_page(),
        "neural_loss": neural_loss_page(),
        "mq2008-study": study_page(),
        "learndcg-findings": findings_page(),
    }
    return made | {f"{name}.md": f"{NOTE}\n\n{text}" for name, text in measured.items() if text is not None}


def loss_page(name: str, advice: Advice) -> str:
    """One page: formula, picture, when to use it, parameters, example, reference."""
    doc = sections(getattr(losses, name))
    metric = advice.get("shown", "nDCG")
    options = "".join(f", {key} = {value}" for key, value in advice.get("options", {}).items())
    parts = [NOTE, f"# {name}", doc["summary"], doc["text"]]
    parts += [f"![{name} as one score moves](pictures/{name}.svg)"]
    parts += [
        f"The list y = [2, 1, 0, 0, 0] with s = [4, 1, 0, 0, x]{options}, as x moves, and exact {metric} beside it. "
        "The last document is irrelevant: the loss should rise with x."
    ]
    parts += ["## When to use it", advice["when"].strip(), facts(advice)]
    if advice.get("papers"):
        parts += ["What was measured:", "\n".join(f"- {fact}" for fact in advice["papers"])]
    for figure in advice.get("figures", []):
        parts += [f"![{figure}](../figures/{figure}.svg)"]
    parts += ["## Parameters", parameters(getattr(losses, name), doc["args"])]
    # The blank line ends the output: the pages are doctests, too.
    example = f"```python\n>>> import torch\n>>> from rankgrad.losses import {name}\n{doc['example']}\n\n```"
    parts += ["## Example", example, "## Reference", doc["references"]]
    return "\n\n".join(part for part in parts if part) + "\n"


def facts(advice: Advice) -> str:
    rows = [("labels", advice["labels"]), ("lists", advice["lists"]), ("metric", advice["metric"])]
    rows += [("cost", f"O({advice['cost']}) a list")]
    return "| | |\n|---|---|\n" + "\n".join(f"| {key} | {value} |" for key, value in rows)


def sections(loss: Any) -> dict[str, str]:
    """The parts of a docstring, with its formula as `$$`."""
    found = re.split(r"^(Args|Example|References):\n", inspect.getdoc(loss) or "", flags=re.MULTILINE)
    body = dict(zip(found[1::2], found[2::2], strict=True))
    # What follows an indented section at the left margin is text again, as the note after a list of arguments.
    after = [re.split(r"\n\n(?=\S)", part, maxsplit=1) for part in body.values()]
    loose = [part[1].strip() for part in after if len(part) > 1]
    body = {key: part[0] for key, part in zip(body, after, strict=True)}
    summary, _, text = found[0].strip().partition("\n\n")
    return {
        "summary": " ".join(summary.split()),
        "text": "\n\n".join([formulas(text.strip()), *loose]).strip(),
        "args": inspect.cleandoc(body.get("Args", "")),
        "example": inspect.cleandoc(body.get("Example", "")).strip(),
        "references": " ".join(inspect.cleandoc(body.get("References", "")).split()),
    }


def formulas(text: str) -> str:
    """Each `.. math::` block as a display formula."""

    def display(match: re.Match[str]) -> str:
        return "$$\n" + "\n".join(line.strip() for line in match[1].strip().splitlines()) + "\n$$"

    return re.sub(r"^\.\. math::(.*(?:\n[ \t]+.*)*)", display, text, flags=re.MULTILINE)


def parameters(loss: Any, args: str) -> str:
    """A row for each parameter of its own, described where the docstring does."""
    described: dict[str, str] = {}
    for match in re.finditer(r"^([\w, ]+): (.*(?:\n[ \t]+.*)*)", args, flags=re.MULTILINE):
        described |= dict.fromkeys(match[1].split(", "), " ".join(match[2].split()))
    signature = inspect.signature(loss).parameters
    own = [p for name, p in signature.items() if name not in SHARED]
    rows = ["| parameter | default | |", "|---|---|---|"]
    for parameter in own:
        default = "required" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        text = described.get(parameter.name, "").replace("|", r"\|")
        rows.append(f"| `{parameter.name}` | {default} | {text} |")
    shared = ", ".join(f"`{name}`" for name in SHARED if name in signature or isinstance(loss, type))
    taken = shared.replace("`weights`, ", "") if isinstance(loss, type) else shared
    note = f"And {taken}, as in every loss: see [the index](README.md)."
    return "\n".join(rows) + f"\n\n{note}" if own else note


def index_page(when: dict[str, Advice]) -> str:
    """All losses by family, and what they share."""
    parts = [NOTE, "# Losses", inspect.getdoc(losses) or "", "[Which loss when](../which-loss.md) helps to choose."]
    for family in FAMILIES:
        rows = ["| loss | | cost |", "|---|---|---|"]
        for name in losses.__all__:
            if when[name]["family"] == family:
                rows.append(
                    f"| [{name}]({name}.md) | {sections(getattr(losses, name))['summary']} | {when[name]['cost']} |"
                )
        parts += [f"## {family[0].upper()}{family[1:]}", "\n".join(rows)]
    composed = [
        f"- `{name}`: {sections(getattr(losses, name))['summary']}" for name in ("relaxed", "gumbel", "weighted_sum")
    ]
    return "\n\n".join([*parts, "## Composition", "\n".join(composed)]) + "\n"


def which_page(when: dict[str, Advice]) -> str:
    """The table to choose by, with what the papers and our own measurements say."""
    table = json.loads((DOCS / "tables" / "plain-losses.json").read_text())
    measured = {row["loss"]: row for row in table["rows"]}
    shapes = table["shapes"]
    head = ["loss", "labels", "list length", "metric", "cost", *(f"time at {shape}" for shape in shapes)]
    rows = [head, ["---"] * len(head)]
    for family in FAMILIES:
        for name in losses.__all__:
            entry = when[name]
            if entry["family"] == family:
                times = [ratio(measured.get(name, {}).get(shape, {})) for shape in shapes]
                row = [f"[{name}](losses/{name}.md)", entry["labels"], entry["lists"], entry["metric"]]
                rows.append([*row, f"O({entry['cost']})", *times])
    said = [f"- [{name}](losses/{name}.md). {fact}" for name in losses.__all__ for fact in when[name].get("papers", [])]
    guide = (DOCS / "which-loss.in.md").read_text()
    filled = {
        "TABLE": "\n".join("| " + " | ".join(row) + " |" for row in rows),
        "SETTING": table["setting"],
        "UNIT": ", ".join(f"{measured['softmax'][shape]['ms']:.2g} ms at {shape}" for shape in shapes),
        "PAPERS": "\n".join(said),
    }
    for word, text in filled.items():
        guide = guide.replace("{{" + word + "}}", text)
    return f"{NOTE}\n\n{guide}"


def ratio(cell: dict[str, Any]) -> str:
    if "ratio" not in cell:
        return f"too large ({cell['kept_mb'] / 1e3:.0f} GB)" if cell else "-"
    return f"{cell['ratio']:.0f}" if cell["ratio"] >= 10 else f"{cell['ratio']:.1f}"
