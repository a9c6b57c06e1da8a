"""Train neural rankers: `train(Settings(...), data, validation)` returns a `Model`, which scores lists."""

from rankgrad.run import NotFinite
from rankgrad.settings.neural import Settings
from rankgrad.settings.schema import SettingsError
from rankgrad.training.loop import train
from rankgrad.training.model import Model

__all__ = ["Model", "NotFinite", "Settings", "SettingsError", "train"]
