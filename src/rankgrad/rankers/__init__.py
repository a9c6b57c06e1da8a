"""Rankers: modules that turn the features of lists into one score per document. What they share is said here, once.

**Two layouts.** `ranker(features, offsets)` takes flat lists, features `(documents, f)` with `offsets (lists + 1,)`,
and gives scores `(documents,)`. `ranker.padded(features, mask)` takes `(lists, n, f)` with a boolean mask `(lists, n)`,
runs the same layers and gives `(lists, n)`. Lists of one or no document are legal, and so is no list at all.

**A list alone.** The scores of a list do not depend on the lists that share its batch, on padding, or on rows behind
the last list; batch norm, in training, is the exception that it always is. Documents attend within their list only.

**No waiting.** Given `width`, at least the length of the longest list, nothing waits for a GPU, and shapes depend on
shapes alone: a step fits in a CUDA graph. Pointwise rankers need no `width`: they never pad.

**Names.** `build("mlp", features=46, widths=[256, 128])`, or as text `mlp:widths=256-128`; `MODELS` are the names. A
preset, such as `neuralndcg-web30k`, is a name too: a paper's architecture, with its training settings in `PRESETS`.
`ranker.config` says how the ranker was made: `build(**ranker.config)` makes another.
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
