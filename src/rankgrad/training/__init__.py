"""Train neural rankers: `train(Settings(...), data, validation)` returns a `Model`, which scores lists."""

from rankgrad.run import NotFinite
from rankgrad.training.loop import train
from rankgrad.training.model import Model
from rankgrad.training.settings import Settings, SettingsError

__all__ = ["Model", "NotFinite", "Settings", "SettingsError", "train"]
