"""Read the lists of a text run, divide the lists into parts, and record the options that determine the lists."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from rankgrad.cli.text.first_stage import DEPTH, first_stage
from rankgrad.cli.text.teacher import check_teacher, read_order, teacher_kind
from rankgrad.errors import bad_value, one_of

if TYPE_CHECKING:
    from rankgrad.data import Dataset, Splits
    from rankgrad.metrics.trec import Run
    from rankgrad.text import Collection

KEPT = "text.json"  # file that records the lists of a text run, in the folder of the run
TEACHER_RUN = "teacher-run.txt"  # scores of a teacher that is a model, in the folder of the run
HOLDOUT, PSEUDO_DEPTH = 0.2, 32
_PATHS = ("index", "queries", "qrels", "run", "init_model")


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
    holdout: int | float = HOLDOUT  # share of the lists to hold out for validation, if `fold` is None
    seed: int = 0  # random seed of held-out lists and pseudo queries
    pseudo: bool = False  # True to train on pseudo queries
    add_relevant: bool = True  # True to add relevant documents that are not in the run to the training lists
    init_model: str | None = None  # model that the training starts from
    teacher: str | None = None  # distillation: model, TREC run, or order of documents
    standardise: str = "none"  # distillation: standardisation of the teacher's scores
    temperature: int | float = 1.0  # distillation: temperature of the teacher's scores
    fuse: bool = False  # distillation: True to add the z-scores of the candidate run and of the teacher

    @property
    def candidate_run(self) -> Path | None:
        """Path of the TREC run with the candidates: the given run, or a teacher that is a run; None for BM25."""
        taught = self.teacher is not None and teacher_kind(self.teacher) == "run"
        path = self.run or (self.teacher if taught else None)
        return None if path is None else Path(path)

    @staticmethod
    def of(given: Mapping[str, Any], resumed: Path | None) -> "TextLists":
        """Return the options of the lists of a text run.

        Args:
            given: options of the command line, by name. Other names, and options without a value, are not used.
            resumed: folder of the run that is resumed, which records its options; None for a new run.
        """
        from rankgrad.cli.text.index_folder import absolute

        known: dict[str, Any] = {}
        for field in fields(TextLists):
            value = given.get(field.name)
            if value is None or (value is False and field.name != "add_relevant"):
                continue
            is_path = field.name in _PATHS or (field.name == "teacher" and Path(value).exists())
            known[field.name] = absolute(value) if is_path else value
        if resumed is None:
            if "index" not in known:
                bad_value("index", "be given, unless a run is resumed", None)
            if "fold" in known and "holdout" in known:
                bad_value("holdout", "not be given with --fold, because each fold has a validation part", "both")
            return TextLists(**known)
        kept = TextLists.kept(resumed)
        for name, value in known.items():
            if getattr(kept, name) != value:
                bad_value(name, f"be {getattr(kept, name)!r} to resume {resumed}", repr(value))
        return kept

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
        kinds = get_type_hints(TextLists)
        for name, value in record.items():
            if not isinstance(value, kinds.get(name, ())):
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
        from rankgrad.data import Splits
        from rankgrad.data.splitting import hold_out
        from rankgrad.text import pseudo_lists
        from rankgrad.text.training_lists import split_lists

        folder, taught = IndexFolder.open(Path(self.index)), self.teacher is not None
        files = (None if path is None else Path(path) for path in (self.queries, self.qrels))
        made, only_made = None, self.pseudo and self.fold is None
        collection = folder.collection(*files) if only_made else folder.with_queries(*files)
        if not (only_made or taught or collection.qrels):
            bad_value("qrels", f"be given, because {self.index} contains no labels", None)
        if self.pseudo:
            made = pseudo_lists(collection, depth=self.depth or PSEUDO_DEPTH, seed=self.seed, remove=not taught)
            if only_made:
                return ListParts(collection, hold_out(Splits(made, None, None, made.name), self.holdout, self.seed))
        depth = self.depth or DEPTH
        run, order = first_stage(folder, collection, self.candidate_run, depth), self._order()
        options: dict[str, Any] = {"fold": self.fold, "parts": self.folds, "holdout": self.holdout, "seed": self.seed}
        options |= {"add_relevant": self.add_relevant and not taught, "order": order}
        found = split_lists(collection, run, depth=depth, **options)
        return ListParts(collection, found if made is None else replace(found, train=made), run)

    def named_parts(self) -> tuple[str, dict[str, "Dataset"], list[str]]:
        """Return for `rankgrad report`: name of the collection, lists by part, and an empty list of warnings."""
        parts = self.read()
        fold = "" if self.fold is None else f", fold {self.fold}"
        return parts.collection.name + fold, parts.lists, []

    def _order(self) -> "Run | None":
        """Return the teacher's order of documents as a run; None if the teacher is not an order."""
        if self.teacher is None or teacher_kind(self.teacher) != "order":
            return None
        order = read_order(Path(self.teacher))
        return {query: {each: float(-place) for place, each in enumerate(ids)} for query, ids in order.items()}


@dataclass(frozen=True)
class ListParts:
    """The collection, the lists and the candidate run of a text run."""

    collection: "Collection"
    splits: "Splits"  # there are test lists only of a fold
    run: "Run | None" = None  # candidate run of all queries

    @property
    def lists(self) -> dict[str, "Dataset"]:
        """Lists by part: train, validation, test."""
        return self.splits.parts()
