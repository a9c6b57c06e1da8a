"""How much the last digit of the scores matters to a loss."""

import copy
import functools
import math

import torch
from made_lists import Lists


def one_ulp(lists: Lists, loss, truth, draws: int = 5) -> float:
    """The largest change of plain values and gradients, over the largest of each, by one unit in the last place.

    Every score moves up, down, or not at all, as drawn; equal scores move alike. So do SmoothI's alpha and delta: where
    scores have two levels, there is little else to move.
    """
    largest = [max(1.0, float(part.abs().max())) if part.numel() else 1.0 for part in truth]
    worst, generator = 0.0, torch.Generator().manual_seed(0)
    levels, level = lists.scores.unique(return_inverse=True)
    for _ in range(draws):
        moved = copy.copy(lists)
        way = torch.randint(-1, 2, levels.shape, generator=generator).to(levels) * torch.inf
        moved.scores = torch.where(way.isnan(), levels, torch.nextafter(levels, way))[level]
        for part, other, scale in zip(moved.outcome(_moved(loss, generator), "plain"), truth, largest, strict=True):
            worst = max(worst, float((part - other).abs().max()) / scale if part.numel() else 0.0)
    return worst


def _moved(loss, generator):
    """The loss with its alpha and delta moved."""
    if not isinstance(loss, functools.partial):
        return loss
    options = {"delta": 0.1, **loss.keywords}
    for name in {"alpha", "delta"} & options.keys():
        way = int(torch.randint(-1, 2, (), generator=generator))
        options[name] = math.nextafter(options[name], way * math.inf) if way else options[name]
    return functools.partial(loss.func, **options)
