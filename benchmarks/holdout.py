"""Compare ways to choose the epoch of `rg.Ranker` on MQ2008: `python benchmarks/holdout.py ../shared/data`.

Prints the mean test nDCG@10 over five folds, in percent, with default settings; lists without a relevant document count
as 1. The epoch is chosen on lists that are held out of train, on the validation lists of MQ2008, or not at all.
"""

import sys

import numpy as np

import rankgrad as rg


def main() -> None:
    values: dict[str, list[float]] = {"held out of train": [], "MQ2008's validation": [], "neither, 100 epochs": []}
    for fold in range(1, 6):
        data = rg.data.load("MQ2008", fold=fold, root=sys.argv[1])
        part, test = data.validation, data.test
        assert part is not None
        ways = ({}, {"eval_set": (part.features, part.labels), "eval_qid": part.row_qids}, {})
        for (name, found), more in zip(values.items(), ways, strict=True):
            ranker = rg.Ranker(holdout=0.0 if name.startswith("neither") else 0.2, device="cpu")
            ranker.fit(data.train.features, data.train.labels, qid=data.train.row_qids, **more)
            scores = ranker.predict(test.features)
            found.append(float(rg.metrics.ndcg(scores, test.labels, offsets=test.offsets, k=10, empty="one")))
    for name, found in values.items():
        print(f"{name:22} {100 * np.mean(found):.1f}")


if __name__ == "__main__":
    main()
