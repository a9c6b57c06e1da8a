"""The data sets for the comparison of tree losses, with five folds each: `five_folds(name, fold, root)`.

MQ2008 is published in folds. MSLR-sample is the beginning of WEB30K's first training and test file; its lists are
assigned to five parts in turn. Cranfield and Vaswani are texts: the first 100 documents of BM25, with features computed
here.
"""

import gzip
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import rankgrad as rg

SETS = ("MQ2008", "MSLR-sample", "Cranfield", "Vaswani")
DEPTH = 100  # number of documents per list, for the texts
Texts = tuple[list[list[str]], list[str], dict[tuple[int, int], int]]  # fields of documents, queries, grades


def five_folds(name: str, fold: int, root: str) -> tuple[Any, Any, Any]:
    """Return training, validation and test lists."""
    if name == "MQ2008":
        data = rg.data.load(name, fold=fold, root=root)
        return data.train, data.validation, data.test
    every = _whole(name, Path(root))
    # As in MQ2008: three parts for training, one for validation, one for test.
    part = (np.arange(len(every)) % 5 - (fold - 1)) % 5
    return (
        every.take(np.flatnonzero(part < 3)),
        every.take(np.flatnonzero(part == 3)),
        every.take(np.flatnonzero(part == 4)),
    )


@cache
def _whole(name: str, root: Path) -> Any:
    if name != "MSLR-sample":
        return _ranked(*(_cranfield(root) if name == "Cranfield" else _vaswani(root)))
    halves = [rg.data.read_letor(root / name / f"{half}.txt.gz") for half in ("train", "test")]
    # The last list of each file is truncated.
    halves = [half.take(np.arange(len(half) - 1)) for half in halves]
    rows = [np.concatenate([getattr(half, what) for half in halves]) for what in ("features", "labels", "row_qids")]
    return rg.data.from_arrays(rows[0], rows[1], qid=rows[2])[0]


def _cranfield(root: Path) -> Texts:
    """Read Cranfield. The label is 5 minus the code.

    Documents with the code -1, which may be the source of the query, keep -1 and are left out of the lists.
    """
    folder = root / "cranfield"
    with gzip.open(folder / "cran.all.1400.gz", "rt", encoding="latin-1") as file:
        pieces = re.split(r"^\.I \d+\n", file.read(), flags=re.MULTILINE)[1:]
    documents = [re.split(r"^\.[TABW]\n", piece, flags=re.MULTILINE) for piece in pieces]
    queries = re.split(r"^\.I \d+\n\.W\n", (folder / "cran.qry").read_text(), flags=re.MULTILINE)[1:]
    judged = [tuple(map(int, line.split())) for line in (folder / "cranqrel").read_text().splitlines() if line.strip()]
    grades = {(query - 1, document - 1): -1 if code < 0 else 5 - code for query, document, code in judged}
    # The text begins with the title.
    return [[each[1], each[4].strip().removeprefix(each[1].strip())] for each in documents], queries, grades


def _vaswani(root: Path) -> Texts:
    folder = root / "vaswani"
    with gzip.open(folder / "doc-text.trec.gz", "rt", encoding="latin-1") as file:
        documents = re.findall(r"<DOCNO>\d+</DOCNO>(.*?)</DOC>", file.read(), re.DOTALL)
    queries = re.findall(r"<title>(.*?)</title>", (folder / "query-text.trec").read_text(), re.DOTALL)
    judged = [[int(word) for word in line.split()] for line in (folder / "qrels").read_text().splitlines()]
    return [[text] for text in documents], queries, {(query - 1, document - 1): 1 for query, _, document, _ in judged}


def _ranked(documents: list[list[str]], queries: list[str], grades: dict[tuple[int, int], int]) -> Any:
    """Return lists of the first documents by BM25 on the whole text, with features of every field."""
    fields = (
        [" ".join(fields) for fields in documents],
        *(zip(*documents, strict=True) if len(documents[0]) > 1 else ()),
    )
    tables = [np.stack([*_features(texts, queries)], axis=-1) for texts in fields]  # (queries, documents, f) each
    first, features = tables[0][..., 0], np.concatenate(tables, axis=-1)
    rows, labels, qids = [], [], []
    for query in range(len(queries)):
        first_documents = [
            each for each in np.argsort(-first[query], kind="stable") if grades.get((query, each), 0) >= 0
        ][:DEPTH]
        rows.append(features[query, first_documents])
        labels += [grades.get((query, each), 0) for each in first_documents]
        qids += [query] * len(first_documents)
    return rg.data.from_arrays(np.concatenate(rows).astype(np.float32), np.array(labels), qid=np.array(qids))[0]


def _features(texts: Any, queries: list[str]) -> Iterator[Any]:
    """Yield features: BM25 twice, language model, cosine of tf-idf and of 100 topics, words found, tf, idf, length."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    words = CountVectorizer(stop_words="english")
    counts = words.fit_transform(texts).tocsc().astype(float)  # (documents, words)
    asked = words.transform(queries).astype(float)  # (queries, words)
    length = np.asarray(counts.sum(1)).ravel()
    met, where = counts.copy(), counts.indices
    met.data[:] = 1
    frequency = np.asarray(met.sum(0)).ravel()
    idf = np.log1p((len(length) - frequency + 0.5) / (frequency + 0.5))

    def over(values: Any, weight: Any = 1.0) -> Any:
        """Return the sum over the words of each query, (queries, documents)."""
        table = sparse.csc_matrix((values, where, counts.indptr), counts.shape).multiply(weight)
        return np.asarray((asked @ table.T).todense())

    for k1, b in ((1.2, 0.75), (2.0, 0.3)):
        scale = k1 * (1 - b + b * length / length.mean())[where]
        yield over(counts.data * (k1 + 1) / (counts.data + scale), idf)
    share = np.repeat(np.asarray(counts.sum(0)).ravel() / length.sum(), np.diff(counts.indptr))
    asks = np.asarray(asked.sum(1))  # (queries, 1)
    yield over(np.log1p(counts.data / (500 * share))) - asks * np.log1p(length / 500)
    tfidf = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    mine, theirs = tfidf.fit_transform(texts), tfidf.transform(queries)
    yield np.asarray((theirs @ mine.T).todense())
    topics = TruncatedSVD(100, random_state=0).fit(mine)
    near, far = topics.transform(theirs), topics.transform(mine)
    norms = np.linalg.norm(near, axis=1)[:, None] * np.linalg.norm(far, axis=1)
    yield near @ far.T / np.maximum(norms, 1e-9)
    yield over(met.data) / np.maximum(asks, 1)
    yield over(counts.data)
    yield over(met.data, idf)
    yield np.broadcast_to(length, (len(queries), len(length)))
