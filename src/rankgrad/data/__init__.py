"""Data sets: readers, caches, benchmark sets, preprocessing, and synthetic data sets with a known best order."""

from rankgrad import moved
from rankgrad.data.benchmarks import BenchmarkWarning
from rankgrad.data.cache import CacheError, open_cache
from rankgrad.data.collate import FlatBatch, PaddedBatch, collate
from rankgrad.data.dataset import Dataset, DocumentList, Splits
from rankgrad.data.frames import from_arrays, from_frame, read_parquet
from rankgrad.data.inspection import inspect
from rankgrad.data.letor.errors import LetorError
from rankgrad.data.letor.reader import read_letor
from rankgrad.data.loading import datasets, load
from rankgrad.data.preprocessing.pipeline import Preprocessing
from rankgrad.data.read_summary import ReadSummary
from rankgrad.data.synthetic import achievable, synthetic, web30k_shape
from rankgrad.data.tables.errors import TableError
from rankgrad.data.tables.reader import read_table
from rankgrad.data.truncation import truncate
from rankgrad.data.writers import write_cache, write_letor, write_parquet
from rankgrad.group_rows import group_rows
from rankgrad.roles import Columns

__all__ = [
    "BenchmarkWarning",
    "CacheError",
    "Columns",
    "Dataset",
    "DocumentList",
    "FlatBatch",
    "LetorError",
    "PaddedBatch",
    "ReadSummary",
    "Splits",
    "Preprocessing",
    "TableError",
    "achievable",
    "collate",
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
    "write_cache",
    "write_letor",
    "write_parquet",
]

# Names of version 0.1.0.
__getattr__ = moved.renamed(__name__, {"Steps": "Preprocessing", "cut": "truncate", "FactsWarning": "BenchmarkWarning"})
