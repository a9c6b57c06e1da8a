"""The options of `rankgrad text train` and `distil`: one option per setting of `rankgrad.text.TextSettings`."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from rankgrad.cli.table_options import help_all
from rankgrad.cli.train import PANEL, TEXT

SHOWN = ("model", "loss", "epochs", "batch_size", "list_size", "lr", "metric", "seed", "device")
COSINE = "cosine_temperature"  # name of the setting `temperature` in `distil`, whose --temperature is the teacher's
_INT, _FLOAT = "<int>", "<float>"
_ALSO = {"optimiser": ("--optimizer",), "trackers": ("--tracker",)}  # other spellings of options
# Help, default and kind of each setting, except the encoder.
_HELP = {
    "model": ("bi_encoder or cross_encoder", "bi_encoder", TEXT),
    "loss": ("Loss, see `rankgrad list losses`", "softmax", TEXT),
    "epochs": ("Maximum number of epochs", "5", _INT),
    "batch_size": ("Number of lists per batch", "16", _INT),
    "list_size": ("Maximum documents per training list", "32", _INT),
    "lr": ("Learning rate of the encoder", "3e-05", _FLOAT),
    "max_length": ("Maximum number of tokens of an input", "256", _INT),
    "metric": ("Validation metric; selects the epoch", "nDCG@10", TEXT),
    "seed": ("Random seed", "0", _INT),
    "device": ("auto, cpu or cuda", "auto", TEXT),
    "sampling": ("Documents of a training list: relevant, pairs or random", "relevant", TEXT),
    "accumulation": ("Number of batches per step of the optimiser", "1", _INT),
    "optimiser": ("Optimiser, as in `rankgrad train`", "adamw", TEXT),
    "head_lr": ("Learning rate of the head of a cross-encoder; none means --lr", "none", _FLOAT),
    "loss_lr": ("Learning rate of the loss's parameters; none means --lr", "none", _FLOAT),
    "weight_decay": ("Weight decay", "0.01", _FLOAT),
    "schedule": ("Learning rate schedule: constant, cosine, step or plateau", "constant", TEXT),
    "warmup": ("Number of epochs in which the learning rate rises from 0", "0.0", _FLOAT),
    "clip": ("Maximum norm of the gradient; none means no limit", "1.0", _FLOAT),
    "temperature": ("Temperature of the cosine of a bi-encoder", "0.05", _FLOAT),
    "passages": ("Long documents: first passage, mean of the passages, or best passage", "first", TEXT),
    "max_document": ("Maximum number of tokens of a split document", "none", _INT),
    "chunk": ("Number of inputs that the encoder reads at once; more inputs need more memory", "64", _INT),
    "checkpointing": ("true to compute activations twice, which saves memory", "False", "<bool>"),
    "patience": ("Maximum epochs without improvement", "none", _INT),
    "precision": ("Precision: fp32 or bf16", "fp32", TEXT),
    "ema": ("Decay of the moving average of the weights; 0 means no average", "0.0", _FLOAT),
    "save_steps": ("Number of steps between checkpoints; none means one per epoch", "none", _INT),
    "trackers": ("Additional log: tensorboard, mlflow or wandb", "none", TEXT),
}


def with_setting_options(**defaults: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options of all settings. The command receives the values as `settings`.

    Args:
        defaults: defaults of this command, by option name, if they differ from the usual defaults.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        taken = signature(command).parameters
        added: dict[str, Any] = {}
        for name, (help, default, kind) in _HELP.items():
            option = COSINE if name in taken else name
            words = (f"--{option.replace('_', '-')}", *_ALSO.get(name, ()))
            text = f"{help.partition(',')[0]} ({defaults[name]})" if name in defaults else f"{help} ({default})"
            hidden = name not in SHOWN
            added[option] = typer.Option(*words, help=text, metavar=kind, rich_help_panel=PANEL, hidden=hidden)
        show = typer.Option("--help-all", help="Show all settings.", is_eager=True, callback=help_all)

        @wraps(command)
        def run(**given: Any) -> None:
            from rankgrad.cli.argument_checks import parse_value

            given.pop("help_all", None)
            found = {}
            for option in added:
                name = "temperature" if option == COSINE else option
                value = given.pop(option)
                if value is not None:
                    found[name] = value if _HELP[name][2] == TEXT else parse_value(value)
            command(settings=found, **given)

        own = [each for each in taken.values() if each.name != "settings"]
        annotations: dict[str, Any] = {name: Annotated[str | None, option] for name, option in added.items()}
        new = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in annotations.items()
        ]
        shows = Annotated[bool, show]
        new.append(Parameter("help_all", Parameter.KEYWORD_ONLY, default=False, annotation=shows))
        run.__signature__ = Signature([*own, *new])  # type: ignore[attr-defined]
        kept = {name: each for name, each in command.__annotations__.items() if name != "settings"}
        run.__annotations__ = {**kept, **annotations, "help_all": shows}
        return run

    return decorate
