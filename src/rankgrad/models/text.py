"""Text rankers as kinds of rankers: bi-encoders and cross-encoders with any loss of `rankgrad.losses`."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from rankgrad.data import Dataset
from rankgrad.data.loading import text_source
from rankgrad.errors import bad_value
from rankgrad.models.protocol import Listing, RankerKind, TrainedModel
from rankgrad.run import Callback, run
from rankgrad.run.checkpoint import LAST
from rankgrad.settings.schema import Checked
from rankgrad.settings.text import TextSettings
from rankgrad.spec import spell
from rankgrad.text.collection import collection_of
from rankgrad.text.encoder_files import ENCODER, need_package
from rankgrad.text.model import KIND, TextModel
from rankgrad.text.training import TextTraining

_ABOUT = {
    "bi_encoder": "Encoder that maps query and document to vectors, for text data sets; the score is the cosine",
    "cross_encoder": "Encoder that reads query and document together, for text data sets",
}


class TextKind(RankerKind):
    """Encoders of text, trained by gradient descent on text data sets.

    Args:
        name: `bi_encoder` or `cross_encoder`.
    """

    saved_as = KIND
    unit = "epoch"
    length = "epochs"
    usual_length = 5
    rate = "lr"
    settings = TextSettings.names()
    elsewhere = MappingProxyType({"seed": "`seeds`", "metric": "`choose`"})
    run_files = (LAST, ENCODER)

    def __init__(self, name: str) -> None:
        self.name = name
        self.defaults = MappingProxyType({**TextSettings().to_json(), "model": name})

    def listing(self) -> list[Listing]:
        """Return the line for this ranker in the output of `rankgrad list models`."""
        return [Listing(self.name, _ABOUT[self.name], "encoder=FOLDER (a setting), see rankgrad text train --help")]

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise one error with all problems of the settings of a text ranker; see `RankerKind.check`.

        The folder of the encoder may be missing on this machine, because results of a recipe may be from another
        machine. Only `checked` and `fit` check that the folder exists.

        Args:
            settings: settings of `rankgrad.text.TextSettings`.
        """
        self._settings(settings).check(files=False)

    def checked(self, settings: Mapping[str, Any]) -> Checked:
        """Check the settings of a text ranker, and return them for `fit`; see `RankerKind.checked`.

        Args:
            settings: settings of `rankgrad.text.TextSettings`.
        """
        return self._settings(settings).read()

    def _settings(self, settings: Mapping[str, Any]) -> TextSettings:
        name, cutoff, options = spell("model", str(settings.get("model", self.name)))
        if cutoff is not None or options:
            bad_value("model", f"be {name}, without options (use settings)", repr(settings["model"]))
        return TextSettings.of({"model": self.name, **settings})

    def check_installed(self) -> None:
        """Raise an `ImportError` that shows how to install `transformers`."""
        need_package("transformers", "a text ranker")

    def training_data(self, data: str, begun: str | None = None) -> str:
        """Return the spec of a text data set whose training lists also contain the relevant documents that BM25 missed.

        A resumed run keeps its lists: version 0.2 did not add these documents.

        Args:
            data: spec of a text data set; any other name is not changed.
            begun: spec of the data of a run that is resumed; None for a new run.
        """
        try:
            source, then = text_source(data), None if begun is None else text_source(begun)
        except ValueError:  # the check of the data raises the error
            return data
        add = True if begun is None else then and then.add_relevant
        return data if source is None or source.add_relevant is not None else source.spec(add_relevant=add)

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
    ) -> TextModel:
        """Train an encoder; see `RankerKind.fit`. On a CPU, a resumed run has the weights of an uninterrupted run.

        Args:
            settings: settings of `rankgrad.text.TextSettings`.
            train: training lists of a text data set.
            validation: validation lists of the same collection.
            out: folder for model, checkpoints and log.
            resume: True to resume from the checkpoint in `out`.
            progress: True to show a bar on a terminal, and otherwise one line per epoch; None to show only the bar;
                False to show nothing.
            init_model: text model to start from.
            callbacks: functions that are called with the log row of each epoch.
        """
        given = {"model": self.name, **settings} if isinstance(settings, Mapping) else settings
        checked = TextSettings.checked(given)
        collection_of(train)
        training = TextTraining(checked, train, validation, cast(TextModel | None, init_model))
        return run(training, out=out, resume=resume, progress=progress, callbacks=callbacks)

    def load(self, folder: Path, device: str = "cpu") -> TextModel:
        """Read a saved text model; see `RankerKind.load`.

        Args:
            folder: folder of the model.
            device: device to compute on.
        """
        return TextModel.load(folder, device)

    def space(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the search space of a text ranker.

        Args:
            settings: settings with fixed values, which are not searched.
        """
        return {name: values for name, values in TextSettings.space().items() if name not in settings}

    def versions(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Return the version of `transformers`.

        Args:
            settings: settings of the run.
        """
        return {"transformers": version("transformers")}


BI_ENCODER, CROSS_ENCODER = TextKind("bi_encoder"), TextKind("cross_encoder")
