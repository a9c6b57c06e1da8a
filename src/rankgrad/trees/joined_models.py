"""Join several models of LightGBM or XGBoost into one model, which contains all trees in the order of the models."""

import json
import re
from collections.abc import Sequence


def join_lightgbm(texts: Sequence[str]) -> str:
    """Join the texts of LightGBM models with the same features. Header and parameters are from the first model.

    Args:
        texts: one or more model texts of LightGBM.
    """
    if len(texts) == 1:
        return texts[0]
    head, _, rest = texts[0].partition("\n\n")
    tail = rest.partition("end of trees\n")[2]
    trees = [tree for text in texts for tree in re.split(r"(?m)^Tree=\d+\n", text.partition("end of trees\n")[0])[1:]]
    blocks = [f"Tree={place}\n{tree}" for place, tree in enumerate(trees)]
    head = re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={' '.join(str(len(block)) for block in blocks)}", head)
    return f"{head}\n\n{''.join(blocks)}end of trees\n{tail}"


def join_xgboost(contents: Sequence[bytes]) -> bytes:
    """Join the JSON files of XGBoost models with the same features. Only the trees of later models are used.

    Args:
        contents: one or more model files of XGBoost with the booster gbtree.
    """
    if len(contents) == 1:
        return contents[0]
    first, *others = (json.loads(content) for content in contents)
    known = first["learner"]["gradient_booster"]["model"]
    for other in others:
        more, before = other["learner"]["gradient_booster"]["model"], len(known["trees"])
        known["trees"] += [{**tree, "id": before + place} for place, tree in enumerate(more["trees"])]
        known["tree_info"] += more["tree_info"]
        known["iteration_indptr"] += [before + end for end in more["iteration_indptr"][1:]]
    known["gbtree_model_param"]["num_trees"] = str(len(known["trees"]))
    return json.dumps(first, ensure_ascii=False).encode()
