"""Boosted trees of LightGBM and XGBoost as kinds of rankers, with a loss of `rankgrad.losses` or a native objective."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rankgrad.data import Dataset
from rankgrad.errors import bad_value, name_settings
from rankgrad.models.protocol import Listing, RankerKind, TrainedModel
from rankgrad.run import Callback

_LIGHTGBM: dict[str, Any] = {
    "learning_rate": {"low": 0.02, "high": 0.3, "log": True},
    "num_leaves": [7, 15, 31, 63, 127],
    "min_data_in_leaf": [5, 20, 50, 100],
    "feature_fraction": {"low": 0.3, "high": 1.0},
    "bagging_fraction": {"low": 0.5, "high": 1.0},
    "lambda_l2": {"low": 1e-3, "high": 10.0, "log": True},
}
_XGBOOST: dict[str, Any] = {
    "eta": {"low": 0.02, "high": 0.3, "log": True},
    "max_depth": [2, 3, 4, 6, 8],
    "min_child_weight": {"low": 0.01, "high": 10.0, "log": True},
    "colsample_bytree": {"low": 0.3, "high": 1.0},
    "subsample": {"low": 0.5, "high": 1.0},
    "lambda": {"low": 1e-3, "high": 10.0, "log": True},
}
# Aliases of parameters of XGBoost.
_ALIASES = {"eta": ("learning_rate",), "lambda": ("reg_lambda",)}


class TreeKind(RankerKind):
    """Gradient-boosted regression trees."""

    unit = "tree"
    length = "trees"
    usual_length = 300
    saved_as = "trees"
    takes_missing = True
    elsewhere = MappingProxyType(
        {"seed": "`seeds`", "metric": "`choose`", "threads": "`--jobs`", "holdout": "the data set"}
    )

    def __init__(self, framework: str, rate: str, space: Mapping[str, Any]) -> None:
        self.name, self.rate, self._space = framework, rate, dict(space)
        self.words = {"epochs": "trees", "lr": rate}

    def listing(self) -> list[Listing]:
        """Return the line for the framework in the output of `rankgrad list models`."""
        return [Listing(self.name, "boosted trees (needs rankgrad[trees])", "parameters of the framework")]

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise an error if a setting of trees is wrong; see `RankerKind.check`.

        Args:
            settings: settings of `rankgrad.trees.TreeRanker`, and parameters of the framework.
        """
        self._plan(settings)

    def check_installed(self) -> None:
        """Raise an `ImportError` if the framework is not installed."""
        from rankgrad.trees.frameworks import import_framework

        import_framework(self.name)

    def fit(
        self,
        settings: Any,
        train: Dataset,
        validation: Dataset | None = None,
        *,
        out: str | PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | None = None,
        init_model: TrainedModel | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> TrainedModel:
        """Train trees; see `RankerKind.fit`.

        Args:
            settings: settings that `check` accepts.
            train: training lists.
            validation: validation lists, by which the best number of trees is chosen.
            out: folder for the model and its checkpoints.
            resume: True to resume from the checkpoint in `out`.
            progress: True to show a bar on a terminal, and otherwise some lines; None to show only the bar;
                False to show nothing.
            init_model: model of the same framework, to which new trees are added. The setting `trees` is the number of
                new trees.
            callbacks: functions that are called with the log row of each tree.
        """
        from rankgrad.trees.boosting import boost

        options: dict[str, Any] = {"out": out, "resume": resume, "progress": progress, "init_model": init_model}
        options["callbacks"] = callbacks
        held = None if validation is None else validation.without_numbers()
        return boost(self._plan(settings), train.without_numbers(), held, **options)

    def load(self, folder: Path, device: str = "cpu") -> TrainedModel:
        """Return saved trees; see `RankerKind.load`.

        Args:
            folder: folder of the model.
            device: ignored; trees are computed on the CPU.
        """
        from rankgrad.trees.model import TreeModel

        return TreeModel.load(folder)

    def read(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Convert options of the command line to settings of trees; also return an empty note.

        Options that only neural rankers have are an error.

        Args:
            given: options of the command line and their values, by name.
        """
        from rankgrad.training import Settings

        for name in given:
            if name in Settings.names() and name not in (*self.words, *_TAKEN, "device"):
                bad_value(name, f"not be given with {self.name}, which has no such setting", repr(given[name]))
        if given.get("device", "auto") not in ("auto", "cpu"):
            own_parameter = {"lightgbm": "device_type=gpu", "xgboost": "device=cuda"}[self.name]
            bad_value(
                "device",
                f"be auto or cpu for {self.name} "
                + name_settings(f"(or give its own parameter, {{set={own_parameter}}})"),
                repr(given["device"]),
            )
        from rankgrad.trees.parameters import own_names

        own = own_names({name: value for name, value in given.items() if name not in ("device", *self.words)})
        for name, ours in self.words.items():
            if name in given and ours in own:
                bad_value(ours, "be given only once", f"{name}={given[name]!r} and {ours}={own[ours]!r}")
        return own | {ours: given[name] for name, ours in self.words.items() if name in given}, ""

    def describe(self, settings: Mapping[str, Any]) -> str:
        """Return a short description of the training of trees.

        Args:
            settings: settings of the run.
        """
        return super().describe({"loss": self._plan(settings).loss, **settings})

    def space(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the search space of trees: the main parameters of the framework, without those in `settings`.

        Args:
            settings: settings with fixed values, which are not searched.
        """
        given = self._given(settings)
        return {name: choices for name, choices in self._space.items() if not given & self._names(name)}

    def drawn(self, settings: Mapping[str, Any], draw: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings of trees with sampled values, and with `bagging_freq` if LightGBM needs it to sample rows.

        Args:
            settings: settings to start from.
            draw: sampled values; the keys are the keys of `space`.
        """
        frequency = {"bagging_freq": 1} if "bagging_fraction" in draw else {}
        if frequency and self._given(settings) & self._names("bagging_freq"):
            frequency = {}
        return {**settings, **draw, **frequency}

    def _given(self, settings: Mapping[str, Any]) -> set[str]:
        """Return the names of these settings of trees, and the names of the options in the spec of the model."""
        from rankgrad.spec import spell

        return {*settings, *spell("model", str(settings.get("model", self.name))).options}

    def _names(self, name: str) -> set[str]:
        """Return the name and all aliases of a parameter of the framework."""
        from rankgrad.trees.parameters import aliases

        return aliases(name) if self.name == "lightgbm" else {name, *_ALIASES.get(name, ())}

    def for_length(self, units: int) -> dict[str, Any]:
        """Return settings for a training with a fixed number of trees.

        Args:
            units: number of trees.
        """
        return {"trees": units, "patience": None}

    def memory(self, settings: Mapping[str, Any], documents: int, features: int, longest: int) -> int:
        """Return an estimate of the memory to train trees: copies of the features in the format of the framework.

        Args:
            settings: settings of the run.
            documents: number of documents of the training lists.
            features: number of features.
            longest: number of documents of the longest list.
        """
        return (8 if self.name == "lightgbm" else 16) * documents * features + 200 * documents

    def has_run(self, folder: Path) -> bool:
        """Return True if the folder contains a checkpoint or trees.

        Args:
            folder: folder to check.
        """
        from rankgrad.trees.model import FILES

        return self.resumes(folder) or (folder / FILES[self.name]).exists()

    def resumes(self, folder: Path) -> bool:
        """Return True if the folder contains a checkpoint of trees.

        Args:
            folder: folder to check.
        """
        from rankgrad.run.checkpoint import LAST

        return (folder / LAST).is_file()

    def versions(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Return the version of the framework from the imported module; the package may have the name `xgboost-cpu`.

        Args:
            settings: settings of the run.
        """
        from rankgrad.trees.frameworks import import_framework

        return {self.name: str(import_framework(self.name).__version__)}

    def _plan(self, settings: Any) -> Any:
        from rankgrad.trees.settings import TreeSpec, spelled_settings, tree_spec

        return settings if isinstance(settings, TreeSpec) else tree_spec(spelled_settings(settings))


_TAKEN = ("model", "loss", "patience", "metric", "seed", "loss_lr")  # options of the command line that trees also have

LIGHTGBM = TreeKind("lightgbm", "learning_rate", _LIGHTGBM)
XGBOOST = TreeKind("xgboost", "eta", _XGBOOST)
