"""
From a data frame to a ranker
=============================

A table of searches, one row per product; a ranker; the features that it uses; and the scores, back in the table.
The charts need ``pip install matplotlib``.
"""

# %%
# The table
# ---------
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import rankgrad as rg

rng = np.random.default_rng(0)
search = np.repeat(np.arange(200), rng.integers(5, 20, 200))
frame = pd.DataFrame(
    {
        "search": search,
        "text_match": rng.gamma(2.0, 2.0, len(search)),
        "price": rng.lognormal(3.0, 1.0, len(search)),
        "sold": rng.poisson(20.0, len(search)),
        "noise": rng.normal(size=len(search)),
    }
)
value = frame["text_match"] - 1.5 * np.log(frame["price"]) + rng.normal(0.0, 2.0, len(frame))
frame["grade"] = np.digitize(value, [0.0, 2.0, 4.0])

# %%
# Divide by search, never by row: rows of a search in both parts would make every number too high.
train, test = frame[frame["search"] < 150], frame[frame["search"] >= 150].copy()
features = ["text_match", "price", "sold", "noise"]

# %%
# The ranker
# ----------
ranker = rg.Ranker(
    model="mlp:widths=16", loss="softmax", epochs=30, lr=0.01, preprocess="log1p,standardise", device="cpu"
)
ranker.fit(train[features], train["grade"], qid=train["search"])

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot([row["nDCG@10"] for row in ranker.history_])
axis.axvline(ranker.best_epoch_ - 1, color="gray", linestyle=":")
axis.set_xlabel("epoch (dotted: the best one, which is kept)")
axis.set_ylabel("nDCG@10 on held-out lists")

# %%
# Is it good?
# -----------
# A fair comparison: the same lists, sorted by one feature.
test["score"] = ranker.predict(test[features])
for column in ("score", "text_match"):
    print(
        rg.metrics.evaluate(test[column].to_numpy(), test["grade"].to_numpy(), "nDCG@10", qid=test["search"].to_numpy())
    )

# %%
# Which features does it use?
# ---------------------------
found = ranker.feature_importance(test[features], test["grade"], qid=test["search"])
figure, axis = plt.subplots(figsize=(6, 2.5), layout="constrained")
axis.barh(found.names, found.values)
axis.set_xlabel("loss of nDCG@10 if the feature is shuffled")
