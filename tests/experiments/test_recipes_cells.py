"""Cells of a recipe: every loss is tuned in the same way, validation chooses, every seed is run."""

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from small_recipe import TREES, finish, recipe, with_trees

from rankgrad.experiments import RecipeError, load_recipe, parse_recipe
from rankgrad.experiments.recipes import data_sets
from rankgrad.experiments.recipes.reader import merge
from rankgrad.models import kind_of
from rankgrad.models.search_space import draws
from rankgrad.tree_frameworks import FRAMEWORKS


def test_every_loss_is_tuned_with_the_same_settings():
    made = parse_recipe(
        recipe(folds=[1, 2], losses={"A": "lambdaloss", "B": {"variants": ["approx_ndcg", "approx_ap"]}})
    )
    drawn: dict[tuple, list] = {}
    for cell in made.cells_to_tune():
        settings = {name: cell.settings[name] for name in ("lr", "batch_size")}
        drawn.setdefault((cell.fold, cell.loss, cell.variant), []).append((cell.trial, settings))
    assert len(drawn) == 6
    first = drawn[1, "A", None]
    assert len({settings["lr"] for _, settings in first}) == 3
    assert all(own == first for own in drawn.values())
    again = parse_recipe(recipe(search_seed=1)).cells_to_tune()
    assert [cell.settings["lr"] for cell in again[:3]] != [settings["lr"] for _, settings in first]


def test_validation_chooses_and_every_seed_is_run():
    made = parse_recipe(recipe())
    tuned = finish(made.cells_to_tune(), "nDCG@10", lambda cell: {0: 0.1, 1: 0.9, 2: 0.4}[cell.trial])
    assert all(done.cell.settings["seed"] == 4 and done.cell.stage == "tune" for done in tuned)
    final = made.final_cells(made.chosen(tuned))
    assert [(cell.loss, cell.trial, cell.settings["seed"]) for cell in final] == [
        ("A", 1, 4), ("A", 1, 5), ("B", 1, 4), ("B", 1, 5)
    ]  # fmt: skip
    assert final[0].settings["lr"] == tuned[1].cell.settings["lr"]
    assert {cell.stage for cell in final} == {"final"}
    # Of a loss whose best setting failed the next one is taken; a loss without any value is left out.
    tuned[1].validation, tuned[0].validation = {"nDCG@10": float("nan")}, {"nDCG@10": None}
    assert [cell.trial for cell in made.final_cells(made.chosen(tuned))] == [2, 2, 1, 1]
    assert {cell.loss for cell in made.final_cells(made.chosen(tuned[3:]))} == {"B"}


def test_a_metric_that_should_be_low_is_minimised():
    made = parse_recipe(recipe(choose="ARP"))
    tuned = finish(made.cells_to_tune(), "ARP", lambda cell: float(cell.trial))
    assert {done.cell.trial for done in made.chosen(tuned)} == {0}


def test_the_best_variant_is_kept():
    made = parse_recipe(
        recipe(search=None, trials=1, losses={"A": "listnet", "B": {"variants": ["approx_ndcg", "approx_ap"]}})
    )
    cells = made.cells_to_tune()
    assert [(cell.loss, cell.variant) for cell in cells] == [("B", "approx_ndcg"), ("B", "approx_ap")]
    final = made.final_cells(made.chosen(finish(cells, "nDCG@10", lambda cell: cell.variant == "approx_ap")))
    assert [(cell.loss, cell.variant, cell.settings["loss"]) for cell in final[::2]] == [
        ("A", None, "listnet"), ("B", "approx_ap", "approx_ap")
    ]  # fmt: skip


def test_a_refit_takes_the_chosen_number_of_epochs():
    made = parse_recipe(recipe(search=None, trials=1, refit="train+validation"))
    assert len(made.cells_to_tune()) == 2
    for cell in made.final_cells(made.chosen(finish(made.cells_to_tune(), "nDCG@10"))):
        assert cell.refit
        assert (cell.settings["epochs"], cell.settings["patience"]) == (7, None)


def test_where_nothing_is_to_choose_nothing_is_tuned():
    made = parse_recipe(recipe(search=None, trials=1))
    assert made.cells_to_tune() == []
    assert len(made.final_cells()) == made.final_count == 4


def test_settings_come_from_the_nearest_place():
    own = {"name": "MQ2007", "settings": {"clip": 2.0, "epochs": 3}, "losses": {"B": "rmse:levels=3"}, "seeds": [9]}
    made = parse_recipe(recipe(
        search=None, trials=1, data=["MQ2008", own], settings={"epochs": 8, "clip": 1.0, "lr": 0.001},
        losses={"A": {"loss": "lambdaloss", "epochs": 2}, "B": "softmax"},
    ))  # fmt: skip
    found = {(cell.data, cell.loss): cell.settings for cell in made.final_cells()}
    shared = {"model": "mlp", "metric": "nDCG@10"}  # lr is the default, and so is not said
    assert found["MQ2008", "A"] == {**shared, "loss": "lambdaloss", "epochs": 2, "clip": 1.0, "seed": 5}
    assert found["MQ2008", "B"] == {**shared, "loss": "softmax", "epochs": 8, "clip": 1.0, "seed": 5}
    assert found["MQ2007", "A"] == {**shared, "loss": "lambdaloss", "epochs": 2, "clip": 2.0, "seed": 9}
    assert found["MQ2007", "B"] == {**shared, "loss": "rmse:levels=3", "epochs": 3, "clip": 2.0, "seed": 9}


def test_trees_have_their_own_losses_settings_and_search():
    made = parse_recipe({**with_trees(), "settings": {"epochs": 5}, "trials": 4})
    found = {(cell.model, cell.loss, cell.trial): cell.settings for cell in made.cells_to_tune()}
    assert {key[:2] for key in found} == {("MLP", "A"), ("MLP", "B"), ("Trees", "Own"), ("Trees", "Native")}
    shared = {"model": "lightgbm", "trees": 9, "num_leaves": 4, "seed": 4, "metric": "nDCG@10"}
    assert found["Trees", "Native", 1] == {
        **shared, "loss": "native:lambdarank", "learning_rate": 0.1, "min_data_in_leaf": 4
    }  # fmt: skip
    drawn = [[found["Trees", loss, trial]["min_data_in_leaf"] for trial in range(4)] for loss in ("Own", "Native")]
    assert drawn == [[2, 4, 2, 4]] * 2
    assert "epochs" in found["MLP", "A", 0]
    assert made.final_count == 2 * 4
    assert parse_recipe(with_trees(search=None)).cells_to_tune()[-1].model == "MLP"  # nothing to choose among the trees


def test_neural_cells_are_the_same_cells_beside_trees():
    plain, beside = parse_recipe(recipe()), parse_recipe(with_trees())
    keys = {cell.key for cell in plain.cells_to_tune()}
    assert keys < {cell.key for cell in beside.cells_to_tune()}


def test_a_refit_of_trees_takes_the_chosen_number_of_trees():
    made = parse_recipe({**with_trees(search=None), "refit": "train+validation"})
    final = made.final_cells(made.chosen(finish(made.cells_to_tune(), "nDCG@10")))
    trees = [cell.settings for cell in final if cell.model == "Trees"]
    assert {(each["trees"], each["patience"]) for each in trees} == {(7, None)}
    assert not any("epochs" in each for each in trees)


def test_trees_may_take_the_losses_of_the_recipe():
    own = {key: value for key, value in TREES.items() if key != "losses"}
    made = parse_recipe(recipe(models={"Trees": own}))
    assert [cell.loss for cell in made.cells_to_tune()] == ["A"] * 3 + ["B"] * 3
    bad = recipe(models={"Trees": own}, losses={"A": {"loss": "lambdaloss", "clip": 1.0}})
    with pytest.raises(
        RecipeError, match=r"models.Trees: losses.A: parameter must be a parameter of lightgbm; got 'clip'"
    ):
        parse_recipe(bad)
    assert list(parse_recipe(recipe(losses=None, models={"Trees": TREES})).losses) == []


def test_frameworks_are_those_of_the_trees():
    assert [kind_of(f"{name.upper()}: num_leaves=3").name for name in FRAMEWORKS] == [*FRAMEWORKS]
    assert kind_of("mlp").name == "neural"


def test_folds_are_those_that_a_set_has():
    data = ["MQ2008", "Yahoo", {"folder": "mine"}, {"folder": "folded", "folds": [2]}, {"name": "MQ2007", "folds": [3]}]
    assert [source.folds for source in parse_recipe(recipe(data=data)).data] == [(1,), (None,), (None,), (2,), (3,)]
    assert parse_recipe(recipe(folds="all")).data[0].folds == (1, 2, 3, 4, 5)


def test_binary_sets_are_sets_of_their_own():
    made = parse_recipe(recipe(data=["Yahoo", {"name": "Yahoo", "binary": True}]))
    assert [source.label for source in made.data] == ["Yahoo", "Yahoo-b"]
    assert {cell.binary for cell in made.only("yahoo-B").cells_to_tune()} == {True}
    splits = data_sets.read_recipe_data("synthetic:lists=20,features=10", binary=True)
    assert set(np.unique(splits.train.labels)) == {0.0, 1.0}


def test_yaml_is_read_as_people_mean_it(tmp_path):
    path = tmp_path / "mine.yaml"
    text = yaml.safe_dump(recipe(search=None, trials=1))
    path.write_text(text + "settings: {lr: 1e-3, weight_decay: 1E-5}\n")
    assert load_recipe(path).settings == {"lr": 0.001, "weight_decay": 1e-5}
    path.write_text(text + "seeds: [1]\n")
    with pytest.raises(RecipeError, match="'seeds' is given twice"):
        load_recipe(path)
    path.write_text("title: [")
    with pytest.raises(RecipeError, match="must be YAML"):
        load_recipe(path)


def test_overrides_are_merged_deeply():
    made = parse_recipe(recipe(
        settings={"epochs": 100, "clip": 1.0}, quick={"settings": {"epochs": 5}, "search": None, "trials": 1},
        smoke={"losses": {"B": None}, "seeds": [0]},
    ))  # fmt: skip
    assert made.reduced("quick").settings == {"epochs": 5, "clip": 1.0}
    assert made.reduced("quick").search == {}
    assert list(made.reduced("smoke").losses) == ["A"]
    assert made.reduced("smoke").settings["epochs"] == 100
    assert merge({"a": {"b": [1, 2]}}, {"a": {"b": [3]}}) == {"a": {"b": [3]}}
    with pytest.raises(ValueError, match="form must be one of"):
        made.reduced("fast")


def test_only_some_of_the_data():
    made = parse_recipe(recipe(data=["MQ2008", "MQ2007", "Yahoo"]))
    assert [source.name for source in made.only("Yahoo", "mq2008").data] == ["MQ2008", "Yahoo"]
    with pytest.raises(ValueError, match="only must be one of 'MQ2008', 'MQ2007', 'Yahoo'; got 'MQ2009'"):
        made.only("MQ2009")


@given(trials=st.integers(1, 12), seed=st.integers(0, 9))
def test_draws_are_as_many_as_asked_distinct_and_inside(trials, seed):
    grid = draws({"a": [1, 2, 3], "b": ["x", "y"]}, trials, seed)
    assert len(grid) == min(trials, 6) == len({tuple(setting.items()) for setting in grid})
    ranges = {"lr": {"low": 1.23456e-6, "high": 1.23457e-6, "log": True}, "n": {"low": 2, "high": 4}, "c": [5]}
    drawn = draws(ranges, trials, seed)
    assert len(drawn) == trials
    assert all(1.23456e-6 <= setting["lr"] <= 1.23457e-6 and setting["n"] in (2, 3, 4) for setting in drawn)
    assert drawn == draws(ranges, trials, seed)
    assert draws({}, trials, seed) == [{}]


def test_sets_that_are_not_there_are_named_with_their_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = parse_recipe(recipe(data=["MQ2008", "MQ2007", {"folder": "mine"}, {"folder": "gone"}, "synthetic:lists=20"]))
    for part in range(1, 6):
        (tmp_path / "MQ2008").mkdir(exist_ok=True)
        (tmp_path / "MQ2008" / f"S{part}.txt").write_text("")
    (tmp_path / "mine").mkdir()
    for name in ("train", "test"):
        (tmp_path / "mine" / f"{name}.txt").write_text("")
    present, absent = made.available(tmp_path)
    assert present == ["MQ2008", "mine", "synthetic:lists=20"]
    assert "MQ2007/Fold1/train.txt" in absent["MQ2007"]
    assert str(tmp_path) in absent["MQ2007"]
    assert "gone must contain train.txt and test.txt" in absent["gone"]
    assert made.only(*present).final_count == 12
    (tmp_path / "mine" / "test.txt").unlink()  # a recipe needs test lists
    assert "mine must contain train.txt and test.txt" in made.available(tmp_path)[1]["mine"]
