"""The one way from a collection and a first stage to training, validation and test lists."""

import warnings
from dataclasses import replace

import numpy as np

from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.splitting import hold_out
from rankgrad.text.candidates import AnyRun, candidate_lists, folds
from rankgrad.text.collection import Collection, collection_of


def split_lists(
    collection: Collection,
    run: AnyRun,
    *,
    depth: int = 100,
    fold: int | None = None,
    parts: int = 5,
    holdout: float = 0.0,
    seed: int = 0,
    add_relevant: bool = True,
    order: AnyRun | None = None,
) -> Splits:
    """Return the lists of the queries of a fold, or without a fold, training lists and held-out validation lists.

    Validation and test lists contain only documents of the first stage, as in a search. The validation lists of a fold
    are those whose queries have labels, because a ranker cannot be measured on other lists.

    Args:
        collection: documents, queries and qrels.
        run: result of the first stage, `{query: {document: score}}`.
        depth: maximum number of documents per query.
        fold: number of the fold, from 1 to `parts`; None to hold out lists.
        parts: number of folds.
        holdout: share of the lists to hold out for validation if `fold` is None. No list is held out if no document is
            labelled as relevant.
        seed: random seed of the held-out lists.
        add_relevant: True to add the relevant documents that the first stage missed, to the training lists only.
        order: documents of a teacher, best first, as a run. The training lists also contain them, and no other
            documents are added.
    """
    whole = train = candidate_lists(collection, run, depth=depth)
    if order is not None:
        train = candidate_lists(collection, {"first": run, "order": order}, depth=depth)
    elif add_relevant:
        with warnings.catch_warnings():  # the same warnings as above
            warnings.simplefilter("ignore", UserWarning)
            train = candidate_lists(collection, run, depth=depth, add_relevant=True)
    if fold is not None:
        found = folds(whole, fold, parts)
        assert found.validation is not None
        return replace(found, train=folds(train, fold, parts).train, validation=_judged(found.validation))
    share = holdout if (train.labels > 0).any() else 0.0
    found = hold_out(Splits(train, None, None, whole.name), share, seed)
    if (held := found.validation) is None:
        return found
    same = np.flatnonzero(np.isin(whole.qids, held.qids))
    return replace(found, validation=replace(whole.take(same), name=held.name))


def _judged(data: Dataset) -> Dataset | None:
    qrels = collection_of(data).qrels
    known = np.flatnonzero([bool(qrels.get(str(query))) for query in data.qids.tolist()])
    return data.take(known) if len(known) else None
