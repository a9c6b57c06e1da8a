"""Manners of the command line: shared options, JSON, one line per epoch, overwriting, messages as they are typed."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from programs import finished, invoke, run_here
from tiny_study import no_processes
from typer.testing import CliRunner

from rankgrad.cli import app, main, option_synonyms
from rankgrad.cli.data_source import DataSource
from rankgrad.cli.overwrite import remove_run
from rankgrad.errors import BadValue, Problem, name_settings
from rankgrad.experiments import load_recipe

_no_processes = pytest.fixture(no_processes)
TINY = "synthetic:lists=40,features=12"
LETOR = "".join(f"{row % 3} qid:{row // 4} 1:{row % 5} 2:{row % 7}\n" for row in range(80))
# The command line, without the package in the first argument.
WITHOUT = """
import sys
class Missing:
    name = sys.argv.pop(1)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from rankgrad.cli import main
main()
"""


@pytest.fixture
def main_here(monkeypatch, capsys):
    """Run the command line in this process; return its exit code and standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rankgrad", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().err

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a small trained model."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    run_here("train", "--data", TINY, "--epochs", 2, "--out", folder)
    return folder


def test_python_m_rankgrad_is_the_command_line_with_one_line_per_epoch_when_piped(tmp_path):
    module = "import runpy; runpy.run_module('rankgrad', run_name='__main__')"  # what `python -m rankgrad` does
    done = finished("train", "--data", TINY, "--epochs", 3, "--out", tmp_path / "a", code=module)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^epoch (\d)/3  loss -?[\d.]+  nDCG@10 0\.\d{4}  [\d.]+ s$", done.stderr, re.MULTILINE)
    assert lines == ["1", "2", "3"]
    assert "on 13 test lists" in done.stdout
    assert "epoch" not in done.stdout.replace("epochs", "")


def test_json_is_all_of_standard_output_and_quiet_leaves_only_it(tmp_path):
    done = invoke("train", "--data", TINY, "--epochs", 2, "--out", tmp_path / "a", "--json")
    found = json.loads(done.stdout)
    assert "on 13 test lists" in done.stderr
    kept = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert found["test"]["metrics"]["nDCG@10"]["mean"] == pytest.approx(kept["test"]["nDCG@10"])
    assert found["validation"] == kept["validation"]
    assert (found["trained"], found["unit"], found["lists"]["test"]) == (2, "epoch", 13)
    assert found["settings"]["epochs"] == 2
    done = invoke("--quiet", "train", "--data", TINY, "--epochs", 2, "--out", tmp_path / "b", "--json")
    assert json.loads(done.stdout)["test"] == found["test"]
    assert done.stderr == ""


def test_shared_options_go_before_and_after_the_command(tmp_path, run):
    common = ("train", "--data", TINY, "--epochs", 1, "--out")
    for number, words in enumerate((("--quiet", *common), (*common[:3], "--quiet", *common[3:]))):
        done = invoke(*words, tmp_path / f"{number}")
        assert (done.exit_code, done.output) == (0, "")
        assert (tmp_path / f"{number}" / "config.json").is_file()
    assert "nDCG@10" in run_here("--quiet", "evaluate", run)  # the result of this command is text
    details = invoke("evaluate", run, "--verbose")
    assert re.search(r"reading synthetic.*: [\d.]+ s", details.stderr)
    assert re.search(r"^rankgrad \d.*, Python 3\.\d+.*, PyTorch \d", details.stderr)
    assert "reading" not in invoke("evaluate", run).stderr  # an earlier command changes nothing


@pytest.mark.parametrize("words", [("list", "losses"), ("list", "recipes"), ("evaluate",)], ids=" ".join)
def test_a_row_of_a_piped_table_is_one_line(words, run, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    words = (*words, run, "-m", "nDCG(gain='linear',ties='expected',empty='skip')@10") if len(words) == 1 else words
    found = json.loads(run_here(*words, "--json"))
    rows = found if isinstance(found, list) else [{"metric": name} for name in found["metrics"]]
    lines = [re.sub(r"\s+", " ", line) for line in run_here(*words).splitlines()]
    for row in rows:
        assert any(all(str(value) in line for value in row.values()) for line in lines), row


def test_debug_shows_the_traceback_of_an_error(tmp_path, main_here):
    for words in (("--debug", "train"), ("train", "--debug")):
        with pytest.raises(ValueError, match="data must be a known data set"):
            main_here(*words, "--data", "MQ2080", "--out", tmp_path / "a")
    code, told = main_here("train", "--data", "MQ2080", "--out", tmp_path / "a")
    assert (code, len(told.splitlines())) == (2, 1)


def test_completion_is_offered():
    words = {"_RANKGRAD_COMPLETE": "complete_bash", "COMP_WORDS": "rankgrad exp", "COMP_CWORD": "1"}
    done = CliRunner().invoke(app, [], prog_name="rankgrad", env=words)
    assert done.output.split() == ["explain", "export", "experiment"]
    assert "--install-completion" in invoke("--help").output


def test_a_missing_framework_is_one_line_before_data_is_read(tmp_path):
    done = finished("lightgbm", "train", "--data", TINY, "--model", "lightgbm", "--out", tmp_path / "a", code=WITHOUT)
    (line,) = done.stderr.splitlines()
    assert line.startswith("rankgrad: trees need lightgbm: pip install 'rankgrad[trees]'")
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("command", ["train", "tune"])
def test_every_command_that_trains_checks_that_the_framework_is_there(command, framework, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, framework, None)  # an import then fails, as that of a missing package
    monkeypatch.setattr(DataSource, "read", None)  # reading data would be another error
    with pytest.raises(ValueError, match=rf"^trees need {framework}: pip install 'rankgrad\[trees\]'"):
        run_here(command, "--data", TINY, "--model", framework, "--out", tmp_path / "a")


def test_a_tree_model_without_its_framework_is_one_line(tmp_path, monkeypatch, main_here):
    pytest.importorskip("lightgbm")
    run_here("train", "--data", TINY, "--model", "lightgbm", "--epochs", 2, "--out", tmp_path / "a")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    code, told = main_here("evaluate", tmp_path / "a")
    assert (code, len(told.splitlines())) == (2, 1)
    assert "pip install 'rankgrad[trees]'" in told


@pytest.mark.parametrize("model", ["mlp", "lightgbm", "xgboost"])
def test_overwrite_replaces_a_run_and_nothing_else(model, tmp_path):
    if model != "mlp":
        pytest.importorskip(model)
    out = tmp_path / "a"
    words = ("train", "--data", TINY, "--model", model, "--epochs", 2, "--out", out)
    run_here(*words, "--seed", 1)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"\(or add --resume or --overwrite\); got .*, which contains a run"):
        run_here(*words)
    with pytest.raises(ValueError, match="overwrite must not be given with --resume"):
        run_here(*words, "--overwrite", "--resume")
    run_here(*words, "--overwrite", "--seed", 2)
    assert json.loads((out / "run.json").read_text())["settings"]["seed"] == 2
    assert (out / "notes.txt").read_text() == "mine"
    remove_run(out)
    assert [path.name for path in out.iterdir()] == ["notes.txt"]  # every file of a run is known


def test_overwrite_replaces_a_run_of_another_kind(tmp_path):
    pytest.importorskip("lightgbm")
    run_here("train", "--data", TINY, "--model", "lightgbm", "--epochs", 2, "--out", tmp_path / "a")
    run_here("train", "--data", TINY, "--epochs", 2, "--out", tmp_path / "a", "--overwrite")
    assert not (tmp_path / "a" / "model.txt").exists()
    assert "nDCG@10" in run_here("evaluate", tmp_path / "a")


@pytest.mark.usefixtures("_no_processes")
def test_a_search_is_json_and_is_overwritten(tmp_path):
    words = ("tune", "--data", TINY, "--model", "linear", "--budget", 3, "--epochs", 3, "--out", tmp_path / "best")
    found = json.loads(invoke(*words, "--json").stdout)
    assert len(found["trials"]) == 3
    assert found["trials"][0]["value"] == max(trial["value"] for trial in found["trials"])
    assert found["test"]["lists"] == 13
    (tmp_path / "best" / "trials" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"\(or add --overwrite\); got .*, which contains a search with seed 0"):
        run_here(*words, "--seed", 1)
    again = json.loads(invoke(*words, "--seed", 1, "--overwrite", "--json").stdout)
    assert {trial["name"] for trial in again["trials"]} != {trial["name"] for trial in found["trials"]}
    remove_run(tmp_path / "best")
    left = [path.relative_to(tmp_path) for path in (tmp_path / "best").rglob("*") if path.is_file()]
    assert [str(path) for path in left] == ["best/trials/notes.txt"]


def test_overwrite_refuses_files_of_other_programs(tmp_path):
    (tmp_path / "model.txt").write_text("a model of another program")
    (tmp_path / "config.json").write_text('{"name": "another program"}')
    for model in ("mlp", "lightgbm"):
        with pytest.raises(
            ValueError, match=r"out must be a new folder, or the folder of a run; got .*another program"
        ):
            run_here("train", "--data", TINY, "--model", model, "--overwrite", "--out", tmp_path)
    assert (tmp_path / "model.txt").read_text() == "a model of another program"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.txt"]


def test_overwrite_keeps_the_old_run_if_the_new_one_cannot_start(tmp_path):
    run_here("train", "--data", TINY, "--epochs", 1, "--out", tmp_path / "a")
    before = (tmp_path / "a" / "model.safetensors").read_bytes()
    (tmp_path / "bad.txt").write_text("1 qid:1 1:x\n")
    with pytest.raises(ValueError, match="not a number"):
        run_here("train", "--data", tmp_path / "bad.txt", "--out", tmp_path / "a", "--overwrite")
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == before


def test_a_run_knows_its_data_in_every_working_directory(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for name in ("train.txt", "test.txt"):
        (tmp_path / "data" / name).write_text(LETOR)
    monkeypatch.chdir(tmp_path)
    run_here("train", "--data", "data", "--epochs", 1, "--cache", "cache", "--out", "runs/a")
    run_here("train", "--data", "data/train.txt", "--epochs", 1, "--out", "runs/b")
    told = run_here("evaluate", "runs/a")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run_here("evaluate", "../runs/a") == told
    assert "nDCG@10" in run_here("evaluate", "../runs/b", "--split", "train")
    warned = invoke("compare", "../runs/a", "../runs/a", "--data", "../data", "--split", "train", "--queries", 0)
    assert warned.output.count("was trained on these lists") == 2
    assert "nDCG@10" in run_here("compare", "../runs/a", "../runs/a")


def test_names_of_data_sets_stay_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKGRAD_DATA", raising=False)
    (tmp_path / "MQ2008").mkdir()
    assert DataSource(TINY).absolute() == DataSource(TINY)
    found = DataSource("mq2008", fold=1).absolute()
    assert (found.data, found.root) == ("mq2008", str(tmp_path))  # without a root, the current folder is the root
    monkeypatch.setenv("RANKGRAD_DATA", "elsewhere")
    assert DataSource("MQ2008", fold=1).absolute().root is None
    assert DataSource("MQ2008", root="data").absolute().root == str(tmp_path / "data")
    assert DataSource("sub/../MQ2008").absolute().data == str(tmp_path / "MQ2008")
    (tmp_path / "synthetic").mkdir()
    assert DataSource("synthetic").absolute().data == str(tmp_path / "synthetic")


def test_messages_name_options_as_they_are_typed(tmp_path, monkeypatch, main_here):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scattered.txt").write_text("1 qid:1 1:1\n0 qid:2 1:1\n0 qid:1 1:2\n")
    (tmp_path / "nan.txt").write_text("1 qid:1 1:nan\n0 qid:1 1:2\n")
    (tmp_path / "long.txt").write_text(f"1 qid:1 1:1 # {'x' * 2000}\n")

    def complaint(*words):
        code, told = main_here(*words)
        assert code == 2, told
        return told

    told = complaint("convert", "scattered.txt", "cache")
    assert "or --regroup" in told
    told = complaint("convert", "nan.txt", "cache")
    assert "(or set --missing to a number that replaces such values)" in told
    told = complaint("convert", "long.txt", "cache")
    assert "or --no-docids" in told
    told = complaint("train", "--data", "MQ2008", "--fold", 1, "--batch-size", 0, "--lr", "x", "--out", "a")
    assert "rankgrad: --batch-size must be" in told
    assert "rankgrad: --lr must be" in told
    assert "as --data-root or RANKGRAD_DATA" in told
    assert not re.search(r"\b[a-z_]+=", told)
    told = complaint("train", "--data", "long.txt", "--out", "a")
    assert "or rankgrad convert --no-docids" in told  # train has no such option
    told = complaint("train", "--data", "synthetic:lists=0,seed=1", "--out", "a")
    assert "--seed" not in told  # a spec is text of the user
    told = complaint("train", "--data", "synthetic:lists=40,features=5", "--out", "a")
    assert "rankgrad: --data synthetic:lists=40,features=5: features of synthetic must be at least 10; got 5" in told
    assert "--features" not in told  # another option, for the columns of a table


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["train", "--learning-rate", "0.1"], "--lr"),
        (["train", "--num_boost_round", "10"], "--epochs"),
        (["train", "--early-stopping-rounds=5"], "--patience"),
        (["predict", "runs/a", "x.csv", "--output", "y.csv"], "--out"),
        (["auto", "--time-limit", "60"], "--minutes"),
        (["text", "index", "--output", "a"], "--out"),
    ],
)
def test_names_of_other_programs_lead_to_our_options(words, ours, main_here):
    code, told = main_here(*words)
    assert code == 2
    assert re.search(rf"no such option.*{ours}\b", told, re.IGNORECASE | re.DOTALL), told


def test_every_suggested_option_belongs_to_a_command():
    commands = typer.main.get_command(app).commands
    commands = [*commands.values(), *commands["text"].commands.values()]
    options = {name for command in commands for each in command.params for name in each.opts}
    assert {*option_synonyms._OPTION_OF.values()} <= options


def test_recipes_are_listed_with_their_data_sets():
    found = {row["recipe"]: row["data sets"] for row in json.loads(run_here("list", "recipes", "--json"))}
    assert found["smoothi-table1"] == "MQ2007, MQ2008, WEB30K, YLTR"
    assert "WEB30K-b" in found["softmax-table1"]
    for name in ("smoothi-table1", "softmax-table1"):
        assert found[name].split(", ") == [source.label for source in load_recipe(name).data]
    assert "rankgrad list recipes" in run_here("list")


def test_every_list_is_json():
    for name in ("losses", "models", "metrics", "datasets"):
        rows = json.loads(run_here("list", name, "--json"))
        assert rows
        assert all(isinstance(row, dict) for row in rows)


def test_convert_and_export_print_json(tmp_path, run):
    (tmp_path / "a.txt").write_text(LETOR)
    found = json.loads(run_here("convert", tmp_path / "a.txt", tmp_path / "cache", "--json"))
    assert (found["documents"], found["lists"], found["cached"]) == (80, 20, False)
    found = json.loads(run_here("export", run, tmp_path / "model.pt2", "--json"))
    assert found["bytes"] == (tmp_path / "model.pt2").stat().st_size
    assert 0 <= found["difference"] <= found["tolerance"]


def test_import_goes_before_and_after_the_command(main_here, monkeypatch):
    monkeypatch.setenv("RANKGRAD_IMPORT", "")
    for words in (("--import", "no.such.module", "list", "models"), ("list", "models", "--import", "no.such.module")):
        code, told = main_here(*words)
        assert code == 2
        assert "--import must name a module that can be imported; got 'no.such.module'" in told
        monkeypatch.setenv("RANKGRAD_IMPORT", "")


def test_only_settings_that_a_message_names_become_options(monkeypatch):
    from rankgrad.cli import option_names

    option = SimpleNamespace(opts=["--holdout"], secondary_opts=[])
    monkeypatch.setattr(option_names, "_options", {"holdout": option})
    plain = "a trial failed\nTraceback (most recent call last):\n    load(self.data, holdout=0.0, **given)"
    assert option_names.as_typed(plain) == plain
    problem = Problem("holdout", name_settings("be 1, or set {holdout=0.5}"), "softmax holdout=2")
    told = option_names.as_typed(BadValue("a", problem))
    assert told == "a\n--holdout must be 1, or set --holdout 0.5; got softmax holdout=2"
    assert option_names.as_typed(UserWarning(name_settings("set {holdout=0}"))) == "set --holdout 0"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("train", "--out", "run"), "(or set rankgrad convert --width to the number of features)"),
        (("convert",), "(or set --width to the number of features)"),
        (("convert", "--width", "0"), "--width must be at least 1; got 0"),
    ],
)
def test_the_hint_about_too_many_features_names_the_option_that_exists(tmp_path, monkeypatch, main_here, command, told):
    monkeypatch.chdir(tmp_path)
    Path("wide.txt").write_text("1 qid:1 4000000:1\n0 qid:1 1:1\n")
    files = ("wide.txt", "cache") if command[0] == "convert" else ("--data", "wide.txt")
    code, said = main_here(*command, *files)
    assert code == 2
    assert told in said


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("relaxed:metric=foo,operator=neural_sort", "rankgrad: metric of relaxed must be a known name; got 'foo'"),
        ("softmax seed=3", "got 'softmax seed=3'"),
    ],
)
def test_what_belongs_to_a_loss_is_not_shown_as_an_option_of_the_command(tmp_path, monkeypatch, main_here, loss, told):
    monkeypatch.chdir(tmp_path)
    code, said = main_here("train", "--data", "synthetic:lists=20", "--out", "run", "--loss", loss)
    assert code == 2
    assert told in said
