"""The forms of a table: for the terminal, Markdown, LaTeX, JSON."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from drawn_results import NDCG, entry, recipe, run, seen

from rankgrad.experiments.tables.table import Table, TableEntry, TableRow, table


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_has_as_many_metrics_side_by_side_as_fit(width):
    names = [f"nDCG(empty='one')@{k}" for k in (1, 3, 5, 10)] + ["AP", "RR", "P@5"]
    made = table(run(recipe(metrics=names)), "MQ2008")
    text = seen(made, width)
    assert max(map(len, text.splitlines())) <= width
    heads = [line for line in text.splitlines() if line.startswith(" loss")]
    assert len(heads) == (4 if width == 80 else 2)
    for name in ("nDCG@1 ", "nDCG@3", "nDCG@5", "nDCG@10", "AP", "RR", "P@5"):
        assert sum(name in head + " " for head in heads) == 1
    for row in made.rows:
        for own in row.entries.values():
            assert f"{own.mean:.4f} ±{own.spread:.4f}{own.mark}" in text


def test_markdown():
    made = table(run(recipe(losses={"Loss_a|b": "lambdaloss"}), skill={"Loss_a|b": 0.1}), "MQ2008")
    lines = made.markdown().splitlines()
    assert lines[0] == "**A study. MQ2008, MLP**"
    assert lines[2] == "| loss | nDCG@10 | RR@10 |"
    assert lines[3] == "| :-- | --: | --: |"
    assert lines[4].startswith(r"| Loss\_a\|b | **0.")
    assert str(made) == made.markdown()


def test_latex_escapes_what_it_must():
    names = tuple(f"m{place}" for place in range(2))
    own = TableEntry(0.5, 1, 1, best=True, mark="†", spread=0.01)
    metrics = ("nDCG@10", "AP")
    rows = tuple(TableRow(name, r"50%_of {a&b} #1 ~ ^ \x $", dict.fromkeys(metrics, own)) for name in names)
    made = Table("A & B", "MQ", metrics, rows, (None,), (0,), {name: {} for name in metrics}, ("5% of <x>",))
    text = made.latex()
    assert r"50\%\_of \{a\&b\} \#1 \textasciitilde{} \textasciicircum{} \textbackslash{}x \$" in text
    assert r"\textbf{0.5000} {\scriptsize$\pm$0.0100}$^{\dagger}$" in text
    assert r"\caption{A \& B. MQ}" in text
    assert r"5\% of \textless{}x\textgreater{}." in text
    body = [line for line in text.splitlines() if re.match(r"(loss|50).*\\\\$", line)]
    assert [len(re.findall(r"(?<!\\)&", line)) for line in body] == [2, 2, 2]
    assert text.count(r"\emph{m") == 2  # each model above its losses


def wide(models=3, losses=14, metrics=8):
    """A table that no page can hold."""
    names = [f"nDCG(empty='{empty}')@{k}" for empty in ("one", "skip") for k in range(1, 1 + metrics // 2)]
    rows = []
    for place in range(models * losses):
        mean = 0.1 + place / 1000
        usual = TableEntry(mean, 1, 1, spread=0.0123, best=place % 2 == 0, mark="†", printed=0.99, gap=-0.1234)
        entries = {name: replace(usual, mean=mean + m / 10) for m, name in enumerate(names)}
        rows.append(
            TableRow(f"Context-Aware Ranker {place // losses}", f"LearnDCG, held out {place % losses}", entries)
        )
    said = {name: {} for name in names}
    return Table("Wide?", "MQ2008", tuple(names), tuple(rows), (None,), (0, 1), said, ("A note",), scale=100, digits=2)


def test_latex_is_cut_into_parts_that_fit_a_page():
    made = wide()
    parts = made.latex().split(r"\begin{table*}")[1:]
    for number, part in enumerate(parts, start=1):
        assert rf"\caption{{Wide? MQ2008, in percent (part {number} of {len(parts)}; " in part
        columns = len(re.search(r"\\begin{tabular}{(l.*)}", part)[1])
        rows = [line for line in part.splitlines() if line.startswith("LearnDCG")]
        assert {line.count("&") + 1 for line in rows} == {columns}
        assert columns <= 1 + 3 * 2  # ours, paper and diff of two metrics
        assert len(rows) <= 30
        assert len(rows) % 14 == 0  # between models
        assert part.count(r"\emph{Context-Aware Ranker") == len(rows) // 14
        assert ("A note." in part) == (number == len(parts))
    for row in made.rows:
        for own in row.entries.values():
            assert sum(part.count(f"{own.mean * 100:.2f}") for part in parts) == 1
    assert sum(part.count(r"$^{\dagger}$") for part in parts) == len(made.rows) * len(made.metrics)
    assert wide(1, 40, 2).latex().count("held out 29") == 1  # a model with too many losses is cut as well
    assert wide(1, 5, 2).latex().count(r"\begin{table*}") == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
@pytest.mark.parametrize("made", [wide(1, 5, 2), wide(), wide(1, 40, 2)], ids=["one", "wide", "long"])
def test_latex_compiles_and_fits(made, tmp_path):
    head = r"\documentclass{article}\usepackage[utf8]{inputenc}\usepackage{booktabs}\begin{document}"
    (tmp_path / "t.tex").write_text(f"{head}\n{made.latex()}\n\\end{{document}}", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
    assert not re.findall("Overfull.*|Float too large.*", (tmp_path / "t.log").read_text(errors="replace"))


def test_the_dictionary_is_json():
    made = table(run(recipe()), "MQ2008")
    own = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert own["rows"][1]["loss"] == "ApproxNDCG"
    found = own["rows"][1]["entries"][NDCG]
    assert found["mean"] == entry(made, "ApproxNDCG").mean
    assert found["interval"] == list(entry(made, "ApproxNDCG").interval)
    assert own["seeds"] == [0, 1, 2]
    assert own["conventions"][NDCG]["empty"] == "one"
