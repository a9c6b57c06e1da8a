"""Every block of every page is executed, or, if it needs hours or another program, its commands are at least parsed.

Blocks marked `bash` are executed, in the order of their page. In blocks marked `sh`, only the program and the options
of each command are checked: these are studies of many hours, and commands of programs that are not here.
"""

import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from page_blocks import KINDS, blocks, run_page
from paths import ROOT
from tiny_study import no_processes
from typer.main import get_command

from rankgrad import data as lists
from rankgrad.cli import app

DOCS = ROOT / "docs"
PAGES = [path for path in DOCS.rglob("*.md") if "templates" not in path.parts]
PAGES += [*ROOT.glob("studies/*/README.md"), ROOT / "README.md", ROOT / "src" / "rankgrad" / "recipes" / "README.md"]
# Pages whose commands run here, with replacements that make them short, and the files that they start with.
SHORT = {"--out runs/": "--epochs 1 --out runs/"}
MQ2008 = {"MQ2008 --fold 1": "synthetic:lists=40,features=10", **SHORT}
HERE = {
    "../README.md": {"--minutes 10": "--trials 1 --folds 2 --jobs 1", "--loss lambdaloss@10": "--epochs 1"},
    "auto.md": {
        "MQ2008 --fold 1 --minutes 10": "data/ --trials 1 --folds 2 --jobs 1",
        "FILE": "data/test.txt",
        "minutes=10": "trials=1, folds=2",
    },
    "calibration.md": {"--loss softmax": "--loss softmax --epochs 1"},
    "columns.md": {"auto --data clicks.csv": "auto --data clicks.csv --trials 1 --folds 2 --jobs 1"},
    "data.md": SHORT,
    "importance.md": {},
    "../studies/learndcg-scalars/README.md": MQ2008,
    "../studies/neural-loss/README.md": {
        **MQ2008,
        "features=10": "features=10,grades=3",
        "--form published": "--form published --lists 64 --batch 32 --epochs 1",
    },
}
# Pages that other tests run, in the module of that name.
ELSEWHERE = {
    "architecture.md": "test_architecture",
    "start.md": "test_guides",
    "guides/evaluate.md": "test_guides",
    "guides/export.md": "test_guides",
    "guides/many-machines.md": "test_guides",
    "guides/train.md": "test_guides",
    "coming-from/pt-ranking.md": "test_coming_from",
    "own-loop.md": "test_own_loop",
    "text.md": "test_text_page",
}
PROGRAMS = {"curl", "jq", "vespa", "pip", ".venv/bin/pip", "python3", "srun", "for", "done"}  # not run by the tests


def name_of(page):
    """The path of a page from the folder `docs`."""
    return Path(os.path.relpath(page, DOCS)).as_posix()


@pytest.fixture
def folder(tmp_path):
    """Files with the names that the pages use."""
    data = lists.synthetic(60, features=10, mean_length=6, seed=0)
    for part, name in (("train", "train"), ("validation", "vali"), ("test", "test")):
        split = getattr(data, part)
        ids = [f"d{row}" for row in range(len(split.labels))]
        if part == "test":
            ids[:2] = "GX004-93-7097963", "GX016-32-14546147"
        qids = np.arange(len(split)) + {"train": 0, "validation": 1000, "test": 18219}[part]
        named = lists.from_arrays(split.features, split.labels, qid=np.repeat(qids, split.lengths), docids=ids)[0]
        lists.write_letor(named, tmp_path / "data" / f"{name}.txt")
    return tmp_path


def table(rows=240, seed=0):
    """A table with the columns that the pages name, with missing values."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "search": np.repeat([f"s{number}" for number in range(rows // 8)], 8),
            "stars": rng.integers(0, 4, rows),
            "text_match": rng.normal(size=rows),
            "age": rng.exponential(size=rows),
            "user_id": rng.integers(0, 99, rows),
            "shop": rng.choice(["books", "toys"], rows),
            "city": rng.choice(["Rome", "Oslo", "Lima"], rows),
        }
    )
    return frame


def prepare_readme(folder):
    features = lists.load(folder / "data").test.features
    rows = [",".join([f"q{row // 5}", *(f"{value}" for value in line)]) for row, line in enumerate(features.tolist())]
    names = ["qid", *(f"feature {number + 1}" for number in range(features.shape[1]))]
    (folder / "new.csv").write_text("\n".join([",".join(names), *rows]) + "\n")


def prepare_columns(folder):
    frame = table().rename(columns={"search": "qid", "stars": "label"}).drop(columns="user_id")
    frame.loc[::7, "age"] = np.nan
    frame.to_csv(folder / "clicks.csv", index=False)


def prepare_data(folder):
    frame = table().drop(columns=["shop", "city"])
    frame.to_parquet(folder / "clicks.parquet")
    frame.to_csv(folder / "clicks-june.csv", index=False)
    frame.to_parquet(folder / "new.parquet")
    frame.to_csv(folder / "new.csv", index=False)
    lists.write_letor(
        lists.from_arrays(frame[["text_match", "age"]], frame["stars"], qid=frame["search"])[0], folder / "new.txt"
    )


def prepare_importance(folder):
    from programs import run_here

    run_here("train", "--data", folder / "data", "--epochs", 1, "--model", "linear", "--out", folder / "runs" / "a")


PREPARE = {
    "../README.md": prepare_readme,
    "calibration.md": prepare_readme,
    "columns.md": prepare_columns,
    "data.md": prepare_data,
    "importance.md": prepare_importance,
}


_no_processes = pytest.fixture(no_processes)


@pytest.mark.usefixtures("_no_processes")
@pytest.mark.parametrize("page", HERE)
def test_the_commands_of_a_page_run(page, folder):
    PREPARE.get(page, lambda _: None)(folder)
    _, told = run_page(page, folder, shorter=HERE[page], given=arrays() if page == "auto.md" else ())
    assert told


def arrays():
    """The arrays that the Python of docs/auto.md starts with."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(120, 3)), np.repeat(np.arange(12), 10)
    return {"X": X, "y": (X[:, 0] > 0).astype(int), "qid": qid, "X_new": X, "qid_new": qid}


def test_no_page_is_forgotten():
    executed = {name_of(page) for page in PAGES if any(kind == "bash" for kind, _ in blocks(name_of(page)))}
    assert executed <= {*HERE, *ELSEWHERE}
    assert {*HERE} <= executed


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_has_a_known_kind(page):
    text = page.read_text(encoding="utf-8")
    fences = [line for line in text.splitlines() if line.startswith("```")]
    kinds = [line.removeprefix("```") for line in fences[::2]]
    assert not [line for line in fences[1::2] if line != "```"]
    assert {*kinds} <= KINDS | {"{toctree}"}
    for kind, content in blocks(name_of(page)):
        if kind == "python" and ">>>" not in content:
            assert name_of(page) in {*ELSEWHERE, *HERE}, f"no test executes the Python of {page.name}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_are_not_executed_are_parsed(page):
    for kind, content in blocks(name_of(page)):
        if kind == "sh":
            for line in re.sub(r"\$\(.*?\)", "", content.replace("\\\n", " ")).splitlines():
                for part in line.split("&&"):
                    check(part)


def check(line):
    """Check the program and the options of a command. The command does not run."""
    words = shlex.split(line, comments=True)
    if words and words[0] == "srun":
        words = words[1:]
    if words[:1] == ["rankgrad"]:
        parse(words[1 : words.index(">")] if ">" in words else words[1:])
    elif words[:1] == ["make"]:
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
    elif words[:1] == ["python"]:
        assert (ROOT / words[1]).is_file(), line
    elif words:
        assert words[0] in PROGRAMS, line


def parse(words):
    """Parse a command of rankgrad. A wrong command, option or type of a value is an error of click."""
    command = get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("rankgrad", [*words])


def test_a_wrong_command_is_found():
    check("rankgrad train --data x --out runs/a")
    with pytest.raises(Exception, match="--dta"):
        check("rankgrad train --dta x --out runs/a")
    with pytest.raises(KeyError, match="trian"):
        check("rankgrad trian --data x --out runs/a")
    with pytest.raises(AssertionError, match=r"benchmarks/none\.py"):
        check("python benchmarks/none.py")
    with pytest.raises(AssertionError, match="make tset"):
        check("make tset")
    with pytest.raises(AssertionError, match="gcc"):
        check("gcc x.c")
