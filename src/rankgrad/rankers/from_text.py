"""Make rankers from specs: parse a name with options, and build the module."""

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from rankgrad.errors import bad_type, bad_value, one_of
from rankgrad.option_checks import check_sizes
from rankgrad.rankers.attention_mil import AttentionMIL
from rankgrad.rankers.attsets import AttSets
from rankgrad.rankers.context_aware import ContextAware
from rankgrad.rankers.dasalc import DASALC
from rankgrad.rankers.embedded import EmbeddedCategories
from rankgrad.rankers.mlp import MLP, Linear
from rankgrad.rankers.presets import PRESETS
from rankgrad.rankers.scorer import Scorer
from rankgrad.spec import known_options, no_cutoff, spell
from rankgrad.tree_frameworks import FRAMEWORKS

_CLASSES = (MLP, Linear, ContextAware, AttSets, AttentionMIL, DASALC)
MODELS: Mapping[str, type[Scorer]] = MappingProxyType({each.model: each for each in _CLASSES})


def build(model: str, *, features: int, **options: Any) -> Scorer:
    """Build a ranker from its name, or from the name of a preset, and from options. The options are checked first.

    Args:
        model: a name in `MODELS` or `PRESETS`, in upper or lower case.
        features: f, the number of features.
        options: options of the ranker's class; the value None means `"none"`. They replace the options of a preset.

    Example:
        >>> ranker = build("mlp", features=46, widths=[256, 128])
        >>> build(**ranker.config).config == ranker.config
        True
        >>> build("mlp", features=46, drop=0.1)
        Traceback (most recent call last):
        ValueError: option must be an option of mlp (widths, ...); got 'drop'; did you mean 'dropout'?
    """
    if model == EmbeddedCategories.model:  # only in saved models; the training adds it if the data has categories
        return EmbeddedCategories(features, options["categories"], build(**options["network"]))
    name = _spelled(model)
    if name in PRESETS:
        options = {**PRESETS[name].options, **options}
    made = _class_of(name, options)
    return made(features, **{option: "none" if value is None else value for option, value in options.items()})


def parse_ranker(text: str) -> tuple[str, dict[str, Any]]:
    """Parse and check the spec of a ranker; return its name and options for `build`.

    Args:
        text: spec `name[:option=value,...]` or `name(option=value, ...)`, in upper or lower case. The name is in
            `MODELS` or `PRESETS`. A value is a number, true or false, a word, or several numbers joined by `-`.

    Example:
        >>> parse_ranker("mlp:widths=256-128,norm=none")
        ('mlp', {'widths': [256, 128], 'norm': 'none'})
    """
    spec = no_cutoff("model", spell("model", text), text)
    name, options = _spelled(spec.name), {option: _word(value) for option, value in spec.options.items()}
    _class_of(name, options)
    with torch.device("meta"):  # runs all other checks without allocating weights
        build(name, features=1, **options)
    return name, options


def _spelled(name: Any) -> str:
    """Return a ranker's name as it is spelled in `MODELS` or `PRESETS`; `-` and `_` are equivalent."""
    if not isinstance(name, str):
        bad_type("model", "be a name such as 'mlp'", type(name).__name__)
    known = {each.replace("-", "_"): each for each in (*MODELS, *PRESETS)}
    plain = name.strip().lower().replace("-", "_")
    if plain == "own":
        bad_value("model", "be a network that can be built by name (pass a custom network as an object)", repr(name))
    if plain in FRAMEWORKS:
        must = f"be the name of a neural ranker (for boosted trees, use rankgrad.trees.TreeRanker({plain!r}))"
        bad_value("model", must, repr(name))
    if plain not in known:
        one_of("model", name, known.values())
    return known[plain]


def _class_of(name: str, options: Mapping[str, Any]) -> type[Scorer]:
    """Check the names and sizes of a ranker's options, and return the class of the ranker or preset."""
    model = PRESETS[name].model if name in PRESETS else name
    known = [option for option in inspect.signature(MODELS[model]).parameters if option != "features"]
    known_options(model, options, known)
    check_sizes(model, options)
    return MODELS[model]


def _word(value: Any) -> Any:
    if value is None:
        return "none"
    return value.lower() if isinstance(value, str) else value
