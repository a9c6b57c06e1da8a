"""Preprocess features. `pipeline` fits `steps` on the training data, applies them in order, and saves them."""

from rankgrad.data.preprocessing.pipeline import Preprocessing

__all__ = ["Preprocessing"]
