"""The same input through every front and every format that can hold it trains the same model, bit by bit."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import feather
from safetensors.numpy import load_file
from typer.testing import CliRunner

import rankgrad as rg
from rankgrad.cli import app
from rankgrad.data import from_arrays, write_letor
from rankgrad.data.splitting import held_out
from rankgrad.experiments import load_recipe
from rankgrad.experiments.runs.run_cell import run_cell
from rankgrad.models.registry import kind_named

EPOCHS, TREES = 2, 4


def rankgrad(*words):
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def rows(seed):
    """Random lists as a data frame: one to twelve documents, zeros, ties, ids as numbers or as text."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 13, size=40)
    features = rng.normal(size=(lengths.sum(), 4)).astype(np.float32).round(3)
    features[rng.random(features.shape) < 0.2] = 0
    ids = rng.permutation(1000)[:40]
    table = pd.DataFrame(features, columns=[f"f{number}" for number in range(1, 5)])
    table.insert(0, "label", (features[:, 0] + rng.normal(size=len(features)) + 1).clip(0, 3).astype(int))
    table.insert(0, "qid", np.repeat(ids if seed % 2 else [f"q{number}" for number in ids], lengths))
    return table


def write_formats(table, folder):
    """Write the rows in every format, and return the files."""
    X, y, qid = parts(table)
    write_letor(from_arrays(X, y, qid=qid)[0], folder / "rows.txt")
    table.to_csv(folder / "rows.csv", index=False)
    table.to_csv(folder / "rows.tsv", index=False, sep="\t")
    # A writer of JSON may choose other decimals; these read back as the same float32.
    lines = [json.dumps(row) for row in table.astype(dict.fromkeys(X.columns, float)).to_dict("records")]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    table.to_parquet(folder / "rows.parquet")
    feather.write_feather(pa.Table.from_pandas(table, preserve_index=False), folder / "rows.arrow")
    rankgrad("convert", folder / "rows.parquet", folder / "cache")
    (folder / "folder").mkdir()
    table.to_csv(folder / "folder" / "train.csv", index=False)
    return [*(folder / f"rows.{ending}" for ending in ("txt", "csv", "tsv", "jsonl", "parquet", "arrow")),
            folder / "cache", folder / "folder"]  # fmt: skip


def parts(table):
    return table[["f1", "f2", "f3", "f4"]], table["label"], table["qid"]


def frames(table):
    """The rows in every form that an estimator takes: features, labels and query ids."""
    X, y, qid = parts(table)
    yield "pandas", (X, y, qid)
    yield "polars", (pl.from_pandas(X), pl.from_pandas(y), pl.from_pandas(qid))
    yield "arrow", (pa.Table.from_pandas(X), pa.array(y), pa.array(qid))
    yield "arrays", (X.to_numpy(), y.to_numpy(), qid.to_numpy())
    yield "lists", (X.to_numpy().tolist(), y.tolist(), qid.tolist())
    yield "sparse", (sp.csr_matrix(X.to_numpy()), y.to_numpy(), qid.to_numpy())


def same_weights(found, expected):
    assert found.keys() == expected.keys()
    return all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("seed", range(2))
def test_networks(seed, tmp_path):
    table = rows(seed)
    weights = {}
    for path in write_formats(table, tmp_path):
        rankgrad("train", "--data", path, "--epochs", EPOCHS, "--out", tmp_path / f"of-{path.name}")
        weights[path.name] = load_file(tmp_path / f"of-{path.name}" / "model.safetensors")
    for name, (X, y, qid) in frames(table):
        rg.Ranker(epochs=EPOCHS).fit(X, y, qid=qid).save(tmp_path / name)
        weights[name] = load_file(tmp_path / name / "model.safetensors")
    X, y, qid = parts(table)
    for name, data in (
        ("from_frame", rg.data.from_frame(table)),
        ("Dataset", from_arrays(X.to_numpy(), y, qid=qid)[0]),
    ):
        kept, held = held_out(data, 0.2, seed=0)
        kind_named("neural").fit({"epochs": EPOCHS}, data.take(kept), data.take(held)).save(tmp_path / name)
        weights[name] = load_file(tmp_path / name / "model.safetensors")
    expected = weights.pop("rows.txt")
    assert [name for name, found in weights.items() if not same_weights(found, expected)] == []


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_trees(framework, tmp_path):
    pytest.importorskip(framework)
    table = rows(0)
    scores = {}
    for path in write_formats(table, tmp_path):
        out = tmp_path / f"of-{path.name}"
        rankgrad("train", "--data", path, "--model", framework, "--epochs", TREES, "--out", out)
        scores[path.name] = rg.models.load(out).score(parts(table)[0].to_numpy())
    for name, (X, y, qid) in frames(table):
        if name != "sparse":  # an entry that is not stored is missing for XGBoost, not 0
            scores[name] = rg.trees.TreeRanker(framework, trees=TREES).fit(X, y, qid=qid).predict(X)
    expected = scores.pop("rows.txt")
    assert [name for name, found in scores.items() if not np.array_equal(found, expected)] == []


def test_document_weights(tmp_path):
    """Weights of documents, in each format that has a column for them, and as `sample_weight`."""
    table = rows(1)
    table["weight"] = np.random.default_rng(1).integers(1, 5, size=len(table)) / 4
    table.to_csv(tmp_path / "rows.csv", index=False)
    table.to_parquet(tmp_path / "rows.parquet")
    weights = []
    for name in ("rows.csv", "rows.parquet"):
        words = ("--weight", "weight", "--loss", "softmax", "--epochs", EPOCHS, "--out", tmp_path / f"of-{name}")
        rankgrad("train", "--data", tmp_path / name, *words)
        weights.append(load_file(tmp_path / f"of-{name}" / "model.safetensors"))
    X, y, qid = parts(table)
    rg.Ranker(loss="softmax", epochs=EPOCHS).fit(X, y, qid=qid, sample_weight=table["weight"]).save(tmp_path / "fit")
    weights.append(load_file(tmp_path / "fit" / "model.safetensors"))
    assert same_weights(weights[1], weights[0])
    assert same_weights(weights[2], weights[0])


def test_a_recipe(tmp_path):
    """A cell of a recipe trains as `train` does: the same values on the validation and test lists, to the last bit."""
    (tmp_path / "data").mkdir()
    for part, seed in (("train", 1), ("vali", 3), ("test", 5)):
        X, y, qid = parts(rows(seed))
        write_letor(from_arrays(X, y, qid=qid)[0], tmp_path / "data" / f"{part}.txt")
    recipe = {"title": "One", "data": [{"folder": "data"}], "models": {"MLP": {"model": "mlp"}}, "seeds": [0]}
    recipe |= {"losses": {"LambdaLoss": "lambdaloss"}, "metrics": ["nDCG@10"], "settings": {"epochs": EPOCHS}}
    (tmp_path / "one.yaml").write_text(json.dumps(recipe))
    (cell,) = load_recipe(tmp_path / "one.yaml").final_cells()
    run_cell(cell, tmp_path / "results", tmp_path)
    rankgrad("train", "--data", tmp_path / "data", "--epochs", EPOCHS, "--out", tmp_path / "run")
    (found,) = (json.loads(path.read_text()) for path in (tmp_path / "results" / "cells").glob("*.json"))
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert found["validation"] == metrics["validation"]
    assert found["test"]["nDCG@10"] == metrics["test"]["nDCG@10"]
