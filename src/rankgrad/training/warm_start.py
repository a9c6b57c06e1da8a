"""Start training from the weights, the preprocessing and the loss parameters of a trained model."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.atomic_files import hash_of
from rankgrad.data import Preprocessing
from rankgrad.errors import bad_type, bad_value
from rankgrad.settings.neural import Settings
from rankgrad.training.model import Model

_ONLY_IN_TRAINING = ("dropout", "noise")  # options of a network that have an effect only during training


def warm_start(model: Model, settings: Settings, ranker: nn.Module, loss: nn.Module) -> Preprocessing:
    """Copy the weights of a model into a new ranker and a new loss. Return a copy of the model's preprocessing.

    Args:
        model: model to start from.
        settings: settings of the new run; `preprocess` must equal the preprocessing of the model.
        ranker: new ranker, which receives the weights.
        loss: new loss, which receives the parameters of the model's loss if both losses are the same.
    """
    if not isinstance(model, Model):
        bad_type("init_model", "be a trained neural model", type(model).__name__)
    new, old = _architecture(ranker), _architecture(model.ranker)
    if new != old:
        differ = [name for name in new.keys() | old.keys() if new.get(name) != old.get(name)]
        shown = [", ".join(f"{name}={each.get(name)}" for name in sorted(differ)) for each in (new, old)]
        bad_value("init_model", f"have the features and the architecture of the new run ({shown[0]})", shown[1])
    if (wanted := str(settings.preprocessing())) != str(model.steps):
        bad_value("preprocess", f"be {str(model.steps)!r}, as in the model init_model", repr(wanted))
    _copy_weights("init_model", ranker, model.ranker.state_dict())
    if model.learned and model.settings.get("loss") == settings.to_json()["loss"]:
        _copy_weights("init_model", loss, model.learned)
    return copy.deepcopy(model.steps)


def init_model_hash(model: Model) -> str:
    """Return a hash of the model from which a run starts.

    The hash depends on the weights, the preprocessing and the parameters of the loss.

    Args:
        model: model on any device.
    """
    if not isinstance(model, Model):
        bad_type("init_model", "be a trained neural model", type(model).__name__)
    arrays = {f"steps.{name}": torch.from_numpy(value) for name, value in model.steps.to_config()[1].items()}
    tensors = {**model.ranker.state_dict(), **arrays, **{f"loss.{name}": each for name, each in model.learned.items()}}
    content = bytearray()
    for name, tensor in sorted(tensors.items()):
        content += f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode()
        content += tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return hash_of(bytes(content))[:16]


def _architecture(ranker: nn.Module) -> dict[str, Any]:
    config: dict[str, Any] = dict(ranker.config)  # type: ignore[arg-type]
    return {name: value for name, value in config.items() if name not in _ONLY_IN_TRAINING}


def _copy_weights(what: str, module: nn.Module, weights: dict[str, Tensor]) -> None:
    state = module.state_dict()
    for name in sorted(state.keys() | weights.keys()):
        shapes = [tuple(each[name].shape) if name in each else None for each in (state, weights)]
        if shapes[0] != shapes[1]:
            must = f"not contain {name}" if shapes[0] is None else f"contain {name} of shape {shapes[0]}"
            bad_value(what, must, "no such tensor" if shapes[1] is None else f"a tensor of shape {shapes[1]}")
    module.load_state_dict(weights)
