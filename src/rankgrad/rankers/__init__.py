"""Rankers: modules that compute one score per document from the features of lists. All rankers share these rules.

**Two layouts.** `ranker(features, offsets)` takes flat lists, features `(documents, f)` with `offsets (lists + 1,)`,
and returns scores `(documents,)`. `ranker.padded(features, mask)` takes `(lists, n, f)` with a boolean mask
`(lists, n)`, runs the same layers and returns `(lists, n)`. A list may have one document or no document. A batch
may have no list.

**Independent lists.** The scores of a list do not depend on the other lists of its batch, on padding, or on rows after
the last list. The only exception is batch norm in training. Documents attend only to documents of their list.

**No synchronisation.** If `width` (at least the length of the longest list) is given, nothing waits for the GPU, and
the shapes of all tensors depend only on the shapes of the input. So a step can be captured in a CUDA graph. Pointwise
rankers never pad, so they need no `width`.

**Names.** `build("mlp", features=46, widths=[256, 128])` makes a ranker; its spec is `mlp:widths=256-128`.
`MODELS` contains the names. With the name of a preset, such as `neuralndcg-web30k`, `build` makes a ranker of a paper;
the training settings of the paper are in `PRESETS`. `ranker.config` contains the name and options of a ranker:
`build(**ranker.config)` makes a new ranker with the same architecture.
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
