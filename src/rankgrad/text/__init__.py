"""Text rankers: collections of documents and queries, BM25, bi-encoders, cross-encoders, fusion and distillation.

The packages `transformers`, `sentence-transformers` and `bm25s` (extra `text`) are imported on first use.
"""

from rankgrad.text.bm25 import BM25Index
from rankgrad.text.candidates import candidate_lists, folds, hard_negatives, pool, to_run
from rankgrad.text.collection import Collection, Texts

__all__ = ["BM25Index", "Collection", "Texts", "candidate_lists", "folds", "hard_negatives", "pool", "to_run"]
