"""Choose the documents of training lists in each epoch: encoders are slow, so they read only a sample."""

import numpy as np
from numpy.typing import NDArray

from rankgrad.training.batch_schedule import StepLists


def training_steps(
    labels: NDArray[np.float32],
    offsets: NDArray[np.int64],
    *,
    batch_size: int,
    list_size: int | None,
    sampling: str,
    seed: int,
    epoch: int,
) -> list[StepLists]:
    """Return the lists of each batch of an epoch, with sampled documents. The same seed and epoch give the same lists.

    With `"relevant"`, up to half of the list are relevant documents (label above 0), and other documents fill the list.
    If there are few other documents, the list has more relevant documents. If at most one candidate is not relevant, as
    with labels of a teacher, the sample is from all candidates. With `"pairs"`, the list has equal numbers of relevant
    and other documents; the SmoothI paper trains on two pairs per list. With `"random"`, the sample is from all
    candidates. A list is omitted if all its sampled labels are equal.

    Args:
        labels: labels, `(documents,)`.
        offsets: offsets of the lists, `(lists + 1,)`.
        batch_size: number of lists per batch.
        list_size: maximum number of documents per list; None for all documents.
        sampling: `"relevant"`, `"pairs"` or `"random"`.
        seed, epoch: random seed, and number of the epoch.

    Example:
        >>> labels, offsets = np.array([0, 1, 0, 0, 0, 2, 0]), np.array([0, 4, 7])
        >>> steps = training_steps(labels, offsets, batch_size=2, list_size=2, sampling="pairs", seed=0, epoch=0)
        >>> labels[steps[0].rows].tolist(), steps[0].offsets.tolist()
        ([1, 0, 2, 0], [0, 2, 4])
    """
    rng = np.random.default_rng([seed, epoch])
    chosen = {}
    for number in range(len(offsets) - 1):
        rows = np.arange(offsets[number], offsets[number + 1])
        values = labels[rows]
        draw = rng.permutation(len(rows))  # drawn for every list, so that a list does not change the lists after it
        drawn = rows[_drawn(values[draw] > 0, draw, list_size, sampling)]
        if len(drawn) and labels[drawn].max() > labels[drawn].min():
            chosen[number] = np.sort(drawn)
    order = rng.permutation(np.array([*chosen], dtype=np.int64))
    steps = []
    for start in range(0, len(order), batch_size):
        lists = order[start : start + batch_size]
        rows = np.concatenate([chosen[int(number)] for number in lists])
        lengths = [len(chosen[int(number)]) for number in lists]
        steps.append(StepLists(lists, rows, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), len(lists)))
    return steps


def _drawn(
    relevant: NDArray[np.bool_], draw: NDArray[np.int64], list_size: int | None, sampling: str
) -> NDArray[np.int64]:
    """Return the sampled documents of one training list. `draw` and `relevant` are in the same random order."""
    size = len(draw) if list_size is None else list_size
    if sampling == "random" or (sampling == "relevant" and (~relevant).sum() <= 1):
        return draw[:size]
    half = max(1, size // 2)
    if sampling == "pairs":
        pairs = min(half, int(relevant.sum()), int((~relevant).sum()))
        return np.concatenate([draw[relevant][:pairs], draw[~relevant][:pairs]])
    first = draw[relevant][: max(half, size - int((~relevant).sum()))]
    return np.concatenate([first, draw[~relevant][: size - len(first)]])
