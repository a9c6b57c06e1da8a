"""
Text: BM25, then a ranker of features
=====================================

Short texts, queries and labels that we generate; BM25 as the first stage; a linear ranker that adds a second signal.
An encoder works in the same way: ``rg.text.BiEncoderRanker``. It needs ``pip install 'rankgrad[text]'``.
"""

# %%
# A collection
# ------------
# Each query asks for two words. A document is relevant if it is about the topic of the query; topics use common words.
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import rankgrad as rg

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
topics = ["wing flow lift drag speed", "heat slab layer plate burn", "shell load buckle thin crack"]
words = [topic.split() for topic in topics]
about = rng.integers(0, 3, 90)
with (folder / "documents.jsonl").open("w") as file:
    for number, topic in enumerate(about):
        text = [*rng.choice(words[topic], 3), *rng.choice(np.concatenate(words), 6)]
        file.write(json.dumps({"id": f"d{number}", "text": " ".join(text)}) + "\n")
asked = rng.integers(0, 3, 40)
queries = [" ".join(rng.choice(words[topic], 2, replace=False)) for topic in asked]
(folder / "queries.tsv").write_text("".join(f"q{number}\t{text}\n" for number, text in enumerate(queries)))
(folder / "qrels.txt").write_text(
    "".join(f"q{q} 0 d{d} {int(topic == about[d])}\n" for q, topic in enumerate(asked) for d in range(90))
)

# %%
# First stage
# -----------
collection = rg.text.load(folder, queries=folder / "queries.tsv", qrels=folder / "qrels.txt")
bm25 = rg.text.BM25Index.build(collection.documents).search(collection.queries, k=50)

# %%
# A second signal
# ---------------
# Here, the number of words of the query's topic in a document; in practice, the score of an encoder.
texts = dict(zip(collection.documents.ids, collection.documents.texts, strict=True))
asks = dict(zip(collection.queries.ids, collection.queries.texts, strict=True))
family = {word: group for group, members in enumerate(words) for word in members}
topical = {
    query: {d: float(sum(family[w] == family[asks[query].split()[0]] for w in texts[d].split())) for d in run}
    for query, run in bm25.items()
}
features = rg.text.features(collection, {"bm25": bm25, "topic": topical}, standardise="zscore")
part = rg.text.folds(features, 1, queries=collection.queries.ids)
ranker = rg.Ranker(model="linear", loss="softmax", lr=0.05, epochs=30, preprocess="none", holdout=0.0, device="cpu")
ranker.fit(part.train.features, part.train.labels, qid=part.train.row_qids)

# %%
# Result
# ------
test = part.test
before = rg.metrics.evaluate(test.features[:, 0], test.labels, "nDCG@10", offsets=test.offsets)
after = rg.metrics.evaluate(ranker.predict(test.features), test.labels, "nDCG@10", offsets=test.offsets)
figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
axis.scatter(before.values["nDCG@10"], after.values["nDCG@10"])
axis.axline((0.5, 0.5), slope=1, color="gray", linewidth=0.5)
axis.set_xlabel("nDCG@10 of BM25, per query")
axis.set_ylabel("with the second signal")
