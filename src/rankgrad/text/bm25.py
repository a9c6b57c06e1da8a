"""BM25: build, search, save and load an index of documents. The package bm25s computes the scores."""

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import check_unchanged, hash_of_file, read_json, write_json
from rankgrad.errors import bad_type, bad_value, one_of
from rankgrad.metrics.trec import Run
from rankgrad.text.bm25_tokens import PLURAL, Stemmer, Tokens, stopword_list
from rankgrad.text.collection import Texts

FORMAT, VERSION = "rankgrad BM25 index", 1
ABOUT = "bm25.json"  # written last; a folder without this file is not a complete index
CUSTOM = "custom"  # stemmer or tokenizer of the caller; functions are not saved


@dataclass(frozen=True, eq=False)
class BM25Index:
    """An index that ranks documents by BM25, with Lucene's formula. `build` and `load` return an index.

    Example:
        >>> documents = Texts(("d1", "d2", "d3"), ("a wing in a slipstream", "heat flow", "flow over a wing"))
        >>> index = BM25Index.build(documents)
        >>> run = index.search(Texts(("q1",), ("wing flow",)))
        >>> {document: round(score, 3) for document, score in run["q1"].items()}
        {'d3': 0.383, 'd1': 0.227, 'd2': 0.227}
    """

    ids: tuple[str, ...]  # document ids, in the order of the documents
    tokens: Tokens  # rules that split documents and queries into words
    engine: Any  # object of the class `bm25s.BM25`, with the index of the documents

    @staticmethod
    def build(
        documents: Texts,
        *,
        k1: float = 1.2,
        b: float = 0.75,
        stopwords: str | Iterable[str] | None = "en",
        stemmer: Stemmer = PLURAL,
        tokenizer: Callable[[str], Iterable[str]] | None = None,
    ) -> "BM25Index":
        """Build a BM25 index of the titles and texts of documents.

        Args:
            documents: documents; empty documents are never found.
            k1: saturation of the term frequency, at least 0. With 0, only the presence of a word counts.
            b: strength of the normalisation by document length, from 0 (none) to 1.
            stopwords: words that are ignored: a language code such as `"en"` for the words of that language, a list of
                words, or None for no stopwords.
            stemmer: `"plural"` to remove the plural endings of English words; None to leave words unchanged; or a
                function that maps a word to its stem, for example `nltk.stem.PorterStemmer().stem`.
            tokenizer: function that splits a text into words. With None, words consist of letters, digits and
                underscores, and case is ignored. In scripts without spaces, each pair of adjacent characters is a word.
        """
        _check_texts("documents", documents)
        if not len(documents):
            bad_value("documents", "contain at least one document", "none")
        if not 0 <= k1 < float("inf"):
            bad_value("k1", "be a finite number of at least 0", k1)
        if not 0 <= b <= 1:
            bad_value("b", "be from 0 to 1", b)
        if isinstance(stemmer, str):
            one_of("stemmer", stemmer, [PLURAL])
        engine = _bm25s().BM25(k1=float(k1), b=float(b), method="lucene")
        tokens = Tokens(stopword_list(stopwords), stemmer, tokenizer)
        vocabulary: dict[str, int] = {}
        numbers = [
            [vocabulary.setdefault(token, len(vocabulary)) for token in tokens(documents.full(number))]
            for number in range(len(documents))
        ]
        with np.errstate(invalid="ignore"):  # the mean length is 0 if all documents are empty
            engine.index((numbers, vocabulary), create_empty_token=False, show_progress=False)
        return BM25Index(documents.ids, tokens, engine)

    def __len__(self) -> int:
        """Return the number of documents in the BM25 index."""
        return len(self.ids)

    def __repr__(self) -> str:
        return f"BM25Index(documents={len(self)}, words={len(self.engine.vocab_dict)}, k1={self.k1:g}, b={self.b:g})"

    @property
    def k1(self) -> float:
        """Saturation of the term frequency in BM25."""
        return float(self.engine.k1)

    @property
    def b(self) -> float:
        """Strength of the normalisation by document length in BM25."""
        return float(self.engine.b)

    def scores(self, query: str, numbers: Sequence[int] | NDArray[Any] | None = None) -> NDArray[np.float32]:
        """Return the BM25 scores of documents for a query. A document without a word of the query has score 0.

        Args:
            query: text of the query; a word that occurs twice counts twice.
            numbers: numbers of the documents; None for all documents.
        """
        words = self.engine.get_tokens_ids(self.tokens(query))
        # bm25s does not accept a query without known words.
        scores = self.engine.get_scores_from_ids(words) if words else np.zeros(len(self), np.float32)
        return scores if numbers is None else scores[np.asarray(numbers, dtype=np.int64)]

    def search(self, queries: Texts, k: int = 100, excluded: Mapping[str, Collection[str]] | None = None) -> Run:
        """Return the k best documents of each query, best first. Documents with equal scores are in index order.

        Documents without a word of the query are not results. So a query may have fewer than k results, or no results.

        Args:
            queries: queries.
            k: maximum number of documents per query.
            excluded: documents that are never results, `{query: documents}`, such as `Collection.excluded`.
        """
        if k < 1:
            bad_value("k", "be at least 1", k)
        _check_texts("queries", queries)
        numbers = {each: number for number, each in enumerate(self.ids)}
        run: Run = {}
        for place, query in enumerate(queries.ids):
            scores = self.scores(queries.full(place))
            if excluded:
                scores[[numbers[each] for each in excluded.get(query, ()) if each in numbers]] = 0
            run[query] = {self.ids[number]: float(scores[number]) for number in _best(scores, k)}
        return run

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save the BM25 index: the files of bm25s, and `bm25.json` with document ids, options and hashes of the files.

        Args:
            folder: folder of the index; it is created if it does not exist.
        """
        path = Path(folder)
        (path / ABOUT).unlink(missing_ok=True)  # until it is written again, the folder is not an index
        self.engine.save(path, show_progress=False)
        about = {
            "format": FORMAT,
            "version": VERSION,
            "stopwords": sorted(self.tokens.stopwords),
            "stemmer": CUSTOM if callable(self.tokens.stemmer) else self.tokens.stemmer,
            "tokenizer": CUSTOM if callable(self.tokens.tokenizer) else None,
            "files": {name: hash_of_file(path / name) for name in _files()},
            "ids": list(self.ids),
        }
        write_json(path / ABOUT, about, seal=True)

    @staticmethod
    def load(
        folder: str | os.PathLike[str],
        *,
        stemmer: Callable[[str], str] | None = None,
        tokenizer: Callable[[str], Iterable[str]] | None = None,
    ) -> "BM25Index":
        """Load a BM25 index. No code from the folder is executed.

        Args:
            folder: folder of the index, written by `save`.
            stemmer: stemmer of `build` if it was a function, because functions are not saved; otherwise None.
            tokenizer: tokenizer of `build` if it was a function; otherwise None.
        """
        path = Path(folder)
        if not (path / ABOUT).is_file():
            bad_value(str(folder), f"be the folder of a BM25 index, with {ABOUT}", "no such file")
        about = read_json(path / ABOUT)
        if (about.get("format"), about.get("version")) != (FORMAT, VERSION):
            got = f"{about.get('format')!r}, version {about.get('version')}"
            bad_value(str(path / ABOUT), f"have the format {FORMAT!r}, version {VERSION}", got)
        kinds = {"stopwords": list, "stemmer": str | None, "tokenizer": str | None, "files": dict, "ids": list}
        odd = [name for name, kind in kinds.items() if not isinstance(about.get(name, False), kind)]
        if odd or not all(isinstance(each, str) for each in (*about["stopwords"], *about["ids"])):
            must = "contain lists of texts as `stopwords` and `ids`, and `stemmer`, `tokenizer`, `files`"
            bad_value(str(path / ABOUT), must, f"an odd value of {(odd or ['ids or stopwords'])[0]}")
        for name, given in (("stemmer", stemmer), ("tokenizer", tokenizer)):
            if about[name] == CUSTOM and given is None:
                bad_value(name, f"be the function that the index in {folder} was built with", None)
            if about[name] != CUSTOM and given is not None:
                bad_value(name, f"be None, because the index in {folder} was built without a function", given)
        known = {name: str(about["files"].get(name)) for name in _files()}
        check_unchanged(path, known, "if it has changed, build the index again")
        engine = _bm25s().BM25.load(path, allow_pickle=False, load_corpus=False, show_progress=False)
        if (count := int(engine.scores["num_docs"])) != len(about["ids"]):
            bad_value(str(path / ABOUT), f"have one id per document, {count}", len(about["ids"]))
        rule = stemmer if about["stemmer"] == CUSTOM else about["stemmer"]
        return BM25Index(tuple(about["ids"]), Tokens(frozenset(about["stopwords"]), rule, tokenizer), engine)


def _check_texts(name: str, texts: object) -> None:
    if not isinstance(texts, Texts):
        bad_type(name, "be rankgrad.text.Texts, such as Texts(['1'], ['a text'])", type(texts).__name__)


def _best(scores: NDArray[np.float32], k: int) -> list[int]:
    """Return the numbers of the k best BM25 scores above 0, best first. Equal scores are in order of their numbers."""
    found = np.flatnonzero(scores > 0)
    if len(found) > k:
        least = np.partition(scores[found], -k)[-k]
        above, equal = found[scores[found] > least], found[scores[found] == least]
        found = np.sort(np.concatenate([above, equal[: k - len(above)]]))
    return found[np.argsort(-scores[found], kind="stable")].tolist()


def _files() -> tuple[str, ...]:
    arrays = (f"{name}.csc.index.npy" for name in ("data", "indices", "indptr"))
    return (*arrays, "vocab.index.json", "params.index.json")


def _bm25s() -> Any:
    try:
        with _without_jax():
            import bm25s
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("BM25 needs bm25s: pip install 'rankgrad[text]'") from error
    # The package sets its logger to DEBUG, so that its messages appear in every program that logs.
    if (logger := logging.getLogger("bm25s")).level == logging.DEBUG:
        logger.setLevel(logging.WARNING)
    return bm25s


@contextmanager
def _without_jax() -> Iterator[None]:
    """Hide JAX while bm25s is imported, unless JAX is already imported.

    The import of bm25s calls JAX, and JAX then allocates most of the memory of a GPU. This index does not need JAX.
    """
    hidden = "jax" not in sys.modules
    if hidden:
        sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["jax"]
