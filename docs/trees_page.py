"""The page about trees, from what its benchmarks wrote into `docs/tables`."""

import math
import re
from typing import Any

from pieces import grid, paragraph, read, wrapped

from rankgrad.trees import hessians

HEAD = """# Trees

Boosted trees are what many would take instead of a neural ranker. Here they have the same losses and the same
interface, in LightGBM or XGBoost: `pip install 'rankgrad[trees]'`.

```python
>>> import numpy as np
>>> from rankgrad.trees import TreeRanker, objective
>>> rng = np.random.default_rng(0)
>>> qid = np.repeat(np.arange(60), 10)
>>> X = rng.normal(size=(600, 5))
>>> y = np.clip(np.round(X[:, 0] - X[:, 1] + 1), 0, 4).astype(int)

>>> ranker = TreeRanker("lightgbm", loss="lambdarank", trees=100, num_leaves=8, learning_rate=0.1)
>>> ranker = ranker.fit(X, y, qid=qid)                     # or group=; eval_set=, eval_qid=; sample_weight=
>>> ranker.predict(X).shape, ranker.score(X, y, qid=qid) > 0.9
((600,), True)

```

- `loss` is any loss of `rankgrad.losses`, a function or module of your own, or the framework's own after `native:`:
  `native:lambdarank`, `native:rank_xendcg`; for XGBoost `native:rank:ndcg`, `native:rank:pairwise`, `native:rank:map`.
- `softmax` and `listnet` are the published losses. `smooth=0.5` or `"drawn"` lets irrelevant documents count in them,
  as LightGBM's `rank_xendcg` does; what that brings is below.
- Settings that are not ours are the framework's, by its own names. X may hold NaN.
- Training stops `patience` trees after the best `metric` (nDCG@10, gain 2^y - 1) on the validation lists, and the best
  number of trees is kept. Without an `eval_set`, a fifth of the lists is set aside for that.
- `ranker.save("model/")` writes `model.txt` (LightGBM) or `model.json` (XGBoost), which the plain framework loads, and
  JSON beside it. `TreeRanker.load`, `rankgrad predict` and `rankgrad evaluate` read the folder; nothing is unpickled.
- `rankgrad train --data MQ2008 --fold 1 --model lightgbm:num_leaves=15 --loss native:lambdarank --out runs/trees`.
  There `--epochs` is the number of trees, and `--lr` the framework's learning rate.

## Resume, watch, add to, export

A run with a folder, such as `rankgrad train --out runs/trees`, writes a checkpoint after every 50 trees, and
`log.jsonl` with one line per tree. Killed and resumed (`--resume`), it has the same trees, byte by byte, as a run that
was not. The run is cut into segments of 50 trees, each seeded by the run's seed and its own number; without bagging and
without sampling of features, the trees are those of a run in one piece. A larger `--epochs` continues a finished run.
Where a tree depends on more than the scores so far (`boosting` dart, rf and goss, `linear_tree`, penalties of
`cegb_penalty_feature_*`; XGBoost's dart and `lambdarank_unbiased`), the run is one segment, and a resumed one begins
anew. LightGBM is told `force_col_wise=true` unless the settings say otherwise, because it would choose by a measurement
of time, and the two ways add up numbers in different orders.

```python
>>> seen = []
>>> def watch(row):                                        # called after each tree; a true value ends the training
...     seen.append(row["tree"])
...     return len(seen) == 20
>>> ranker = TreeRanker("lightgbm", trees=100, num_leaves=8).fit(X, y, qid=qid, callbacks=[watch])
>>> more = TreeRanker("lightgbm", trees=10, num_leaves=8, holdout=0.0).fit(X, y, qid=qid, init_model=ranker)
>>> len(ranker.history_), more.model_.rounds - ranker.model_.rounds    # its trees are kept, 10 are added
(20, 10)
>>> bool(ranker.model_.feature_importance()[:2].sum() > 0.9)  # by gain; with labelled lists, by shuffling
True

```

`ranker.model_.export("trees.onnx")` writes an ONNX file with the inputs of all exported rankers (`features`, `mask`),
after a comparison with the model's own scores; NaN is a missing value there, too. The extra `export` is needed. ONNX
has no linear leaves, and categorical splits are not written: `model.txt` and `model.json` hold everything.

## In a training loop of your own

`objective(loss)` is a custom objective: for `lightgbm.LGBMRanker(objective=...)`, which passes the sizes of the lists,
and, as `objective(loss, "xgboost")`, for `xgboost.train(..., obj=...)`, which reads them from the `DMatrix`.

```python
>>> import lightgbm
>>> plain = lightgbm.LGBMRanker(objective=objective("approx_ndcg"), n_estimators=20, verbosity=-1)
>>> plain.fit(X, y, group=np.full(60, 10)).predict(X).shape
(600,)

```

The gradient is that of the **sum** over the lists, as LightGBM's own lambdarank has it. Scores are computed in float32,
the precision in which both frameworks keep derivatives. Weights are one a row and mean what they mean in the loss; for
XGBoost one a list will do. A loss that takes no weights refuses them.

**Which of ours is LightGBM's lambdarank?** Without its normalisation (`lambdarank_norm=False`) it is
`lambdaloss@30:scheme=ndcg2pp,mu=0`, tree by tree: pairs with a document in the top 30 (`lambdarank_truncation_level`),
weighed by gain over the ideal DCG@30 and by the whole difference of discounts. Our `lambdarank@30` counts a rank beyond
30 as worth nothing, as NDCG@30 does. The normalisation divides each pair by its score gap and scales each list; no loss
of ours does that.

**Second derivatives.** {table}

`hessian="gradient"` takes the last line for any loss, and a number the same for every document.

## LearnDCG's scalars between rounds

With `loss_lr`, a loss with parameters of its own takes a step of Adam on them after each tree:
`TreeRanker(loss="learndcg", loss_lr=0.01)`; `ranker.history_` has them after each tree. What that brings is below.

## Rows of a recipe

A model of a recipe may be `lightgbm` or `xgboost`, with losses and a search of its own: the study of MQ2008, Softmax
Table 1 and NeuralNDCG Table 3 have such rows. `recipes/README.md` says how they are written.

## Blends

`blend` makes a ranker of fitted rankers, trees and neural ones alike. Scores are normalised to mean 0 and deviation 1
in each list; the weights, at least 0 and adding up to 1, are fitted by one of our losses on lists that none of the
rankers was trained on.

```python
>>> from rankgrad.blend_estimator import blend
>>> from rankgrad import Ranker
>>> train, held = qid < 40, qid >= 40
>>> parts = [TreeRanker(trees=30).fit(X[train], y[train], qid=qid[train]),
...          Ranker(model="linear", epochs=10, lr=0.05).fit(X[train], y[train], qid=qid[train])]
>>> both = blend(parts).fit(X[held], y[held], qid=qid[held])
>>> both.weights_.shape, both.predict(X, qid=qid).shape
((2,), (600,))

```

It is saved as a folder of folders, and `rankgrad predict` takes that too.
"""


ANSWER = """Our `lambdarank` is level with the frameworks' own. `softmax` as published has a lower mean than
`rank_xendcg` here, if not significantly; with `smooth`, whether g is drawn or fixed, it is level with it, though not
ahead. What that is, and why it is not the default, comes next."""
SMOOTHED = """It is the targets. On MQ2008, told 2^y - g, `softmax` and `listnet` are level with `rank_xendcg`, whether
g is drawn or fixed, and whether the targets are divided by their sum or not; told y, both have lower means, `listnet`
significantly. `xe_ndcg` has such targets, but leaves lists without a relevant document out, as our losses do, and has a
lower mean, too: in `rank_xendcg`, those lists draw their scores together. The second derivative has the same form in
all of them, and no difference is left for which the noise or the terms of higher order would be needed. How `smooth`
came about: variants of the loss were tried one by one with ten of the seeds on MQ2008, test means printed beside those
on validation, which put the smoothed `softmax` first, too. The other sets came afterwards; nothing was changed after
them but the number of their seeds, from 5 to 20.

**Why it is not the default.** Only on MQ2008 is it shown to help. On the two sets with five grades, `softmax` does
worse with it, on validation as on test, if by no more than chance may bring, and told y it has a higher mean than
`rank_xendcg`. `listnet` gains on three sets of four, but `softmax` and `listnet` are names of losses: their gradients
in trees are those of `rankgrad.losses`; a row that says Softmax or ListNet means the published loss, whatever the
ranker; and labels may be any numbers from 0 up, such as rates of clicks, while 2^y - g is for grades. So `smooth` is a
setting to try on validation lists, and has to be asked for."""
BLENDS = """**The highest mean of all, but surely ahead only of LambdaMART as 18 settings choose it.** From LambdaMART
as the study tunes it, the blend of our trees is {ours, study}. Part of that is what any blend brings: LambdaMART
blended with itself, four settings with four seeds each, is {reseeded, study} from there, and our blend of as many trees
is {ours, reseeded} from that blend. So on these 784 queries it is not shown that our losses make the better blend. Nor
should the second row be read as LambdaMART's true level: it stands here because its test mean was known to be higher.

How the blend came about: its losses were picked by their validation means in a run with one setting, which printed test
means beside them; then a first list of losses, with the best setting of each, was tried on one fold and seed, test
included. After that `lambdaloss@10` gave way to `unique_softmax`, `neural_ndcg` was left out for its time, and more
settings of each were kept. So the choice of its parts has seen some of the test lists."""


def page() -> str:
    """The page, as far as there are measurements."""
    table = (hessians.__doc__ or "").split("\n\n")[1:]
    parts = [HEAD.replace("{table}", "\n\n".join(["By the loss:", *(part.strip() for part in table)]))]
    if found := read("trees-losses"):
        parts += [_same(found), _sets(found)]
    if found := read("trees-mq2008"):
        parts.append(_tuned(found))
    if found := read("trees-losses"):
        parts.append(_learned(found))
    if found := read("tree-rounds"):
        parts.append(_rounds(found))
    return "\n".join(parts)


def _where(facts: dict[str, Any]) -> str:
    return f"{facts['chip']}, LightGBM {facts['lightgbm']}, commit {facts['commit']}"


def _difference(row: dict[str, Any]) -> list[str]:
    """To which row, how much, how sure."""
    if "against" not in row:
        return ["", "", ""]
    interval = f"{row['low']:+.2f} to {row['high']:+.2f}"
    return [f"{row['difference']:+.2f} to {_name(row['against'])}", interval, f"{row['p, t']:.3f}"]


def _name(what: str) -> str:
    return what if "blend" in what or "best" in what else f"`{what}`"


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in settings.items())


def _same(found: dict[str, Any]) -> str:
    # What smoothing brings to a loss is in the next table.
    rows = [r for r in found["rows"] if r["table"] == "same" and r.get("against") not in ("softmax", "listnet")]
    lists, empty = found["sets"]["MQ2008"].values()
    told = "; ".join(f"{name}: {_settings(own)}" for name, own in found["params"].items())
    text = f"""NDCG@10 x 100, gain 2^y - 1, mean over five folds and some seeds; {lists} queries, of which {empty}
        have no relevant document and count 0 or 1. One setting for all: {told}; at most
        {found["budget"]["trees"]} trees, stopped {found["budget"]["patience"]} after the best on validation.
        Difference, bootstrap interval and paired test are over queries, each query's value averaged over seeds.
        `sd` is over seeds. In LightGBM, but for the last two rows. {_where(found)};
        `python benchmarks/tree_losses.py --json docs/tables/trees-losses.json`."""
    head = ["ranker", "seeds", "validation", "empty = 0", "empty = 1", "sd", "difference", "95% interval", "p, t-test"]
    lines = []
    for row in rows:
        numbers = row["validation"], row["empty zero"], row["empty zero"] + 100 * empty / lists, row["spread"]
        own = [str(row["seeds"]), *(f"{number:.2f}" for number in numbers)]
        lines.append([_name(row["what"]), *own, *_difference(row)])
    return f"""## MQ2008: our losses and the frameworks' own, same parameters

{paragraph(text)}

{grid(head, lines)}

{paragraph(ANSWER)}
"""


def _sets(found: dict[str, Any]) -> str:
    """Plain and smoothed side by side, on all sets."""
    rows = [row for row in found["rows"] if row["table"] == "sets"]
    head = [
        "set",
        "queries",
        "loss",
        "told y",
        "told 2^y - g",
        "difference",
        "95% interval",
        "p, t-test",
        "rank_xendcg",
    ]
    lines = []
    for row in rows:
        loss, _, smooth = row["what"].partition(", smooth=")
        if not smooth or row["against"] != loss:
            continue
        same = [other for other in rows if other["data"] == row["data"]]
        plain, native = (next(r for r in same if r["what"] == w)["empty zero"] for w in (loss, "native:rank_xendcg"))
        kind = "drawn" if smooth == "drawn" else f"g = {smooth}"
        told = [f"{plain:.2f}", f"{row['empty zero']:.2f} ({kind})", f"{row['difference']:+.2f}", *_difference(row)[1:]]
        size = str(found["sets"][row["data"]]["lists"])
        lines.append([row["data"], size, f"`{loss}`", *told, f"{native:.2f}"])
    text = f"""Elsewhere, too? The setting and the way of testing of the first table, {rows[0]["seeds"]} seeds; a list
        without a relevant document counts 0. MSLR-sample is the beginning of WEB30K, of both files of its first fold.
        Cranfield and Vaswani are texts: the first 100 documents by BM25, with 27 and 9 features that
        `benchmarks/tree_data.py` makes. All three are small, and their intervals wide."""
    return f"""## What rank_xendcg has that softmax has not

LightGBM's `rank_xendcg` differs from our `softmax` in four ways: the target of a document is 2^y - g, with g drawn in
[0, 1) for each document and round; targets are divided by their sum; lists without a relevant document take part, for
their targets are not 0 either; and the gradient has terms of higher order. `smooth` gives `softmax` and `listnet` the
first and the third: with `smooth=0.5` the loss is told 2^y - 0.5 instead of y, with `smooth="drawn"` g is drawn.

{paragraph(text)}

{grid(head, lines)}

{wrapped(SMOOTHED)}"""


def _tuned(found: dict[str, Any]) -> str:
    told = ", ".join(f"`{name}` of {', '.join(map(str, values))}" for name, values in found["grid"].items())
    count = math.prod(len(values) for values in found["grid"].values())
    studied = " and ".join(f"`{name}` of {', '.join(map(str, own))}" for name, own in found["studied"].items())
    text = f"""Each tree loss with {count} settings a fold ({told}; the rest as above), {found["seeds"]} seeds.
        Settings, number of trees and blend weights are chosen on the validation lists. The second row is LambdaMART as
        [the study](mq2008-study.md) tunes it, where it does better: four settings, {studied}, chosen with the first
        seed. LightGBM's lambdarank is blended with all its settings, and with its {found["kept"]} best, trained with
        four seeds each; ours are the {found["kept"]} best settings of each tree loss and, where it says so, three
        `{found["model"]}` with default settings. {_where(found)};
        `python benchmarks/trees.py --json docs/tables/trees-mq2008.json`."""
    head = ["ranker", "empty = 0", "empty = 1", "sd over seeds", "difference", "95% interval", "p, t-test"]
    lines = []
    for row in found["rows"]:
        numbers = [f"{row[key]:.2f}" for key in ("empty zero", "empty one", "spread")]
        lines.append([_name(row["what"]), *numbers, *_difference(row)])
    return f"""## MQ2008: against tuned LambdaMART

{paragraph(text)}

{grid(head, lines)}

{wrapped(_with_figures(BLENDS, found))}"""


def _with_figures(text: str, found: dict[str, Any]) -> str:
    """`{row, rival}` in a text becomes their difference, interval and test."""
    names = {"ours": "blend of our trees", "study": "native:lambdarank, the study's search"}
    names["reseeded"] = next(row["what"] for row in found["rows"] if row["what"].endswith("seeds"))

    def told(match: re.Match[str]) -> str:
        pair = tuple(names[word] for word in match.groups())
        row = next(row for row in found["rows"] if (row["what"], row.get("against")) == pair)
        return f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f}, p {row['p, t']:.2f})"

    return re.sub(r"\{(\w+), (\w+)\}", told, text)


def _learned(found: dict[str, Any]) -> str:
    rows = [row for row in found["rows"] if row["table"] == "learned"]
    text = f"""The setting of the first table, {rows[0]["seeds"]} seeds. The last column has the scalars at
        the best tree: least, mean and most over folds and seeds. As printed, the base of the discount cancels and never
        moves; `discount=curved` is the form in which it counts."""
    head = ["loss", "validation", "test", "sd over seeds", "difference", "95% interval", "p, t-test", "scalars"]
    lines = []
    for row in rows:
        numbers = [f"{row[key]:.2f}" for key in ("validation", "empty zero", "spread")]
        moved = [f"{name} {', '.join(f'{v:.2f}' for v in spread)}" for name, spread in row["learned"].items()]
        lines.append([_name(row["what"]), *numbers, *_difference(row), "; ".join(moved)])
    return f"""## MQ2008: LearnDCG's scalars, fixed and learned

{paragraph(text)}

{grid(head, lines)}
"""


def _rounds(found: dict[str, Any]) -> str:
    lines = [
        [
            f"`{row['objective']}`",
            f"{row['seconds']:.2f} s",
            f"{row['ratio']:.2f}",
            f"{row.get('in the objective', 0):.3f} s",
        ]
        for row in found["rows"]
    ]
    lines[0][-1] = ""
    text = f"""{found["lists"]:,} lists of WEB30K's lengths, {found["documents"]:,} documents, 136 features, 255 leaves,
        truncation at 30; median of {found["rounds"]} rounds in turns on the same data, on a machine that did other
        work too: the ratios are to be read, not the seconds. {_where(found)};
        `python benchmarks/tree_rounds.py --lists {found["lists"]} --json docs/tables/tree-rounds.json`."""
    return f"""## What a round costs

{paragraph(text)}

{grid(["objective", "a round", "ratio", "of it in our objective"], lines)}
"""
