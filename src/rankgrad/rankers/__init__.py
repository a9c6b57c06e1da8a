"""Rankers: modules that compute one score per document from the features of lists. All rankers follow these rules.

**Two layouts.** `ranker(features, offsets)` takes flat lists: features `(documents, f)` and offsets `(lists + 1,)`. It
returns scores `(documents,)`. `ranker.padded(features, mask)` takes padded lists: features `(lists, n, f)` and a
boolean mask `(lists, n)`. It runs the same layers, and returns scores `(lists, n)`. A list may have one document or no
documents. A batch may have no lists.

**Independent lists.** The scores of a list do not depend on the other lists of its batch, on padding, or on rows after
the last list. The only exception is batch norm in training. Documents attend only to documents of their list.

**No synchronisation.** The argument `width` is at least the length of the longest list. With this argument, the program
never waits for the GPU, and the shapes of all tensors depend only on the shapes of the input. So a step can be captured
in a CUDA graph. Pointwise rankers never pad, so they do not need `width`.

**Names.** `build("mlp", features=46, widths=[256, 128])` makes a ranker; its spec is `mlp:widths=256-128`.
`MODELS` contains the names. `build` also accepts the name of a preset, such as `neuralndcg-web30k`, and makes the
ranker of a paper. `PRESETS` contains the training settings of the papers. `ranker.config` contains the name and options
of a ranker: `build(**ranker.config)` makes a new ranker with the same architecture.
"""

from rankgrad import moved
from rankgrad.rankers.attention_mil import AttentionMIL
from rankgrad.rankers.attsets import AttSets
from rankgrad.rankers.context_aware import ContextAware
from rankgrad.rankers.dasalc import DASALC
from rankgrad.rankers.from_text import MODELS, build, parse_ranker
from rankgrad.rankers.mlp import MLP, Linear
from rankgrad.rankers.presets import PRESETS, Preset

__all__ = [
    "AttSets",
    "AttentionMIL",
    "ContextAware",
    "DASALC",
    "Linear",
    "MLP",
    "MODELS",
    "PRESETS",
    "Preset",
    "build",
    "parse_ranker",
]

# Names of version 0.1.0.
__getattr__ = moved.renamed(__name__, {"parse": "parse_ranker"})
