"""Specs of text data sets, such as `text:path=cranfield,depth=100`, for `rankgrad.data.load`, recipes and commands."""

import os
import warnings
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rankgrad.data.dataset import Dataset, Splits
from rankgrad.errors import MissingFile, Problem, bad_value, name_settings
from rankgrad.metrics.trec import Run
from rankgrad.option_checks import fit_options
from rankgrad.spec import known_options, no_cutoff, spell, write
from rankgrad.text.bm25 import BM25Index
from rankgrad.text.candidates import candidate_lists, folds
from rankgrad.text.collection import Collection
from rankgrad.text.encoder_files import need_package
from rankgrad.text.formats import ir_datasets
from rankgrad.text.formats.trec import topic_fields
from rankgrad.text.loading import load
from rankgrad.text.training_lists import split_lists

KIND = "text"  # name in specs
_PATHS = ("path", "queries", "qrels")


@dataclass(frozen=True)
class TextSource:
    """A text data set: the documents that BM25 finds for each query of a collection. Folds divide the queries.

    Relative paths are first searched in the data root, then in the current folder.

    Example:
        >>> read_source("text:path=cranfield,depth=50").absolute("/data")
        'text:path=/data/cranfield,depth=50'
    """

    path: str  # folder or file of the collection, or `ir_datasets:NAME`; see `rankgrad.text.load`
    name: str | None = None  # name of the data set in tables of results; None for the name of the folder
    queries: str | None = None  # file of queries; None to search for it in the folder
    qrels: str | None = None  # file of qrels; None to search for it in the folder
    topic: str = "title"  # field of TREC's topics that is the query; several fields are joined by +
    depth: int = 100  # maximum number of documents per query
    parts: int = 5  # number of folds
    k1: float = 1.2  # option of BM25: saturation of the term frequency
    b: float = 0.75  # option of BM25: strength of the normalisation by document length, 0 to 1
    # True to add the relevant documents that BM25 missed to the training lists. Text rankers are trained so by
    # `rankgrad train` and `tune`. None means False: to a ranker of features, the scores of these documents are unknown.
    add_relevant: bool | None = None

    def check(self, fold: int | None, root: str | os.PathLike[str] | None = None) -> None:
        """Check that the files of the text data set exist and that the package of BM25 is installed. No file is read.

        Args:
            fold: number of the fold.
            root: data root, as in `rankgrad.data.load`.
        """
        self._check_fold(fold)
        need_package("bm25s", "BM25")
        for option, path in self._found(root).items():
            if not path.startswith(ir_datasets.PREFIX) and not os.path.exists(path):
                got = f"no such file or folder in {_top(root)}"
                how = name_settings(" (put it there, or set {root=} or RANKGRAD_DATA to the folder that contains it)")
                raise MissingFile(Problem("root", f"contain {getattr(self, option)}" + how, got))

    def splits(self, fold: int | None, root: str | os.PathLike[str] | None = None) -> Splits:
        """Return the training, validation and test lists of a fold of the text data set; see `rankgrad.text.folds`.

        Args:
            fold: number of the fold, from 1.
            root: data root, as in `rankgrad.data.load`.
        """
        self.check(fold, root)
        assert fold is not None  # `check` refuses it
        if not self.add_relevant:
            return folds(self.lists(root), fold, self.parts)
        return split_lists(*self._read(root), depth=self.depth, fold=fold, parts=self.parts)

    def lists(self, root: str | os.PathLike[str] | None = None) -> Dataset:
        """Return the lists of all queries of the text data set, with the documents that BM25 finds.

        Args:
            root: data root, as in `rankgrad.data.load`.
        """
        return candidate_lists(*self._read(root), depth=self.depth)

    def _read(self, root: str | os.PathLike[str] | None) -> tuple[Collection, Run]:
        """Return the collection and the run of BM25. They are computed once per process; all calls give warnings."""
        collection, run, warned = _search(replace(self, add_relevant=None, **self._found(root)))
        for text in warned:
            warnings.warn(text, UserWarning, stacklevel=2)
        return collection, run

    def absolute(self, root: str | os.PathLike[str] | None = None) -> str:
        """Return the text spec with absolute paths, which are valid in every working directory.

        Args:
            root: data root, as in `rankgrad.data.load`.
        """
        paths = {
            option: path if path.startswith(ir_datasets.PREFIX) else os.path.abspath(path)
            for option, path in self._found(root).items()
        }
        return self.spec(**paths)

    def spec(self, **options: Any) -> str:
        """Return the text spec, with other values of some options. Options at their default are left out.

        Args:
            options: options to replace.
        """
        usual = {each.name: each.default for each in fields(self)}
        given = {**vars(self), **options}
        return write(KIND, options={name: value for name, value in given.items() if value != usual[name]})

    def _found(self, root: str | os.PathLike[str] | None) -> dict[str, Any]:
        """Return complete paths for a text spec. A path is in the data root, unless only the current folder has it."""
        found = {}
        for option in _PATHS:
            if (path := getattr(self, option)) is not None:
                here = os.path.expanduser(path)
                there = _top(root) / here
                outside = path.startswith(ir_datasets.PREFIX) or (os.path.exists(here) and not there.exists())
                found[option] = here if outside else str(there)
        return found

    def _check_fold(self, fold: int | None) -> None:
        if isinstance(fold, bool) or not isinstance(fold, int) or not 1 <= fold <= self.parts:
            bad_value("fold", f"be 1 to {self.parts} for a text data set", fold)


def read_source(text: str) -> TextSource:
    """Read the spec of a text data set; no file is opened.

    Args:
        text: spec, `text:path=FOLDER[,option=value,...]`; the options are the fields of `TextSource`.
    """
    options = no_cutoff("name", spell("name", text.rstrip(": ")), text).options
    known_options(KIND, options, [field.name for field in fields(TextSource)])
    if not options.get("path"):
        bad_value("name", "have the option path, such as text:path=cranfield", repr(text))
    source = TextSource(**fit_options(KIND, options, TextSource))
    topic_fields(source.topic)
    for option, least, most in (("depth", 1, None), ("parts", 3, None), ("k1", 0, None), ("b", 0, 1)):
        value = getattr(source, option)
        if value < least or (most is not None and value > most):
            must = f"be at least {least}" if most is None else f"be from {least} to {most}"
            bad_value(f"{option} of {KIND}", must, value)
    return source


@lru_cache(maxsize=2)
def _search(source: TextSource) -> tuple[Collection, Run, tuple[str, ...]]:
    """Return the collection of a text data set with complete paths, the run of BM25, and the warnings of both."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        collection = load(source.path, queries=source.queries, qrels=source.qrels, name=source.name, topic=source.topic)
        if not len(collection.queries):
            bad_value(source.path, "contain queries (or name their file in the option queries=FILE)", "none")
        index = BM25Index.build(collection.documents, k1=source.k1, b=source.b)
        run = index.search(collection.queries, k=source.depth, excluded=collection.excluded)
    texts = (str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
    return collection, run, tuple(dict.fromkeys(texts))


def _top(root: str | os.PathLike[str] | None) -> Path:
    return Path(root if root is not None else os.environ.get("RANKGRAD_DATA", "."))
