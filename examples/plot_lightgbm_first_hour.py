"""
A LightGBM user's first hour
============================

Keep your LightGBM. Use one of our losses as its objective, compare honestly, then blend it with a network.
The charts need ``pip install matplotlib``.
"""

# %%
# Your model
# ----------
import lightgbm
import matplotlib.pyplot as plt
import numpy as np

import rankgrad as rg

data = rg.data.synthetic(lists=200, features=10, mean_length=15, seed=0)
train, test = data.train, data.test
sizes = np.diff(train.offsets)
options = {"n_estimators": 40, "num_leaves": 15, "learning_rate": 0.1, "verbosity": -1, "n_jobs": 1}
yours = lightgbm.LGBMRanker(**options).fit(train.features, train.labels, group=sizes)

# %%
# Our loss as objective
# ---------------------
# Everything else stays the same.
softmax = lightgbm.LGBMRanker(objective=rg.trees.objective("softmax"), **options)
softmax.fit(train.features, train.labels, group=sizes)

# %%
# A network, and the blend of both
# --------------------------------
trees = rg.trees.TreeRanker("lightgbm", loss="native:lambdarank", trees=40, num_leaves=15, learning_rate=0.1, threads=1)
trees.fit(train.features, train.labels, qid=train.row_qids)
network = rg.Ranker(model="mlp:widths=32", loss="softmax", epochs=20, lr=0.01, device="cpu")
network.fit(train.features, train.labels, qid=train.row_qids)
blend = rg.blend([trees, network]).fit(data.validation.features, data.validation.labels, qid=data.validation.row_qids)

# %%
# Compare honestly
# ----------------
# The same test lists, an interval for each mean, and LightGBM's convention next to ours: LightGBM counts a list
# without a relevant document as 1.
scores = {
    "LightGBM, lambdarank": yours.predict(test.features),
    "LightGBM, our softmax": softmax.predict(test.features),
    "network, softmax": network.predict(test.features),
    "blend of trees and network": blend.predict(test.features, qid=test.row_qids),
}
metrics = ["nDCG@10", "nDCG(empty='one')@10"]
results = {name: rg.metrics.evaluate(each, test.labels, metrics, offsets=test.offsets) for name, each in scores.items()}

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for place, result in enumerate(results.values()):
    axis.plot(result.intervals["nDCG@10"], [place, place], color="gray")
    axis.plot(result["nDCG@10"], place, "o", color="tab:blue")
    axis.plot(result["nDCG(empty='one')@10"], place, "x", color="tab:orange")
axis.set_yticks(range(len(results)), results)
axis.set_xlabel("nDCG@10 with 95% intervals (cross: LightGBM's convention)")
