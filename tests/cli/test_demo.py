"""The command line as a newcomer meets it: the demo, the help, the errors."""

import re
import subprocess
import sys


def rankgrad(*arguments):
    code = "from rankgrad.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300)


def test_demo_ends_with_a_table_and_the_path_of_a_report(tmp_path):
    done = rankgrad("demo", "--lists", "60", "--epochs", "2", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    for ranker in ("random order", "MLP, mse", "MLP, softmax", "MLP, lambdaloss", "achievable"):
        assert ranker in done.stdout
    assert done.stdout.splitlines()[-1] == f"report: {tmp_path / 'out' / 'report.html'}"
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<circle") == 7
    assert "://" not in page  # nothing to load: it works offline
    assert "Content-Security-Policy\" content=\"default-src 'none';" in page
    shares = [float(share) for share in re.findall(r"([\d.]+)%</td>", page)]
    assert shares[-1] == 100.0
    assert max(shares) == 100.0  # nobody beats the order that the labels were drawn from, on average
    assert shares[0] == min(shares)


def test_help_names_every_command():
    from rankgrad.cli import COMMANDS

    whole = rankgrad("--help").stdout
    assert all(command in whole for command in COMMANDS)
    assert "rankgrad demo" in rankgrad("demo", "--help").stdout  # that of each is in test_cli_train.py


def test_bad_input_is_one_sentence_not_a_traceback():
    done = rankgrad("inspect", "no-such-folder")
    assert done.returncode == 2
    assert done.stderr.startswith("rankgrad: ")
    assert "Traceback" not in done.stderr


def test_version():
    assert re.fullmatch(r"rankgrad \d+\.\d+\.\d+\n", rankgrad("--version").stdout)
