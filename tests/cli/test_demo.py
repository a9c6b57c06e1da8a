"""The command line as a newcomer meets it: the demo, the help, the errors."""

import json
import re

from programs import finished as rankgrad


def test_demo_ends_with_a_table_and_the_path_of_a_report(tmp_path):
    done = rankgrad("demo", "--lists", "60", "--epochs", "2", "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["ranker"] for row in rows][-1] == "achievable"
    assert rows[-1]["share of achievable"] == 1.0
    assert " to " in rows[0]["95% interval"]
    assert rows[0]["seconds"] is None
    done.stdout = done.stderr  # with --json, everything else is printed there
    for ranker in ("random order", "MLP, mse", "MLP, softmax", "MLP, lambdaloss", "achievable"):
        assert ranker in done.stdout
    assert done.stdout.splitlines()[-1] == f"report: {tmp_path / 'out' / 'report.html'}"
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<section class="study"' in page  # the page maker of all reports
    assert "Content-Security-Policy\" content=\"default-src 'none';" in page
    shares = [float(share) for share in re.findall(r"([\d.]+)%</td>", page)]
    assert shares[-1] == 100.0
    assert max(shares) == 100.0  # nobody beats the order that the labels were drawn from, on average
    assert shares[0] == min(shares)
    # One convention of nDCG for everything, and sentences instead of Python objects.
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])["s0"]
    assert data["rows"]["overview"]["metric"]["of"] == ["nDCG@10"]
    assert "empty skip" in page
    assert "empty zero" not in page
    assert "Dataset(" not in page + done.stdout
    assert "60 lists with 1,836 documents (train)" in page
    assert [*data["rows"]] == ["overview", "curves"]
    assert data["rows"]["curves"]["loss"]["of"] == ["MLP, mse", "MLP, softmax", "MLP, lambdaloss"]


def test_the_seconds_of_the_demo_exclude_compiling(monkeypatch):
    from rankgrad.cli import demo
    from rankgrad.data import synthetic

    trained = []
    whole = demo._train

    def train(data, loss, epochs, seed):
        trained.append((loss, epochs))
        return whole(data, loss, epochs, seed)

    monkeypatch.setattr(demo, "_train", train)
    list(demo._rankers(synthetic(30), 2, 0))
    # One epoch before the clock starts, with the same kernels.
    assert trained == [(loss, epochs) for loss in demo.LOSSES for epochs in (1, 2)]


def test_help_names_every_command():
    from rankgrad.cli import COMMANDS, PANELS

    whole = rankgrad("--help").stdout
    assert all(name in whole for name in (*COMMANDS, *PANELS))
    assert "rankgrad demo" in rankgrad("demo", "--help").stdout  # that of each is in test_cli_train.py


def test_bad_input_is_one_sentence_not_a_traceback():
    done = rankgrad("inspect", "no-such-folder")
    assert done.returncode == 2
    assert done.stderr.startswith("rankgrad: ")
    assert "Traceback" not in done.stderr


def test_version():
    assert re.fullmatch(r"rankgrad \d+\.\d+\.\d+\n", rankgrad("--version").stdout)
