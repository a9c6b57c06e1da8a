"""Train neural rankers: `train(Settings(...), data, validation)` returns a `Model`, which scores lists."""

from rankgrad.training.loop import NotFinite, train
from rankgrad.training.model import Model
from rankgrad.training.settings import Settings, SettingsError

__all__ = ["Model", "NotFinite", "Settings", "SettingsError", "train"]
