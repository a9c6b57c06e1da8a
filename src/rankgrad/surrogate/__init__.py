"""Make the networks of NeuralLoss: generate lists, pretrain a network on these lists, and measure its fidelity."""

from rankgrad import moved
from rankgrad.surrogate.fidelity import fidelity
from rankgrad.surrogate.generated_lists import PRIORS, SHAPES, draw
from rankgrad.surrogate.pretrain import PretrainSpec, pretrain

__all__ = ["PRIORS", "SHAPES", "PretrainSpec", "draw", "fidelity", "pretrain"]

# Names of version 0.1.0.
__getattr__ = moved.renamed(__name__, {"Plan": "PretrainSpec"})
