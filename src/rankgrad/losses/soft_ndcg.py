"""Negative NDCG as a loss, computed from soft permutations (NeuralNDCG, SoftRank) or from soft ranks (all others)."""

from typing import Any

from torch import Tensor

from rankgrad.kernels.options import NeuralNDCGOptions, Regularisation, SoftNDCGOptions
from rankgrad.lists import Lists, as_lists
from rankgrad.losses.fused import fused
from rankgrad.losses.metric_formula import MetricFormula, check_cutoff
from rankgrad.losses.relaxed import on_ranks, relaxed_loss
from rankgrad.losses.traits import Traits
from rankgrad.relax import Relaxation, fast_sort, neural_sort, optimal_transport, soft_rank, soft_sort

BETA = 10.0  # sharpness of the soft cutoff of soft ranks


def neural_ndcg(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    temperature: float = 1.0,
    transposed: bool = False,
    sinkhorn_rounds: int = 30,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""NeuralNDCG: negative NDCG; NeuralSort with Sinkhorn scaling sorts the gains (NeuralNDCG paper, Eq. 5 and 6).

    .. math:: \ell(s, y) = -\frac{1}{\mathrm{IDCG}@k} \sum_{r=1}^k
              \frac{\bigl(\mathrm{scale}(P)\, (2^y - 1)\bigr)_r}{\log_2(1 + r)}

    P is the soft permutation of `rankgrad.relax.neural_sort`: row r contains the share of each document at rank r.
    scale(P) is P after the Sinkhorn rounds, which make the sum of each row and column 1.

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: cutoff; with None, all ranks count.
        temperature: tau of NeuralSort; with a smaller value, the loss is closer to negative NDCG.
        transposed: True to scale the transpose of P. Then the discounts are summed over the documents (NeuralNDCG^T).
        sinkhorn_rounds: number of Sinkhorn rounds; each round scales columns, then rows. With 0, P is not scaled.

    The stochastic form of this loss is `gumbel(neural_ndcg)`.

    Example:
        >>> neural_ndcg(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.6865)

    References:
        Pobrotyn and Bialobrzeski, "NeuralNDCG", SIGIR eCom 2021.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    operator = neural_sort(temperature, sinkhorn_rounds, transposed)
    options = NeuralNDCGOptions(k or 0, temperature, bool(transposed), sinkhorn_rounds)
    loss = fused("neural_ndcg", lists, reduction, options)
    return relaxed_loss(MetricFormula("nDCG", k), operator, lists, reduction) if loss is None else loss


def softrank_ndcg(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    sigma: float = 1.0,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""SoftRank: an approximation of the negative expected NDCG if every score has Gaussian noise.

    .. math:: \ell(s, y) = -\frac{1}{\mathrm{IDCG}@k} \sum_j (2^{y_j} - 1) \sum_{r=1}^k \frac{p_j(r)}{\log_2(1 + r)}

    p_j(r) is the probability of rank r for document j, by the recursion of the paper (`rankgrad.relax.soft_rank`). The
    recursion treats the comparisons of document j with the other documents as independent. So p_j is exact for two
    documents, and approximate for three or more. The cost is O(n^3): use this loss for lists of up to about a hundred
    documents.

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: cutoff; with None, all ranks count.
        sigma: standard deviation of the noise, in units of the score. With a smaller value, the loss is closer to
            negative NDCG.

    Example:
        >>> softrank_ndcg(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.6743)

    References:
        Taylor et al., "SoftRank: Optimizing Non-Smooth Rank Metrics", WSDM 2008.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    return relaxed_loss(MetricFormula("nDCG", k), soft_rank(sigma), lists, reduction)


def softsort_ndcg(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    temperature: float = 1.0,
    p: int = 1,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""SoftSort: the formula of ApproxNDCG with the mean ranks of SoftSort, as in the SmoothI paper.

    `relaxed(nDCG, soft_sort())` uses the soft permutation instead of the ranks.

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: soft cutoff, a sigmoid with sharpness 10 around rank k + 1/2; with None, all ranks count.
        temperature: tau of `rankgrad.relax.soft_sort`; with a smaller value, ranks are closer to the exact ranks.
        p: power of the distance between scores, 1 or 2.

    Example:
        >>> softsort_ndcg(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.6309)

    References:
        Prillo and Eisenschlos, "SoftSort: A Continuous Relaxation for the argsort Operator", ICML 2020.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    operator = soft_sort(temperature, p)
    loss = fused("softsort_ndcg", lists, reduction, SoftNDCGOptions(k or 0, BETA, temperature, int(p)))
    return _at_ranks(operator, k, lists, reduction) if loss is None else loss


def fastsort_ndcg(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    temperature: float = 1.0,
    regularisation: str = "l2",
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""FastSort: the formula of ApproxNDCG with the soft ranks of FastSort, as in the SmoothI paper.

    The cost is O(n log n).

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: soft cutoff, a sigmoid with sharpness 10 around rank k + 1/2; with None, all ranks count.
        temperature: epsilon of `rankgrad.relax.fast_sort`; with a smaller value, ranks are closer to the exact ranks,
            but fewer documents have a gradient.
        regularisation: kind of regularisation, `"l2"` or `"entropic"`.

    Example:
        >>> fastsort_ndcg(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.6309)

    References:
        Blondel et al., "Fast Differentiable Sorting and Ranking", ICML 2020.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    operator = fast_sort(temperature, regularisation)
    device = lists.given.scores.device.type
    chosen = Regularisation[regularisation.upper()]
    options = SoftNDCGOptions(k or 0, BETA, temperature, regularisation=chosen)
    # The kernel pools adjacent violators one after the other, which is slow on a GPU.
    lacking = None if device == "cpu" else f"fastsort_ndcg on {device}"
    loss = fused("fastsort_ndcg", lists, reduction, options, lacking=lacking)
    return _at_ranks(operator, k, lists, reduction) if loss is None else loss


def ot_ndcg(
    scores: Any,
    labels: Any,
    *,
    k: int | None = None,
    temperature: float = 0.01,
    rounds: int = 30,
    mask: Any = None,
    offsets: Any = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Optimal transport: the formula of ApproxNDCG with soft ranks from optimal transport, as in the SmoothI paper.

    Args:
        scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        k: soft cutoff, a sigmoid with sharpness 10 around rank k + 1/2; with None, all ranks count.
        temperature: epsilon of `rankgrad.relax.optimal_transport`; with a smaller value, ranks are closer to the exact
            ranks, but more rounds are needed.
        rounds: number of Sinkhorn rounds, at least 1.

    Example:
        >>> ot_ndcg(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(-0.6309)

    References:
        Cuturi, Teboul and Vert, "Differentiable Ranking and Sorting using Optimal Transport", NeurIPS 2019.
    """
    check_cutoff(k)
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
    return _at_ranks(optimal_transport(temperature, rounds), k, lists, reduction)


def _at_ranks(operator: Relaxation, k: int | None, lists: Lists, reduction: str) -> Tensor:
    """Compute negative NDCG by the formula of ApproxNDCG, with the soft ranks of any operator."""
    metric = MetricFormula("nDCG", k)
    return metric.loss(lists, on_ranks(metric, lists, operator._ranks(lists.scores, lists.mask), BETA), reduction)


TRAITS = dict.fromkeys((neural_ndcg, softrank_ndcg, softsort_ndcg, fastsort_ndcg, ot_ndcg), Traits(gain=True))
