"""Text rankers: collections of documents and queries, BM25, bi-encoders, cross-encoders, fusion and distillation.

The packages `transformers`, `sentence-transformers` and `bm25s` (extra `text`) are imported only when they are needed.
"""

from typing import TYPE_CHECKING

from rankgrad import moved
from rankgrad.settings.text import TextSettings
from rankgrad.text import losses as losses
from rankgrad.text.bm25 import BM25Index
from rankgrad.text.candidates import candidate_lists, folds, hard_negatives, pool, to_run
from rankgrad.text.collection import Collection, Texts
from rankgrad.text.dense_search import search_embeddings, top_k
from rankgrad.text.distillation import labels_from_order, teacher_labels
from rankgrad.text.fusion import features, fuse, reciprocal_rank_fusion
from rankgrad.text.loading import load
from rankgrad.text.pseudo_queries import pseudo_lists, pseudo_queries

if TYPE_CHECKING:
    from rankgrad.estimators.text import BiEncoderRanker, CrossEncoderRanker
else:
    _ESTIMATORS = dict.fromkeys(("BiEncoderRanker", "CrossEncoderRanker"), ".estimators.text")
    __getattr__ = moved.renamed("rankgrad.text", {}, _ESTIMATORS)

__all__ = [
    "BM25Index",
    "BiEncoderRanker",
    "Collection",
    "CrossEncoderRanker",
    "TextSettings",
    "Texts",
    "candidate_lists",
    "features",
    "folds",
    "fuse",
    "hard_negatives",
    "labels_from_order",
    "load",
    "pool",
    "pseudo_lists",
    "pseudo_queries",
    "reciprocal_rank_fusion",
    "search_embeddings",
    "teacher_labels",
    "to_run",
    "top_k",
]
