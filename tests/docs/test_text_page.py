"""The tutorial docs/text.md: each command and each line of Python runs, in the order of the page, on a tiny encoder."""

import importlib.util
import json
import shlex

import pytest
from made_collection import TOPICS, made_collection
from page_blocks import blocks
from programs import run_here
from tiny_encoder import tiny_encoder

COMMANDS = [line for kind, lines in blocks("text.md") if kind == "bash" for line in lines.splitlines()]
PYTHON = [lines for kind, lines in blocks("text.md") if kind == "python"]
MISSING = [name for name in ("transformers", "bm25s") if not importlib.util.find_spec(name)]
TRAINER = [name for name in ("sentence_transformers", "datasets", "accelerate") if not importlib.util.find_spec(name)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the page starts with, and all that its commands write."""
    if MISSING:
        pytest.skip(f"needs {', '.join(MISSING)}")
    root = tmp_path_factory.mktemp("tutorial")
    files = made_collection(root / "files")
    (root / "papers").mkdir()
    for line in (files / "documents.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        content = f"{row['title']}. {row['text'][:200]}"
        (root / "papers" / f"{row['id']}.txt").write_text(content, encoding="utf-8")
    for name in ("queries.tsv", "qrels.txt"):
        (files / name).rename(root / name)
    (root / "order.jsonl").write_text('{"query": "q1", "documents": ["d7", "d1"]}\n')
    words = " ".join([*TOPICS, "on number of a", *(f"word{number}" for number in range(40))])
    tiny_encoder(root / "models" / "minilm", words=words, hidden=16, layers=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        told = {command: run_here(*shlex.split(command)[1:]) for command in COMMANDS}
    return root, told


@pytest.fixture(scope="module")
def names(folder):
    """The names that the Python of the page defines, apart from the last block."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder[0])
        for block in PYTHON[:-1]:
            exec(compile(block, "docs/text.md", "exec"), found)
    return found


def test_every_command_of_the_page_runs(folder):
    root, told = folder
    assert {command.split()[2] for command in COMMANDS} == {"index", "search", "train", "rerank", "evaluate", "distil"}
    assert all(command.startswith("rankgrad text ") for command in COMMANDS)
    assert all(told.values())
    assert [command for command in COMMANDS if "were used in the training" in " ".join(told[command].split())] == []
    for name in ("a", "warm", "cross", "student", "from-run", "from-order"):
        assert (root / "runs" / name / "encoder").is_dir()
    assert "paired t-test" in told["rankgrad text evaluate indexes/papers bm25.txt dense.txt fused.txt"]


def test_the_python_of_the_page_runs(names):
    assert 0 < names["result"]["AP"] < 1
    assert set(names["result"].queries) == set(names["part"].test.qids.tolist())  # no query of the training
    assert names["scores"].shape == (len(names["held"].test.labels),)
    assert (names["taught"].labels >= 0).all()


@pytest.mark.skipif(bool(TRAINER), reason=f"needs {', '.join(TRAINER)}")
def test_the_trainer_of_the_page_runs(folder, names, monkeypatch):
    monkeypatch.chdir(folder[0])
    assert "CrossEncoderTrainer" in PYTHON[-1]
    exec(compile(PYTHON[-1], "docs/text.md", "exec"), names)
