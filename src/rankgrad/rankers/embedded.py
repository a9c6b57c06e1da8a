"""A ranker with embeddings of categorical features: each category has a vector, which is trained with the ranker."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankgrad.errors import bad_value
from rankgrad.rankers.list_index import ListIndex
from rankgrad.rankers.scorer import Scorer, whole_numbers


class EmbeddedCategories(Scorer):
    """Ranker that replaces category indices by vectors, and then scores the documents with another ranker.

    The last columns of the features contain category indices, one column per categorical feature: 0 for a missing or
    unknown category, and 1, 2, ... for the known categories. The vector of index 0 is also trained, if the training
    lists contain this index.

    Args:
        features: number of columns, including the categorical columns.
        categories: for each categorical column, the number of its categories.
        network: ranker that reads the other columns and the vectors. Its number of features must be
            `embedded_width(features, categories)`.
    """

    model = "embedded"

    def __init__(self, features: int, categories: Sequence[int], network: Scorer) -> None:
        counts = whole_numbers("categories", categories)
        super().__init__(features, categories=counts, network=network.config)
        self.numbers = features - len(counts)
        if self.numbers < 0:
            bad_value("categories", f"be at most {features} columns", len(counts))
        self.embeddings = nn.ModuleList(nn.Embedding(count + 1, embedding_size(count)) for count in counts)
        for each in self.embeddings:
            nn.init.normal_(each.weight, std=1 / math.sqrt(each.embedding_dim))  # type: ignore[arg-type]
        self.network = network
        if self.network.features != (width := embedded_width(features, counts)):
            bad_value("features of network", f"be {width}", self.network.features)

    @property
    def list_aware(self) -> bool:  # type: ignore[override]
        """True if a document's score depends on the other documents of its list."""
        return self.network.list_aware

    def embed(self, rows: Tensor) -> Tensor:
        """Return the rows with a vector in place of each category index.

        Args:
            rows: features, `(rows, f)`.
        """
        numbers = rows[:, self.numbers :].long().unbind(1)
        vectors = [embedding(each) for embedding, each in zip(self.embeddings, numbers, strict=True)]
        return torch.cat([rows[:, : self.numbers], *vectors], dim=1)

    def sources(self) -> list[int]:
        """Return the input column of each output column of `embed`."""
        found = list(range(self.numbers))
        for place, embedding in enumerate(self.embeddings):
            found += [self.numbers + place] * embedding.embedding_dim  # type: ignore[operator]
        return found

    def score(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the scores after the embedding of categories, `(rows,)`; see `Scorer.score`.

        Args:
            rows: features, `(rows, f)`.
            index: positions of the rows in their lists.
        """
        return self.network.score(self.embed(rows), index)


def embedding_size(categories: int) -> int:
    """Return the length of a category's vectors. The length grows slowly with the number of categories, up to 32."""
    return min(32, math.ceil(1.6 * categories**0.56))


def embedded_width(features: int, categories: Sequence[int]) -> int:
    """Return the number of columns after `EmbeddedCategories.embed`.

    Args:
        features: number of columns, including the categorical columns.
        categories: for each categorical column, the number of its categories.
    """
    return features - len(categories) + sum(map(embedding_size, categories))
