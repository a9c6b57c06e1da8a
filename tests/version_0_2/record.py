"""Record `folders.tar.xz`: what a version writes, and the scores of its models. Run it with the code of that version.

Every path in the folders is relative, and expected.json has the scores of each model.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parent.parent
TABLE, FILE = "--data table.csv --categorical shop", "--data file.txt"
TREES = "--epochs 5 --set num_leaves=3 --set min_data_in_leaf=2"
TEXT = "text train index --encoder encoder --lr 1e-3 --batch-size 4 --list-size 4 --max-length 16 --device cpu --seed 1"
COMMANDS = (
    f"train {TABLE} --model mlp:widths=8 --loss lambdaloss@5 --epochs 3 --lr 0.01 --out neural",
    "calibrate neural",
    f"train {FILE} --model linear --loss learndcg --epochs 3 --lr 0.01 --out learndcg",
    f"train {TABLE} --model lightgbm {TREES} --out lightgbm",
    f"train {TABLE} --model xgboost --loss softmax --epochs 5 --set max_depth=2 --out xgboost",
    f"auto {FILE} --trials 2 --folds 2 --jobs 1 --out auto",
    "convert file.txt cache",
    "experiment recipe.yaml --jobs 1 --out study",
    "text index collection --out index",
    f"{TEXT} --model bi_encoder --epochs 2 --out bi",
    f"{TEXT} --model cross_encoder --epochs 1 --out cross",
)
BLEND = """
import pandas as pd
import rankgrad as rg
rows = pd.read_csv("table.csv")
parts = [rg.Ranker.load("neural"), rg.trees.TreeRanker.load("lightgbm")]
rg.blend(parts).fit(rows[["price", "age", "shop"]], rows["label"], qid=rows["qid"]).save("blend")
"""
# A killed run: the number of the checkpoint that was its last file, and its command.
KILLED = {
    "context": (
        7,
        f"train {FILE} --model context_aware:width=8,blocks=1,heads=1,feed_forward=8,dropout=0.2 --epochs 6 "
        "--batch-size 4 --save-steps 2 --ema 0.9 --schedule cosine --lr 0.01 --out context",
    ),
    "trees": (
        1,
        f"train {FILE} --model lightgbm --epochs 60 --patience none --set num_leaves=3 --set min_data_in_leaf=2 "
        "--set learning_rate=0.01 --set feature_fraction=0.5 --out trees",
    ),
}
TEXT_RUN = "import killed, record; killed.kill_after('last.safetensors', 2); record.text_run()"
STOPPED = (*KILLED, "text")
SCORED = dict.fromkeys(("neural", "lightgbm", "xgboost", "blend"), "table.csv")
SCORED |= dict.fromkeys(("learndcg", "auto", "context", "trees"), "file.txt")
SCORED |= dict.fromkeys(("bi", "cross", "text"), "index")
RECIPE = """title: Tiny
answers: null
data: ["synthetic:lists=20,features=10"]
models: {Linear: {model: linear}}
losses: {MSE: mse, RankNet: ranknet}
settings: {epochs: 2}
search: {lr: [0.001, 0.1]}
trials: 2
seeds: [0]
metrics: ["nDCG@10"]
"""


def command(name):
    """The command that scores a model."""
    if SCORED[name] == "index":
        return f"text rerank {name} index --device cpu --out scores-{name}.txt"
    calibrated = "--calibrated " if name == "neural" else ""
    return f"predict {name} {SCORED[name]} {calibrated}--out scores-{name}.txt"


def scores(name):
    """The scores that this command has written, by document."""
    rows = [line.split() for line in Path(f"scores-{name}.txt").read_text().splitlines()]
    return {f"{row[0]} {row[2]}" if len(row) > 1 else str(n): float(row[4 % len(row)]) for n, row in enumerate(rows)}


def log(name):
    """The history of a run without seconds; trees write theirs at the end."""
    path = Path(name, "log.jsonl")
    rows = map(json.loads, path.read_text().splitlines() if path.is_file() else ())
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in rows]


def text_run():
    """Train a text ranker in the folder `text`, or resume: a run of the command line knows the place of its index."""
    import rankgrad as rg

    collection = rg.text.load("collection")
    run = rg.text.BM25Index.build(collection.documents).search(collection.queries, k=8)
    settings = {"epochs": 3, "batch_size": 4, "list_size": 4, "lr": 1e-3, "max_length": 16, "device": "cpu"}
    ranker = rg.text.BiEncoderRanker("encoder", loss="lambdaloss@5", **settings)
    ranker.fit(rg.text.candidate_lists(collection, run, add_relevant=True), out="text", resume=True, progress=False)


def write_data():
    """Write table.csv, file.txt, recipe.yaml, a collection of texts and an encoder."""
    from tiny_collection import WORDS, tiny_collection
    from tiny_encoder import tiny_encoder

    rng = np.random.default_rng(2)
    table, letor = ["qid,docid,label,price,age,shop"], []
    for row, (x, y, z) in enumerate(rng.normal(size=(120, 3)).round(3).tolist()):
        label = int(np.clip(x + 0.5 * y + rng.normal() / 2 + 1, 0, 3))
        table.append(f"q{row // 6},d{row},{label},{x},{y},{('north', 'south', 'west')[row % 3]}")
        letor.append(f"{label} qid:{row // 6} 1:{x} 2:{y} 3:{z} # d{row}")
    for path, lines in (("table.csv", table), ("file.txt", letor), ("recipe.yaml", RECIPE.splitlines())):
        Path(path).write_text("\n".join(lines) + "\n")
    tiny_collection("collection", queries=6)
    tiny_encoder("encoder", words=f"{WORDS} what is a", hidden=8, layers=1, positions=16)


def python(*arguments, killed=False):
    done = subprocess.run([sys.executable, *arguments])
    assert done.returncode == (-signal.SIGKILL if killed else 0), arguments


def record():
    """Run all commands in this folder, and write expected.json; the killed runs stay killed."""
    write_data()
    for words in COMMANDS:
        python("-m", "rankgrad", *shlex.split(words))
    python("-c", BLEND)
    for write, words in KILLED.values():
        python(TESTS / "killed.py", "last.safetensors", str(write), *shlex.split(words), killed=True)
    python("-c", TEXT_RUN, killed=True)
    for name in STOPPED:
        shutil.copytree(name, f"{name}-stopped")
    for _, words in KILLED.values():
        python("-m", "rankgrad", *shlex.split(words), "--resume")
    text_run()
    for name in SCORED:
        python("-m", "rankgrad", *shlex.split(command(name)))
    expected = {"scores": {name: scores(name) for name in SCORED}, "log": {name: log(name) for name in STOPPED}}
    Path("expected.json").write_text(json.dumps(expected))
    for name in STOPPED:
        shutil.rmtree(name)
        Path(f"{name}-stopped").rename(name)
    for path in Path().glob("scores-*"):
        path.unlink()


if __name__ == "__main__":
    os.environ["RANKGRAD_COMMIT"] = "version 0.2.0"
    sys.path.insert(0, str(TESTS))
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2] + os.environ.get("PYTHONPATH", "").split(os.pathsep))
    packed = Path(__file__).resolve().with_name("folders.tar.xz")
    with tempfile.TemporaryDirectory(prefix="rankgrad-0.2-") as top:
        os.chdir(top)
        record()
        with tarfile.open(packed, "w:xz", preset=9) as archive:
            for path in sorted(Path().iterdir()):
                archive.add(path)
