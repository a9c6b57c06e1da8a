"""Run a training: one loop for networks, texts and trees, with lock, checkpoints, log, early stopping and callbacks."""

from rankgrad.run.loop import Callback, NotFinite, Trainable, run

__all__ = ["Callback", "NotFinite", "Trainable", "run"]
