"""Lists of documents for hypothesis, and the layouts they can be brought into."""

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor


class Document(NamedTuple):
    """What a loss may be told about one document."""

    score: float
    label: float
    weight: float = 1.0
    noise: float = 0.0
    gamma: float = 0.0


class Batch(NamedTuple):
    """Lists in one layout: a leaf of scores, what else the loss takes, and which entries are documents."""

    leaf: Tensor  # where gradients arrive: scores, or the values of nested scores
    scores: Tensor
    labels: Tensor
    layout: dict  # mask, offsets, or nothing
    documents: Tensor  # (documents,): the entries of the flattened leaf that are documents, list by list
    extras: dict  # weights, noise and gamma, like scores


@dataclass(frozen=True)
class RaggedLists:
    """Lists of any lengths. Each layout of them holds the same documents in the same order."""

    lists: tuple[tuple[Document, ...], ...]
    dtype: torch.dtype = field(default=torch.float64, kw_only=True)

    @property
    def lengths(self):
        return [len(documents) for documents in self.lists]

    def column(self, name):
        """One value a document, list by list: `column("label")`."""
        return [[getattr(document, name) for document in documents] for documents in self.lists]

    def permuted(self, random):
        """The same lists, each in another order, and where each document went in the flat layout."""
        orders = [random.sample(range(n), n) for n in self.lengths]
        starts = [sum(self.lengths[:l]) for l in range(len(self.lists))]
        lists = tuple(tuple(d[i] for i in order) for d, order in zip(self.lists, orders, strict=True))
        moved = [start + i for start, order in zip(starts, orders, strict=True) for i in order]
        return RaggedLists(lists, dtype=self.dtype), torch.tensor(moved, dtype=torch.long)

    def alone(self):
        """Each list by itself, without a mask, as a batch `(n,)`."""
        return [RaggedLists((documents,), dtype=self.dtype).padded(squeeze=True) for documents in self.lists]

    def padded(self, extra=0, junk=0.0, random=None, squeeze=False):
        """`(lists, n + extra)` with `junk` in the padding, scattered among the documents by `random`."""
        lists, n = len(self.lists), max(self.lengths, default=0) + extra
        places = [sorted(random.sample(range(n), m)) if random else list(range(m)) for m in self.lengths]
        entries = torch.tensor([l * n + p for l, row in enumerate(places) for p in row], dtype=torch.long)
        mask = torch.zeros(lists * n, dtype=torch.bool).index_fill(0, entries, True).reshape(lists, n)

        def lay_out(name):
            values = torch.full((lists * n,), junk, dtype=self.dtype)
            return values.index_copy(0, entries, self._values(name)).reshape(lists, n)

        if squeeze:
            return self._batch(lambda name: lay_out(name)[0], {}, entries)
        return self._batch(lay_out, {"mask": mask}, entries)

    def flat(self):
        """`(documents,)` with offsets."""
        entries = torch.arange(sum(self.lengths))
        return self._batch(self._values, {"offsets": self._offsets()}, entries)

    def nested(self):
        """Jagged nested tensors."""
        flat, offsets = self.flat(), self._offsets()

        def nest(values):
            return torch.nested.nested_tensor_from_jagged(values, offsets)

        extras = {name: nest(values) for name, values in flat.extras.items()}
        return flat._replace(scores=nest(flat.leaf), labels=nest(flat.labels), layout={}, extras=extras)

    def _offsets(self):
        return torch.tensor([0, *self.lengths]).cumsum(0)

    def _values(self, name):
        return torch.tensor([value for values in self.column(name) for value in values], dtype=self.dtype)

    def _batch(self, lay_out, layout, entries):
        leaf = lay_out("score").requires_grad_()
        extras = {"weights": lay_out("weight"), "noise": lay_out("noise"), "gamma": lay_out("gamma")}
        return Batch(leaf, leaf, lay_out("label"), layout, entries, extras)


@st.composite
def ragged_lists(draw, *, tied_scores=True, tied_labels=True, generic=False, longest=5, most=4, pool=None):
    """Up to `most` lists of up to `longest` documents, empty ones among them.

    `generic` scores are no round numbers and do not tie: they keep away from where a derivative jumps. A `pool` of
    scores takes the place of all that.
    """

    def column(values, n, unique):
        return draw(st.lists(values, min_size=n, max_size=n, unique=unique))

    lists = []
    for _ in range(draw(st.integers(0, most))):
        n = draw(st.integers(0, longest))
        if pool is None:
            scores = _scores(column(st.integers(-24, 24), n, unique=generic or not tied_scores), generic)
        else:
            scores = column(st.sampled_from(pool), n, unique=False)
        grades = column(st.integers(0, 3 if tied_labels else longest - 1), n, unique=not tied_labels)
        lists.append(_documents(scores, grades, column(st.integers(1, 16), n, unique=False)))
    return RaggedLists(tuple(lists))


def rich_lists(*, tied_scores=True, tied_labels=True, generic=False, pool=None, seed=0):
    """One batch that leaves little out, where few are drawn: hypothesis begins with the poorest."""
    random, lists = Random(seed), []
    for n in (5, 3, 0, 1, 4):
        if pool is None:
            pick = random.sample if generic or not tied_scores else random.choices
            scores = _scores(pick(range(-6, 7), k=n), generic)
        else:
            scores = random.choices(pool, k=n)
        grades = random.choices(range(4), k=n) if tied_labels else random.sample(range(5), k=n)
        lists.append(_documents(scores, grades, random.choices(range(1, 17), k=n)))
    return RaggedLists(tuple(lists))


def _scores(steps, generic):
    return [_off_the_grid(step / 4) if generic else step / 4 for step in steps]


def _documents(scores, grades, others):
    return tuple(
        Document(s, float(y), weight=o / 8, noise=_off_the_grid(o / 5 - 1.3), gamma=o / 16)
        for s, y, o in zip(scores, grades, others, strict=True)
    )


def _off_the_grid(x):
    """A rising function under which equal distances become unequal."""
    return x + 0.0137 * (x + 0.03) ** 2
