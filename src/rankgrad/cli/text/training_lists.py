"""Read the lists of a text run, divide the lists into parts, and record the options that determine the lists."""

import warnings
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrad.cli.text.first_stage import DEPTH, first_stage
from rankgrad.cli.text.teacher import check_teacher, read_order, teacher_kind
from rankgrad.errors import bad_value, one_of

if TYPE_CHECKING:
    from rankgrad.data import Dataset
    from rankgrad.metrics.trec import Run
    from rankgrad.text import Collection

KEPT = "text.json"  # file that records the lists of a text run, in the folder of the run
TEACHER_RUN = "teacher-run.txt"  # scores of a teacher that is a model, in the folder of the run
HOLDOUT, PSEUDO_DEPTH = 0.2, 32
_KINDS: dict[str, Any] = {"index": str, "depth": int | None, "fold": int | None, "folds": int, "holdout": int | float}
_KINDS |= {
    "seed": int,
    "pseudo": bool,
    "fuse": bool,
    "add_relevant": bool,
    "temperature": int | float,
    "standardise": str,
}


@dataclass(frozen=True)
class TextLists:
    """Options of the command line that determine the lists of a text run."""

    index: str  # folder of the index
    queries: str | None = None  # file of queries; None for the queries of the index
    qrels: str | None = None  # file of labels; None for the labels of the index
    run: str | None = None  # TREC run with the candidates; None for a teacher that is a run, otherwise for BM25
    depth: int | None = None  # documents per query; None for the default
    fold: int | None = None  # number of the fold; None to hold out validation lists
    folds: int = 5  # number of folds
    holdout: float = HOLDOUT  # share of the lists to hold out for validation, if `fold` is None
    seed: int = 0  # random seed of held-out lists and pseudo queries
    pseudo: bool = False  # True to train on pseudo queries
    add_relevant: bool = True  # True to add relevant documents that are not in the run to the training lists
    init_model: str | None = None  # model that the training starts from
    teacher: str | None = None  # distillation: model, TREC run, or order of documents
    standardise: str = "none"  # distillation: standardisation of the teacher's scores
    temperature: float = 1.0  # distillation: temperature of the teacher's scores
    fuse: bool = False  # distillation: True to add the z-scores of the candidate run and of the teacher

    @property
    def candidate_run(self) -> Path | None:
        """Path of the TREC run with the candidates: the given run, or a teacher that is a run; None for BM25."""
        taught = self.teacher is not None and teacher_kind(self.teacher) == "run"
        path = self.run or (self.teacher if taught else None)
        return None if path is None else Path(path)

    def keep(self, folder: Path) -> None:
        """Record the options of the lists in the folder of a text run."""
        from rankgrad.atomic_files import write_json

        write_json(folder / KEPT, asdict(self), seal=True)

    @staticmethod
    def kept(folder: Path) -> "TextLists":
        """Return the options of the lists that a text run recorded."""
        from rankgrad.atomic_files import read_json

        path = folder / KEPT
        if not path.is_file():
            bad_value(str(folder), f"be the folder of a text run, with {KEPT}", "no such file")
        record = {name: value for name, value in read_json(path).items() if name != "sha256"}
        names = {field.name for field in fields(TextLists)}
        for name, value in record.items():
            if name not in names or not isinstance(value, _KINDS.get(name, str | None)):
                bad_value(str(path), "contain the options of a text run", f"the option {name} = {value!r}"[:80])
        return TextLists(**record)

    def check(self) -> None:
        """Check the options of the lists: raise one error with all problems. The collection is not read."""
        from rankgrad.cli.argument_checks import together
        from rankgrad.cli.text.index_folder import IndexFolder
        from rankgrad.data.splitting import check_share

        def numbers() -> None:
            if self.folds < 3:
                bad_value("folds", "be at least 3, for training, validation and test", self.folds)
            if self.fold is not None and not 1 <= self.fold <= self.folds:
                bad_value("fold", f"be from 1 to {self.folds}", self.fold)
            if self.depth is not None and self.depth < 1:
                bad_value("depth", "be at least 1", self.depth)
            check_share(self.holdout)

        def teacher() -> None:
            if self.teacher is not None:
                check_teacher(self.teacher)
            one_of("standardise", self.standardise, ("none", "zscore", "minmax"))
            if not 0 < self.temperature < float("inf"):
                bad_value("temperature", "be above 0 and finite", self.temperature)
            if self.fuse and self.teacher is not None and teacher_kind(self.teacher) == "order":
                bad_value("fuse", "not be given if the teacher is an order, because an order has no scores", "both")

        def files() -> None:
            for name in ("queries", "qrels", "run"):
                path = getattr(self, name)
                if path is not None and not Path(path).is_file():
                    bad_value(name, "be a file", f"{path}: no such file")

        together(numbers, teacher, files, lambda: IndexFolder.open(Path(self.index)))

    def read(self) -> "ListParts":
        """Read the lists of the text run, with the labels of the index. Labels of a teacher are not included."""
        from rankgrad.cli.text.index_folder import IndexFolder
        from rankgrad.text import candidate_lists

        folder = IndexFolder.open(Path(self.index))
        queries, qrels = (None if path is None else Path(path) for path in (self.queries, self.qrels))
        needs = not self.pseudo or self.fold is not None
        collection = folder.with_queries(queries, qrels) if needs else folder.collection(queries, qrels)
        if not needs:
            return self._pseudo(collection, ListParts(collection))
        if not collection.qrels and self.teacher is None:
            bad_value("qrels", f"be given, because {self.index} contains no labels", None)
        depth = self.depth or DEPTH
        run = first_stage(folder, collection, self.candidate_run, depth)
        whole = candidate_lists(collection, run, depth=depth)
        train, order = whole, self._order()
        if order is not None:
            train = candidate_lists(collection, {"first": run, "order": order}, depth=depth)
        elif self.add_relevant and self.teacher is None:
            with warnings.catch_warnings():  # the same warnings as above
                warnings.simplefilter("ignore", UserWarning)
                train = candidate_lists(collection, run, depth=depth, add_relevant=True)
        parts = self._divided(ListParts(collection, run, train), whole)
        return self._pseudo(collection, parts) if self.pseudo else parts

    def named_parts(self) -> tuple[str, dict[str, "Dataset"], list[str]]:
        """Return for `rankgrad report`: name of the collection, lists by part, and an empty list of warnings."""
        parts = self.read()
        known = {"train": parts.train, "validation": parts.validation, "test": parts.test}
        name = parts.collection.name + ("" if self.fold is None else f", fold {self.fold}")
        return name, {part: data for part, data in known.items() if data is not None}, []

    def _divided(self, parts: "ListParts", whole: "Dataset") -> "ListParts":
        """Return the parts of a text run with the lists of the fold. Without a fold, hold out validation lists."""
        from rankgrad.data import Splits
        from rankgrad.data.splitting import hold_out
        from rankgrad.text import folds

        assert parts.train is not None
        if self.fold is None:
            split = hold_out(Splits(parts.train, None, None, whole.name), self._share(parts.train), self.seed)
            held = None if split.validation is None else _same_queries(whole, split.validation)
            return replace(parts, train=split.train, validation=held)
        divided = folds(whole, self.fold, self.folds)
        train = folds(parts.train, self.fold, self.folds).train
        return replace(parts, train=train, validation=_judged(divided.validation), test=divided.test)

    def _share(self, train: "Dataset") -> float:
        """Return the share of lists to hold out; 0 if there is a teacher, and no document is labelled as relevant."""
        return 0.0 if self.teacher is not None and not (train.labels > 0).any() else self.holdout

    def _pseudo(self, collection: "Collection", parts: "ListParts") -> "ListParts":
        """Return the parts with lists of pseudo queries for training. Without a fold, hold out validation lists."""
        from rankgrad.data import Splits
        from rankgrad.data.splitting import hold_out
        from rankgrad.text import pseudo_lists

        depth = self.depth or PSEUDO_DEPTH
        made = pseudo_lists(collection, depth=depth, seed=self.seed, remove=self.teacher is None)
        if self.fold is not None:
            return replace(parts, train=made)
        split = hold_out(Splits(made, None, None, made.name), self.holdout, self.seed)
        return replace(parts, train=split.train, validation=split.validation)

    def _order(self) -> "Run | None":
        """Return the teacher's order of documents as a run; None if the teacher is not an order."""
        if self.teacher is None or teacher_kind(self.teacher) != "order":
            return None
        order = read_order(Path(self.teacher))
        return {query: {each: float(-place) for place, each in enumerate(ids)} for query, ids in order.items()}


@dataclass(frozen=True)
class ListParts:
    """The collection, the candidate run and the lists of a text run."""

    collection: "Collection"
    run: "Run | None" = None  # candidate run of all queries
    train: "Dataset | None" = None
    validation: "Dataset | None" = None
    test: "Dataset | None" = None  # test lists of the fold; None without a fold


def _judged(data: "Dataset | None") -> "Dataset | None":
    """Return the validation lists whose queries have labels. A ranker cannot be measured on other lists."""
    import numpy as np

    if data is None or data.texts is None:
        return data
    known = [place for place, query in enumerate(data.qids.tolist()) if data.texts.qrels.get(str(query))]
    return data.take(np.array(known, dtype=np.int64)) if known else None


def _same_queries(data: "Dataset", chosen: "Dataset") -> "Dataset":
    """Return the lists of the text data set `data` whose queries are in `chosen`."""
    import numpy as np

    wanted = set(chosen.qids.tolist())
    places = [place for place, query in enumerate(data.qids.tolist()) if query in wanted]
    return replace(data.take(np.array(places, dtype=np.int64)), name=chosen.name)
