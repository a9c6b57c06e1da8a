"""Exact search with embeddings: find the documents with the largest inner products, in blocks of documents."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankgrad.errors import bad_value
from rankgrad.metrics.trec import Run
from rankgrad.text.collection import Texts

BLOCK = 16_384  # documents per matrix product
_QUERIES = 1_024  # queries per matrix product


@torch.no_grad()
def top_k(
    queries: Any,
    documents: Any,
    k: int,
    *,
    block: int = BLOCK,
    device: torch.device | str | None = None,
    excluded: Mapping[int, Collection[int]] | None = None,
) -> tuple[Any, Any]:
    """Return the k largest inner products of each query, and the numbers of their documents, both `(queries, k)`.

    The result is the same as with a full matrix product and a stable sort: documents with equal scores are in their
    input order. Memory depends on `block`, not on the number of documents. Scores have at least float32 precision. If k
    is larger than the number of documents, there is one column per document. If fewer than k documents remain after the
    exclusion, the last columns have score -inf and number -1. The results are tensors on the device of `queries`, or
    arrays if `queries` is an array.

    Args:
        queries: embeddings of the queries, `(queries, d)`, array or tensor.
        documents: embeddings of the documents, `(documents, d)`, array or tensor; an array may be mapped from a file.
        k: number of documents per query.
        block: number of documents per matrix product.
        device: device for the computation, such as `"cuda"`; None for the device of `documents`.
        excluded: numbers of documents that are never results, `{query number: document numbers}`.

    Example:
        >>> queries, documents = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 3.0]])
        >>> scores, numbers = top_k(queries, documents, 2)
        >>> scores.tolist(), numbers.tolist()
        ([[2.0, 1.0], [3.0, 3.0]], [[1, 0], [0, 1]])
    """
    if len(queries.shape) != 2 or len(documents.shape) != 2 or queries.shape[1] != documents.shape[1]:
        bad_value("documents", f"have the shape (documents, {queries.shape[-1]})", tuple(documents.shape))
    for name, value in (("k", k), ("block", block)):
        if value < 1:
            bad_value(name, "be at least 1", value)
    target = torch.device(device or (documents.device if isinstance(documents, Tensor) else "cpu"))
    asked = _on_device("queries", queries, target)
    k = min(k, len(documents))
    scores = asked.new_full((len(asked), k), -torch.inf)
    numbers = torch.full((len(asked), k), -1, dtype=torch.int64, device=target)
    for start in range(0, len(documents), block):
        part = _on_device("documents", documents[start : start + block], target)
        dtype = torch.promote_types(asked.dtype, part.dtype)
        asked, scores = asked.to(dtype), scores.to(dtype)
        for first in range(0, len(asked), _QUERIES):
            rows = slice(first, first + _QUERIES)
            found = asked[rows] @ part.to(dtype).T
            _exclude(found, excluded, first, start)
            # Documents found so far are first: their numbers are smaller, so the position decides between ties.
            scores[rows], places = _first_k(torch.cat([scores[rows], found], dim=1), k)
            seen = numbers[rows].gather(1, places.clamp(max=k - 1))
            numbers[rows] = torch.where(places < k, seen, places - k + start)
    numbers[scores == -torch.inf] = -1
    if isinstance(queries, Tensor):
        return scores.to(queries.device), numbers.to(queries.device)
    return scores.cpu().numpy(), numbers.cpu().numpy()


def search_embeddings(
    queries: Texts,
    documents: Texts,
    query_embeddings: Any,
    document_embeddings: Any,
    k: int = 100,
    *,
    excluded: Mapping[str, Collection[str]] | None = None,
    block: int = BLOCK,
    device: torch.device | str | None = None,
) -> Run:
    """Return the k documents with the largest inner products for each query, as a run.

    Args:
        queries: queries.
        documents: documents.
        query_embeddings: embeddings of the queries, `(queries, d)`.
        document_embeddings: embeddings of the documents, `(documents, d)`.
        k: maximum number of documents per query.
        excluded: documents that are never results, `{query: documents}`, such as `Collection.excluded`.
        block: number of documents per matrix product.
        device: device for the computation; None for the device of the document embeddings.
    """
    for name, texts, embeddings in (
        ("query_embeddings", queries, query_embeddings),
        ("document_embeddings", documents, document_embeddings),
    ):
        if len(embeddings) != len(texts):
            bad_value(name, f"have one row per text, {len(texts)}", len(embeddings))
    hidden = {
        queries.numbers[query]: [documents.numbers[each] for each in ids if each in documents.numbers]
        for query, ids in (excluded or {}).items()
        if query in queries.numbers
    }
    found = top_k(query_embeddings, document_embeddings, k, block=block, device=device, excluded=hidden)
    scores, numbers = (values.tolist() for values in found)
    return {
        query: {documents.ids[number]: score for score, number in zip(*row, strict=True) if number >= 0}
        for query, *row in zip(queries.ids, scores, numbers, strict=True)
    }


def _first_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest inner products of each row and their positions, in the order of a stable sort."""
    largest, places = values.topk(k, dim=1)
    least = largest[:, -1:]
    # `topk` may return any of several equal values. This matters if more values equal the last one than it returned.
    unsure = ((values == least).sum(1) > (largest == least).sum(1)).nonzero()[:, 0]
    if len(unsure):
        places[unsure] = values[unsure].sort(dim=1, descending=True, stable=True).indices[:, :k]
    places = places.sort(dim=1).values
    largest, order = values.gather(1, places).sort(dim=1, descending=True, stable=True)
    return largest, places.gather(1, order)


def _exclude(scores: Tensor, excluded: Mapping[int, Collection[int]] | None, first: int, start: int) -> None:
    """Set the scores of excluded documents to -inf, in a block that begins at query `first` and document `start`."""
    height, width = scores.shape
    pairs = [
        (query - first, number - start)
        for query, numbers in (excluded or {}).items()
        if first <= query < first + height
        for number in numbers
        if start <= number < start + width
    ]
    if pairs:
        rows, columns = torch.tensor(pairs, device=scores.device).T
        scores[rows, columns] = -torch.inf


def _on_device(name: str, values: Any, device: torch.device) -> Tensor:
    """Return embeddings on a device, in float32 or float64. Raise an error if a number is not finite."""
    # The copy is necessary: an array that is mapped from a file may be read-only.
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
    tensor = tensor.detach().to(device)
    tensor = tensor if tensor.dtype == torch.float64 else tensor.float()
    if not bool(torch.isfinite(tensor).all()):
        bad_value(name, "have finite values", "NaN or infinity")
    return tensor
