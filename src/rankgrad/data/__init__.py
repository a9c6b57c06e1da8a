"""Real data in: readers, caches, known benchmark sets, preprocessing, and a generator with a known optimum."""

from rankgrad.data.cache import CacheError, open_cache
from rankgrad.data.cut import cut
from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.facts import FactsWarning
from rankgrad.data.faults import LetorError
from rankgrad.data.frames import from_arrays, from_frame, group_rows, read_parquet
from rankgrad.data.inspect import inspect
from rankgrad.data.letor import read_letor
from rankgrad.data.preprocessing import Steps
from rankgrad.data.registry import datasets, load
from rankgrad.data.summary import ReadSummary
from rankgrad.data.synthetic import achievable, synthetic, web30k_shape

__all__ = [
    "CacheError",
    "Dataset",
    "FactsWarning",
    "LetorError",
    "ReadSummary",
    "Splits",
    "Steps",
    "achievable",
    "cut",
    "datasets",
    "from_arrays",
    "from_frame",
    "group_rows",
    "inspect",
    "load",
    "open_cache",
    "read_letor",
    "read_parquet",
    "synthetic",
    "web30k_shape",
]
