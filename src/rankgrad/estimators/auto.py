"""Estimator that searches for the best ranker within a time limit; `rankgrad.models.auto` contains the search."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from rankgrad.errors import bad_value
from rankgrad.estimators.rows import RowRanker, row_weights
from rankgrad.models.auto.final_model import AutoResult, FinalSettings
from rankgrad.models.auto.leaderboard import progress_line
from rankgrad.models.auto.run import run_search
from rankgrad.models.auto.search import FOLDS, AutoSearch, Entry, SearchSettings
from rankgrad.models.auto.stored_lists import joined
from rankgrad.models.registry import load
from rankgrad.parallel.clock import now
from rankgrad.parallel.process_pool import Pool, Runner, run_in_this_process
from rankgrad.settings.schema import check_number, documented, store

_NEEDS_LISTS = "be given, because an ensemble standardises scores per list"


@documented(SearchSettings, FinalSettings)
class AutoRanker(RowRanker):
    """Find the best ranker for a data set: try several kinds of rankers, and combine the best ones.

    Args:
        minutes: duration of the search, including the choice of the ensemble; used if `trials` is None.
        max_latency: maximum latency of the ensemble, in milliseconds per 100 documents on one core; None for no limit.
        memory: number of gigabytes that all trainings may use together; None for no limit.
        jobs: number of processes; 1 to train in this process. With more processes, a script must call `fit` inside
            `if __name__ == "__main__":`, because the other processes import the script.
        missing: treatment of NaN in X by networks: `"error"`, `"zero"`, `"mean"` or `"indicator"`, as in
            `rankgrad.Ranker`; None means `"mean"` if X of `fit` contains NaN. Trees accept NaN, except with `"error"`.
        categorical: names or positions of categorical columns, as in `rankgrad.Ranker`.
        out: folder for the search; `fit` resumes a stopped search in this folder. None for a temporary folder.
        verbose: True to print each finished training.

    `fit` sets `model_`, `leaderboard_` (one row per candidate, best first), `result_` (complete result of the search)
    and `n_features_in_`; `load` sets neither `leaderboard_` nor `result_`. After Ctrl-C, `fit` returns the best model
    so far.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
        >>> y = (X[:, 0] > 0).astype(int)
        >>> ranker = AutoRanker(trials=2, folds=2).fit(X, y, qid=qid)
        >>> ranker.predict(X, qid).shape, ranker.score(X, y, qid=qid) > 0.9, len(ranker.leaderboard_)
        ((200,), True, 2)
    """

    _eval_set_use = "is added to the training lists"

    def __init__(
        self,
        minutes: float = 10.0,
        *,
        trials: int | None = None,
        metric: str = "nDCG@10",
        folds: int = FOLDS,
        single: bool = False,
        max_latency: float | None = None,
        distil: str | None = None,
        memory: float | None = None,
        jobs: int = 1,
        seed: int = 0,
        missing: str | None = None,
        categorical: Sequence[Any] | None = None,
        out: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        store(self, locals())

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: Any = None,
        list_id: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_list_id: Any = None,
    ) -> "AutoRanker":
        """Fit the estimator: search for the best ranker for labelled lists.

        Args:
            X, y: features `(rows, f)` and labels `(rows,)`.
            qid, group, list_id: query id per row, length of each list, list id per row, as in `rankgrad.Ranker.fit`.
            sample_weight: weights of the rows, `(rows,)`; candidates whose loss takes no weights are not tried.
            eval_set, eval_qid, eval_group, eval_list_id: more labelled lists, which are added to the training lists.
                The search uses cross-validation: some models are trained on a list, and the other models are evaluated
                on this list.
        """
        begun = now()
        settings, final = self._settings(), FinalSettings(self.single, self._latency(), self.distil)
        final.check()
        self.__dict__.pop("model_", None)
        data, rows = self._lists(X, y, qid, group, list_id, reset=True)
        if sample_weight is not None:
            data = replace(data, weights=row_weights(sample_weight, rows))
        more = self._validation(eval_set, eval_qid, eval_group, eval_list_id)
        if more is not None and (group is not None or eval_group is not None):  # such lists have no query ids
            more = replace(more, qids=np.array([f"eval_set {number}" for number in more.first_lists]))
        data = joined(data, more)
        with self._place() as folder, self._runner() as runner:
            self._take(run_search(data, settings, final, folder, runner, begun=begun, told=self._told))
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model that the search found as a folder, which `rankgrad.models.load` and all commands read.

        Args:
            folder: folder to write.
        """
        check_is_fitted(self)
        self.model_.save(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "AutoRanker":
        """Load a fitted ranker from a folder that `save` or `rankgrad auto` wrote.

        No file in the folder is run or unpickled.

        Args:
            folder: folder of the model.
        """
        ranker = cls()
        ranker.model_ = load(folder)
        ranker._take_columns(ranker.model_.feature_names)
        return ranker

    @property
    def _takes_nan(self) -> bool:  # type: ignore[override]
        if self.missing is None and hasattr(self, "model_"):
            return self.model_.takes_missing
        return self.missing != "error"

    def _take(self, result: AutoResult) -> None:
        self.model_, self.result_, self.leaderboard_ = result.model, result, result.leaderboard

    def _settings(self) -> SearchSettings:
        if not isinstance(self.metric, str):
            bad_value("metric", "be the spec of a metric, such as nDCG@10", repr(self.metric))
        if self.trials is None:
            check_number("minutes", self.minutes)
        check_number("memory", self.memory, optional=True)
        memory = None if self.memory is None else int(self.memory * 1e9)
        seconds = None if self.trials is not None else 60.0 * self.minutes
        given = (self.trials, self.metric, self.folds, self.seed, memory, self.jobs, self.missing)
        settings = SearchSettings(seconds, *given)
        settings.check()
        return settings

    def _latency(self) -> float | None:
        check_number("max_latency", self.max_latency, optional=True)
        return None if self.max_latency is None else self.max_latency / 1e3

    def _told(self, search: AutoSearch, entry: Entry) -> None:
        if self.verbose:
            print(progress_line(search, entry))

    @contextmanager
    def _place(self) -> Iterator[Path]:
        if self.out is not None:
            yield Path(self.out)
            return
        with tempfile.TemporaryDirectory(prefix="rankgrad-auto-") as folder:
            yield Path(folder)

    @contextmanager
    def _runner(self) -> Iterator[Runner]:
        if self.jobs == 1:
            yield run_in_this_process
            return
        with Pool(self.jobs) as pool:
            yield pool.run

    def _score_rows(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        if hasattr(self.model_, "models"):
            bad_value("qid or group", _NEEDS_LISTS, "neither")
        return super()._score_rows(X)
