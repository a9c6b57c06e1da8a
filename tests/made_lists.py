"""Random ragged lists, and what a loss makes of them: values and gradients, flat or scattered over padding."""

import numpy as np
import pytest
import torch

import rankgrad as rg

LENGTHS = (3, 0, 1, 2, 63, 64, 65, 240)
# For Triton's interpreter, which is slow: each layout and each type in every run, all pairs in the long tests.
LAYOUTS_AND_TYPES = [
    ("flat", torch.float64),
    ("scattered", torch.float32),
    pytest.param("flat", torch.float32, marks=pytest.mark.long),
    pytest.param("scattered", torch.float64, marks=pytest.mark.long),
]


class Lists:
    """Random lists; in the scattered layout there are three places more than documents, with junk in them."""

    def __init__(self, lengths=LENGTHS, scale=1.0, seed=0, labels=range(5), tied=False, dtype=torch.float64):
        random = np.random.default_rng(seed)
        documents, width = sum(lengths), max(lengths) + 3
        scores = random.normal(size=documents)
        self.scores = torch.tensor((np.round(scores) if tied else scores) * scale, dtype=dtype)
        self.labels = torch.tensor(random.choice(labels, documents))
        self.weights = torch.tensor(random.uniform(0.2, 2.0, documents), dtype=dtype)
        self.offsets = torch.tensor([0, *lengths]).cumsum(0)
        mask = np.zeros((len(lengths), width), bool)
        for l, n in enumerate(lengths):
            mask[l, random.choice(width, n, replace=False)] = True
        self.mask = torch.tensor(mask)

    def scattered(self, values, junk):
        return torch.full(self.mask.shape, junk, dtype=values.dtype).masked_scatter(self.mask, values)

    def outcome(self, loss, backend, layout="flat", weighted=False, dtype=None, reduction="none", **options):
        """Values, and gradients by document under an upstream gradient that differs from list to list."""
        dtype = dtype or self.scores.dtype
        leaf, labels, weights = self.scores.to(dtype, copy=True), self.labels, self.weights.to(dtype)
        if layout == "flat":
            options["offsets"] = self.offsets
        else:
            leaf, weights = self.scattered(leaf, torch.nan), self.scattered(weights, torch.nan)
            labels, options["mask"] = self.scattered(labels, -7), self.mask
        if weighted:
            options["weights"] = weights
        leaf.requires_grad_()
        with rg.backend(backend):
            values = loss(leaf, labels, **options, reduction=reduction)
        upstream = torch.linspace(1.0, 2.0, max(values.numel(), 2), dtype=values.dtype)[: values.numel()]
        (gradient,) = torch.autograd.grad(values, leaf, upstream.reshape(values.shape))
        if layout != "flat":
            assert not gradient[~self.mask].any()
            gradient = gradient[self.mask]
        return values.detach(), gradient
