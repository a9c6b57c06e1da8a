"""Training: `train(Settings(...), data, validation)` gives a `Model`, which scores, is judged and is saved."""

from rankgrad.training.loop import NotFinite, train
from rankgrad.training.model import Model
from rankgrad.training.settings import Settings, SettingsError

__all__ = ["Model", "NotFinite", "Settings", "SettingsError", "train"]
