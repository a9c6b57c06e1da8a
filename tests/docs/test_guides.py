"""The pages for newcomers: each command and each line of Python runs, in the order of the page."""

import numpy as np
import pytest
import torch
from page_blocks import blocks, run_page
from paths import ROOT
from programs import run_here
from safetensors.torch import load_file

AUTO = "rankgrad auto --data train.parquet --query search --docid product --minutes 2"
LINEAR = "rankgrad train --data train.parquet --query search --docid product --model linear --loss softmax --epochs 3"


@pytest.mark.parametrize("search", [LINEAR, pytest.param(f"{AUTO} --minutes 0.5", marks=pytest.mark.long)])
def test_start(tmp_path, search):
    pytest.importorskip("pyarrow")
    names, told = run_page("start.md", tmp_path, shorter={AUTO: search})
    commands = [line.split()[1] for line in told if line.startswith("rankgrad")]
    search = "train" if search == LINEAR else "auto"
    assert commands == ["inspect", "train", "evaluate", "predict", search, "evaluate", "compare"]
    assert names["new"]["rank"].min() == 1
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == len(names["new"]) + 1


def test_evaluate(tmp_path):
    _, told = run_page("guides/evaluate.md", tmp_path)
    assert len(told) == 5
    assert "AP(threshold=1" in told['rankgrad evaluate runs/b -m nDCG@10 -m "AP(threshold=1)" -m P@5']
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.long
def test_train(tmp_path):
    _, told = run_page("guides/train.md", tmp_path)
    assert len(told) == 3
    assert "epoch 8/8" in told["rankgrad train --resume --out runs/a --epochs 8"]


def test_export(tmp_path):
    pytest.importorskip("onnxruntime")
    names, _ = run_page("guides/export.md", tmp_path)
    np.testing.assert_allclose(names["scores"][0], names["same"], rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_many_machines(tmp_path):
    _, told = run_page("guides/many-machines.md", tmp_path)
    (command,) = told
    alone = command.partition("-m rankgrad.cli ")[2].replace("runs/two", str(tmp_path / "one"))
    run_here(*alone.split())
    two, one = (load_file(tmp_path / folder / "model.safetensors") for folder in ("runs/two", "one"))
    assert {*two} == {*one}
    for name in one:
        if not name.endswith("bias"):  # softmax ignores a constant, so the gradient of the bias is only rounding
            torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-6)


def test_values_of_other_programs():
    """The column of docs/guides/metrics.md with the values that other programs compute."""
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    pytrec_eval, sklearn = pytest.importorskip("pytrec_eval"), pytest.importorskip("sklearn.metrics")
    names = {}
    lines = next(content for kind, content in blocks("guides/metrics.md") if kind == "python").splitlines()
    exec("\n".join(line[4:] for line in lines if line.startswith(">>>")), names)
    scores, labels = names["scores"].numpy().astype(float), names["labels"].numpy()
    qrels = {str(n): dict(zip("abcd", map(int, row), strict=True)) for n, row in enumerate(labels)}
    run = {str(n): dict(zip("abcd", map(float, row), strict=True)) for n, row in enumerate(scores)}
    trec = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10"}).evaluate(run)
    X, y, qid = np.arange(12.0)[:, None], labels.ravel(), np.repeat([0, 1, 2], 4)
    data = lightgbm.Dataset(X, y, group=[4] * 3, init_score=scores.ravel(), params={"verbose": -1})
    still = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "verbose": -1, "learning_rate": 1e-12}
    told = {}
    record = [lightgbm.record_evaluation(told)]
    lightgbm.train(still, data, 1, valid_sets=[data], valid_names=["all"], callbacks=record)
    matrix = xgboost.DMatrix(X, y, qid=qid, base_margin=scores.ravel())
    booster = xgboost.train({"objective": "rank:ndcg", "eta": 0, "eval_metric": "ndcg@10"}, matrix, 1)
    values = {
        "trec_eval": np.mean([row["ndcg_cut_10"] for row in trec.values()]),
        "scikit-learn": sklearn.ndcg_score(labels, scores, k=10),
        "LightGBM": told["all"]["ndcg@10"][0],
        "XGBoost": float(booster.eval_set([(matrix, "all")]).rpartition(":")[2]),
    }
    page = (ROOT / "docs" / "guides" / "metrics.md").read_text(encoding="utf-8").splitlines()
    for name, value in values.items():
        (row,) = [line.split("|") for line in page if line.startswith(f"| {name}, `")]
        assert row[5].strip() == f"{value:.4f}", name
        options = row[6].strip().strip("`")
        ids = np.tile([*"abcd"], (3, 1)).tolist() if "trec" in options else None
        ours = names["rg"].metrics.evaluate(scores, labels, [options], ids=ids, bootstrap=0)
        assert next(iter(ours.means.values())) == pytest.approx(value, abs=1e-6), name
