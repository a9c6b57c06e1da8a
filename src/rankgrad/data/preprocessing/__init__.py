"""Preprocess features. A `pipeline` fits its `steps` on the training data, and applies the steps in order."""

from rankgrad.data.preprocessing.pipeline import Preprocessing

__all__ = ["Preprocessing"]
