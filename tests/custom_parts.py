"""Losses, networks and metrics as a caller writes them, and a quick training run with them."""

import torch
from torch import nn

import rankgrad as rg
from rankgrad.data import load
from rankgrad.training import Settings, train

LISTS = load("synthetic:lists=40,features=10")
QUICK = {"model": "mlp:widths=8", "epochs": 3, "batch_size": 8, "device": "cpu"}
HERE = __name__  # the module of every description below


# A softmax cross entropy in every form that a loss may have.


def flat_softmax(scores, labels, *, offsets, reduction):
    return rg.losses.softmax(scores, labels, offsets=offsets, reduction=reduction)


def padded_softmax(scores, labels, mask):
    logs = scores.masked_fill(~mask, -1e30).log_softmax(-1)
    return -(labels * logs.masked_fill(~mask, 0.0)).sum(-1)


def mean_softmax(scores, labels, mask):
    return padded_softmax(scores, labels, mask).mean()


def list_softmax(scores, labels):
    return -(labels * scores.log_softmax(0)).sum()


class ModuleSoftmax(nn.Module):
    def forward(self, scores, labels, mask, weights=None):
        return padded_softmax(scores, labels if weights is None else weights * labels, mask)


FORMS = [flat_softmax, padded_softmax, mean_softmax, list_softmax, ModuleSoftmax(), rg.losses.softmax]


class Scaled(nn.Module):
    """A loss with a parameter, and a buffer that counts its calls; the sum of two losses of the package."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, scores, labels, *, offsets, reduction):
        self.calls += 1
        lists = {"offsets": offsets, "reduction": reduction}
        one, two = rg.losses.softmax(self.scale * scores, labels, **lists), rg.losses.ranknet(scores, labels, **lists)
        return one + 0.1 * two


class Rows(nn.Module):
    """Scores each document by itself."""

    def __init__(self, features=10):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)


class Padded(Rows):
    """Adds what it makes of the mean of the list."""

    def forward(self, features, mask):
        mean = (features * mask[..., None]).sum(1, keepdim=True) / mask.sum(1)[:, None, None].clamp(min=1)
        return self.layers(features + mean).squeeze(-1)


class Flat(Rows):
    """The same as `Padded`, from the other layout."""

    def forward(self, features, offsets):
        lengths = offsets.diff()
        owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        sums = torch.zeros(len(lengths), features.shape[1]).index_add(0, owner, features)
        return self.layers(features + (sums / lengths[:, None])[owner])


NETWORKS = [Rows(), Padded(), Flat(), Rows]


def top_label(scores, labels):
    return labels[scores.argmax()]


def top_rank(scores, labels):
    return float((scores > scores[labels.argmax()]).sum() + 1)


top_rank.higher_is_better = False


def run(out=None, resume=False, callbacks=(), init_model=None, data=LISTS.train, **settings):
    how = {"out": out, "resume": resume, "callbacks": callbacks, "init_model": init_model}
    return train(Settings(**{**QUICK, **settings}), data, LISTS.validation, **how)


def weights_of(model):
    return {**model.ranker.state_dict(), **{f"loss.{name}": value for name, value in model.learned.items()}}


def same(left, right):
    left, right = weights_of(left), weights_of(right)
    return left.keys() == right.keys() and all(torch.equal(value, right[name]) for name, value in left.items())


def rows_of(model):
    return [{k: v for k, v in row.items() if k not in ("seconds", "judge_seconds")} for row in model.history]


def score(model):
    return model.score(LISTS.test.features, LISTS.test.offsets)


def centred(scores):
    """A bias of all scores has no gradient but rounding, which Adam enlarges."""
    return scores - scores.mean()
