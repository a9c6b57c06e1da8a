"""Real data in: readers, caches, known benchmark sets, preprocessing, and a generator with a known optimum."""

from rankgrad.data.dataset import Dataset, Splits

__all__ = ["Dataset", "Splits"]
