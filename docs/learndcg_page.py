"""The page about LearnDCG's scalars, and its pictures, from what `benchmarks/learndcg.py` wrote into `docs/tables`."""

import re
from typing import Any

from pieces import grid, paragraph, read, where

PICTURES = ("learndcg-noise", "learndcg-scalars")
COLOURS = ("#1f77b4", "#d62728", "#2ca02c")
SYMBOLS = {"gain_base": "b_g", "discount_base": "b_d", "alpha": "alpha"}

HEAD = """# LearnDCG: who moves the three scalars

LearnDCG is ApproxNDCG with three numbers to learn: the gain base b_g, the discount base b_d and the sharpness alpha.
This page is about what training does to them. Whether rankers get better is another question.

```
rankgrad train --data MQ2008 --fold 1 --loss learndcg --out runs/a           # the paper: joint, printed discount
rankgrad train --data MQ2008 --fold 1 --loss learndcg:discount=curved --out runs/b      # a b_d that can be learned
rankgrad train --data MQ2008 --fold 1 --loss learndcg:discount=curved,adapt=heldout --out runs/c   # by held-out lists
```

`adapt` is an option of training that is written with the loss, so that `rg.Ranker(loss=...)`, recipes and saved models
have it too. The scalars have the learning rate `loss_lr` (`lr` where it is not given) and never a weight decay. They
are in every line of `log.jsonl`, in the model's `metrics.json` and among its weights.
"""

INERT = """## b_d cannot be learned as printed

The paper's discount is d(r) = ln(1 + r) / ln(b_d). It stands in DCG and in the ideal DCG, and the loss is their ratio:
ln(b_d) multiplies both and divides out. The loss is the same for every b_d, and its derivative is 0. No training can
tell one b_d from another.

{noise}

![b_d over the epochs, 8 seeds]({noise_picture})

Here the printed form leaves ln(b_d) out of both sums and gives b_d's parameter a gradient of exactly 0, which Adam
leaves alone, and which no weight decay moves (`tests/training/test_heldout_adaptation.py`). A b_d that means
something is `discount=curved`: d(r) = ln(1 + (b_d - 1) r) / ln(b_d), which is log2(1 + r) at b_d = 2, r as b_d falls to
1, and ever flatter as b_d grows.
"""

JOINT = """## What joint minimisation does

Minimising the loss over its own parameters asks for an easier metric, not for a better ranker. As b_g falls to 1 the
gain becomes proportional to the grade, and a highest grade out of place costs less. As alpha grows, soft ranks come
closer to the order that the ranker already has. As the curved b_d grows, all places become worth the same, and NDCG
is 1 for any order. Each raises the surrogate on the training lists while the order stays as it is.

![the three scalars over the epochs, a line a fold, one seed]({scalars_picture})

{ends}

{first_look}
"""

HELDOUT = r"""## Moved by held-out lists

`adapt=heldout` lets another judge move the scalars. A fifth of the training lists whose labels differ, chosen by the
seed and the query ids, is not trained on; the validation lists that choose the epoch stay out of it. After each step of
the ranker on a training batch, from weights w to w', a batch of held-out lists says how the scalars should have been:

    w'(phi) = w - r * grad_w L(w, phi),      phi goes down d/dphi H(w'(phi))

L is LearnDCG with its scalars phi; H is minus NDCG of the held-out lists with ranks by sigmoids of temperature 0.2,
gain 2^y - 1 and discount log2(1 + rank), whatever phi is; r is the learning rate over Adam's root of the second moment
(the learning rate alone for SGD), taken as a constant. The derivative needs no second derivative by the weights: with
t, how the scores s of the training lists move as the weights go along r * grad H(w'), it is minus the derivative of
dL(s + e t, phi)/dphi by e, taken as a difference in float64 of two calls of the fused loss. It equals finite
differences of H(w'(phi)) to 1e-3 (`tests/training/test_heldout_adaptation.py`). The scalars have an Adam of their own.

{spread}

- The ranker is looked at as it scores: no dropout, batch norm with its running averages.
- Every step moves the scalars: that is what the cost below is for.
- A run that is killed and resumed goes on with the same held-out lists in the same order, bit by bit on a CPU. Several
  processes add up their shares. On a GPU steps are ordinary ones, not CUDA graphs.
- Trees, blends and `gumbel=` have no held-out lists; there `adapt=heldout` is an error.
- The ranker trains on fewer lists than with `joint`: what the scalars gain has to be worth that.

{cost}
"""


def page() -> str:
    """The page, from the tables."""
    noise, curves, cost = (read(f"learndcg-{name}") for name in ("noise", "curves", "cost"))
    pictures = [f"figures/{name}.svg" for name in PICTURES]
    return "\n".join(
        [
            HEAD,
            INERT.format(noise=_noise(noise), noise_picture=pictures[0]),
            JOINT.format(ends=_ends(curves), first_look=_first_look(curves), scalars_picture=pictures[1]),
            HELDOUT.format(cost=_cost(cost), spread=_spread(curves)),
        ]
    )


def _noise(found: dict[str, Any]) -> str:
    ends = [row["discount_base"][-1] for row in found["rows"]]
    run = found["run"]
    return paragraph(
        f"""In floating point the ratio is not quite free of b_d. Computed as it is printed, in float32, rounding leaves
        b_d's parameter a gradient of about {found["gradient"]:.0e}. Adam divides a gradient by its own size: noise of
        1e-8 makes steps about as long as a signal of 1e-2 does. So b_d walks about at random, and looks as if it
        learned. With {len(ends)} seeds on fold 1 of MQ2008, Adam at {run["loss_lr"]:g} for the scalars, batches of
        {run["batch_size"]} lists and {run["epochs"]} epochs it ended between {min(ends):.2f} and {max(ends):.2f}; a
        walk grows with the learning rate and the root of the number of steps. The paper's Figure 2 shows b_d between
        1.80 and 2.15 after training on five folds of WEB10K, and reads it as adaptation to each fold.
        {where(found)}; `python benchmarks/learndcg.py noise --json docs/tables/learndcg-noise.json`."""
    )


def _ends(found: dict[str, Any]) -> str:
    run, rows = found["run"], []
    for name, loss in found["losses"].items():
        own = [row for row in found["rows"] if row["name"] == name and "alpha" in row]
        if own:
            ends = [[row[each][-1] for row in own] for each in SYMBOLS]
            rows.append([name, f"`{loss}`", *(f"{min(end):.2f} to {max(end):.2f}" for end in ends)])
    text = f"""Where they are after {run["epochs"]} epochs, over five folds and {found["seeds"]} seeds of MQ2008; all
        start at 2, 2 and 1. `{run["model"]}`, learning rate {run["lr"]:g}, {run["loss_lr"]:g} for the scalars, batches
        of {run["batch_size"]} lists, no early stopping. {where(found)};
        `python benchmarks/learndcg.py curves --seeds {found["seeds"]} --json docs/tables/learndcg-curves.json`."""
    return f"{paragraph(text)}\n\n{grid(['way', 'loss', *SYMBOLS.values()], rows)}"


def _spread(found: dict[str, Any]) -> str:
    """How far runs of one fold end from each other, beside runs of different folds."""
    runs = [row for row in found["rows"] if row["name"].startswith("heldout")]
    pairs = [(one, two) for place, one in enumerate(runs) for two in runs[:place]]
    early = 10 // found["every"]
    same: list[str] = []
    other: list[str] = []
    begun: list[str] = []
    for scalar, symbol in SYMBOLS.items():
        gaps: tuple[list[float], list[float]] = ([], [])
        for one, two in pairs:
            gaps[one["fold"] != two["fold"]].append(abs(one[scalar][-1] - two[scalar][-1]))
        for words, part in zip((same, other), gaps, strict=True):
            words.append(f"{sum(part) / len(part):.2f} in {symbol}")
        values = [run[scalar][early] for run in runs]
        begun.append(f"{symbol} {min(values):.2f} to {max(values):.2f}")
    return paragraph(
        f"""What to make of the picture above: the scalars do not run off to where the metric is easy. In the first ten
        epochs the runs agree about b_d and alpha ({", ".join(begun)} by then); later they part. At the end, two seeds
        of the same fold, which hold out different lists, differ on average by {", ".join(same)}; runs of different
        folds by {", ".join(other)}. So a good part of where a scalar ends is chance and not the fold: which
        of the few lists were held out, and the order of the batches."""
    )


def _first_look(found: dict[str, Any]) -> str:
    means = {}
    for name in found["losses"]:
        values = [row["nDCG@10"] for row in found["rows"] if row["name"] == name]
        means[name] = sum(values) / len(values)
    said = ", ".join(f"{mean:.2f} ({name})" for name, mean in means.items())
    return paragraph(
        f"""Test NDCG@10 x 100 of these runs, at the epoch that validation chose (exponential gain, an empty list counts
        0): {said}. One setting and few seeds, no tuning and no test: it says that nothing dramatic happens to the
        ranker while the scalars wander, and no more than that."""
    )


def _cost(found: dict[str, Any]) -> str:
    lines = [[row["model"], row["name"], f"{row['seconds']:.3f} s", f"{row['ratio']:.2f}"] for row in found["rows"]]
    text = f"""Seconds an epoch on MQ2008, fold 1, in batches of {found["run"]["batch_size"]} lists: each way in turn,
        median of {found["rounds"]} rounds, on a machine that did other work too. The ratios are to be read, which are
        medians of those within a round, not the seconds. A step by held-out lists is a forward and backward pass over
        these, a forward and two backward passes over the training batch, and two calls of the loss; an epoch has fewer
        steps, for the lists that are held out. {where(found)};
        `python benchmarks/learndcg.py cost --seeds {found["rounds"]} --json docs/tables/learndcg-cost.json`."""
    return f"{paragraph(text)}\n\n{grid(['ranker', 'way', 'an epoch', 'ratio to fixed'], lines)}"


def pictures() -> dict[str, str]:
    """The pictures by their path below `docs`."""
    noise, curves = read("learndcg-noise"), read("learndcg-curves")
    walk = [
        {"epoch": epoch * noise["every"], "value": value, "way": "as printed, in float32", "run": row["seed"]}
        for row in noise["rows"]
        for epoch, value in enumerate(row["discount_base"])
    ]
    still = [{"epoch": epoch, "value": 2.0, "way": "rankgrad", "run": 0} for epoch in (0, noise["run"]["epochs"])]
    drawn = {PICTURES[0]: _lines([*walk, *still], "b_d", 420, 200)}
    panels = []
    for scalar, symbol in SYMBOLS.items():
        rows = [
            {
                "epoch": epoch * curves["every"],
                "value": value,
                "way": row["name"],
                "run": row["fold"],
            }
            for row in curves["rows"]
            if row["seed"] == 0
            for epoch, value in enumerate(row.get(scalar, ()))
        ]
        panels.append(_lines(rows, symbol, 210, 200))
    import altair as alt

    drawn[PICTURES[1]] = alt.hconcat(*panels).configure_legend(orient="bottom")
    return {f"figures/{name}.svg": _svg(picture) for name, picture in drawn.items()}


def _lines(rows: list[dict[str, Any]], title: str, width: int, height: int) -> Any:
    import altair as alt

    ways = list(dict.fromkeys(row["way"] for row in rows))
    colour = alt.Scale(domain=ways, range=list(COLOURS[: len(ways)]))
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=1.2, opacity=0.7, aria=False)
        .encode(
            x=alt.X("epoch:Q", title="epoch", scale=alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
            color=alt.Color("way:N", scale=colour, title=None),
            detail="run:N",
        )
        .properties(width=width, height=height)
    )


def _svg(picture: Any) -> str:
    import vl_convert

    drawn = str(vl_convert.vegalite_to_svg(picture.to_dict())) + "\n"
    # Without what nobody sees: tenths of a pixel, and the empty frames that each line of a kind brings along.
    drawn = re.sub(r'<path class="(?:fore|back)ground" aria-hidden="true" d="[^"]*"(?: display="none")?/>', "", drawn)
    return re.sub(r"(\d\.\d)\d+", r"\1", drawn)
