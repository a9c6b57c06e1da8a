"""Count the floats that autograd holds for the backward pass of a function."""

import torch


def most_saved(run):
    """The largest number of floats that autograd holds at the same time while `run` computes and frees gradients."""
    held, most = 0, 0

    class Saved:
        def __init__(self, tensor):
            nonlocal held, most
            self.tensor = tensor
            held += tensor.numel()
            most = max(most, held)

        def __del__(self):
            nonlocal held
            held -= self.tensor.numel()

    with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
        run()
    return most
