"""Make losses from specs, for the command line, recipes and saved models."""

import inspect
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rankgrad import relax
from rankgrad.backend import backend
from rankgrad.errors import Problems, bad_value, one_of
from rankgrad.losses.composed import WeightedSum, learned_scalars, takes_weights
from rankgrad.losses.gumbel import gumbel
from rankgrad.losses.relaxed import relaxed
from rankgrad.losses.traits import Traits, traits_of
from rankgrad.metrics import parse_metric as parse_metric
from rankgrad.option_checks import check_sizes, fit_options
from rankgrad.spec import known_options, no_cutoff, show, spell, weighted_terms, write, write_sum

# Ways to train the parameters of a loss: together with the ranker, by the standard NDCG of held-out lists, or by the
# metric of the run on held-out lists.
ADAPTS = ("joint", "heldout", "metric")
# Arguments that are given with the lists, not in the spec.
LISTS = ("scores", "labels", "mask", "offsets", "weights", "noise", "reduction")
# Losses by their name in lower case; `rankgrad.losses` adds everything in its `__all__`.
KNOWN: dict[str, Callable[..., Any]] = {}
# Our losses by their names in other libraries and papers, without `_` and `loss`, if they are not similar to our names.
_ELSEWHERE = {
    "ce": ("softmax",),
    "crossentropy": ("softmax", "bce"),
    "softmaxcrossentropy": ("softmax",),
    "infonce": ("softmax",),
    "kldiv": ("listnet",),
    "sigmoidcrossentropy": ("bce",),
    "pointwisesigmoid": ("bce",),
    "bcewithlogits": ("bce",),
    "binarycrossentropy": ("bce",),
    "meansquared": ("mse",),
    "meansquarederror": ("mse",),
    "pointwisemse": ("mse",),
    "pairwiselogistic": ("ranknet",),
    "bpr": ("ranknet",),
    "pairwisehinge": ("hinge",),
    "marginranking": ("hinge",),
    "ndcg": ("lambdaloss", "approx_ndcg", "smooth_ndcg"),
    "map": ("approx_ap", "smooth_ap", "list_ap"),
    "mrr": ("approx_mrr", "softmax"),
}


class TextLoss(nn.Module):
    """A loss with options, from a spec. `str(loss)` is the spec; `takes_weights` is True if the loss takes weights.

    `adapt` is a name in `ADAPTS`: the way in which a training run trains the parameters of the loss.
    """

    takes_batch = False  # True for a custom function of the scores and the batch of a training
    warns = False  # True if the next call warns that only the training loop of rankgrad knows `adapt`

    def __init__(
        self, text: str, function: Callable[..., Tensor], options: dict[str, Any], weights: bool, adapt: str = "joint"
    ) -> None:
        super().__init__()
        self.text, self.function, self.options, self.takes_weights = text, function, options, weights
        self.adapt = adapt
        self.warns = adapt != "joint"

    def forward(self, scores: Any, labels: Any, **lists: Any) -> Tensor:
        """Compute the loss of the spec.

        Args:
            scores, labels: the lists; see `rankgrad.losses`.
            lists: keywords that every loss takes: `mask`, `offsets`, `reduction`; also `weights` if `takes_weights` is
                True.
        """
        if self.warns and not torch.compiler.is_compiling():
            self._warn()
        weights = lists.pop("weights", None)
        if weights is not None:
            if not self.takes_weights and not isinstance(self.function, WeightedSum):  # a sum names the loss
                bad_value("weights", f"be None for {self}, which takes no weights", "weights")
            lists["weights"] = weights
        return self.function(scores, labels, **self.options, **lists)

    def _warn(self) -> None:
        """Warn once if the parameters of the loss are trained together with the ranker in spite of `adapt`."""
        if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in self.parameters()):
            self.warns = False
            told = f"adapt={self.adapt} has no effect in a custom training loop; use rankgrad.training.train"
            warnings.warn(f"{told} or rankgrad.Ranker", stacklevel=5)  # the line that calls the module

    if TYPE_CHECKING:
        __call__ = forward  # PyTorch's declaration returns Any

    def learned(self) -> dict[str, float]:
        """Return the values of the loss's learned parameters by name. Most losses have no such parameters."""
        return learned_scalars(self, inside=True)

    @property
    def traits(self) -> Traits:
        """Traits of the loss with its options."""
        return traits_of(self.function, self.options)

    def only_joint(self, what: str) -> None:
        """Raise an error if the spec of the loss contains `adapt=heldout` or `adapt=metric`.

        Args:
            what: name of the feature that supports only `adapt=joint`; the error message contains this name.
        """
        if self.adapt != "joint":
            bad_value("adapt", f"be 'joint' with {what}", repr(self.adapt))

    def extra_repr(self) -> str:
        """Return the spec of the loss as text, for `print` of a module that contains the loss."""
        return repr(self.text)

    def __str__(self) -> str:
        return self.text


def parse_loss(text: str) -> TextLoss:
    """Make a loss from a spec: the name of a loss in upper or lower case, with a cutoff and options.

    With `gumbel=N`, any loss is averaged over N noisy copies of the scores.
    `relaxed:metric=AP,operator=neural_sort,...` makes a loss from any metric and any operator; all other options belong
    to the operator. A loss with learned parameters takes `adapt=joint`; `heldout` and `metric` are deprecated.
    `0.7*softmax+0.3*bce` is a weighted sum of losses; each loss may have a cutoff and options.

    Args:
        text: spec `name[@k][:key=value,...]` or `name(key=value, ...)[@k]`, or a sum of specs, `weight*spec+...`.

    Example:
        >>> loss = parse_loss("lambdaloss@5")
        >>> loss(torch.tensor([[2., 1., 3.]]), torch.tensor([[1., 0., 0.]]))
        tensor(0.6003)
        >>> parse_loss("0.7*softmax+0.3*bce").takes_weights
        True
        >>> parse_loss("lamdaloss")
        Traceback (most recent call last):
        ValueError: loss must be a known name; got 'lamdaloss'; did you mean 'lambdaloss'?
    """
    if isinstance(text, str) and text.startswith("native:"):
        must = "be a loss of rankgrad (native objectives are for trees: use TreeRanker, or the model lightgbm)"
        bad_value("loss", must, repr(text))
    terms = weighted_terms("loss", text)
    if len(terms) == 1 and terms[0][0] is None:
        return _one(text)
    parsed = [(1.0 if weight is None else weight, _one(term)) for weight, term in terms]
    for _, loss in parsed:
        loss.only_joint("a weighted sum")
    total = WeightedSum(parsed)
    return TextLoss(write_sum((weight, str(loss)) for weight, loss in parsed), total, {}, total.takes_weights)


def _one(text: str) -> TextLoss:
    """Make a loss from the spec of a single loss, not of a sum."""
    name, k, options = spell("loss", text)
    canonical = write(name, k, options)
    _check_name(name)
    samples, adapt = _samples(options), options.pop("adapt", None)
    function, options = (_relaxed(k, options), {}) if name == "relaxed" else _function(KNOWN[name], k, options)
    weights = takes_weights(function)
    # This call on two documents makes the loss check its options. A loss that draws random numbers draws its own.
    with backend("plain"), torch.no_grad(), torch.random.fork_rng([]):
        function(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]), **options)
    if samples is not None:
        function = gumbel(function, samples)
    loss = TextLoss(canonical, function, options, weights, adapt or "joint")
    if adapt is not None:
        one_of("adapt", adapt, ADAPTS)
        if not any(parameter.requires_grad for parameter in loss.parameters()):
            bad_value("loss", "have learned parameters if it contains the option adapt", repr(canonical))
    if samples is not None:
        loss.only_joint("gumbel")  # finite differences of the loss would measure the noise
    return loss


def _check_name(name: str) -> None:
    """Check that a loss has this name; the error suggests our name of a loss of another library, or similar names."""
    ours = _ELSEWHERE.get(re.sub("[-_]|loss$", "", name))
    if ours is not None:
        bad_value("loss", "be a known name", f"{name!r}; did you mean {' or '.join(map(repr, ours))}?")
    one_of("loss", name, (*KNOWN, "relaxed"))


def _samples(options: dict[str, Any]) -> int | None:
    """Remove the option `gumbel` from the options of a loss, and return its value; None without this option.

    The value is the number of noisy copies of the scores.
    """
    if "gumbel" not in options:
        return None
    samples = options.pop("gumbel")
    check_sizes("loss", {"gumbel": samples})
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        bad_value("gumbel of loss", "be an integer of at least 1", show(samples))
    return samples


def _function(loss: Any, k: int | None, options: dict[str, Any]) -> tuple[Callable[..., Tensor], dict[str, Any]]:
    """Return the function of a loss and the options of each call.

    If the loss has trainable parameters, this function creates the module of the loss.
    """
    name = loss.__name__.lower()
    takes = [option for option in inspect.signature(loss).parameters if option not in LISTS]
    known_options(name, options, takes)
    for option, parameter in inspect.signature(loss).parameters.items():
        if option in takes and option not in options and parameter.default is parameter.empty:
            bad_value("loss", f"contain the option {option}, as in {name}:{option}=...", repr(name))
    if "learn" in options:  # parameters of LearnDCG joined by "-", or none
        options["learn"] = str(options["learn"]).split("-") if options["learn"] else ()
    options = fit_options(name, options, loss)
    if k is not None:
        if "k" not in takes:
            bad_value("loss", f"have no cutoff, because {name} does not support a cutoff", f"'{name}@{k}'")
        if "k" in options:
            bad_value("loss", "contain k only once", f"'{name}@{k}' with k={options['k']}")
        options = {"k": k, **options}
    return (loss(**options), {}) if isinstance(loss, type) else (loss, options)


def _relaxed(k: int | None, options: dict[str, Any]) -> Callable[..., Tensor]:
    if "metric" not in options or "operator" not in options:
        bad_value("loss", "have the form relaxed:metric=nDCG@10,operator=neural_sort,...", f"options {sorted(options)}")
    try:
        metric = parse_metric(str(options.pop("metric")))
    except Problems as error:
        raise error.renamed("metric", "metric of relaxed") from None  # not the setting `metric` of a run
    if k is not None and metric.k is not None:
        bad_value("loss", "contain k only once", f"'relaxed@{k}' with metric={metric}")
    text = str(options.pop("operator"))
    operator, _, operator_options = no_cutoff("operator", spell("operator", text), text)
    classes = (name for name in relax.__all__ if isinstance(getattr(relax, name), type))
    one_of("operator", operator, [name for name in classes if name != "Relaxation"])
    make = getattr(relax, operator)
    for option in operator_options:
        if option in options:
            bad_value("loss", f"contain {option} only once", f"operator={text} with {option}={show(options[option])}")
    options |= operator_options
    known_options(operator, options, inspect.signature(make).parameters)
    return relaxed(metric if k is None else metric @ k, make(**fit_options(operator, options, make)))
