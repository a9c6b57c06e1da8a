"""How the networks of NeuralLoss come about: generated lists, pretraining, and how faithful the result is."""

from rankgrad.surrogate.fidelity import fidelity
from rankgrad.surrogate.generated_lists import PRIORS, SHAPES, draw
from rankgrad.surrogate.pretrain import Plan, pretrain

__all__ = ["PRIORS", "SHAPES", "Plan", "draw", "fidelity", "pretrain"]
