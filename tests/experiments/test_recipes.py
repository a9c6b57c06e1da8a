"""The recipes of the folder: all load, match their published tables, and have the cells that they state."""

from functools import cache

import pytest
import yaml
from paths import ROOT, SHARED, SOURCE
from small_recipe import finish

from rankgrad import experiments
from rankgrad.experiments import parse_recipe
from rankgrad.experiments.recipes import data_sets
from rankgrad.experiments.recipes.shipped import find_recipe, shipped_recipes
from rankgrad.experiments.runs.results import read_results
from rankgrad.experiments.tables import published

RECIPES = sorted((SOURCE / "recipes").glob("*.yaml"))
DATA = SHARED / "data"

NAMES = {
    "learndcg-table1", "learndcg-table2", "lambdaloss-table1", "lambdaloss-table2", "softmax-table1", "smoothi-table1",
    "smoothi-table2", "neuralndcg-table3", "learndcg-figure1", "learndcg-figure2", "lambdaloss-figure1",
}  # fmt: skip


load_recipe = cache(experiments.load_recipe)  # recipes do not change, and take a while to check
every_recipe = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


def test_every_table_and_figure_has_its_recipe():
    assert {path.stem for path in RECIPES} >= NAMES | {"leaderboard"}  # the last is no paper's, but ours
    said = (SOURCE / "recipes" / "README.md").read_text(encoding="utf-8")
    assert all(f"({path.name})" in said for path in RECIPES)


@every_recipe
def test_recipes_load_and_answer_their_table(path):
    made = load_recipe(path)
    assert made.name == path.stem
    assert made.notes
    assert made.answers == (path.stem if "table" in path.stem else None)
    if made.answers is None:
        return
    rows = published.load_published(made.answers).rows
    assert {row.metric for row in rows} == set(made.metrics)
    assert {row.data for row in rows} <= {source.label for source in made.data}
    ours = {row[:2] for source in made.data for row in made.rows(source) if "(ours)" not in row.model}
    theirs = {(row.model, row.loss) for row in rows if row.comparable}
    assert theirs == ours, "labels must be those of the published table"
    left = {name for row in rows if not row.comparable for name in (row.model, row.loss)}
    assert set(made.later) <= left
    assert bool(left) == bool(made.later)


@every_recipe
@pytest.mark.parametrize(("form", "cells", "epochs"), [("quick", 45, 60), ("smoke", 16, 2)])
def test_reduced_forms_are_small(path, form, cells, epochs):
    small = load_recipe(path).reduced(form)
    assert len(small.cells_to_tune()) + small.final_count <= cells
    assert {source.label for source in small.data} <= {
        "MQ2008", "MQ2008-b", "MSLR-sample", "MSLR-sample-b", "cranfield", "vaswani"
    }  # fmt: skip
    for model in small.models.values():
        settings, most = {**small.settings, **model.settings}, 50 * epochs if model.kind.unit == "tree" else epochs
        assert settings[model.kind.length] <= most
        assert not any(source.has_texts for source in small.data) or settings["max_length"] <= 128
    assert parse_recipe(yaml.safe_load(small.dump()), small.name) == small


@every_recipe
def test_a_recipe_comes_to_as_many_cells_as_it_says(path):
    made = load_recipe(path)
    final = made.final_cells(made.chosen(finish(made.cells_to_tune(), made.choose)))
    assert len(final) == made.final_count
    assert len({cell.key for cell in [*final, *made.cells_to_tune()]}) == len(final) + len(made.cells_to_tune())
    assert all(cell.refit == made.refit and cell.metrics == made.metrics for cell in final)


@pytest.mark.parametrize("number", range(1, 6))
def test_the_results_of_a_study_are_whole(number):
    file = ROOT / "studies" / "learndcg-questions" / "results.tar.xz"
    assert file.stat().st_size < 1_000_000
    found = read_results(file, load_recipe(f"learndcg-rq{number}"))
    assert found.final()
    assert not found.missing  # a recipe that changed has cells that nobody ran


def test_a_loss_may_have_its_own_form_of_the_ranker():
    made = load_recipe("neuralndcg-table3")
    found = {(cell.data, cell.loss): cell.settings for cell in made.cells_to_tune()}
    assert found["WEB30K", "NeuralNDCG@5"]["model"] == "neuralndcg-web30k"
    assert found["Istella", "NeuralNDCG-T@max"]["model"] == "neuralndcg-istella"
    assert found["Istella", "NeuralNDCG-T@max"]["batch_size"] == 110
    assert "width=128" in found["Istella", "RMSE"]["model"]


def test_a_data_set_says_what_differs_for_its_trees():
    made = load_recipe("softmax-table1")
    found = {(cell.data, cell.binary, cell.loss): cell.settings for cell in made.final_cells() if cell.model != "MLP"}
    sizes = ("learning_rate", "trees", "patience", "num_leaves", "min_data_in_leaf", "min_sum_hessian_in_leaf")
    said = {key: [settings[name] for name in sizes] for key, settings in found.items()}
    for loss in ("ListNet", "LambdaMART"):
        assert said["WEB30K", False, loss] == said["WEB30K", True, loss] == [0.1, 500, 30, 255, 50, 100]
        assert said["Yahoo", False, loss] == [0.1, 500, 30, 200, 100, 10]
        assert said["Yahoo", True, loss] == [0.1, 500, 30, 200, 100, 400]
    assert found["Yahoo", True, "LambdaMART"]["loss"] == "native:lambdarank"
    assert "preprocess" not in found["Yahoo", True, "LambdaMART"]


def test_the_sample_has_a_validation_part_held_out():
    if not (DATA / "MSLR-sample").is_dir():
        pytest.skip("needs ../shared/data/MSLR-sample")
    made = load_recipe("softmax-table1").reduced("quick")
    assert made.available(DATA) == (["MSLR-sample", "MSLR-sample-b"], {})
    splits = data_sets.read_recipe_data("MSLR-sample", root=DATA)
    assert splits.validation is not None
    assert (len(splits.train), len(splits.validation)) == (35, 8)


def test_a_recipe_has_a_name_and_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ours = SOURCE / "recipes" / "smoothi-table1.yaml"
    assert find_recipe("smoothi-table1") == ours
    assert find_recipe("recipes/smoothi-table1.yaml") == ours  # their place in version 0.1
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "smoothi-table1.yaml").write_text("title: mine")
    assert find_recipe("recipes/smoothi-table1.yaml").read_text() == "title: mine"  # a file is used first
    assert find_recipe("smoothi-table1") == ours
    for wrong in ("smoothi-table", "nowhere/smoothi-table1.yaml", "smoothi-table1.yaml", ""):
        with pytest.raises(ValueError, match="recipe must be a YAML file or a known name"):
            find_recipe(wrong)
    assert set(shipped_recipes()) == {path.stem for path in RECIPES}
