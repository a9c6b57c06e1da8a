"""Preprocess features: `pipeline` fits the `steps` on the training data, applies them in order, and saves them."""

from rankgrad.data.preprocessing.pipeline import Preprocessing

__all__ = ["Preprocessing"]
