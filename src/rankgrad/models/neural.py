"""Neural rankers as a kind of ranker: any network of `rankgrad.rankers` with any loss of `rankgrad.losses`."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from rankgrad import rankers
from rankgrad.data import Dataset
from rankgrad.errors import bad_value, collected, problems_of
from rankgrad.models.protocol import Listing, RankerKind, TrainedModel
from rankgrad.rankers import MODELS, PRESETS
from rankgrad.run import Callback
from rankgrad.run.checkpoint import LAST
from rankgrad.settings.schema import Checked, SettingsError
from rankgrad.spec import spec_name, spell, write
from rankgrad.training import Model, Settings, train
from rankgrad.training.model import WEIGHTS

# Search space of `rankgrad tune` for the options of each network.
_DROPOUT = {"low": 0.0, "high": 0.5}
_WIDTHS = ["64-32", "128-64", "256-128", "512-256-128"]
SPACE_OF_MODEL: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"widths": _WIDTHS, "norm": ["none", "batch", "layer"], "dropout": _DROPOUT},
    "context_aware": {
        "width": [32, 64, 128], "blocks": [1, 2, 3], "heads": [1, 2, 4], "feed_forward": [64, 128, 384],
        "dropout": _DROPOUT,
    },
    "attsets": {"widths": ["64", "128", "256", "128-128"], "head": ["64", "128"], "dropout": _DROPOUT},
    "attention_mil": {
        "widths": ["64", "128", "256", "500"], "attention": [32, 64, 128], "gated": [False, True], "dropout": _DROPOUT,
    },
    "dasalc": {
        "width": [64, 128, 256, 512], "layers": [2, 3, 4], "heads": [1, 2, 4], "dropout": _DROPOUT,
        "noise": {"low": 0.0, "high": 1.5},
    },
}  # fmt: skip
_OPTION = "model."  # prefix of the network's options in a search space


class NeuralKind(RankerKind):
    """Neural networks that score documents, trained by gradient descent."""

    name = "neural"
    unit = "epoch"
    length = "epochs"
    rate = "lr"
    settings = Settings.names()
    shares_settings = True
    elsewhere = MappingProxyType({"seed": "`seeds`", "metric": "`choose`"})
    defaults = MappingProxyType(Settings().to_json())
    run_files = (LAST, WEIGHTS)

    @property
    def models(self) -> Sequence[str]:
        """Names of the networks, and of the presets from papers."""
        return (*MODELS, *PRESETS)

    def listing(self) -> list[Listing]:
        """Return the lines for neural rankers in the output of `rankgrad list models`, one line per network."""
        return [Listing(name, _about(kind), _options(kind)) for name, kind in MODELS.items()]

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise one error with all problems of the settings of a neural ranker; see `RankerKind.check`.

        Args:
            settings: settings of `rankgrad.training.Settings`.
        """
        self.checked(settings)

    def checked(self, settings: Mapping[str, Any]) -> Checked:
        """Check the settings of a neural ranker, and return them for `fit`; see `RankerKind.checked`.

        Args:
            settings: settings of `rankgrad.training.Settings`.
        """
        from rankgrad.models.registry import kind_of

        try:
            kind_of(settings.get("model"))
        except ValueError as error:  # this error suggests names of all kinds, and the settings know only networks
            # The kind of ranker is unknown. So an unknown setting may be a setting of the kind that the user means.
            known = {name: value for name, value in settings.items() if name in Settings.names()}
            others = collected([Settings.of({**known, "model": Settings.model}).check], ValueError, TypeError)
            raise SettingsError(*problems_of(error), *others) from None
        return Settings.checked(settings)

    def describe(self, settings: Mapping[str, Any]) -> str:
        """Return a short description of the training of a network.

        Args:
            settings: settings of the run.
        """
        return f"{super().describe(settings)}, preprocess {settings.get('preprocess', Settings.preprocess)}"

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
    ) -> Model:
        """Train a network with `rankgrad.training.train`; see `RankerKind.fit`.

        Args:
            settings: settings of `rankgrad.training.Settings`.
            train: training lists.
            validation: validation lists, by which the best epoch is chosen.
            out: folder for model, checkpoints and log.
            resume: True to resume from the checkpoint in `out`.
            progress: True to show a bar on a terminal, and otherwise one line per epoch; None to show only the bar;
                False to show nothing.
            init_model: neural model to start from.
            callbacks: functions that are called with the log row of each epoch.
        """
        checked = Settings.checked(settings)
        options: dict[str, Any] = {"out": out, "resume": resume, "progress": progress, "callbacks": callbacks}
        held = None if validation is None else validation.without_numbers()
        return _train(checked, train.without_numbers(), held, **options, init_model=cast(Model | None, init_model))

    def load(self, folder: Path, device: str = "cpu") -> Model:
        """Read a saved network with its preprocessing; see `RankerKind.load`.

        Args:
            folder: folder of the model.
            device: device to compute on.
        """
        return Model.load(folder, device)

    def read(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Convert options to settings of a neural ranker; also return a note, which is empty for most models.

        If the model is a preset, the settings of its paper are added, and the note contains them.

        Args:
            given: options of the command line and their values, by name.
        """
        name = spec_name(str(given.get("model", Settings.model))).replace("_", "-")
        if name not in PRESETS:
            return dict(given), ""
        preset, takes = PRESETS[name], {"batch_size": "batch"}
        added = {
            setting: value
            for setting in Settings.names()
            if setting not in given and (value := getattr(preset, takes.get(setting, setting), None)) is not None
        }
        note = ", ".join(f"{setting} {value}" for setting, value in added.items())
        return {**added, **given}, f"{name} ({preset.source}) sets: {note or 'no other setting'}"

    def space(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the search space of a neural ranker: training settings, and options of the network not in its spec.

        Args:
            settings: settings of the run, including `model`.
        """
        given_settings = Settings.of(dict(settings))
        if spell("schedule", given_settings.schedule).name == "cosine":
            bad_value(
                "schedule",
                "not depend on the number of epochs, because the search does not know this number in advance",
                "'cosine'",
            )
        if not isinstance(given_settings.model, str):
            return Settings.space()
        name, given = rankers.parse_ranker(given_settings.model)
        # The options of a preset are not searched, because a preset is the network of a paper.
        ranges = SPACE_OF_MODEL.get(name, {})
        options = {f"{_OPTION}{option}": ranges[option] for option in ranges if option not in given}
        return Settings.space() | options

    def drawn(self, settings: Mapping[str, Any], draw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a network with sampled values; sampled options of the network become part of its spec.

        Args:
            settings: settings to start from.
            draw: sampled values; the keys are the keys of `space`.
        """
        model = settings.get("model", Settings.model)
        if not isinstance(model, str):
            return {**settings, **draw}
        name, options = rankers.parse_ranker(model)
        of_model = {key.removeprefix(_OPTION): value for key, value in draw.items() if key.startswith(_OPTION)}
        others = {key: value for key, value in draw.items() if not key.startswith(_OPTION)}
        return {**settings, **others, "model": write(name, options={**options, **of_model})}

    def memory(self, settings: Mapping[str, Any], documents: int, features: int, longest: int) -> int:
        """Estimate the memory to train a network: preprocessed copies of the lists, and activations of a batch.

        Args:
            settings: settings of the run.
            documents: number of documents of the training lists.
            features: number of features.
            longest: number of documents of the longest list.
        """
        copies = 12 * documents * features
        batch = min(int(settings.get("batch_size", Settings.batch_size)) * longest, documents)
        return copies + 4 * 4_000 * batch  # about 4,000 numbers per document: activations and their gradients


_train = train
NEURAL = NeuralKind()


def _about(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0].rstrip(".").replace("`", "")


def _options(kind: type) -> str:
    parameters = inspect.signature(kind).parameters.values()
    return ", ".join(f"{each.name}={_text(each.default)}" for each in parameters if each.default is not each.empty)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "-".join(map(_text, value))
    return getattr(value, "__name__", str(value))
