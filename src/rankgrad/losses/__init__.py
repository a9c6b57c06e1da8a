"""Loss functions for training. Each loss is a function of scores and labels. All losses share these rules.

**Lists.** `scores` and `labels` have one of three layouts: `(..., n)` with a boolean `mask`, `(documents,)` with
`offsets (lists + 1,)`, or jagged nested tensors. The mask is True for a document, at any position. Without a mask, all
positions are documents. Padding may have any values, including NaN, and gets no gradient. A list may have one document
or no document. Only pointwise losses learn from lists with one document: other losses warn about scores `(n, 1)`
without a mask, which are n such lists.

**Labels** are finite and at least 0; 0 means irrelevant. There are two exceptions, which accept all finite labels, also
-1: `ranknet`, `hinge`, `listmle` and `p_listmle` only compare labels, `mse` and `margin_mse` predict differences of
labels or the labels themselves. Labels and weights are checked on a CPU only, because a check would wait for a GPU.

**One value per list.** `reduction="none"` returns one value per list, `"sum"` adds these values, `"mean"` averages
them over the lists that have signal. A list has signal if the loss can learn from it. Pointwise losses need a document,
`margin_mse` needs two documents, the other pairwise losses and ListMLE need two different labels, and all other losses
need a relevant document. The value of a list without signal is 0. With `"mean"`, the size of the gradient does not
depend on the batch size or the padding.

**Weights** are one number per document, finite and at least 0. Pointwise, pairwise, softmax and Plackett-Luce losses
take weights, except `rank_cosine`; relaxed metrics and learned losses do not. In a pairwise loss, the weight of a pair
is the weight of the document with the higher label; `margin_mse` uses the weights of both documents. In a softmax loss,
the weight of a document multiplies the document's part of the target. Weights change the value of each list, which is
the result of `reduction="none"`. `"sum"` and `"mean"` are computed from these values: `"mean"` divides by the number of
lists with signal, not by the sum of the weights.

A weight per list is `weights[:, None].expand_as(scores)` if `scores` is `(lists, n)`, and
`weights.repeat_interleave(offsets.diff())` if there are offsets. If all documents of a list have the same weight c, the
value of the list is multiplied by c, except in four losses: `listnet` and `xe_ndcg` do not change, because they divide
the weighted targets by their sum; `rmse` is multiplied by the square root of c; in `poly1_softmax`, only the softmax
term is multiplied by c. In every loss, `(weights * loss(..., reduction="none")).mean()` has weights per list.

**Numbers.** Losses are computed in float64 if the scores are float64, and in float32 if the scores are float32 or in
half precision. In float64, values and gradients are finite for all finite scores; in float32, they are finite for
scores from -1e30 to 1e30. Scores are not checked: if a score of a list is NaN, the value of the list is NaN. If a score
is infinite, the value may be a finite number, but it has no meaning: exclude documents with a mask, not with scores of
-inf.

**Transforms.** Every loss works in `torch.compile(fullgraph=True)`, in `torch.func.vmap` and in `torch.func.grad`,
except custom losses of one list. With PyTorch 2.11, `vmap` of a loss that sorts documents is an error; use PyTorch
2.13.

**Symbols.** In the formulas,

- `n` is the number of documents of a list,
- `s_i` and `y_i` are the score and the label of document i,
- `w_i` is the weight of document i, 1 without weights,
- `k` is the cutoff; a sum over ranks ends at min(k, n), and without a cutoff at n,
- `G_i` is the gain of document i, 2^y_i - 1,
- `D(r)` is the discount of rank r, log2(1 + r),
- `IDCG@k` is the highest possible DCG@k of a list, its DCG@k in the order of the labels,
- `R` is the number of relevant documents of a list,
- `I^r_j` is the share of document j at rank r, an indicator of `rankgrad.relax.smoothi`,
- `sigma(x)` is the sigmoid function, 1 / (1 + e^-x),
- `[c]` is 1 if the condition c is true, otherwise 0.

`relaxed(metric, operator)` makes a loss from any metric and any operator of `rankgrad.relax`. `gumbel(loss)` averages
any loss over noisy scores. `weighted_sum((0.7, "softmax"), (0.3, bce))` adds losses. `parse_loss("lambdaloss@5")` makes
a loss from a spec, `as_loss(function)` makes a loss from a function. `value_and_grad(loss, scores, labels)` returns
the loss and its gradient without a backward pass.
"""

from rankgrad import moved
from rankgrad.losses.approx import approx_ap, approx_mrr, approx_ndcg, approx_precision
from rankgrad.losses.custom import as_loss as as_loss
from rankgrad.losses.custom import weighted_sum as weighted_sum
from rankgrad.losses.from_text import KNOWN as _KNOWN
from rankgrad.losses.from_text import parse_loss as parse_loss
from rankgrad.losses.gumbel import gumbel as gumbel
from rankgrad.losses.learned import LearnDCG
from rankgrad.losses.list_ap import list_ap
from rankgrad.losses.listce import listce
from rankgrad.losses.listwise import (
    listmle,
    listnet,
    p_listmle,
    poly1_softmax,
    rank_cosine,
    softmax,
    unique_softmax,
    xe_ndcg,
)
from rankgrad.losses.margin_mse import margin_mse
from rankgrad.losses.neural_loss import NeuralLoss
from rankgrad.losses.pairwise import hinge, lambdaloss, lambdarank, ranknet
from rankgrad.losses.pointwise import bce, mse, rmse
from rankgrad.losses.relaxed import relaxed as relaxed
from rankgrad.losses.smoothi import smooth_ap, smooth_ndcg, smooth_precision
from rankgrad.losses.soft_ndcg import fastsort_ndcg, neural_ndcg, ot_ndcg, softrank_ndcg, softsort_ndcg
from rankgrad.losses.value_and_grad import value_and_grad as value_and_grad

__all__ = [
    "LearnDCG",
    "NeuralLoss",
    "approx_ap",
    "approx_mrr",
    "approx_ndcg",
    "approx_precision",
    "bce",
    "fastsort_ndcg",
    "hinge",
    "lambdaloss",
    "lambdarank",
    "list_ap",
    "listce",
    "listmle",
    "listnet",
    "margin_mse",
    "mse",
    "neural_ndcg",
    "ot_ndcg",
    "p_listmle",
    "poly1_softmax",
    "rank_cosine",
    "ranknet",
    "rmse",
    "smooth_ap",
    "smooth_ndcg",
    "smooth_precision",
    "softmax",
    "softrank_ndcg",
    "softsort_ndcg",
    "unique_softmax",
    "xe_ndcg",
]

_KNOWN.update({name.lower(): globals()[name] for name in __all__})

# Names of version 0.1.0.
__getattr__ = moved.renamed(__name__, {"parse": "parse_loss"})
