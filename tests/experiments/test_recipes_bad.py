"""All errors in a recipe are reported at once, each with its path in the file."""

import pytest
import yaml
from small_recipe import recipe, with_trees

from rankgrad.experiments import RecipeError, load_recipe, parse_recipe

BAD = {
    "titel": (recipe(titel="x"), "recipe: key must be a known key; got 'titel'; did you mean 'title'?"),
    "setting": (
        recipe(settings={"epoch": 5}),
        "settings: key must be a known key; got 'epoch'; did you mean 'epochs'?",
    ),
    "value": (recipe(settings={"epochs": 0}), "settings: epochs must be at least 1; got 0"),
    "seed": (recipe(settings={"seed": 3}), "settings: seed must be set by `seeds`; got 3"),
    "model": (recipe(models={"M": {"model": "mpl"}}), "models.M: model must be a known name; got 'mpl'; did you mean"),
    "no model": (recipe(models={"M": {"lr": 0.1}}), "models.M: model must be given"),
    "loss": (recipe(losses={"L": "lamdaloss"}), "losses.L: loss must be a known name; got 'lamdaloss'; did you mean"),
    "variant": (
        recipe(losses={"L": {"variants": ["softmax", "sofmax"]}}),
        "losses.L.variants[1]: loss must be a known",
    ),
    "metric": (recipe(metrics=["nDGC@5"]), "metrics[0]: metric must be a known name; got 'nDGC'; did you mean 'nDCG'"),
    "choose": (recipe(choose="nDCG(gian='exp')"), "choose: option must be an option of nDCG"),
    "data": (
        recipe(data=["MQ2080"]),
        "data[0]: name must be the name of a data set (for a folder, write {folder: NAME}); got",
    ),
    "near data": (recipe(data=["MQ208"]), "did you mean 'MQ2008'"),
    "data key": (recipe(data=[{"name": "Yahoo", "sedes": [1]}]), "data[0]: key must be a known key; got 'sedes'; did"),
    "data loss": (recipe(data=[{"name": "Yahoo", "losses": {"C": "mse"}}]), "data[0].losses: key must be a known key"),
    "twice": (recipe(data=["Yahoo", "Yahoo"]), "data: value must contain each entry only once (data sets)"),
    "fold": (recipe(folds=[6]), "folds: fold must be an integer from 1 to 5; got 6"),
    "no choice": (recipe(search={"lr": []}), "search.lr: choices must have at least one value; got []"),
    "range": (
        recipe(search={"lr": {"low": 1, "high": 0.1}}),
        "search.lr: range must have two finite numbers, low < high",
    ),
    "log": (recipe(search={"lr": {"low": 0, "high": 1, "log": True}}), "search.lr: low must be above 0"),
    "searched": (recipe(search={"lrr": [1]}), "search.lrr: key must be a known key; got 'lrr'; did you mean 'lr'"),
    "search value": (recipe(search={"lr": [0.1, -1]}), "search.lr: lr must be above 0 and finite; got -1"),
    "trials": (recipe(trials=0), "trials: value must be an integer of at least 1; got 0"),
    "idle trials": (recipe(search=None), "trials: trials must be 1 if there is no search space; got 3"),
    "seeds": (recipe(seeds=[]), "seeds: value must be a list with at least one entry (seeds); got []"),
    "no data": (recipe(data=None), "data: value must be a list with at least one entry (data sets); got None"),
    "refit": (recipe(refit="both"), "refit: refit must be one of 'none', 'train+validation'; got 'both'"),
    "spread": (recipe(spread="sd"), "spread: spread must be one of 'deviation', 'interval'; got 'sd'"),
    "test": (recipe(tests={"test": "z"}), "tests: test must be one of 't', 'bootstrap', 'randomisation'; got 'z'"),
    "against": (recipe(tests={"against": "a"}), "tests: `against` must be 'best' or the name of a loss; got 'a'; did"),
    "answers": (recipe(answers="smoothi-table"), "answers: published table must be a known name; got 'smoothi-table'"),
    "fixed": (
        recipe(losses={"L": {"loss": "mse", "lr": 1.0}}),
        "losses.L: lr must not be given here, because it is in the search space",
    ),
    "whose model": (
        recipe(models={"M": {"model": "mlp"}, "N": {"model": "linear"}}, losses={"L": {"loss": "mse", "model": "mlp"}}),
        "losses.L: model must be given only in `models`, because there are several models",
    ),
    "quick": (recipe(quick={"settings": {"epochs": 0}}), "quick: settings: epochs must be at least 1; got 0"),
    "parameter": (
        with_trees(num_leave=3),
        "models.Trees: parameter must be a parameter of lightgbm; got 'num_leave'; did you mean 'num_leaves'",
    ),
    "trees": (with_trees(trees=0), "models.Trees: trees must be at least 1; got 0"),
    "epochs of trees": (with_trees(epochs=3), "models.Trees: epochs must be given as trees; got epochs=3"),
    "seed of trees": (with_trees(seed=3), "models.Trees: seed must be set by `seeds`; got 3"),
    "metric of trees": (with_trees(metric="AP"), "models.Trees: metric must be set by `choose`; got 'AP'"),
    "native": (
        with_trees(losses={"N": "native:rank:ndcg"}),
        "models.Trees.losses.N: native objective must be one of 'lambdarank', 'rank_xendcg'; got 'rank:ndcg'",
    ),
    "native for a net": (
        recipe(losses={"N": "native:lambdarank"}),
        "losses.N: loss must be a loss of rankgrad (native",
    ),
    "own loss": (with_trees(losses={"L": "sofmax"}), "models.Trees.losses.L: loss must be a known name; got 'sofmax'"),
    "no own loss": (with_trees(losses={}), "models.Trees.losses: value must have at least one entry; got none"),
    "own search": (
        with_trees(search={"num_leavs": [3]}),
        "models.Trees.search.num_leavs: parameter must be a parameter of lightgbm; got 'num_leavs'; did you mean",
    ),
    "own fixed": (
        with_trees(search={"num_leaves": [3, 5]}),
        "models.Trees: num_leaves must not be given here, because it is in the search space; got 4",
    ),
    "model of a tree loss": (
        with_trees(losses={"L": {"loss": "softmax", "model": "xgboost"}}),
        "models.Trees.losses.L: key must be a setting that the kind lightgbm allows here; got 'model'",
    ),
    "list": ([1, 2], "recipe: value must be a mapping; got [1, 2]"),
}


@pytest.mark.parametrize(("bad", "said"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said_with_its_place(bad, said):
    with pytest.raises(RecipeError) as error:
        parse_recipe(bad)
    assert said in str(error.value)


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(recipe(trials=0, settings={"epoch": 1, "lr": "fast"}, metrics=["nDCG@0"])))
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    first, *lines = str(error.value).splitlines()
    assert first == f"{path} has 4 problem(s):"
    assert [line.partition(":")[0] for line in lines] == ["settings", "settings", "trials", "metrics[0]"]
