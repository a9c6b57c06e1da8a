"""From a file to a saved model that predicts, as typed: train, evaluate, predict, list, export."""

import json
import re
import signal
from pathlib import Path

import numpy as np
import programs
import pytest
from paths import SHARED
from programs import finished, program, wait_until
from typer.main import get_command

from rankgrad import losses, rankers
from rankgrad.cli import COMMANDS, app
from rankgrad.cli.text import COMMANDS as TEXT_COMMANDS
from rankgrad.data import datasets, load, read_letor
from rankgrad.metrics import read_run
from rankgrad.training import Model

DATA = SHARED / "data"
TINY = "synthetic:lists=40,features=12"


@pytest.fixture(autouse=True)
def _wide_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


def invoke(command, *more):
    return programs.invoke(*command.split(), *more)


def rankgrad(command, *more):
    """The output of a command that should succeed."""
    return programs.stdout_of(*command.split(), *more)


def complaints(*arguments):
    """The lines that a command complains in."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        rankgrad(*arguments)
    return str(caught.value).splitlines()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a small trained model."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    rankgrad("train", "--data", TINY, "--epochs", 2, "--out", folder)
    return folder


@pytest.fixture(scope="module")
def letor(tmp_path_factory):
    """A file that the model can score, and its data set."""
    path = tmp_path_factory.mktemp("data") / "test.txt"
    data = load(TINY).test
    lines = []
    for row, (qid, label, values) in enumerate(zip(data.row_qids, data.labels, data.features, strict=True)):
        pairs = " ".join(f"{number}:{value!r}" for number, value in enumerate(values.tolist(), 1))
        lines.append(f"{label:g} qid:{qid} {pairs} # docid = D{row}\n")
    path.write_text("".join(lines))
    return path, data


@pytest.mark.parametrize("model", ["mlp", "context_aware:width=16,blocks=1,feed_forward=16"])
def test_the_commands_of_the_design_on_mq2008(tmp_path, monkeypatch, model):
    if not (DATA / "MQ2008").is_dir():
        pytest.skip("MQ2008 is not there")
    root, test = DATA.resolve(), (DATA / "MQ2008" / "S5.txt.gz").resolve()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANKGRAD_DATA", str(root))
    told = rankgrad("train --data MQ2008 --fold 1 --loss lambdaloss@5 --epochs 2 --out runs/a --model", model)
    for said in ("train: 471 lists, 9,630 documents", "best after", "on 156 test lists", "nDCG@10", "exp", "runs/a"):
        assert said in told
    judged = json.loads(rankgrad("evaluate runs/a --data MQ2008 --fold 1 -m nDCG@10 -m AP --json"))
    kept = json.loads(Path("runs/a/metrics.json").read_text())
    for name in ("nDCG@10", "AP"):
        assert judged["metrics"][name]["mean"] == pytest.approx(kept["test"][name])
    rankgrad("predict", "runs/a", test, "--out", "scores.txt")
    data = read_letor(test)
    expected = Model.load("runs/a").score(data.features, data.offsets)
    np.testing.assert_allclose(np.loadtxt("scores.txt"), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("words", [*COMMANDS, *(f"text {command}" for command in TEXT_COMMANDS)])
def test_help_fits_a_screen_and_shows_an_example(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown, command = rankgrad(words, "--help"), get_command(app)
    for word in words.split():
        command = command.commands[word]
    assert f"Example: rankgrad {words}" in shown
    assert len(shown.splitlines()) <= 40
    options = command.params
    assert [option.name for option in options if not (option.help or option.name == "help")] == []


def test_all_that_is_wrong_is_said_at_once_and_before_data_is_read(tmp_path, run, monkeypatch):
    monkeypatch.setattr("rankgrad.cli.data_source.DataSource.read", lambda *_: pytest.fail("data was read"))
    said = complaints(
        "train --data MQ2080 --model mpl --loss lamdaloss --epochs ten --lr 0 --metric nDGC --device gpu",
        *("--holdout", "2", "--preprocess", "log2p", "--out", run),
    )
    expected = ("model .*'mlp'", "loss .*'lambdaloss'", "preprocessing .*", "metric .*'nDCG'", "device .*", "epochs .*")
    expected += ("lr must be above 0.*", "holdout must be .* below 1; got 2", "out must be a new folder.*--resume.*")
    for pattern in expected:
        assert sum(bool(re.match(pattern, line)) for line in said) == 1, f"{pattern} in {said}"
    assert len(said) == len(expected)
    assert "did you mean 'MQ2008'" in "".join(complaints("train --data MQ2080 --out new"))
    assert complaints("train", "--out", tmp_path / "new") == ["data must be given; got None"]


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "config.json").write_text('{"mine": 1}')
    assert "config.json must have the format" in complaints("train", "--data", TINY, "--out", tmp_path)[0]
    assert (tmp_path / "config.json").read_text() == '{"mine": 1}'


def test_a_preset_brings_its_training_settings_unless_they_are_given(tmp_path):
    text = "neuralndcg-web30k:width=8,feed_forward=8"
    told = rankgrad("train", "--data", TINY, "--model", text, "--lr", 0.01, "--epochs", 1, "--out", tmp_path / "a")
    assert re.search(r"neuralndcg-web30k \(NeuralNDCG, .*\) sets: .*preprocess log1p,standardise", told)
    settings = json.loads((tmp_path / "a" / "config.json").read_text())["settings"]
    expected = {"preprocess": "log1p,standardise", "loss": "neural_ndcg", "list_size": 240, "batch_size": 64}
    expected |= {"schedule": "step:every=50,factor=0.1", "lr": 0.01, "epochs": 1}
    assert {name: settings[name] for name in expected} == expected
    assert "lr" not in told.partition("sets:")[2].partition("\n")[0]


def test_lists_are_held_out_where_the_data_has_no_validation_part(tmp_path, letor):
    told = rankgrad("train", "--data", letor[0], "--epochs", 1, "--out", tmp_path / "a")
    lists = len(letor[1])
    assert f"train: {lists - round(lists / 5)} lists" in told
    assert re.search(rf"validation: {round(lists / 5)} lists.*held out from train.*--holdout 0.2", told)
    assert "test lists" not in told
    judged = json.loads(rankgrad("evaluate", tmp_path / "a", "--split", "validation", "-m", "nDCG@10", "--json"))
    kept = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert judged["metrics"]["nDCG@10"]["mean"] == pytest.approx(kept["validation"]["nDCG@10"])
    assert (
        json.loads(rankgrad("evaluate", tmp_path / "a", "-m", "nDCG@10", "--json")) == judged
    )  # there is no test part
    assert "split must be a split of" in complaints("evaluate", tmp_path / "a", "--split", "test")[0]
    told = rankgrad("train", "--data", letor[0], "--epochs", 1, "--holdout", 0, "--out", tmp_path / "b")
    assert "no validation lists" in told


def test_a_folder_with_a_train_file_alone_trains(tmp_path, letor):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.txt").write_text(letor[0].read_text())
    told = rankgrad("train", "--data", folder, "--epochs", 1, "--out", tmp_path / "a")
    assert "held out from train" in told
    assert "test lists" not in told
    said = complaints("evaluate", tmp_path / "a", "--data", folder)  # the folder has no test part
    assert said == [
        "data must name lists that the model has not seen, such as data=held_out.parquet; got "
        f"{folder}, which has no test or validation lists (split=train uses the train lists)"
    ]
    assert "nDCG@10" in rankgrad("evaluate", tmp_path / "a", "--data", folder, "--split", "train")


def test_one_list_cannot_be_trained_on_and_held_out(tmp_path):
    (tmp_path / "one.txt").write_text("1 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:0\n")
    must = "holdout must be 0, or large enough to select a list whose labels differ"
    for model in ("mlp", "lightgbm"):
        told = complaints("train", "--data", tmp_path / "one.txt", "--model", model, "--out", tmp_path / "a")
        assert told == [f"{must}; got 0.2 with 1 list(s) in one.txt"]


def test_a_run_goes_on_with_its_settings_and_data(tmp_path):
    common = ("--data", TINY, "--lr", 0.01, "--patience", "none", "--seed", 3)
    rankgrad("train", *common, "--epochs", 2, "--out", tmp_path / "a")
    rankgrad("train", "--resume", "--epochs", 4, "--out", tmp_path / "a")
    rankgrad("train", *common, "--epochs", 4, "--out", tmp_path / "b")
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert one == other
    assert len((tmp_path / "a" / "log.jsonl").read_text().splitlines()) == 4
    assert complaints("train", "--resume", "--lr", 0.1, "--out", tmp_path / "a")[0].startswith("lr must be 0.01")


def test_ctrl_c_says_how_to_go_on(tmp_path):
    common = ("--data", "synthetic:lists=400", "--epochs", 100000, "--patience", "none")
    going = program("train", *common, "--out", tmp_path / "a")
    log = tmp_path / "a" / "log.jsonl"
    wait_until((tmp_path / "a" / "last.safetensors").exists, seconds=120)
    going.send_signal(signal.SIGINT)
    out, err = going.communicate(timeout=60)
    assert going.returncode == 130, err
    assert "Traceback" not in out + err
    hint = re.search(r"To resume: rankgrad (train --resume --epochs 100000 --out .*)", err)
    assert hint, err
    done = len(log.read_text().splitlines())
    rankgrad(hint[1].replace("100000", str(done + 1)))
    assert len(log.read_text().splitlines()) == done + 1


def test_only_the_first_process_speaks(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert rankgrad("train", "--data", TINY, "--epochs", 1, "--out", tmp_path / "a") == ""


def test_what_a_loss_has_learned_is_said(tmp_path):
    told = rankgrad("train", "--data", TINY, "--loss", "learndcg", "--epochs", 1, "--out", tmp_path / "a")
    assert re.search(r"learned parameters of the loss: .*alpha [\d.]+", told)


def test_a_loss_that_is_not_finite_is_one_sentence(tmp_path):
    done = invoke("train --lr 1e30 --loss mse --epochs 9 --data", TINY, "--out", tmp_path / "a")
    assert done.exit_code == 1
    *epochs, told = done.stderr.splitlines()  # rounding on this processor decides whether an epoch ends before
    assert re.fullmatch(r"rankgrad: the (loss|scores) must be .*; got .*; last good checkpoint: .*", told)
    assert [line for line in epochs if not line.startswith("epoch ")] == []


def test_scores_are_those_of_the_model_in_file_order(run, letor, tmp_path, monkeypatch):
    path, data = letor
    expected = Model.load(run).score(data.features, data.offsets)
    written = rankgrad("predict", run, path)
    np.testing.assert_array_equal(np.array(written.split(), dtype=np.float32), expected)
    monkeypatch.setattr("rankgrad.data.letor.streams.BLOCK", 3000)  # lists across many blocks
    monkeypatch.setattr("rankgrad.data.letor.streams._PIECE", 1000)
    monkeypatch.setattr("rankgrad.cli.predict._ROWS", 30)
    rankgrad("predict", run, path, "--out", tmp_path / "new" / "scores.txt")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "new" / "scores.txt"), expected, rtol=1e-5, atol=1e-6)
    rankgrad("convert", path, tmp_path / "cache")
    again = rankgrad("predict", run, tmp_path / "cache")
    np.testing.assert_allclose(np.array(again.split(), dtype=float), expected, rtol=1e-5, atol=1e-6)


def test_a_trec_run_is_ranked_and_reads_back(run, letor, tmp_path):
    path, data = letor
    rankgrad("predict", run, path, "--format", "trec", "--tag", "mine", "--out", tmp_path / "run.txt")
    found = read_run(tmp_path / "run.txt")
    scores = Model.load(run).score(data.features, data.offsets)
    assert {query: len(documents) for query, documents in found.items()} == {
        str(query): length for query, length in zip(data.qids, data.lengths, strict=True)
    }
    for row, query in enumerate(data.row_qids):
        assert np.float32(found[str(query)][f"D{row}"]) == scores[row]
    first = [line.split() for line in (tmp_path / "run.txt").read_text().splitlines()][: data.lengths[0]]
    assert [int(line[3]) for line in first] == [*range(1, data.lengths[0] + 1)]
    assert sorted((float(line[4]) for line in first), reverse=True) == [float(line[4]) for line in first]
    assert {line[5] for line in first} == {"mine"}


def test_documents_without_an_id_are_named_by_their_place(run, tmp_path):
    (tmp_path / "a.txt").write_text("0 qid:1 12:1\n0 qid:1 1:2 # an_id\n")
    lines = rankgrad("predict", run, tmp_path / "a.txt", "--format", "trec").splitlines()
    assert {line.split()[2] for line in lines} == {"document-1", "an_id"}


def test_a_file_that_is_wrong_leaves_the_output_as_it_was(run, letor, tmp_path):
    scores = tmp_path / "scores.txt"
    scores.write_text("old")
    lines = letor[0].read_text().splitlines(keepends=True)
    (tmp_path / "bad.txt").write_text("".join([*lines, lines[0]]))
    said = complaints("predict", run, tmp_path / "bad.txt", "--out", scores)[0]
    assert f"bad.txt:{len(lines) + 1}: qid " in said
    assert "occurs again after qid" in said
    (tmp_path / "bad.txt").write_text("".join([*lines[:7], "0 qid:1 1:x\n"]))
    assert "bad.txt:8: " in complaints("predict", run, tmp_path / "bad.txt", "--out", scores)[0]
    (tmp_path / "bad.txt").write_text("0 qid:1 13:1\n")
    assert "feature id 13" in complaints("predict", run, tmp_path / "bad.txt", "--out", scores)[0]
    assert scores.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "scores.txt"]


def test_too_few_features_are_warned_about(run, tmp_path):
    (tmp_path / "a.txt").write_text("0 qid:1 1:1 2:3\n")
    done = invoke("predict", run, tmp_path / "a.txt")
    assert "has 2 features, but the model needs 12; the missing features are set to 0" in done.stderr
    assert len(done.stdout.split()) == 1


@pytest.mark.parametrize("kind", ["file", "folder", "cache"])
def test_evaluate_warns_of_too_few_features(run, tmp_path, kind):
    lines = "1 qid:1 1:1 2:3\n0 qid:1 1:2 2:1\n"
    (tmp_path / "set").mkdir()
    for part in ("train", "vali", "test"):
        (tmp_path / "set" / f"{part}.txt").write_text(lines)
    places = {"file": tmp_path / "set" / "test.txt", "folder": tmp_path / "set", "cache": tmp_path / "cache"}
    rankgrad("convert", places["file"], places["cache"])
    for command in (("evaluate", run), ("compare", run, run)):
        done = invoke(*command, "--data", places[kind], "-m", "AP")
        assert done.exit_code == 0, done.output
        needs = "the model needs 12; the missing features are set to 0"
        assert done.stderr == f"warning: {places[kind]} has 2 features, but {needs}\n"
    (tmp_path / "wide.txt").write_text("1 qid:1 1:1 12:3\n0 qid:1 1:2 2:1\n")  # the last feature occurs
    assert invoke("evaluate", run, "--data", tmp_path / "wide.txt", "-m", "AP").stderr == ""


def test_predict_and_evaluate_complain_at_once(run, tmp_path):
    said = complaints("predict nowhere none.txt --format tsv --device gpu --tag", "a b")
    assert len(said) == 5
    said = complaints("evaluate", run, "--data", "MQ2080", "-m", "nDGC@10", "--split", "tset", "--device", "gpu")
    assert len(said) == 4


def test_lists_name_everything():
    shown = rankgrad("list", "losses")
    for name in losses.__all__:
        assert re.search(rf"^ *{name.lower()}(\[@k\])? ", shown, re.MULTILINE)
    shown = rankgrad("list", "models")
    for name in (*rankers.MODELS, *rankers.PRESETS):
        assert re.search(rf"^ *{name} ", shown, re.MULTILINE)
    shown = rankgrad("list", "metrics")
    for name in ("nDCG", "RR", "AP", "P", "R", "ERR"):
        assert f" {name}[@k] " in shown
    shown = rankgrad("list", "datasets")
    for facts in datasets():
        assert facts.name in shown
    whole = rankgrad("list")
    for name in ("losses", "models", "metrics", "datasets"):
        assert f"rankgrad list {name}" in whole
    assert complaints("list", "loses")[0].endswith("'losses', 'models', 'metrics', 'datasets', 'recipes'; got 'loses'")


def test_complaints_are_lines_on_standard_error(tmp_path):
    done = finished("train", "--data", "MQ2080", "--model", "mpl", "--out", tmp_path / "a")
    assert done.returncode == 2
    assert done.stdout == ""
    assert [line.split()[1] for line in done.stderr.splitlines()] == ["--model", "--data"]
    assert all(line.startswith("rankgrad: ") for line in done.stderr.splitlines())


def test_export_says_what_was_checked(run, tmp_path):
    told = rankgrad("export", run, tmp_path / "model.pt2")
    assert "checked: scores of torch.export agree with the model's scores within 1e-05" in told
    assert (tmp_path / "model.pt2").is_file()
    assert "path must end in" in complaints("export", run, tmp_path / "model.bin")[0]
