"""Measure the latency of a model: the time to score one list of 100 documents on one core."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from rankgrad.data import Dataset
from rankgrad.models.protocol import TrainedModel

LATENCY_DOCUMENTS = 100
_REPEATS = 15  # number of measurements; the median is used


def measure_latency(model: TrainedModel, data: Dataset) -> float:
    """Return the median seconds to score one list of 100 documents on one core.

    Args:
        model: trained model.
        data: lists. The first 100 documents are scored; if there are fewer documents, they are repeated.
    """
    rows = np.arange(LATENCY_DOCUMENTS) % len(data.labels)
    features, offsets = np.array(data.features[rows], dtype=np.float32), np.array([0, LATENCY_DOCUMENTS])
    with _one_thread():
        model.score(features, offsets)
        times = []
        for _ in range(_REPEATS):
            begun = time.perf_counter()
            model.score(features, offsets)
            times.append(time.perf_counter() - begun)
    return float(np.median(times))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit PyTorch and libraries with OpenMP to one thread during the measurement of a latency."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
