"""Recipes: all load and come to the cells they should, bad ones are refused; printed numbers are the papers'."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rankgrad.experiments import Cell, RecipeError, load, parse, printed, sets, trees
from rankgrad.experiments.reading import merge
from rankgrad.experiments.results import read
from rankgrad.experiments.space import draws
from rankgrad.trees.objective import FRAMEWORKS

HERE = Path(__file__).parent.parent
RECIPES = sorted((HERE / "recipes").glob("*.yaml"))
SHARED = HERE.parent / "shared" / "data"
NAMES = {
    "learndcg-table1", "learndcg-table2", "lambdaloss-table1", "lambdaloss-table2", "softmax-table1", "smoothi-table1",
    "neuralndcg-table3", "learndcg-figure1", "learndcg-figure2", "lambdaloss-figure1",
}  # fmt: skip
every_recipe = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


@dataclass
class Done:
    cell: Cell
    validation: dict[str, float | None]
    epoch: int = 7


def recipe(**changes):
    small = {
        "title": "Small",
        "data": ["MQ2008"],
        "folds": [1],
        "models": {"MLP": {"model": "mlp"}},
        "losses": {"A": "lambdaloss", "B": "softmax"},
        "search": {"lr": {"low": 1e-4, "high": 1e-1, "log": True}, "batch_size": [16, 32]},
        "trials": 3,
        "seeds": [4, 5],
        "metrics": ["ndcg@5"],
    }
    return {key: value for key, value in {**small, **changes}.items() if value is not None}


def finish(cells, metric, value=lambda cell: 0.5):
    return [Done(cell, {metric: value(cell)}) for cell in cells]


def test_every_table_and_figure_has_its_recipe():
    assert {path.stem for path in RECIPES} >= NAMES | {"mq2008-study"}  # the last is no paper's, but ours
    said = (HERE / "recipes" / "README.md").read_text(encoding="utf-8")
    assert all(f"({path.name})" in said for path in RECIPES)


@every_recipe
def test_recipes_load_and_answer_their_table(path):
    made = load(path)
    assert made.name == path.stem
    assert made.notes
    assert made.answers == (path.stem if "table" in path.stem else None)
    if made.answers is None:
        return
    rows = printed.load(made.answers).rows
    assert {row.metric for row in rows} == set(made.metrics)
    assert {row.data for row in rows} <= {source.label for source in made.data}
    ours = {row[:2] for source in made.data for row in made.rows(source) if "(ours)" not in row.model}
    theirs = {(row.model, row.loss) for row in rows if row.comparable}
    assert theirs == ours, "labels must be those of the printed table"
    left = {name for row in rows if not row.comparable for name in (row.model, row.loss)}
    assert set(made.later) <= left
    assert bool(left) == bool(made.later)


@every_recipe
@pytest.mark.parametrize(("form", "cells", "epochs"), [("quick", 45, 60), ("smoke", 16, 2)])
def test_reduced_forms_are_small(path, form, cells, epochs):
    small = load(path).reduced(form)
    assert len(small.cells_to_tune()) + small.final_count <= cells
    assert {source.name for source in small.data} <= {"MQ2008", "MSLR-sample"}
    assert small.settings["epochs"] <= epochs
    assert all(model.settings["trees"] <= 50 * epochs for model in small.models.values() if model.trees)
    assert parse(yaml.safe_load(small.dump()), small.name) == small


@every_recipe
def test_a_recipe_comes_to_as_many_cells_as_it_says(path):
    made = load(path)
    final = made.final_cells(made.chosen(finish(made.cells_to_tune(), made.choose)))
    assert len(final) == made.final_count
    assert len({cell.key for cell in [*final, *made.cells_to_tune()]}) == len(final) + len(made.cells_to_tune())
    assert all(cell.refit == made.refit and cell.metrics == made.metrics for cell in final)


def test_every_loss_is_tuned_with_the_same_settings():
    made = parse(recipe(folds=[1, 2], losses={"A": "lambdaloss", "B": {"variants": ["approx_ndcg", "approx_ap"]}}))
    drawn: dict[tuple, list] = {}
    for cell in made.cells_to_tune():
        settings = {name: cell.settings[name] for name in ("lr", "batch_size")}
        drawn.setdefault((cell.fold, cell.loss, cell.variant), []).append((cell.trial, settings))
    assert len(drawn) == 6
    first = drawn[1, "A", None]
    assert len({settings["lr"] for _, settings in first}) == 3
    assert all(own == first for own in drawn.values())
    again = parse(recipe(search_seed=1)).cells_to_tune()
    assert [cell.settings["lr"] for cell in again[:3]] != [settings["lr"] for _, settings in first]


def test_validation_chooses_and_every_seed_is_run():
    made = parse(recipe())
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
    made = parse(recipe(choose="ARP"))
    tuned = finish(made.cells_to_tune(), "ARP", lambda cell: float(cell.trial))
    assert {done.cell.trial for done in made.chosen(tuned)} == {0}


def test_the_best_variant_is_kept():
    made = parse(
        recipe(search=None, trials=1, losses={"A": "listnet", "B": {"variants": ["approx_ndcg", "approx_ap"]}})
    )
    cells = made.cells_to_tune()
    assert [(cell.loss, cell.variant) for cell in cells] == [("B", "approx_ndcg"), ("B", "approx_ap")]
    final = made.final_cells(made.chosen(finish(cells, "nDCG@10", lambda cell: cell.variant == "approx_ap")))
    assert [(cell.loss, cell.variant, cell.settings["loss"]) for cell in final[::2]] == [
        ("A", None, "listnet"), ("B", "approx_ap", "approx_ap")
    ]  # fmt: skip


def test_a_refit_takes_the_chosen_number_of_epochs():
    made = parse(recipe(search=None, trials=1, refit="train+validation"))
    assert len(made.cells_to_tune()) == 2
    for cell in made.final_cells(made.chosen(finish(made.cells_to_tune(), "nDCG@10"))):
        assert cell.refit
        assert (cell.settings["epochs"], cell.settings["patience"]) == (7, None)


def test_where_nothing_is_to_choose_nothing_is_tuned():
    made = parse(recipe(search=None, trials=1))
    assert made.cells_to_tune() == []
    assert len(made.final_cells()) == made.final_count == 4


def test_settings_come_from_the_nearest_place():
    own = {"name": "MQ2007", "settings": {"clip": 2.0, "epochs": 3}, "losses": {"B": "rmse:levels=3"}, "seeds": [9]}
    made = parse(recipe(
        search=None, trials=1, data=["MQ2008", own], settings={"epochs": 8, "clip": 1.0, "lr": 0.001},
        losses={"A": {"loss": "lambdaloss", "epochs": 2}, "B": "softmax"},
    ))  # fmt: skip
    found = {(cell.data, cell.loss): cell.settings for cell in made.final_cells()}
    shared = {"model": "mlp", "metric": "nDCG@10"}  # lr is the default, and so is not said
    assert found["MQ2008", "A"] == {**shared, "loss": "lambdaloss", "epochs": 2, "clip": 1.0, "seed": 5}
    assert found["MQ2008", "B"] == {**shared, "loss": "softmax", "epochs": 8, "clip": 1.0, "seed": 5}
    assert found["MQ2007", "A"] == {**shared, "loss": "lambdaloss", "epochs": 2, "clip": 2.0, "seed": 9}
    assert found["MQ2007", "B"] == {**shared, "loss": "rmse:levels=3", "epochs": 3, "clip": 2.0, "seed": 9}


def test_a_loss_may_have_its_own_form_of_the_ranker():
    made = load(HERE / "recipes" / "neuralndcg-table3.yaml")
    found = {(cell.data, cell.loss): cell.settings for cell in made.cells_to_tune()}
    assert found["WEB30K", "NeuralNDCG@5"]["model"] == "neuralndcg-web30k"
    assert found["Istella", "NeuralNDCG-T@max"]["model"] == "neuralndcg-istella"
    assert found["Istella", "NeuralNDCG-T@max"]["batch_size"] == 110
    assert "width=128" in found["Istella", "RMSE"]["model"]


TREES = {
    "model": "lightgbm",
    "trees": 9,
    "num_leaves": 4,
    "losses": {"Own": "softmax", "Native": "native:lambdarank"},
    "search": {"learning_rate": [0.1, 0.2], "min_data_in_leaf": [2, 4]},
}


def with_trees(**changes):
    return recipe(models={"MLP": {"model": "mlp"}, "Trees": {**TREES, **changes}})


def test_trees_have_their_own_losses_settings_and_search():
    made = parse({**with_trees(), "settings": {"epochs": 5}, "trials": 4})
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
    assert parse(with_trees(search=None)).cells_to_tune()[-1].model == "MLP"  # nothing to choose among the trees


def test_neural_cells_are_the_same_cells_beside_trees():
    plain, beside = parse(recipe()), parse(with_trees())
    keys = {cell.key for cell in plain.cells_to_tune()}
    assert keys < {cell.key for cell in beside.cells_to_tune()}


STUDIES = {"mq2008-study": ["mq2008-study"], "learndcg": [f"learndcg-rq{number}" for number in range(1, 6)]}


@pytest.mark.parametrize(("packed", "name"), [(packed, name) for packed in STUDIES for name in STUDIES[packed]])
def test_the_studies_in_the_docs_are_whole(packed, name):
    found = read(HERE / "docs" / "studies" / f"{packed}.tar.xz", load(HERE / "recipes" / f"{name}.yaml"))
    assert found.final()
    assert not found.missing  # a recipe that changed has cells that nobody ran


def test_a_data_set_says_what_differs_for_its_trees():
    made = load(HERE / "recipes" / "softmax-table1.yaml")
    found = {(cell.data, cell.binary, cell.loss): cell.settings for cell in made.final_cells() if cell.model != "MLP"}
    sizes = ("learning_rate", "trees", "patience", "num_leaves", "min_data_in_leaf", "min_sum_hessian_in_leaf")
    said = {key: [settings[name] for name in sizes] for key, settings in found.items()}
    for loss in ("ListNet", "LambdaMART"):
        assert said["WEB30K", False, loss] == said["WEB30K", True, loss] == [0.1, 500, 30, 255, 50, 100]
        assert said["Yahoo", False, loss] == [0.1, 500, 30, 200, 100, 10]
        assert said["Yahoo", True, loss] == [0.1, 500, 30, 200, 100, 400]
    assert found["Yahoo", True, "LambdaMART"]["loss"] == "native:lambdarank"
    assert "preprocess" not in found["Yahoo", True, "LambdaMART"]


def test_a_refit_of_trees_takes_the_chosen_number_of_trees():
    made = parse({**with_trees(search=None), "refit": "train+validation"})
    final = made.final_cells(made.chosen(finish(made.cells_to_tune(), "nDCG@10")))
    trees = [cell.settings for cell in final if cell.model == "Trees"]
    assert {(each["trees"], each["patience"]) for each in trees} == {(7, None)}
    assert not any("epochs" in each for each in trees)


def test_trees_may_take_the_losses_of_the_recipe():
    own = {key: value for key, value in TREES.items() if key != "losses"}
    made = parse(recipe(models={"Trees": own}))
    assert [cell.loss for cell in made.cells_to_tune()] == ["A"] * 3 + ["B"] * 3
    bad = recipe(models={"Trees": own}, losses={"A": {"loss": "lambdaloss", "clip": 1.0}})
    with pytest.raises(
        RecipeError, match=r"models.Trees: losses.A: parameter must be one that lightgbm has; got 'clip'"
    ):
        parse(bad)
    assert list(parse(recipe(losses=None, models={"Trees": TREES})).losses) == []


def test_frameworks_are_those_of_the_trees():
    assert trees.FRAMEWORKS == FRAMEWORKS
    assert trees.is_tree("LightGBM: num_leaves=3")
    assert not trees.is_tree("mlp")


def test_folds_are_those_that_a_set_has():
    data = ["MQ2008", "Yahoo", {"folder": "mine"}, {"folder": "folded", "folds": [2]}, {"name": "MQ2007", "folds": [3]}]
    assert [source.folds for source in parse(recipe(data=data)).data] == [(1,), (None,), (None,), (2,), (3,)]
    assert parse(recipe(folds="all")).data[0].folds == (1, 2, 3, 4, 5)


def test_binary_sets_are_sets_of_their_own():
    made = parse(recipe(data=["Yahoo", {"name": "Yahoo", "binary": True}]))
    assert [source.label for source in made.data] == ["Yahoo", "Yahoo-b"]
    assert {cell.binary for cell in made.only("yahoo-B").cells_to_tune()} == {True}
    splits = sets.read("synthetic:lists=20,features=10", binary=True)
    assert set(np.unique(splits.train.labels)) == {0.0, 1.0}


BAD = {
    "titel": (recipe(titel="x"), "recipe: key must be a known one; got 'titel'; did you mean 'title'?"),
    "setting": (
        recipe(settings={"epoch": 5}),
        "settings: key must be a known one; got 'epoch'; did you mean 'epochs'?",
    ),
    "value": (recipe(settings={"epochs": 0}), "settings: epochs must be at least 1; got 0"),
    "seed": (recipe(settings={"seed": 3}), "settings: key must be a known one; got 'seed'"),
    "model": (recipe(models={"M": {"model": "mpl"}}), "models.M: model must be a known name; got 'mpl'; did you mean"),
    "no model": (recipe(models={"M": {"lr": 0.1}}), "models.M: model must be given"),
    "loss": (recipe(losses={"L": "lamdaloss"}), "losses.L: loss must be a known name; got 'lamdaloss'; did you mean"),
    "variant": (
        recipe(losses={"L": {"variants": ["softmax", "sofmax"]}}),
        "losses.L.variants[1]: loss must be a known",
    ),
    "metric": (recipe(metrics=["nDGC@5"]), "metrics[0]: metric must be a known name; got 'nDGC'; did you mean 'nDCG'"),
    "choose": (recipe(choose="nDCG(gian='exp')"), "choose: option must be one that nDCG has"),
    "data": (
        recipe(data=["MQ2080"]),
        "data[0]: name must be a known data set (a folder is written {folder: NAME}); got",
    ),
    "near data": (recipe(data=["MQ208"]), "did you mean 'MQ2008'"),
    "data key": (recipe(data=[{"name": "Yahoo", "sedes": [1]}]), "data[0]: key must be a known one; got 'sedes'; did"),
    "data loss": (recipe(data=[{"name": "Yahoo", "losses": {"C": "mse"}}]), "data[0].losses: key must be a known one"),
    "twice": (recipe(data=["Yahoo", "Yahoo"]), "data: value must name each of the data sets once"),
    "fold": (recipe(folds=[6]), "folds: fold must be 1 to 5; got 6"),
    "no choice": (recipe(search={"lr": []}), "search.lr: choices must hold something to choose from; got []"),
    "range": (recipe(search={"lr": {"low": 1, "high": 0.1}}), "search.lr: range must have numbers low < high"),
    "log": (recipe(search={"lr": {"low": 0, "high": 1, "log": True}}), "search.lr: low must be above 0"),
    "searched": (recipe(search={"lrr": [1]}), "search.lrr: key must be a known one; got 'lrr'; did you mean 'lr'"),
    "search value": (recipe(search={"lr": [0.1, -1]}), "search.lr: lr must be above 0 and finite; got -1"),
    "trials": (recipe(trials=0), "trials: value must be a whole number of at least 1; got 0"),
    "idle trials": (recipe(search=None), "trials: trials must be 1 where there is nothing to search; got 3"),
    "seeds": (recipe(seeds=[]), "seeds: value must be a list of seeds, at least one; got []"),
    "no data": (recipe(data=None), "data: value must be a list of data sets, at least one; got None"),
    "refit": (recipe(refit="both"), "refit: refit must be one of 'none', 'train+validation'; got 'both'"),
    "spread": (recipe(spread="sd"), "spread: spread must be one of 'deviation', 'interval'; got 'sd'"),
    "test": (recipe(tests={"test": "z"}), "tests: test must be one of 't', 'randomisation'; got 'z'"),
    "against": (recipe(tests={"against": "a"}), "tests: against must be 'best' or the label of a loss; got 'a'; did"),
    "answers": (recipe(answers="smoothi-table"), "answers: printed table must be a known name; got 'smoothi-table'"),
    "fixed": (recipe(losses={"L": {"loss": "mse", "lr": 1.0}}), "losses.L: lr must be left to the search"),
    "whose model": (
        recipe(models={"M": {"model": "mlp"}, "N": {"model": "linear"}}, losses={"L": {"loss": "mse", "model": "mlp"}}),
        "losses.L: model must be left to `models`, of which there are several",
    ),
    "quick": (recipe(quick={"settings": {"epochs": 0}}), "quick: settings: epochs must be at least 1; got 0"),
    "parameter": (
        with_trees(num_leave=3),
        "models.Trees: parameter must be one that lightgbm has; got 'num_leave'; did you mean 'num_leaves'",
    ),
    "trees": (with_trees(trees=0), "models.Trees: trees must be a whole number of at least 1; got 0"),
    "epochs of trees": (with_trees(epochs=3), "models.Trees: epochs must be given as trees; got epochs=3"),
    "seed of trees": (with_trees(seed=3), "models.Trees: seed must be left to `seeds`; got 3"),
    "metric of trees": (with_trees(metric="AP"), "models.Trees: metric must be left to `choose`; got 'AP'"),
    "native": (
        with_trees(losses={"N": "native:rank:ndcg"}),
        "models.Trees.losses.N: loss after native: must be one of 'lambdarank', 'rank_xendcg'; got 'rank:ndcg'",
    ),
    "native for a net": (
        recipe(losses={"N": "native:lambdarank"}),
        "losses.N: loss must be one of rankgrad.losses; native",
    ),
    "own loss": (with_trees(losses={"L": "sofmax"}), "models.Trees.losses.L: loss must be a known name; got 'sofmax'"),
    "no own loss": (with_trees(losses={}), "models.Trees.losses: value must name at least one; got none"),
    "own search": (
        with_trees(search={"num_leavs": [3]}),
        "models.Trees.search.num_leavs: parameter must be one that lightgbm has; got 'num_leavs'; did you mean",
    ),
    "own fixed": (
        with_trees(search={"num_leaves": [3, 5]}),
        "models.Trees: num_leaves must be left to the search, which draws it; got 4",
    ),
    "model of a tree loss": (
        with_trees(losses={"L": {"loss": "softmax", "model": "xgboost"}}),
        "models.Trees.losses.L: key must be a setting of trees here; got 'model'",
    ),
    "list": ([1, 2], "recipe: value must be a mapping; got [1, 2]"),
}


@pytest.mark.parametrize(("bad", "said"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said_with_its_place(bad, said):
    with pytest.raises(RecipeError) as error:
        parse(bad)
    assert said in str(error.value)


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(recipe(trials=0, settings={"epoch": 1, "lr": "fast"}, metrics=["nDCG@0"])))
    with pytest.raises(RecipeError) as error:
        load(path)
    first, *lines = str(error.value).splitlines()
    assert first == f"{path} has 4 problem(s):"
    assert [line.partition(":")[0] for line in lines] == ["settings", "settings", "trials", "metrics[0]"]


def test_yaml_is_read_as_people_mean_it(tmp_path):
    path = tmp_path / "mine.yaml"
    text = yaml.safe_dump(recipe(search=None, trials=1))
    path.write_text(text + "settings: {lr: 1e-3, weight_decay: 1E-5}\n")
    assert load(path).settings == {"lr": 0.001, "weight_decay": 1e-5}
    path.write_text(text + "seeds: [1]\n")
    with pytest.raises(RecipeError, match="'seeds' twice"):
        load(path)
    path.write_text("title: [")
    with pytest.raises(RecipeError, match="must be YAML"):
        load(path)


def test_overrides_are_merged_deeply():
    made = parse(recipe(
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
    made = parse(recipe(data=["MQ2008", "MQ2007", "Yahoo"]))
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
    made = parse(recipe(data=["MQ2008", "MQ2007", {"folder": "mine"}, {"folder": "gone"}, "synthetic:lists=20"]))
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
    assert "gone must hold train.txt and test.txt" in absent["gone"]
    assert made.only(*present).final_count == 12


def test_the_sample_has_a_validation_part_held_out():
    if not (SHARED / "MSLR-sample").is_dir():
        pytest.skip("needs ../shared/data/MSLR-sample")
    made = load(HERE / "recipes" / "softmax-table1.yaml").reduced("quick")
    assert made.available(SHARED) == (["MSLR-sample", "MSLR-sample-b"], {})
    splits = sets.read("MSLR-sample", root=SHARED)
    assert splits.validation is not None
    assert (len(splits.train), len(splits.validation)) == (34, 9)


# Typed by hand from the papers.
PRINTED = [
    ("learndcg-table1", "MQ2007", "AttSets", "Fixed", "nDCG(empty='one')@10", 55.21),
    ("learndcg-table1", "WEB10K", "MLP", "Learned", "nDCG(empty='one')@10", 43.20),
    ("learndcg-table2", "MQ2007", "Context-Aware Ranker", "ApproxNDCG", "nDCG(empty='one')@5", 50.08),
    ("learndcg-table2", "MQ2007", "Context-Aware Ranker", "ApproxNDCG", "RR(first='best', empty='one')@10", 50.34),
    ("learndcg-table2", "MQ2008", "Context-Aware Ranker", "LearnDCG", "nDCG(empty='one')@5", 75.13),
    ("learndcg-table2", "MQ2008", "Context-Aware Ranker", "ApproxNDCG", "MRR(empty='one', first='best')@10", None),
    ("learndcg-table2", "YLTR", "Context-Aware Ranker", "RMSE", "RR(empty='one', first='best')@10", 54.68),
    ("lambdaloss-table1", "WEB30K", "DNN", "LambdaLoss@1", "nDCG@1", 48.50),
    ("lambdaloss-table1", "Istella", "DNN", "Gumbel", "nDCG", 80.89),
    ("lambdaloss-table1", "Yahoo", "DNN", "Pairwise", "nDCG@5", 69.84),
    ("lambdaloss-table2", "Istella", "DNN", "LambdaRank@5", "nDCG@5", 67.82),
    ("lambdaloss-table2", "WEB30K", "DNN", "LambdaLoss@5", "nDCG@5", 47.08),
    ("softmax-table1", "Yahoo-b", "LightGBM", "LambdaMART", "nDCG(empty='skip')@10", 91.21),
    ("softmax-table1", "WEB30K", "LightGBM", "ListNet", "nDCG(empty='skip')@5", 46.72),
    ("smoothi-table1", "MQ2008", "DNN", "SmoothI", "P(ties='trec')@5", 0.353),
    ("smoothi-table1", "WEB30K", "DNN", "OT", "nDCG(gain='linear', ties='trec')@1", 0.459),
    ("smoothi-table1", "YLTR", "DNN", "ListMLE", "nDCG(gain='linear', ties='trec')", 0.859),
    ("neuralndcg-table3", "WEB30K", "Context-Aware Ranker", "NeuralNDCG-T@max", "nDCG(empty='one')@10", 53.49),
    ("neuralndcg-table3", "Istella", "Context-Aware Ranker", "ListMLE", "nDCG(empty='one')@5", 59.85),
    ("neuralndcg-table3", "Istella", "XGBoost", "rank:pairwise", "nDCG(empty='one')@10", 65.74),
]


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: "-".join(row[:4]))
def test_printed_numbers_are_those_of_the_papers(row):
    *where, value = row
    assert printed.value(*where) == value


@pytest.mark.parametrize("name", sorted(NAMES - {name for name in NAMES if "figure" in name}))
def test_printed_tables_are_whole(name):
    table = printed.load(name)
    rows = {(row.data, row.model, row.loss, row.metric) for row in table.rows}
    assert len(rows) == len(table.rows)
    size = {"learndcg-table1": 32, "learndcg-table2": 160, "lambdaloss-table1": 54, "lambdaloss-table2": 21,
            "softmax-table1": 16, "smoothi-table1": 180, "neuralndcg-table3": 68}  # fmt: skip
    assert len(rows) == size[name]
    assert all(0.2 * table.scale < row.value < table.scale for row in table.rows if row.value is not None)
    assert sum(row.value is None for row in table.rows) == (3 if name == "learndcg-table2" else 0)


def test_marks_and_spreads_are_kept():
    pairwise = printed.find("lambdaloss-table1", "WEB30K", "DNN", "Pairwise", "nDCG@1")
    assert pairwise is not None
    assert pairwise.mark == "v"
    mart = printed.find("softmax-table1", "Yahoo", "LightGBM", "LambdaMART", "nDCG(empty='skip')@5")
    assert mart is not None
    assert (mart.spread, mart.mark, mart.comparable) == (0.14, "↑1.7%", True)
    daggers = [row for row in printed.load("smoothi-table1").rows if row.mark == "†"]
    assert len(daggers) == 127
    assert not any(row.loss == "SmoothI" for row in daggers if row.data != "YLTR")
    assert printed.value("smoothi-table1", "MQ2009", "DNN", "SmoothI", "nDCG@5") is None
    with pytest.raises(ValueError, match="printed table must be a known name; got 'smoothi-table'"):
        printed.load("smoothi-table")


def test_printed_numbers_are_installed_with_the_package():
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    data = text.partition("[tool.setuptools.package-data]")[2].partition("[tool.")[0]
    assert "experiments/printed/*.yaml" in data
