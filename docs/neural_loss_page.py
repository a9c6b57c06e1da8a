"""The page about NeuralLoss, from what `benchmarks/neural_loss.py --json` wrote."""

import json
from pathlib import Path
from typing import Any

from pieces import grid

TABLE = Path(__file__).parent / "tables" / "neural-loss.json"
COMMAND = "python benchmarks/neural_loss.py --json docs/tables/neural-loss.json"

HEAD = """# NeuralLoss: a network in the place of the metric

NeuralLoss (Liu, Jiang and Zhou, TKDE 2025) trains a network on generated lists to tell DCG from scores and labels,
freezes it, and trains rankers through it. Here it is `rg.losses.NeuralLoss`, or `neuralloss` as text, in two forms:

{{FORMS}}

The mended form is sharp, as the metric is: where no two documents are close to changing places its gradient is small
([picture](losses/NeuralLoss.md)), and scores that one outlier presses together count as tied.

The mended form has been *given* sigmoid ranks, so it is a relative of `approx_ndcg`: what is learned is how to get from
three soft counts to the discount of the exact rank. It is shipped once, since it needs no grades.

The weights never move while a ranker is trained: no optimiser sees them, and a saved model does not carry them.
"""

COUNTS = (
    "how many documents are ahead and behind, counted with sigmoids at temperatures 0.5, 0.15 and 0.05 of the list's "
    "standard deviation, and the length"
)
OTHERS = "whole numbers below the grades; others are an error (on a GPU, which is not waited for, they are cut)"
FORMS = [
    ["network", "two Transformer layers and a mean; 51,000 weights", "two small layers a document; 1,345 weights"],
    ["told of the scores", "each score, on [0, 1]; the loss puts a sigmoid in front", COUNTS],
    ["told of the labels", "the grade, of 3 or of 5", "nothing"],
    ["estimates", "DCG, linear gain", "the discount of each document; gain (exponential) is exact"],
    ["divides by", "its own estimate at s = y / grades", "the exact ideal DCG"],
    ["lists it saw", "40 to 50 documents, half random, half ideal", "1 to 200 documents, random to nearly ideal"],
    ["labels", OTHERS, "any, from 0"],
    ["scale of the scores", "matters: far from 0 the sigmoid is flat", "does not matter, above a deviation of 0.001"],
]

FINDING = """## What to make of it

- The published network follows DCG beyond the lengths it saw better than its training promises, because much of DCG is
  in the labels. Of the order it misses more: on short lists of 5 grades it follows NDCG with 0.78.
- The mended form follows both within every length from 5 to 200 and every shape. Most of that is in the sigmoid ranks;
  the network adds 0.005 to 0.02 on NDCG.
- More faithful is not better to train with. On MQ2008 both forms stay about a point below `approx_ndcg`, and the less
  faithful one is no worse. Neither is tuned here, and three seeds prove no order among them.
- With the published form cut lists to what it knows (`list_size=50`), and mind the price.
"""

PRETRAIN = """## Making your own

```
rankgrad pretrain-loss --form published --grades 3 --out runs/loss    # --resume goes on after the last whole epoch
rankgrad train --data MQ2008 --fold 1 --loss neuralloss:path=runs/loss --out runs/a
```

A folder of `weights.safetensors`, `fidelity.json` and a checkpoint; nothing in it can run code. The lists of a step
depend on the seed and the number of the step, so a run that is killed and resumed ends, on a CPU, in the same bits.
Unlike the paper's, lists are new at every step instead of a fixed 220,000, there is no early stopping, and the nine
shapes of scores are our reading of its list. The shipped networks are what the defaults give with seed 0: the published
ones made on an H200 in 82 seconds, the mended one on a CPU core in some minutes.
"""


def neural_loss_page() -> str:
    """The whole page."""
    forms = grid(["", '`form="published"`', '`form="mended"`, the default'], FORMS)
    parts = [HEAD.replace("{{FORMS}}", forms)]
    if TABLE.exists():
        found = json.loads(TABLE.read_text())
        parts += [_fidelity(found), _quality(found), FINDING]
    return "\n".join([*parts, PRETRAIN])


def _fidelity(found: dict[str, Any]) -> str:
    rows = found["fidelity"]
    names = list(dict.fromkeys(row["surrogate"] for row in rows))
    lengths = sorted({row["length"] for row in rows})
    shapes = [shape for shape in dict.fromkeys(row["shape"] for row in rows) if shape != "all"]
    trained = [length for length in lengths if length <= 200]
    parts = [
        f"""## What it follows

Spearman correlation with the truth *within* each length, on generated lists that no training saw: {found["lists"]} of
each length and shape, in orders from random to nearly ideal, a tenth as many above 200 documents. DCG is hard to miss,
because lists with more relevant documents have more of it in any order: *labels alone* is what the ideal DCG gets,
which knows nothing of the scores. So beside it stands the correlation with NDCG, where only the order counts.
*Sigmoid ranks* are those the mended network is given, without the network. {found["chip"]}, torch {found["torch"]},
commit {found["commit"]}; `{COMMAND}`.
"""
    ]
    for grades in sorted({row["grades"] for row in rows}):
        for what, title in (("dcg", "DCG"), ("ndcg", "NDCG, exponential gain")):
            kept = [name for name in names if what == "dcg" or name != "labels alone"]
            lines = [[name, *(_cell(rows, name, grades, length, "all", what) for length in lengths)] for name in kept]
            parts.append(
                f"### {title}, {grades} grades, by length\n\n{grid(['documents', *map(str, lengths)], lines)}\n"
            )
        lines = []
        for shape in shapes:
            worst = [_least(rows, name, grades, trained, shape, what) for what in ("dcg", "ndcg") for name in names[:2]]
            lines.append([shape, *worst])
        head = ["shape", *(f"{name}, {what}" for what in ("DCG", "NDCG") for name in names[:2])]
        parts.append(f"### {grades} grades, by shape: the worst of 5 to 200 documents\n\n{grid(head, lines)}\n")
    return "\n".join(parts)


def _quality(found: dict[str, Any]) -> str:
    best = max(row["empty one"] for row in found["mq2008"])
    lines = [
        [
            f"`{row['loss']}`",
            *(f"{row[key]:.2f}" for key in ("empty one", "spread", "empty zero")),
            f"{row['empty one'] / best:.1%}",
        ]
        for row in found["mq2008"]
    ]
    head = ["loss", "NDCG@10, empty = 1", "sd over seeds", "NDCG@10, empty = 0", "of the best"]
    costs = [
        [f"{row['lists']} x {row['documents']}", "1", *(f"{row[name]:.1f}" for name in ("mended", "published"))]
        for row in found["cost"]
    ]
    said = ", ".join(f"`{name}={value}`" for name, value in found["ranker"].items())
    return f"""## What it trains

MQ2008, NDCG@10 x 100 on the test lists, mean over five folds and {found["seeds"]} seeds; {said}, all else at its
default, the same for every loss. No loss was tuned. Trained on a {found["trained on"].upper()}.

{grid(head, lines)}

Forward and backward of the loss alone, on one CPU thread, in units of the plain (not fused) `approx_ndcg`:

{grid(["lists x documents", "approx_ndcg", "mended", "published"], costs)}
"""


def _cell(rows: list[dict[str, Any]], name: str, grades: int, length: int, shape: str, what: str) -> str:
    return f"{_value(rows, name, grades, length, shape, what):.3f}"


def _least(rows: list[dict[str, Any]], name: str, grades: int, lengths: list[int], shape: str, what: str) -> str:
    worst = min(lengths, key=lambda length: _value(rows, name, grades, length, shape, what))
    return f"{_value(rows, name, grades, worst, shape, what):.3f} ({worst})"


def _value(rows: list[dict[str, Any]], name: str, grades: int, length: int, shape: str, what: str) -> float:
    wanted = {"surrogate": name, "grades": grades, "length": length, "shape": shape}
    return float(next(row for row in rows if all(row[key] == value for key, value in wanted.items()))[what])
