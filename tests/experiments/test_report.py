"""The report: its page, tables and figures hold the numbers of the results."""

import base64
import json
import re
import shutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hostile_study import Hostile, faults
from made_results import DATA, LOSSES, METRICS, MODELS, make
from programs import invoke

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from rankgrad.experiments import parse_recipe
from rankgrad.experiments.recipes.data_sets import read_recipe_data
from rankgrad.experiments.report import chart_data, writer
from rankgrad.experiments.report.query_explorer import FIRST, SKIPPED, _coded, explorer, query_values, ranked_lists
from rankgrad.experiments.runs import results
from rankgrad.experiments.runs.cell import Cell
from rankgrad.experiments.statistics import bootstrap
from rankgrad.experiments.tables.table import tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("results") / "made", title="Losses & </script> <b>friends</b>")


@pytest.fixture(scope="module")
def found(folder):
    return results.read_results(folder)


@pytest.fixture(scope="module")
def studies(folder):
    return writer.gather(folder)


@pytest.fixture(scope="module")
def page(studies, tmp_path_factory):
    return writer.write_page(studies, tmp_path_factory.mktemp("page") / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data(page):
    """Data that the page's program reads."""
    return json.loads(re.search(r'<script type="application/json" id="page-data">(.*?)</script>', page, re.DOTALL)[1])


def test_a_page_is_one_file_that_asks_for_nothing(page):
    assert len(page.encode()) < 1_500_000
    own = page[: page.index("<script>")] + page[page.rindex("<script>") :]  # less the charts' library
    assert not re.findall(r"https?://(?!vega\.github\.io/schema/)[^\s\"']*", own)
    assert re.findall(r'(?:src|href)="([^"]*)"', own) == ["data:,"]


def test_texts_of_a_recipe_are_texts_on_the_page(page):
    assert "<b>friends" not in page
    assert page.count("</script>") == page.count("<script")


def test_labels_cannot_end_the_program(studies):
    rows = {**studies[0].rows, "curves": [{**row, "loss": "</script><i>"} for row in studies[0].rows["curves"]]}
    page = writer.page([replace(studies[0], rows=rows)])
    assert page.count("</script>") == page.count("<script")
    assert "<i>" not in page.partition('id="page-data"')[2].partition("</script>")[0]


def test_hostile_texts_of_a_study_stay_texts(studies):
    for seed in range(12):
        assert faults(writer.page([Hostile(np.random.default_rng(seed)).study(studies[0])])) == []


def test_a_hostile_name_in_a_packed_study_stays_a_name(folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "own")
    name = '"><img src=x onerror="window.pwned=1">'
    for path in (own / "cells").glob("*.json"):
        path.write_text(path.read_text().replace('"alpha"', json.dumps(name)))
    results.pack(own, tmp_path / "own.tar.xz")
    page = writer.page(writer.gather(tmp_path / "own.tar.xz", lists=False))
    assert "img src=x" in page
    assert faults(page) == []


def test_the_policy_of_a_page_lets_only_its_own_scripts_run(page):
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)[1]
    said = dict(each.split(" ", 1) for each in policy.split("; "))
    assert said.keys() == {"default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"}
    assert said["default-src"] == said["base-uri"] == said["form-action"] == "'none'"
    assert re.fullmatch(r"'sha256-\S+' 'sha256-\S+'", said["script-src"])
    assert "unsafe" not in policy


def test_a_page_shows_every_number_of_the_tables(page, studies):
    tables = studies[0].tables
    assert [table.data for table in tables] == list(DATA)
    for table in tables:
        assert all(note.replace("'", "&#x27;") in page for note in table.notes if "<" not in note)
        for row in table.rows:
            for entry in row.entries.values():
                assert f'data-value="{entry.mean!r}"' in page
                assert f"{entry.mean:.4f}<small> ±{entry.spread:.4f}</small>" in page
    marks = sum(bool(e.mark) for table in tables for row in table.rows for e in row.entries.values())
    assert page.count("<sup>†</sup>") == marks > 0


def test_what_a_page_carries_of_queries_is_what_the_runs_kept(data, found):
    for name in DATA:
        own = data["s0"]["explorers"][name]
        assert [(s["model"], s["loss"]) for s in own["systems"]] == [(m, l) for m in MODELS for l in LOSSES]
        test = read_recipe_data(name).test
        assert own["queries"] == test.qids.astype(str).tolist()
        for place, system in enumerate(own["systems"]):
            runs = [run for run in found.final() if run.cell.data == name and matches(run, system)]
            for metric, coded in zip(METRICS, own["values"], strict=True):
                mean = np.mean([run.values(metric) for run in runs], axis=0)
                codes = np.frombuffer(base64.b64decode(coded["codes"][place]), "<u2")
                np.testing.assert_allclose(coded["low"] + coded["step"] * codes, mean, atol=1e-4)
            top = np.frombuffer(base64.b64decode(own["lists"]["top"][place]), "u1").reshape(-1, FIRST)
            first = next(run for run in runs if run.cell.settings["seed"] == 0)
            for query, (start, end) in enumerate(zip(test.offsets[:-1], test.offsets[1:], strict=True)):
                best = np.argsort(-first.scores[start:end])[:FIRST]
                assert top[query, : len(best)].tolist() == best.tolist()
                assert own["lists"]["labels"][query] == test.labels[start:end].tolist()


def matches(run, system):
    return (run.cell.model, run.cell.loss) == (system["model"], system["loss"])


def test_a_value_that_is_skipped_stays_skipped():
    coded = _coded(np.array([[0.25, np.nan, 1.0]]))
    codes = np.frombuffer(base64.b64decode(coded["codes"][0]), "<u2")
    assert codes[1] == SKIPPED
    np.testing.assert_allclose(coded["low"] + coded["step"] * codes[[0, 2]], [0.25, 1.0])


def test_a_page_keeps_the_queries_that_differ_most(found):
    table = tables(found)[0]
    queries = query_values(table, found.final())
    whole = explorer(queries, None)
    part = explorer(queries, None, limit=5 * len(table.rows) * 2 * 8 // 3 + 9)
    assert (len(whole["queries"]), len(part["queries"]), part["all"]) == (13, 5, 13)
    values = np.stack([np.frombuffer(base64.b64decode(text), "<u2") for text in whole["values"][0]["codes"]])
    apart = dict(zip(whole["queries"], np.ptp(values, axis=0), strict=True))
    assert min(apart[query] for query in part["queries"]) >= sorted(apart.values())[-5]


def test_a_page_says_why_there_are_no_lists(folder, found, tmp_path):
    results.pack(folder, tmp_path / "made.tar.xz")
    (packed,) = writer.gather(tmp_path)
    assert packed.name == "made"
    assert all(own["lists"] is None and "Packed" in own["why"] for own in packed.explorers.values())
    table = tables(found)[0]
    (without,) = writer.gather(folder, lists=False)
    assert {own["why"] for own in without.explorers.values()} == {"The page was written without lists."}
    moved = [other_data(run, "MQ2008") for run in found.final()]
    named = SimpleNamespace(**{**vars(table), "data": "MQ2008", "short": table.short})
    assert "was not found" in ranked_lists(named, moved, tmp_path)[1]
    # Fewer lists than the runs were tested on: another set under the same name.
    moved = [other_data(run, "synthetic:lists=30,features=10") for run in found.final() if run.cell.data == DATA[0]]
    named.data = "synthetic:lists=30,features=10"
    assert "differs from the data used to test" in ranked_lists(named, moved)[1]


def other_data(run, name):
    cell = replace(run.cell, data=name, fold=1 if name == "MQ2008" else None)
    return SimpleNamespace(cell=cell, queries=run.queries, values=run.values, scores=run.scores)


def run_of(values, learned=None, *, fold=1, variant=None, lr=0.1, trial=0, seconds=1.0):
    """A run with this history."""
    cell = Cell("D", False, fold, "M", "L", variant, {"lr": lr}, ("nDCG@10",), "final", False, trial)
    history = [
        {"epoch": epoch, "nDCG@10": value, "seconds": seconds, **({"alpha": learned * epoch} if learned else {})}
        for epoch, value in enumerate(values, 1)
    ]
    validation = {"nDCG@10": max(values)}
    return SimpleNamespace(cell=cell, history=history, validation=validation, learned={"alpha": 0} if learned else {})


def test_a_learning_curve_keeps_the_best_of_runs_that_stopped():
    rows = chart_data.curve_rows([run_of([0.1, 0.3, 0.2, 0.4]), run_of([0.2, 0.1]), run_of([np.nan])])
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    np.testing.assert_allclose([row["best"] for row in rows], [0.15, 0.25, 0.25, 0.3])
    np.testing.assert_allclose([row["own"] for row in rows], [0.15, 0.2, 0.2, 0.4])
    assert [row["runs"] for row in rows] == [2, 2, 1, 1]


def test_long_curves_are_thinned_but_keep_their_ends():
    rows = chart_data.curve_rows([run_of(np.linspace(0, 1, 1001).tolist())])
    assert len(rows) <= 121
    assert (rows[0]["epoch"], rows[-1]["epoch"], rows[-1]["best"]) == (1, 1001, 1)


def test_learned_parameters_have_a_row_for_each_run_and_epoch():
    rows = chart_data.learned_rows([run_of([0, 0], 0.5), run_of([0], 2.0, fold=2), run_of([0, 0])])
    assert [(row["fold"], row["epoch"], row["value"]) for row in rows] == [("1", 1, 0.5), ("1", 2, 1.0), ("2", 1, 2.0)]


def test_sensitivity_takes_the_best_variant_then_the_mean_over_folds():
    runs = [
        run_of([0.5], variant="x"), run_of([0.7], variant="y"), run_of([0.1], fold=2), run_of([0.3], lr=0.01, trial=1),
    ]  # fmt: skip
    rows = chart_data.sensitivity_rows(runs)
    assert [(row["lr"], row["runs"]) for row in rows] == [(0.01, 1), (0.1, 2)]
    np.testing.assert_allclose([(row["value"], row["low"], row["high"]) for row in rows], [[0.3] * 3, [0.4, 0.1, 0.7]])
    assert chart_data.sensitivity_rows(runs[:3]) == []  # one rate shows no sensitivity


def test_cost_is_the_seconds_of_training_and_the_tables_number(found, studies):
    rows = chart_data.cost_rows(found.final(), studies[0].tables)
    assert len(rows) == len(DATA) * len(MODELS) * len(LOSSES) * len(METRICS)
    entry = studies[0].tables[1].rows[2].entries[METRICS[1]]
    row = next(
        r for r in rows if (r["data"], r["model"], r["loss"], r["metric"]) == (DATA[1], "MLP", "Softmax", "nDCG@5")
    )
    runs = [r for r in found.final() if (r.cell.data, r.cell.model, r.cell.loss) == (DATA[1], "MLP", "Softmax")]
    assert (row["value"], row["high"]) == (entry.mean, entry.mean + entry.spread)
    assert row["seconds"] == pytest.approx(np.mean([0.2 * len(run.history) for run in runs]))
    assert {row["name"] or row["name_left"] for row in rows} - {""} == {*LOSSES}


def test_names_of_points_do_not_lie_on_each_other():
    rows = [{"seconds": seconds, "value": value, "loss": "Loss"} for seconds, value in ((1, 0), (1.01, 0), (9, 1))]
    chart_data._name(rows)
    assert [row["name"] for row in rows] == ["Loss", "", ""]
    assert [row["name_left"] for row in rows] == ["", "", "Loss"]  # to its right there is no space


def test_tables_and_figures_are_written(studies, tmp_path):
    written = writer.write_tables(studies, tmp_path / "tables")
    assert [path.name for path in written] == ["made.md", "made.tex"]
    assert written[0].read_text().count("| MLP | LambdaLoss |") == len(DATA)
    assert written[1].read_text().count(r"\toprule") == len(DATA)
    one = replace(studies[0], models=studies[0].models[:1], tables=studies[0].tables[:1])
    written = writer.write_figures([one], tmp_path / "figures")
    charts = {
        "overview",
        "curves",
        "learned-gain_base",
        "learned-discount_base",
        "learned-alpha",
        "cost",
        "sensitivity",
    }
    assert {path.name.split("-synthetic")[0] for path in written} == {f"made-{chart}" for chart in charts}
    for path in written:
        content = path.read_bytes()
        assert content.startswith(b"<svg" if path.suffix == ".svg" else b"\x89PNG")
    curves = next(path for path in written if "curves" in path.name and path.suffix == ".svg").read_text()
    assert all(f">{loss}</text>" in curves for loss in LOSSES)
    assert curves.count('aria-roledescription="line mark"') == len(LOSSES)


def test_a_study_that_is_not_whole_says_so(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "part")
    final = next(run for run in results.read_results(tmp_path / "part").final() if run.cell.data == DATA[0])
    (tmp_path / "part" / "cells" / f"{final.cell.key}.json").unlink()
    (part,) = writer.gather(tmp_path / "part")
    assert "1 runs of the recipe are missing" in part.warnings[0]
    assert "(1/2)" in writer.page([part])


run_verb = partial(invoke, "report")


def test_the_verb_writes_a_page_of_several_studies(folder, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(folder, tmp_path / "all" / name)
    done = run_verb(tmp_path / "all", "--out", tmp_path / "page.html", "--tables", tmp_path / "t", "--no-lists")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["one.md", "one.tex", "two.md", "two.tex"]
    page = (tmp_path / "page.html").read_text()
    assert 'href="#s1"' in page
    assert "<h1>Results</h1>" in page
    assert page.count('<section class="study"') == 2


def test_a_folder_without_results_is_an_error(tmp_path):
    done = run_verb(tmp_path)
    assert isinstance(done.exception, ValueError)
    assert str(done.exception) == (
        "results must be the folder of an experiment, the folder of a run (train, tune, auto), a folder with several "
        f"of these, or a packed file (.tar.xz); got {tmp_path}"
    )


@pytest.mark.parametrize("form", ["quick", "smoke"])
def test_the_page_of_a_reduced_recipe_is_labelled(folder, found, tmp_path, form):
    own = shutil.copytree(folder, tmp_path / "own")
    reduced = parse_recipe({**found.recipe.raw, form: {"notes": "Reduced."}}).reduced(form)
    (own / "recipe.yaml").write_text(reduced.dump())
    done = run_verb(own, "--out", tmp_path / "page.html", "--no-lists")
    label = f"{form.capitalize()} run (--{form}): a short test of the recipe, not a result."
    assert label in " ".join(done.output.split())
    page = (tmp_path / "page.html").read_text()
    assert f'<p class="warning">{label}' in page
    assert "<sup>" not in page
    assert "significantly" not in page
    assert "has the best" not in page


def test_a_page_opens_with_what_came_out_and_ends_with_provenance(page, studies):
    body = page[page.index("<main>") :]
    places = [
        body.index(text) for text in ('class="lead"', 'data-chart="overview"', 'class="results"', 'class="charts"')
    ]
    places += [body.index(text) for text in ('class="explorer"', "How these numbers were computed", "Commit: 0123abc")]
    assert places == sorted(places)
    table = studies[0].tables[0]
    best = max(table.rows, key=lambda row: row.entries[METRICS[0]].mean)
    assert f"{best.loss}, {best.model} has the best nDCG@10 of 8 rows: {best.entries[METRICS[0]].mean:.4f}" in body


def test_the_overview_has_the_tables_numbers_with_bootstrap_intervals(found, studies):
    rows = [row for row in studies[0].rows["overview"] if (row["data"], row["metric"]) == (DATA[0], "nDCG@10")]
    means = [row["value"] for row in sorted(rows, key=lambda row: row["place"])]
    assert means == sorted((row.entries[METRICS[0]].mean for row in studies[0].tables[0].rows), reverse=True)
    one = next(row for row in rows if row["row"] == "MSE, MLP")
    runs = [run for run in found.final() if (run.cell.data, run.cell.loss, run.cell.model) == (DATA[0], "MSE", "MLP")]
    values = np.mean([run.values(METRICS[0]) for run in runs], axis=0)
    assert (one["low"], one["high"]) == bootstrap(values, rounds=1000)
    assert one["low"] < one["value"] < one["high"]


def test_captions_name_a_spread_only_if_there_is_one(folder, studies, found, tmp_path):
    caption = next(panel.caption for panel in studies[0].panels() if panel.chart == "cost")
    assert caption.endswith("Bars show the standard deviation over seeds, as ± in the table.")
    (one,) = writer.gather(folder, recipes=[parse_recipe({**found.recipe.raw, "seeds": [0]}, "one")], lists=False)
    panel = next(panel for panel in one.panels() if panel.chart == "cost")
    assert "±" not in panel.caption
    assert "spread" not in json.dumps(panel.draw(one.choice()).to_dict())


def test_recipes_that_share_cells_share_a_folder(folder, found):
    raw = found.recipe.raw
    some = {loss: raw["losses"][loss] for loss in list(LOSSES)[:2]}
    part = parse_recipe({**raw, "losses": some}, "part")
    whole, small = writer.gather(folder, recipes=[found.recipe, part], lists=False)
    assert small.name == "part"
    assert (len(whole.losses), len(small.losses)) == (len(LOSSES), 2)
    shown = {(row.model, row.loss): row for row in whole.tables[0].rows}
    for row in small.tables[0].rows:
        assert row.entries[METRICS[0]].mean == shown[row.model, row.loss].entries[METRICS[0]].mean
