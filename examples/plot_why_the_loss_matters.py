"""
Why the loss matters: a picture tour
====================================

A loss decides which document moves. We look at the gradient of several losses on one list, and then train the same
small ranker with each of them.
The charts need ``pip install matplotlib``.
"""

# %%
# One list
# --------
# Twelve documents, sorted by their scores. The only perfect document (label 3) is at rank 9.
import matplotlib.pyplot as plt
import torch

import rankgrad as rg

scores = torch.linspace(2.0, -2.0, 12)
labels = torch.tensor([0, 1, 0, 2, 0, 0, 1, 0, 3, 0, 0, 1])
names = ["mse", "ranknet", "softmax", "lambdaloss@5", "approx_ndcg", "neural_ndcg"]

figure, axes = plt.subplots(2, 3, figsize=(10, 5), sharex=True, layout="constrained")
for axis, name in zip(axes.flat, names, strict=True):
    leaf = scores.clone().requires_grad_()
    loss = rg.losses.parse_loss(name)(leaf[None], labels[None])
    (gradient,) = torch.autograd.grad(loss, leaf)
    axis.bar(range(1, 13), -gradient / gradient.abs().max(), color=plt.cm.viridis(labels / 3))
    axis.set_title(name)
    axis.axhline(0, color="gray", linewidth=0.5)
figure.supxlabel("rank of the document (bright: high label)")
figure.supylabel("push, relative to the largest")

# %%
# ``mse`` pulls each score to its label, whatever the order is. ``ranknet`` counts all pairs alike. ``lambdaloss`` and
# the losses that are metrics of soft ranks give more weight to high labels and to the top of the list.
#
# The same ranker with each loss
# ------------------------------
# Generated lists, a small network, one seed. The best achievable order of these lists is known.
data = rg.data.synthetic(lists=150, features=10, mean_length=15, seed=0)
train, test = data.train, data.test
results = {}
for name in ["mse", "ranknet", "softmax", "lambdaloss@5"]:
    ranker = rg.Ranker(model="mlp:widths=16", loss=name, epochs=15, lr=0.01, device="cpu")
    ranker.fit(train.features, train.labels, qid=train.row_qids)
    results[name] = rg.metrics.evaluate(ranker.predict(test.features), test.labels, "nDCG@10", offsets=test.offsets)

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for place, (_name, result) in enumerate(results.items()):
    low, high = result.intervals["nDCG@10"]
    axis.plot([low, high], [place, place], color="gray")
    axis.plot(result["nDCG@10"], place, "o")
axis.set_yticks(range(len(results)), results)
axis.set_xlabel("nDCG@10 on test lists, with 95% intervals")

# %%
# The intervals overlap: on so few lists, the choice of a loss is rarely visible. Compare losses with several seeds and
# equal tuning, as the leaderboard does.
