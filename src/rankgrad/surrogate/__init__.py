"""Make the networks of NeuralLoss: generated lists, pretraining, and the fidelity of the result."""

from rankgrad import moved
from rankgrad.surrogate.fidelity import fidelity
from rankgrad.surrogate.generated_lists import PRIORS, SHAPES, draw
from rankgrad.surrogate.pretrain import PretrainSpec, pretrain

__all__ = ["PRIORS", "SHAPES", "PretrainSpec", "draw", "fidelity", "pretrain"]

# Names of version 0.1.0.
__getattr__ = moved.renamed(__name__, {"Plan": "PretrainSpec"})
