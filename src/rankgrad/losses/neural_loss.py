"""NeuralLoss: a loss in which a network, pretrained on generated lists, replaces the metric."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from rankgrad.errors import bad_value, one_of
from rankgrad.lists import Lists, as_lists, values_are_cheap
from rankgrad.losses.metric_formula import MetricFormula
from rankgrad.losses.surrogate_networks import read_network
from rankgrad.losses.traits import Traits

SHIPPED = Path(__file__).parent / "weights"
GRADES = (3, 5)


class NeuralLoss(nn.Module):
    r"""NeuralLoss: negative NDCG, estimated by a frozen network that was pretrained on generated lists.

    .. math:: \ell_{mended}(s, y) = -\sum_i \frac{2^{y_i} - 1}{\mathrm{ideal}} f_i(s), \quad
              \ell_{published}(s, y) = -\frac{f(\sigma(s), y)}{f(y / G, y) + 10^{-6}}

    In the form `"published"`, f is a Transformer that estimates DCG with linear gain. It was trained on lists of 40 to
    50 documents with G grades. The divisor is the estimate for the ideal order. The form `"mended"` is our correction:
    f_i estimates the discount of document i from the number of documents with higher scores. Sigmoids at three
    temperatures compute this number. Gain and ideal DCG are exact. The network was trained on lists of 1 to 200
    documents. The mended form accepts any labels and does not depend on the scale of the scores.

    Args:
        grades: G of the published form, 3 or 5; labels are 0 to G - 1.
        form: form of the loss, `"mended"` or `"published"`.
        path: folder of a network, written by `rankgrad pretrain-loss`. The form and the grades of this network replace
            the arguments `form` and `grades`.

    Example:
        >>> loss = NeuralLoss()
        >>> loss(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))  # NDCG is 0.63
        tensor(-0.6...)

    References:
        Liu, Jiang and Zhou, "NeuralLoss: A Learnable Pretrained Surrogate Loss for Learning to Rank", TKDE 2025.
    """

    def __init__(self, grades: int = 5, form: str = "mended", path: str | Path | None = None) -> None:
        super().__init__()
        one_of("form", form, ("mended", "published"))
        if path is None and form == "published" and grades not in GRADES:
            bad_value("grades", "be 3 or 5 (for other labels, use the form 'mended', which needs no grades)", grades)
        shipped = SHIPPED / (f"published-{grades}.safetensors" if form == "published" else "mended.safetensors")
        network, self.facts = read_network(shipped if path is None else Path(path))
        self.form: str = network.config["form"]
        self.grades: int = network.config.get("grades", grades)
        # The weights are buffers that are not saved. So no optimiser updates them, a saved model does not contain them,
        # and `to` moves them.
        self._names = {name.replace(".", "_"): name for name, _ in network.named_parameters()}
        for buffer, name in self._names.items():
            self.register_buffer(buffer, network.get_parameter(name).detach(), persistent=False)
        self._network = (network.to("meta"),)  # a tuple hides the module from PyTorch; only its code is used

    @property
    def traits(self) -> Traits:
        """Traits of NeuralLoss; the published form has a linear gain."""
        return Traits(gain=self.form == "mended")

    def forward(
        self, scores: Any, labels: Any, *, mask: Any = None, offsets: Any = None, reduction: str = "mean"
    ) -> Tensor:
        """Compute NeuralLoss.

        Args:
            scores, labels, mask, offsets, reduction: the lists and the reduction; see `rankgrad.losses`.
        """
        lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=0)
        if self.form == "published":
            self._check_grades(lists)
        n = lists.scores.shape[-1]
        if n == 0:
            return MetricFormula("nDCG").loss(lists, lists.scores.sum(-1), reduction)
        flat = [part.reshape(-1, n) for part in (lists.scores, lists.labels, lists.mask)]
        # Autocast would choose half precision, which is too coarse for a metric.
        with torch.autocast(lists.scores.device.type, enabled=False):
            value = self._ndcg(*flat).reshape(lists.scores.shape[:-1])
        return MetricFormula("nDCG").loss(lists, value, reduction)

    if TYPE_CHECKING:
        __call__ = forward  # PyTorch's declaration returns Any

    def _ndcg(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        if self.form == "mended":
            return self.estimate(scores, labels, mask)
        ideal = self.estimate(labels / self.grades, labels, mask)
        # The estimate may be below 0 for lists that differ from the training lists. The divisor must stay positive.
        return self.estimate(scores.sigmoid(), labels, mask) / (ideal.clamp(min=0.0) + 1e-6)

    def estimate(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the estimate of NeuralLoss's network for each list, `(lists,)`: nDCG (mended) or DCG (published).

        Args:
            scores: `(lists, n)`; in the form published, from 0 to 1.
            labels: `(lists, n)`, at least 0.
            mask: boolean `(lists, n)`, True for a document.
        """
        if not values_are_cheap(mask) or not bool((mask[:, 1:] <= mask[:, :-1]).all()):
            return self._estimate(scores, labels, mask)
        # Lists of similar length are computed together, because it is expensive to run the network on padding.
        lengths = mask.sum(-1).clamp(min=8)
        parts, rows = [], []
        for size in (exponents := lengths.log2().ceil()).unique():
            row = (exponents == size).nonzero()[:, 0]
            width = int(mask[row].sum(-1).max())
            parts.append(self._estimate(*(each[row, : max(width, 1)] for each in (scores, labels, mask))))
            rows.append(row)
        return torch.cat(parts)[torch.cat(rows).argsort()] if parts else self._estimate(scores, labels, mask)

    def _estimate(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        weights = {name: getattr(self, buffer).to(scores.dtype) for buffer, name in self._names.items()}
        found: Tensor = functional_call(self._network[0], weights, (scores, labels, mask))
        return found

    def _check_grades(self, lists: Lists) -> None:
        """Check the labels for the published form of NeuralLoss, if they are on a CPU.

        On a GPU, a check would wait for the device. So the network only clamps the labels.
        """
        labels = lists.labels
        if values_are_cheap(labels) and labels.numel():
            must = f"be integers from 0 to {self.grades - 1} for a network with {self.grades} grades"
            others = labels[(labels > self.grades - 1) | (labels != labels.round())]
            if len(others):
                bad_value("labels", must, f"{float(others[0]):g}")

    def extra_repr(self) -> str:
        """Return grades and form of a NeuralLoss as text, for `print`."""
        return f"grades={self.grades}, form={self.form!r}"
