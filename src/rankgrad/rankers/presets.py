"""Presets: the rankers of several papers by name, with the training settings from these papers."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Preset:
    """A ranker of a paper: model, options and training settings. A setting is None if the paper does not state it.

    Example:
        >>> preset = PRESETS["neuralndcg-web30k"]
        >>> preset.model, preset.options["width"], preset.preprocess, preset.batch
        ('context_aware', 96, 'log1p,standardise', 64)
    """

    model: str  # a name in `MODELS`
    options: Mapping[str, Any]  # options of the model
    source: str  # paper and section; differences between preset and paper
    preprocess: str | None = None  # preprocessing steps of `rankgrad.data`, as a spec
    optimiser: str | None = None  # spec of the optimiser
    lr: float | None = None  # learning rate
    batch: int | None = None  # number of lists per step
    list_size: int | None = None  # maximum length of a training list; longer lists are truncated
    epochs: int | None = None  # number of passes over the training lists
    schedule: str | None = None  # spec of the learning rate schedule
    loss: str | None = None  # spec of the loss; None if the paper compares several losses

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))


def _context_aware(width: int, batch: int) -> Preset:
    """Return a preset of the NeuralNDCG paper. The presets for its two data sets differ only in `width` and `batch`."""
    options = {"width": width, "blocks": 2, "heads": 1, "feed_forward": 384, "dropout": 0.1, "output": "tanh"}
    return Preset(
        model="context_aware",
        options=options,
        source="NeuralNDCG, sections 5.1-5.3; dropout from the authors' code, which applies log1p to some features",
        preprocess="log1p,standardise",
        optimiser="adam",
        lr=1e-3,
        batch=batch,
        list_size=240,
        epochs=100,
        schedule="step:every=50,factor=0.1",
        loss="neural_ndcg",
    )


def _dasalc(source: str, lr: float = 1e-3, batch: int = 128, **options: Any) -> Preset:
    """Return a preset of DASALC. The arguments replace settings of the preset for WEB30K."""
    common = {"width": 512, "layers": 4, "heads": 2, "head_size": 100, "dropout": 0.4, "noise": 1.5}
    return Preset(
        model="dasalc",
        options={**common, **options},
        source=f"DASALC (Qin et al., ICLR 2021), {source}",
        preprocess="log1p,clip=30",
        optimiser="adam",
        lr=lr,
        batch=batch,
        list_size=200,
        loss="softmax",
    )


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "lambdaloss-dnn": Preset(
            model="mlp",
            options={
                "widths": [1024, 512, 256],
                "norm": "batch",
                "norm_momentum": 0.001,
                "dropout": [0.5, 0.5, 0.8],
            },
            source="LambdaLoss@K, Experiments (learning rates from 0.01 to 10); position of the norm as in TF-Ranking",
            preprocess="log1p",
        ),
        "smoothi-dnn": Preset(
            model="mlp",
            options={
                "widths": [1024],
                "norm": "batch",
                "norm_place": "after",
                "input_norm": "batch",
                "init": "xavier_normal",
            },
            source="SmoothI, supplement, section 4; the authors chose the model with the lowest validation loss",
            optimiser="adam",
            lr=1e-3,
            batch=128,
            epochs=50,
        ),
        "neuralndcg-web30k": _context_aware(width=96, batch=64),
        "neuralndcg-istella": _context_aware(width=128, batch=110),
        "dasalc-web30k": _dasalc("WEB30K"),
        "dasalc-yahoo": _dasalc("Yahoo", lr=1e-4, batch=256, heads=4, dropout=0.7, noise=4.5),
        "dasalc-istella": _dasalc("Istella", width=3072, layers=2, noise=0.2),
    }
)
