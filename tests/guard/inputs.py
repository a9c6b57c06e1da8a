"""Write the files that the jobs of the guard read. Nothing here uses rankgrad, so both sides read the same bytes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from tiny_collection import WORDS, tiny_collection
from tiny_encoder import tiny_encoder

FEATURES = [f"f{number}" for number in range(1, 7)]


def lists(count: int, length: int, features: int = 6, seed: int = 0) -> pd.DataFrame:
    """Return rows of `count` lists with ids, weights, a category and a column that contains missing values."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 2 * length, count)
    x = rng.normal(size=(lengths.sum(), features)).astype(np.float32).round(3)
    label = (x[:, 0] + 0.7 * x[:, 1] + rng.normal(size=len(x)) + 1.5).clip(0, 4).astype(int)
    table = pd.DataFrame({"qid": np.repeat(np.arange(count), lengths), "docid": [f"d{n}" for n in range(len(x))]})
    table["label"] = label
    names = [f"f{number}" for number in range(1, features + 1)]
    table = pd.concat([table, pd.DataFrame(x, columns=names)], axis=1)
    table["weight"] = rng.uniform(0.5, 2, len(x)).round(2)
    table["shop"] = rng.choice(["north", "south", "west"], len(x))
    table["gaps"] = np.where(rng.random(len(x)) < 0.2, np.nan, x[:, 2])
    return table


def letor(table: pd.DataFrame, features: list[str]) -> str:
    """Return rows as LETOR text."""
    rows = zip(table["label"], table["qid"], table["docid"], table[features].to_numpy().tolist(), strict=True)
    return "".join(
        f"{label} qid:{qid} {' '.join(f'{n}:{value:.6g}' for n, value in enumerate(values, 1))} # {docid}\n"
        for label, qid, docid, values in rows
    )


def write_formats(folder: Path, name: str, table: pd.DataFrame, features: list[str]) -> None:
    """Write rows in every format."""
    table = table[["qid", "docid", "label", *features]]
    (folder / f"{name}.txt").write_text(letor(table, features))
    table.to_csv(folder / f"{name}.csv", index=False)
    table.to_csv(folder / f"{name}.tsv", index=False, sep="\t")
    table.to_json(folder / f"{name}.jsonl", orient="records", lines=True)
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(arrow, folder / f"{name}.parquet", row_group_size=2000)
    with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file, pa.ipc.new_file(file, arrow.schema) as writer:
        writer.write_table(arrow)


def write_inputs(folder: Path) -> None:
    """Write all files to a new folder."""
    folder.mkdir(parents=True)
    table = lists(40, 8)
    write_formats(folder, "lists", table, FEATURES)
    write_formats(folder, "test", lists(12, 8, seed=1), FEATURES)
    table.to_csv(folder / "all.csv", index=False)
    table.sample(frac=1, random_state=0).to_csv(folder / "shuffled.csv", index=False)
    (folder / "folder").mkdir()
    for seed, part in enumerate(("train", "vali", "test")):
        (folder / "folder" / f"{part}.txt").write_text(letor(lists(20, 8, seed=seed), FEATURES))
    write_formats(folder, "large", lists(4000, 10, 60), [f"f{number}" for number in range(1, 61)])
    qrels = (tiny_collection(folder / "collection") / "qrels.txt").read_text().splitlines(keepends=True)
    (folder / "found.txt").write_text("".join(line for line in qrels if "c " not in line))  # BM25 finds all of these
    tiny_encoder(folder / "encoder", words=f"{WORDS} what is a", hidden=16, layers=1, positions=32)
    recipe = {
        "title": "Tiny", "answers": None, "data": ["synthetic:lists=20,features=10"],
        "models": {"Linear": {"model": "linear"}, "Trees": {"model": "lightgbm", "trees": 5, "losses": {"MSE": "mse"}}},
        "losses": {"MSE": "mse", "RankNet": "ranknet"}, "settings": {"epochs": 2}, "search": {"lr": [0.001, 0.1]},
        "trials": 2, "seeds": [0, 1], "metrics": ["nDCG@10"],
    }  # fmt: skip
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    write_bad(folder)


def write_bad(folder: Path) -> None:
    """Write files with one defect each, for bad_inputs.yaml."""
    good = (folder / "test.txt").read_text().splitlines(keepends=True)
    files = yaml.safe_load(Path(__file__).with_name("bad_files.yaml").read_text())
    files["again.txt"] = "".join([*good, good[0]])
    for name, text in files.items():
        (folder / "bad" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "bad" / name).write_text(text)
