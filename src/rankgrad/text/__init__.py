"""Text rankers: collections of documents and queries, BM25, bi-encoders, cross-encoders, fusion and distillation.

The packages `transformers`, `sentence-transformers` and `bm25s` (extra `text`) are imported on first use.
"""

from rankgrad.text.collection import Collection, Texts
from rankgrad.text.loading import load

__all__ = ["Collection", "Texts", "load"]
