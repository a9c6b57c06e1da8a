"""Candidate documents of queries: lists for training and re-ranking, folds of queries, pools and hard negatives."""

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from rankgrad.data.dataset import Dataset, Splits
from rankgrad.errors import bad_value
from rankgrad.metrics import trec
from rankgrad.metrics.trec import Run
from rankgrad.text.collection import Collection

NUMBERS = ("query", "document")  # names of the first two features of a text data set
LARGEST = 2**24  # float32 represents each integer up to this one

_HIGHEST = float(np.finfo(np.float32).max)

AnyRun = Mapping[str, Mapping[str, float]]


def candidate_lists(
    collection: Collection,
    run: AnyRun | Mapping[str, AnyRun],
    *,
    depth: int | None = 100,
    add_relevant: bool = False,
    name: str = "bm25",
) -> Dataset:
    """Make a text data set: one list per query with the best documents of a run.

    The features of a document are the index of its query and its own index in the collection, then its score in each
    run. If a run has no score for the document, the lowest score of the query in that run is used, or 0 if the run does
    not contain the query. Labels are from the qrels. A document without a label, or with a negative label, has label 0.
    Queries without candidates are left out, and a warning reports their number.

    Args:
        collection: documents, queries and qrels. Its excluded documents are never candidates.
        run: scores of documents, `{query: {document: score}}`; or several runs, `{name: run}`. A list contains the
            best documents of all runs.
        depth: maximum number of documents per query from each run; None for all.
        add_relevant: True to add, at the end of each list, the relevant documents that no run found. Use it only for
            training: in a test, the ranker would not have to find these documents.
        name: name of the feature if `run` is a single run.

    Example:
        >>> from rankgrad.text import Collection, Texts
        >>> documents, queries = Texts(("d1", "d2", "d3"), ("wing", "flap", "heat")), Texts(("q1",), ("wings",))
        >>> collection = Collection(documents, queries, qrels={"q1": {"d1": 2, "d3": 1}})
        >>> data = candidate_lists(collection, {"q1": {"d2": 0.5, "d1": 0.25}}, add_relevant=True)
        >>> data.feature_names, data.docids.tolist(), data.labels.tolist()
        (('query', 'document', 'bm25'), ['d2', 'd1', 'd3'], [0.0, 2.0, 1.0])
        >>> data.features.tolist()
        [[0.0, 1.0, 0.5], [0.0, 0.0, 0.25], [0.0, 2.0, 0.25]]
    """
    runs = named_runs(run, name)
    if clash := set(runs) & set(NUMBERS):
        bad_value("run", f"not have the name {' or '.join(map(repr, NUMBERS))}", repr(min(clash)))
    for what, texts in (("documents", collection.documents), ("queries", collection.queries)):
        if len(texts) > LARGEST:
            bad_value(what, f"be at most {LARGEST:,} in a text data set", f"{len(texts):,}")
    known = {each: _known_part(collection, scores, each) for each, scores in runs.items()}
    chosen: dict[str, list[str]] = {}
    for query in collection.queries.ids:
        documents = _pool([top_documents(scores.get(query, {}), depth) for scores in known.values()])
        if add_relevant and documents:  # a list of relevant documents only would teach nothing
            documents = list(dict.fromkeys([*documents, *_relevant(collection, query)]))
        if documents:
            chosen[query] = documents
    if missing := len(collection.queries) - len(chosen):
        text = f"{missing} of {len(collection.queries)} queries have no candidates, and are left out"
        warnings.warn(text, UserWarning, stacklevel=2)
    if not chosen:
        bad_value("run", "contain a document of the collection", "none")
    return _data_set(collection, known, chosen)


def named_runs(run: AnyRun | Mapping[str, AnyRun], name: str) -> dict[str, AnyRun]:
    """Return a dictionary of runs by name. A single run gets the name `name`.

    Args:
        run: one run, `{query: {document: score}}`, or several runs, `{name: run}`.
        name: name of a single run.
    """
    for documents in run.values():
        for score in documents.values():
            return dict(cast(Mapping[str, AnyRun], run)) if isinstance(score, Mapping) else {name: cast(AnyRun, run)}
    return {name: cast(AnyRun, run)}


def top_documents(scores: Mapping[str, float], depth: int | None = None) -> list[str]:
    """Return the best candidates of a query, best first. Documents with equal scores are in the order of `scores`.

    Args:
        scores: `{document: score}`.
        depth: maximum number of documents; None for all.
    """
    return sorted(scores, key=lambda document: -scores[document])[:depth]


def pool(runs: Mapping[str, AnyRun] | Iterable[AnyRun], depth: int | None = 100) -> dict[str, list[str]]:
    """Pool runs: return their best documents per query, first the best of each run, then the second of each run.

    Args:
        runs: runs, with or without names.
        depth: number of documents per query from each run; None for all.

    Example:
        >>> pool([{"q1": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q1": {"d": 1.0, "a": 0.0}}], depth=2)
        {'q1': ['a', 'd', 'b']}
    """
    all_runs = list(runs.values()) if isinstance(runs, Mapping) else list(runs)
    queries = dict.fromkeys(query for run in all_runs for query in run)
    return {query: _pool([top_documents(run.get(query, {}), depth) for run in all_runs]) for query in queries}


def hard_negatives(
    collection: Collection, run: AnyRun, *, first: int = 0, last: int | None = 100, number: int | None = None
) -> dict[str, list[str]]:
    """Return hard negatives: documents that are not relevant but have high ranks in a run, per query, best first.

    Documents without a label count as not relevant, although some of them may be relevant. Such errors are most
    frequent at the top of a run: a larger `first` leaves out more documents at the top.

    Args:
        collection: documents, queries and qrels. Its excluded documents are never negatives.
        run: `{query: {document: score}}`.
        first: number of documents at the top to leave out.
        last: last rank that is used; None for all ranks.
        number: maximum number of documents per query; None for all.
    """
    found = {}
    for query, scores in _known_part(collection, run, "run").items():
        relevant = set(_relevant(collection, query))
        ranked = top_documents(scores, last)[first:]
        found[query] = [document for document in ranked if document not in relevant][:number]
    return found


def to_run(data: Dataset, scores: Any) -> Run:
    """Convert scores of candidate lists to a run, `{query: {document: score}}`, for example for `measure_run`.

    `rankgrad.metrics.measure_run(run, collection.qrels, ...)` measures a run as trec_eval does: the ideal DCG includes
    relevant documents that are not candidates. `rankgrad.metrics.evaluate` uses only the documents of the lists. So its
    ideal DCG can be lower, and its nDCG can be higher.

    Args:
        data: data set with document ids.
        scores: one score per document, `(documents,)`.
    """
    if data.docids is None:
        bad_value("data", "have document ids", "docids=None")
    flat = np.asarray(scores.detach().cpu() if hasattr(scores, "detach") else scores, dtype=np.float64)
    if flat.shape != data.labels.shape:
        bad_value("scores", f"have one score per document, {data.labels.shape}", flat.shape)
    return trec.to_run(flat, data.offsets, data.qids, data.docids.tolist())


def folds(data: Dataset, fold: int, parts: int = 5, *, queries: Iterable[Any] | None = None) -> Splits:
    """Divide candidate lists by query: one part for testing, one part for validation, the other parts for training.

    The queries are sorted by a hash of their ids and assigned to the parts in turn. So a part does not depend on the
    order of the lists, and each query is in the test part of exactly one fold. In fold 1, the last part is the
    test part, and the part before it is the validation part.

    Args:
        data: lists to divide.
        fold: number of the fold, from 1 to `parts`.
        parts: number of parts, at least 3.
        queries: ids of all queries; None for the queries of the collection (of a text data set) or of `data` (of
            another data set). Data sets with the same `queries` have the same folds, even if some lists are missing.
    """
    if queries is None:
        queries = data.texts.queries.ids if isinstance(data.texts, Collection) else data.qids.tolist()
    roles, asked = fold_roles(queries, fold, parts), [str(query) for query in data.qids.tolist()]
    if unknown := [query for query in asked if query not in roles]:
        bad_value("queries", "contain each query of data", f"no query {unknown[0]!r}")
    name = f"{data.name} fold {fold}".strip()

    def lists(role: str) -> Dataset:
        return replace(data.take(np.flatnonzero([roles[query] == role for query in asked])), name=f"{name} {role}")

    return Splits(lists("train"), lists("validation"), lists("test"), name)


def fold_roles(queries: Iterable[Any], fold: int, parts: int = 5) -> dict[str, str]:
    """Return the role of each query in a fold, as `folds` divides them: `train`, `validation` or `test`.

    Args:
        queries: ids of all queries.
        fold: number of the fold, from 1 to `parts`.
        parts: number of parts, at least 3.
    """
    if parts < 3:
        bad_value("parts", "be at least 3, for training, validation and test", parts)
    if not 1 <= fold <= parts:
        bad_value("fold", f"be from 1 to {parts}", fold)
    roles = ("train",) * (parts - 2) + ("validation", "test")
    ids = sorted({str(query) for query in queries}, key=_hash_key)
    return {query: roles[(place - (fold - 1)) % parts] for place, query in enumerate(ids)}


def fill_missing(run: AnyRun, query: str, documents: Sequence[str]) -> list[float]:
    """Return the scores of candidates. A document without a score gets the lowest score of the query.

    Args:
        run: `{query: {document: score}}`.
        query: query id. If the run does not contain the query, all scores are 0.
        documents: document ids.
    """
    scores = run.get(query) or {}
    lowest = min(scores.values(), default=0.0)
    return [scores.get(document, lowest) for document in documents]


def scores_of(data: Dataset, run: AnyRun) -> list[float]:
    """Return the score of each document of a data set in a run, with missing scores as in `fill_missing`.

    Args:
        data: lists with document ids.
        run: `{query: {document: score}}`.
    """
    assert data.docids is not None
    documents = data.docids.tolist()
    bounds = zip(data.qids.tolist(), data.offsets[:-1], data.offsets[1:], strict=True)
    return [score for query, start, end in bounds for score in fill_missing(run, str(query), documents[start:end])]


def _known_part(collection: Collection, run: AnyRun, name: str) -> dict[str, dict[str, float]]:
    """Return the candidates in a run, without unknown ids and excluded documents. Documents are in collection order."""
    numbers, queries = collection.documents.numbers, collection.queries.numbers
    known, unknown = {}, 0
    for query, scores in run.items():
        if query not in queries:
            unknown += 1
            continue
        excluded = collection.excluded.get(query, frozenset())
        kept = sorted((numbers[each], each) for each in scores if each in numbers and each not in excluded)
        unknown += sum(each not in numbers for each in scores)
        known[query] = {each: float(scores[each]) for _, each in kept}
        if wrong := [score for score in known[query].values() if not abs(score) <= _HIGHEST]:
            bad_value(name, "have scores that are finite in float32", f"{wrong[0]} in query {query!r}")
    if unknown:
        text = (
            f"{name} has {unknown} ids of queries and documents that are not in the collection; these ids are left out"
        )
        warnings.warn(text, UserWarning, stacklevel=3)
    return known


def _relevant(collection: Collection, query: str) -> list[str]:
    """Return the relevant documents of a query that are in the collection and not excluded."""
    numbers, excluded = collection.documents.numbers, collection.excluded.get(query, frozenset())
    judged = collection.qrels.get(query, {})
    return [each for each, label in judged.items() if label > 0 and each in numbers and each not in excluded]


def _pool(ranked: Sequence[Sequence[str]]) -> list[str]:
    longest = max(map(len, ranked), default=0)
    return list(dict.fromkeys(each[rank] for rank in range(longest) for each in ranked if rank < len(each)))


def _data_set(collection: Collection, runs: Mapping[str, AnyRun], chosen: Mapping[str, Sequence[str]]) -> Dataset:
    documents, queries = collection.documents.numbers, collection.queries.numbers
    pairs = [(query, document) for query, found in chosen.items() for document in found]
    features = np.empty((len(pairs), len(NUMBERS) + len(runs)), dtype=np.float32)
    features[:, 0] = [queries[query] for query, _ in pairs]
    features[:, 1] = [documents[document] for _, document in pairs]
    for column, run in enumerate(runs.values(), len(NUMBERS)):
        features[:, column] = [score for query, found in chosen.items() for score in fill_missing(run, query, found)]
    judged = [collection.qrels.get(query, {}).get(document, 0) for query, document in pairs]
    return Dataset(
        features=features,
        labels=np.maximum(np.array(judged, dtype=np.float32), 0),
        offsets=np.concatenate([[0], np.cumsum([len(found) for found in chosen.values()])]).astype(np.int64),
        qids=np.array(list(chosen)),
        docids=np.array([document for _, document in pairs]),
        name=collection.name,
        feature_names=(*NUMBERS, *runs),
        texts=collection,
    )


def _hash_key(query: str) -> tuple[bytes, str]:
    return hashlib.blake2b(query.encode("utf-8", "surrogatepass"), digest_size=8).digest(), query
