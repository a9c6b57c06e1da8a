"""Preprocessing of features: `pipeline` applies `steps` in order, fits them on the training data and saves them."""

from rankgrad.data.preprocessing.pipeline import Preprocessing

__all__ = ["Preprocessing"]
