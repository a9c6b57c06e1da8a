"""A kind of ranker from outside the package: linear regression in closed form, with a ridge."""

import numpy as np
from safetensors.numpy import load_file, save_file

from rankgrad.errors import bad_value
from rankgrad.models import RankerKind, TrainedModel, register
from rankgrad.models.folder import read_config, write_config
from rankgrad.spec import known_options


class LinearModel(TrainedModel):
    def __init__(self, weights, settings):
        self.weights, self.features, self.settings, self.metrics, self.history = weights, len(weights), settings, {}, []

    def score(self, features, offsets=None):
        return np.asarray(features, dtype=np.float32) @ self.weights

    def save(self, folder):
        write_config(folder, "least_squares", {"settings": self.settings})
        save_file({"weights": self.weights}, f"{folder}/weights.safetensors")


class LeastSquares(RankerKind):
    name = "least_squares"

    def check(self, settings):
        known_options(self.name, settings, ("model", "ridge", "loss", "metric", "seed"))
        if not settings.get("ridge", 1.0) >= 0:
            bad_value("ridge", "be at least 0", settings["ridge"])

    def space(self, settings):
        return {"ridge": {"low": 0.01, "high": 100.0, "log": True}}

    def fit(
        self, settings, train, validation=None, *, out=None, resume=False, progress=None, init_model=None, callbacks=()
    ):
        x, y = np.asarray(train.features, dtype=np.float64), train.labels - train.labels.mean()
        weights = np.linalg.solve(x.T @ x + settings.get("ridge", 1.0) * np.eye(x.shape[1]), x.T @ y)
        return LinearModel(weights.astype(np.float32), dict(settings))

    def load(self, folder, device="cpu"):
        return LinearModel(load_file(folder / "weights.safetensors")["weights"], read_config(folder)["settings"])


register(LeastSquares())
