"""Data sets: readers, caches, benchmark sets, preprocessing, and generated sets whose best order is known."""

from rankgrad import moved
from rankgrad.data.benchmarks import BenchmarkWarning
from rankgrad.data.cache import CacheError, open_cache
from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.frames import from_arrays, from_frame, group_rows, read_parquet
from rankgrad.data.inspection import inspect
from rankgrad.data.letor.errors import LetorError
from rankgrad.data.letor.reader import read_letor
from rankgrad.data.loading import datasets, load
from rankgrad.data.preprocessing.pipeline import Preprocessing
from rankgrad.data.read_summary import ReadSummary
from rankgrad.data.synthetic import achievable, synthetic, web30k_shape
from rankgrad.data.tables.columns import Columns
from rankgrad.data.tables.errors import TableError
from rankgrad.data.tables.reader import read_table
from rankgrad.data.truncation import truncate

__all__ = [
    "BenchmarkWarning",
    "CacheError",
    "Columns",
    "Dataset",
    "LetorError",
    "ReadSummary",
    "Splits",
    "Preprocessing",
    "TableError",
    "achievable",
    "datasets",
    "from_arrays",
    "from_frame",
    "group_rows",
    "inspect",
    "load",
    "open_cache",
    "read_letor",
    "read_parquet",
    "read_table",
    "synthetic",
    "truncate",
    "web30k_shape",
]

# Names of version 0.1.0.
__getattr__ = moved.renamed(__name__, {"Steps": "Preprocessing", "cut": "truncate", "FactsWarning": "BenchmarkWarning"})
