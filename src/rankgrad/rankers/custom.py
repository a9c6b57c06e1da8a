"""Use any network as a ranker: `as_ranker` makes a ranker with the same interface as the rankers made from specs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.custom_objects import CUSTOM_PREFIX, CallSignature, check_callable, describe, only_described, own_copy
from rankgrad.errors import bad_type, bad_value, first_line
from rankgrad.rankers.from_text import build, parse_ranker
from rankgrad.rankers.list_index import ListIndex
from rankgrad.rankers.scorer import Scorer

Network = str | nn.Module | Callable[[int], nn.Module]

_KINDS = "a spec such as 'mlp:widths=64-32', an nn.Module, or a function of the feature count that returns a module"


class CustomRanker(Scorer):
    """A custom network that scores each document separately: `network(features (documents, f))`.

    Args:
        features: f, the number of features.
        network: module that returns scores, `(documents,)` or `(documents, 1)`.
    """

    model = "own"

    def __init__(self, features: int, network: nn.Module) -> None:
        super().__init__(features, description=describe(network))
        self.network = network

    def score(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the scores of a custom network, `(rows,)`; see `Scorer`."""
        return self._checked(self.network(rows), (rows.shape[0],), rows)

    def forward(self, features: Tensor, offsets: Tensor, *, width: int | None = None) -> Tensor:
        """Return the scores of a custom network for flat lists, `(documents,)`; see `Scorer`."""
        if features.dim() == 2 and features.shape[0] == 0:
            return features.sum(-1)  # the network is not called without documents
        return super().forward(features, offsets, width=width)

    def _checked(self, scores: Any, shape: tuple[int, ...], features: Tensor) -> Tensor:
        if not isinstance(scores, Tensor) or tuple(scores.shape) not in (shape, (*shape, 1)):
            must = f"return one score per document, of shape {shape} for features of shape {tuple(features.shape)}"
            got = f"shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
            bad_value("model", must, f"{got} from {self.config['description']}")
        return scores.reshape(shape)


class CustomPadded(CustomRanker):
    """A custom network that takes padded lists: `network(features (lists, n, f), mask (lists, n))`.

    Args:
        features: f, the number of features.
        network: module that returns scores, `(lists, n)` or `(lists, n, 1)`. The scores of padding are ignored.
    """

    list_aware = True

    def score(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the scores of a custom network, `(rows,)`; see `Scorer`."""
        padded = torch.where(index.mask[..., None], index.pad(rows), 0.0)
        scores = self._checked(self.network(padded, mask=index.mask), tuple(padded.shape[:2]), padded)
        return index.unpad(scores[..., None]).squeeze(-1)


class CustomFlat(CustomRanker):
    """A custom network that takes flat lists: `network(features (documents, f), offsets (lists + 1,))`.

    Args:
        features: f, the number of features.
        network: module that returns scores, `(documents,)` or `(documents, 1)`.
    """

    list_aware = True

    def forward(self, features: Tensor, offsets: Tensor, *, width: int | None = None) -> Tensor:
        """Return a custom network's scores of flat lists, `(documents,)`. Rows after the last list are not allowed."""
        self._check(features, 2, "(documents, {})")
        if features.shape[0] == 0:
            return features.sum(-1)
        return self._checked(self.network(features, offsets=offsets), (features.shape[0],), features)

    def padded(self, features: Tensor, mask: Tensor) -> Tensor:
        """Return the scores of a custom network for padded lists, `(lists, n)`. Padding has score 0."""
        offsets = nn.functional.pad(mask.sum(-1).cumsum(0), (1, 0))
        scores = self(features[mask], offsets)
        return scores.new_zeros(mask.shape).masked_scatter(mask, scores)


_FORMS: dict[str | None, type[CustomRanker]] = {None: CustomRanker, "mask": CustomPadded, "offsets": CustomFlat}


def as_ranker(model: Any, features: int) -> Scorer:
    """Make a ranker from a spec, from a copy of a network, or from a function that returns a network.

    The parameter names of the network's `forward` determine the layout of the lists. `(features, mask)` means padded
    lists. `(features, offsets)` means flat lists. `(features)` means that each document is scored separately.

    Args:
        model: a spec, an `nn.Module`, or a function or class that is called with the number of features; or the result
            of `check_ranker`.
        features: f, the number of features.

    Example:
        >>> ranker = as_ranker(torch.nn.Linear(3, 1), 3)
        >>> ranker(torch.ones(5, 3), torch.tensor([0, 2, 5])).shape, ranker.config["description"]
        (torch.Size([5]), 'torch.nn.modules.linear.Linear')
    """
    if not isinstance(model, tuple):
        model = check_ranker(model)
    if isinstance(model, tuple):
        return build(model[0], features=features, **model[1])
    if isinstance(model, nn.Module):
        network = own_copy("model", model)
    else:
        network = model(features)
        if not isinstance(network, nn.Module):
            bad_type("model", "return an nn.Module", f"{type(network).__name__} from {describe(model)}")
    if isinstance(network, Scorer):
        if network.features != features:
            bad_value("model", f"take the {features} features of the data", network.features)
        return network
    ranker = _FORMS[_form(network)](features, network)
    _try(ranker)
    if not any(parameter.requires_grad for parameter in ranker.parameters()):
        bad_value("model", "have trainable parameters", f"none in {describe(network)}")
    return ranker


def check_ranker(model: Any) -> Any:
    """Check the spec, network or function of a ranker, as far as this is possible without data, and return it.

    Args:
        model: a spec, a network or a function; see `as_ranker`. Of a spec, name and options are returned.
    """
    if isinstance(model, str):
        only_described("model", model)
        return parse_ranker(model)
    check_callable("model", model, _KINDS)
    if isinstance(model, nn.Module):
        if not isinstance(model, Scorer):
            _form(model)
    elif not (takes := CallSignature(model)).fits(1):
        bad_value("model", f"be {_KINDS}", f"{describe(model)}{takes}")
    return model


def ranker_text(model: Any) -> str:
    """Return the spec of a ranker, or a description of a custom network.

    Args:
        model: a spec, a network or a function; see `as_ranker`.
    """
    return model if isinstance(model, str) else f"{CUSTOM_PREFIX}{describe(model)}"


def _form(network: nn.Module) -> str | None:
    """Return the name of the second parameter of a custom network's `forward`: `mask`, `offsets` or None."""
    takes = CallSignature(network.forward)
    named = next((name for name in ("mask", "offsets") if name in takes.named), None)
    if not takes.fits(1, *([named] if named else [])):
        must = "be a network whose forward takes (features), (features, mask) or (features, offsets)"
        bad_value("model", must, f"{describe(network)} with forward{takes}")
    return named


@torch.no_grad()
def _try(ranker: CustomRanker) -> None:
    """Score two small lists with a custom network, to find wrong shapes early and to initialise lazy layers."""
    training = ranker.training
    ranker.eval()
    rows = torch.zeros(5, ranker.features)
    for parameter in ranker.parameters():
        rows = rows.to(parameter.device)
    try:
        ranker(rows, torch.tensor([0, 2, 5], device=rows.device))
    except RuntimeError as error:
        got = f"the error {first_line(error)} from {ranker.config['description']}"
        bad_value("model", f"score documents of {ranker.features} features", got)
    finally:
        ranker.train(training)
