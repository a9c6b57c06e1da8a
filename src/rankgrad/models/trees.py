"""Boosted trees as kinds of rankers, one kind per framework, with a loss of `rankgrad.losses` or a native objective."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rankgrad.data import Dataset
from rankgrad.errors import bad_value, name_settings
from rankgrad.models.protocol import Listing, RankerKind, TrainedModel
from rankgrad.run import Callback
from rankgrad.settings.schema import Checked
from rankgrad.settings.trees import TreeSpec
from rankgrad.tree_frameworks import FILES


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

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def framework(self) -> Any:
        """The `TreeFramework`, which is imported when it is first used."""
        from rankgrad.trees.frameworks import framework_named

        return framework_named(self.name)

    @cached_property
    def rate(self) -> str:  # type: ignore[override]
        """Parameter that is the learning rate."""
        return str(self.framework.rate)

    @cached_property
    def words(self) -> Mapping[str, str]:  # type: ignore[override]
        """Settings that have other names on the command line."""
        return {"epochs": "trees", "lr": self.rate}

    def listing(self) -> list[Listing]:
        """Return the line for the framework in the output of `rankgrad list models`."""
        return [Listing(self.name, "boosted trees (needs rankgrad[trees])", "parameters of the framework")]

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise an error if a setting of trees is wrong; see `RankerKind.check`.

        Args:
            settings: settings of `rankgrad.trees.TreeRanker`, and parameters of the framework.
        """
        self.checked(settings)

    def checked(self, settings: Any) -> Checked:
        """Check the settings of trees, unless they are checked, and return them for `fit`; see `RankerKind.checked`.

        Args:
            settings: settings of `rankgrad.trees.TreeRanker`, and parameters of the framework.
        """
        from rankgrad.trees.settings import checked_trees, spelled_settings

        if isinstance(settings, TreeSpec | Checked):
            return TreeSpec.checked(settings)
        return checked_trees(spelled_settings(settings))

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
        return boost(self.checked(settings), train.without_numbers(), held, **options)

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
            bad_value(
                "device",
                f"be auto or cpu for {self.name} "
                + name_settings(f"(or give its own parameter, {{set={self.framework.device}}})"),
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
        if "loss" not in settings:
            from rankgrad.trees.settings import spelled_settings

            settings = {**settings, "loss": spelled_settings(settings).get("loss", TreeSpec.loss)}
        return super().describe(settings)

    def space(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the search space of trees: the main parameters of the framework, without those in `settings`.

        Args:
            settings: settings with fixed values, which are not searched.
        """
        given, framework = self._given(settings), self.framework
        return {name: choices for name, choices in framework.space.items() if not given & framework.aliases(name)}

    def drawn(self, settings: Mapping[str, Any], draw: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings of trees with sampled values, and with the parameters that these values need.

        Args:
            settings: settings to start from.
            draw: sampled values; the keys are the keys of `space`.
        """
        given, framework = self._given(settings), self.framework
        needed = [framework.needs[name] for name in draw if name in framework.needs]
        return {**settings, **draw, **{name: value for name, value in needed if not given & framework.aliases(name)}}

    def _given(self, settings: Mapping[str, Any]) -> set[str]:
        """Return the names of these settings of trees, and the names of the options in the spec of the model."""
        from rankgrad.spec import spell

        return {*settings, *spell("model", str(settings.get("model", self.name))).options}

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
        return int(self.framework.bytes_per_value * documents * features + 200 * documents)

    def has_run(self, folder: Path) -> bool:
        """Return True if the folder contains a checkpoint or trees.

        Args:
            folder: folder to check.
        """
        return self.resumes(folder) or (folder / FILES[self.name]).exists()

    def versions(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Return the version of the framework from the imported module; the package may have the name `xgboost-cpu`.

        Args:
            settings: settings of the run.
        """
        from rankgrad.trees.frameworks import import_framework

        return {self.name: str(import_framework(self.name).__version__)}


_TAKEN = ("model", "loss", "patience", "metric", "seed", "loss_lr")  # options of the command line that trees also have
