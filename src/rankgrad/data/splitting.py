"""Hold out training lists; `rankgrad train`, `Ranker.fit`, recipes and held-out adaptation use the same rule."""

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.training_labels import NOTHING_TO_RANK, check_labels_differ, lists_with_different_labels
from rankgrad.errors import bad_value

HOLDOUT = 0.2  # default share of the training lists to hold out

Lists = NDArray[np.int64]


def held_out(data: Dataset, share: float, seed: int) -> tuple[Lists, Lists]:
    """Choose lists to hold out, by seed and query id. Return the indices of the training and the held-out lists.

    The queries are sorted by a hash of the seed and the query id, and the first queries are held out, with all their
    lists. So a query is never split, and the choice does not depend on the order of the lists, and it changes little if
    lists are added. The share is the same for queries with a list in which labels differ and for other queries, such as
    queries without a relevant document. So a metric of the held-out lists is comparable with its value on new lists.
    The numbers of queries are rounded. At least one query remains for training. No query is held out if no list with
    different labels would be: every order of the others is equally good.

    Args:
        data: training lists.
        share: share of the queries to hold out; at least 0 and below 1.
        seed: random seed of the choice.

    Example:
        >>> labels, offsets = np.array([0.0, 1.0] * 10), np.arange(0, 21, 2)
        >>> data = Dataset(np.zeros((20, 1), np.float32), labels, offsets, qids=np.arange(10))
        >>> held_out(data, 0.2, seed=0)
        (array([0, 1, 2, 3, 4, 6, 8, 9]), array([5, 7]))
        >>> backwards = data.take(np.arange(10)[::-1])
        >>> backwards.qids[held_out(backwards, 0.2, seed=0)[1]]
        array([7, 5])
    """
    check_share(share)
    first = data.first_lists
    queries, differ = np.unique(first), np.unique(first[lists_with_different_labels(data)])
    chosen = differ[:0]
    for some in (differ, np.setdiff1d(queries, differ)):
        count = min(round(share * len(some)), len(queries) - len(chosen) - 1)
        if count < 1:
            break
        chosen = np.concatenate([chosen, query_order(data, some, seed)[:count]])
    held = np.isin(first, chosen)
    return np.flatnonzero(~held), np.flatnonzero(held)


def query_order(data: Dataset, lists: Lists, seed: int) -> Lists:
    """Return the indices `lists` in the order of holding out: sorted by a hash of the seed and each list's query id.

    Args:
        data: labelled lists.
        lists: indices of lists.
        seed: random seed of the order.
    """
    return np.array(sorted(lists.tolist(), key=lambda number: _sort_key(seed, data.qids[number])), dtype=np.int64)


def hold_out(splits: Splits, share: float, seed: int = 0) -> Splits:
    """Return the splits with a validation part. If there is no such part, training lists are held out for it.

    Args:
        splits: splits with or without a validation part.
        share: share of the training lists to hold out, as in `held_out`.
        seed: random seed of the choice.
    """
    check_share(share)
    if splits.validation is not None or share == 0:
        return splits
    kept, held = held_out(splits.train, share, seed)
    if not len(held):
        check_labels_differ(splits.train)
        if not len(lists_with_different_labels(splits.train)):
            bad_value(splits.train.name or "the data", "contain a list whose labels differ", f"none; {NOTHING_TO_RANK}")
        got = f"{share:g} with {len(splits.train)} list(s) in {splits.train.name or 'the data'}"
        bad_value("holdout", "be 0, or large enough to select a list whose labels differ", got)
    return _split(splits, kept, held)


def hold_out_as_in_0_1(splits: Splits, share: float) -> Splits:
    """Hold out lists in the same way as the command line of version 0.1, for runs that version 0.1 started.

    Args:
        splits: splits with or without a validation part.
        share: share of the training lists to hold out.
    """
    if splits.validation is not None or share == 0 or len(splits.train) < 2:
        return splits
    lists = np.random.default_rng(0).permutation(len(splits.train))
    count = min(max(1, round(share * len(lists))), len(lists) - 1)
    return _split(splits, np.sort(lists[count:]), np.sort(lists[:count]))


def check_share(share: object) -> None:
    """Check the share of lists to hold out.

    Args:
        share: share of the lists, at least 0 and below 1.
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        bad_value("holdout", "be a number of at least 0 and below 1", repr(share))


def _split(splits: Splits, kept: Lists, held: Lists) -> Splits:
    validation = replace(splits.train, name=f"{splits.name} validation").take(held)
    return replace(splits, train=splits.train.take(kept), validation=validation)


def _sort_key(seed: int, query: object) -> bytes:
    """Return the key of a query, for this seed; `held_out` sorts queries by this key."""
    return hashlib.blake2b(f"{seed} {query}".encode(), digest_size=8).digest()
