"""Real data in: readers, caches, known benchmark sets, preprocessing, and a generator with a known optimum."""

from rankgrad.data.benchmarks import FactsWarning
from rankgrad.data.cache import CacheError, open_cache
from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.frames import from_arrays, from_frame, group_rows, read_parquet
from rankgrad.data.inspection import inspect
from rankgrad.data.letor.errors import LetorError
from rankgrad.data.letor.reader import read_letor
from rankgrad.data.letor.summary import ReadSummary
from rankgrad.data.loading import datasets, load
from rankgrad.data.preprocessing.pipeline import Steps
from rankgrad.data.synthetic import achievable, synthetic, web30k_shape
from rankgrad.data.truncation import cut

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
