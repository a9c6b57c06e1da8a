"""Boosted trees: derivatives of every loss, objectives inside both frameworks, and the estimator around them."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from every_loss import OPTIONS
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

from rankgrad import backend, losses
from rankgrad.cli import app
from rankgrad.metrics import ndcg
from rankgrad.trees import TreeRanker, objective
from rankgrad.trees.settings import ranker as spelled

LENGTHS = (0, 1, 2, 7, 0, 40)
EXACT = ("ranknet", "lambdarank", "lambdaloss", "softmax", "listnet", "xe_ndcg", "mse", "bce")
BOUNDS = ("listmle", "unique_softmax")
CASES = {
    f"{name} {options}": (name, options)
    for name, every in OPTIONS.items()
    for options in every
    if not any(isinstance(value, torch.Tensor) for value in options.values())
}
every_case = pytest.mark.parametrize(("name", "options"), CASES.values(), ids=CASES)
FRAMEWORKS = {"lightgbm": {"num_leaves": 4, "min_data_in_leaf": 3}, "xgboost": {"max_depth": 2, "eta": 0.2}}


def made_loss(name, options):
    loss = getattr(losses, name)
    return loss(**options) if isinstance(loss, type) else partial(loss, **options)


def made(seed=0, lengths=LENGTHS):
    """Scores, labels, offsets and weights of some lists."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return rng.normal(size=n), rng.integers(0, 4, n).astype(float), offsets, rng.uniform(0.2, 2.0, n)


def autograd(loss, scores, labels, offsets, weights):
    """The gradient of the sum over lists, by the plain loss."""
    leaf = torch.tensor(scores, requires_grad=True)
    lists = {"offsets": torch.tensor(offsets)} | ({} if weights is None else {"weights": torch.tensor(weights)})
    with backend("plain"):
        loss(leaf, torch.tensor(labels), reduction="sum", **lists).backward()
    return leaf.grad.numpy()


# Derivatives


@every_case
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_those_of_autograd(name, options, weighted):
    own = objective(made_loss(name, options))
    scores, labels, offsets, weights = made()
    if weighted and not own.takes_weights:
        with pytest.raises(ValueError, match=r"weights must be None for .* which takes no weights"):
            own.derivatives(scores, labels, offsets, weights)
        return
    weights = weights if weighted else None
    gradient, hessian = own.derivatives(scores, labels, offsets, weights)
    expected = autograd(own.loss, scores, labels, offsets, weights)
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-9)
    assert gradient.dtype == hessian.dtype == np.float64
    assert np.isfinite(hessian).all()
    assert (hessian >= 0).all()
    assert (hessian[np.abs(gradient) > 1e-9] > 0).all()


@every_case
def test_second_derivatives_are_what_their_table_says(name, options):
    own = objective(made_loss(name, options))
    scores, labels, offsets, weights = made(1)
    weights = weights if own.takes_weights else None
    gradient, hessian = own.derivatives(scores, labels, offsets, weights)
    if str(options.get("metric", "nDCG"))[:4] != "nDCG" or name not in (*EXACT, *BOUNDS):
        if name != "poly1_softmax":
            np.testing.assert_array_equal(hessian, np.abs(gradient))
        return
    step, measured = 1e-6, np.empty_like(scores)
    for place in range(len(scores)):
        ends = [np.where(np.arange(len(scores)) == place, scores + move, scores) for move in (-step, step)]
        low, high = (autograd(own.loss, end, labels, offsets, weights)[place] for end in ends)
        measured[place] = (high - low) / (2 * step)
    if name in EXACT:
        np.testing.assert_allclose(hessian, measured, rtol=1e-5, atol=1e-6)
    else:
        assert (hessian >= measured - 1e-6).all()
        assert hessian.sum() < 3 * measured.sum()  # a bound, but no loose one


def test_scores_far_apart_and_in_float32():
    scores, labels, offsets, weights = made(2, lengths=(300, 50))
    for text in ("lambdarank@10", "ranknet", "softmax", "approx_ndcg"):
        own = objective(text)
        heavy = weights if own.takes_weights else None
        for spread, shift in ((1.0, 0.0), (1.0, 30.0), (100.0, 0.0)):
            exact = own.derivatives(scores * spread + shift, labels, offsets, heavy)
            small = own.derivatives((scores * spread + shift).astype(np.float32), labels, offsets, heavy)
            for a, b in zip(exact, small, strict=True):
                np.testing.assert_allclose(b, a, atol=1e-6 + 3e-4 * np.abs(a).max())


def test_a_wrapped_loss_is_not_taken_for_the_bare_one():
    def half(scores, labels, **lists):
        return 0.5 * losses.softmax(scores, labels, **lists)

    scores, labels, offsets, _ = made()
    whole, curved = objective("softmax").derivatives(scores, labels, offsets)
    gradient, hessian = objective(half).derivatives(scores, labels, offsets)
    np.testing.assert_allclose(gradient, whole / 2)
    np.testing.assert_allclose(hessian, np.abs(gradient))
    assert not np.allclose(hessian, curved)


def test_hessians_by_choice():
    scores, labels, offsets, _ = made()
    gradient, same = objective("lambdarank", hessian=0.5).derivatives(scores, labels, offsets)
    assert (same == 0.5).all()
    again, size = objective("lambdarank", hessian="gradient").derivatives(scores, labels, offsets)
    np.testing.assert_allclose(size, np.abs(gradient))
    np.testing.assert_allclose(again, gradient)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lamdarank",), "did you mean 'lambdarank'"),
        (("native:lambdarank",), "loss must be one of rankgrad.losses"),
        ((3,), "loss must be text, a function or a module; got int"),
        (("learndcg:adapt=heldout",), "adapt must be 'joint' with trees; got 'heldout'"),
        (("softmax", "catboost"), "framework must be one of 'lightgbm', 'xgboost'; got 'catboost'"),
    ],
)
def test_bad_objectives(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        objective(*arguments)
    with pytest.raises(ValueError, match="hessian must be"):
        objective("softmax", hessian=-1.0)


def test_negative_labels_are_refused():
    scores, labels, offsets, _ = made()
    for text in ("lambdarank", "softmax"):
        with pytest.raises(ValueError, match="labels must be at least 0"):
            objective(text).derivatives(scores, labels - 1, offsets)


@pytest.mark.parametrize("name", ["softmax", "listnet"])
def test_smoothed_targets_are_labels_that_spare_no_document(name):
    scores, labels, offsets, weights = made()
    own, loss = objective(name, smooth=0.25), getattr(losses, name)
    gradient, hessian = own.derivatives(scores, labels, offsets, weights)
    np.testing.assert_allclose(gradient, autograd(loss, scores, 2**labels - 0.25, offsets, weights), atol=1e-9)
    assert (hessian[np.repeat(np.diff(offsets) > 1, np.diff(offsets))] > 0).all()
    # A list without a relevant document draws its scores together.
    pulled, _ = own.derivatives(np.array([1.0, -1.0]), np.zeros(2), np.array([0, 2]))
    assert pulled[0] > 0 > pulled[1]
    assert (objective(name).derivatives(np.array([1.0, -1.0]), np.zeros(2), np.array([0, 2]))[0] == 0).all()


def test_drawn_targets_are_new_each_round_and_the_same_for_a_seed():
    scores, labels, offsets, _ = made()
    first, same, other = (objective("softmax", smooth="drawn", seed=seed) for seed in (1, 1, 2))
    rounds = [[own.derivatives(scores, labels, offsets)[0] for _ in range(2)] for own in (first, same, other)]
    np.testing.assert_array_equal(rounds[0], rounds[1])
    assert not np.array_equal(rounds[0][0], rounds[0][1])
    assert not np.array_equal(rounds[0][0], rounds[2][0])
    # 2^y - g lies between the targets with g = 1 and g = 0, and so does the gradient's own part of it.
    own = np.concatenate([np.zeros(0), scores])
    low, high = (objective("softmax", smooth=g).derivatives(own, labels, offsets)[1] for g in (1.0, 0.0))
    drawn = objective("softmax", smooth="drawn").derivatives(own, labels, offsets)[1]
    assert ((low <= drawn) & (drawn <= high)).all()


def test_scalars_of_a_loss_are_learned_between_rounds():
    scores, labels, offsets, _ = made()
    fixed, learned = objective("learndcg"), objective("learndcg", loss_lr=0.1)
    before = learned.loss.learned()
    for own in (fixed, learned):
        first, _ = own.derivatives(scores, labels, offsets)
        second, _ = own.derivatives(scores, labels, offsets)
        assert np.array_equal(first, second) == (own is fixed)
    assert fixed.loss.learned() == before
    assert learned.loss.learned()["alpha"] != before["alpha"]


# Inside the frameworks


def rows(lists=40, features=4, seed=0, nan=False):
    """Scattered rows of lists of 2 to 12 documents, labels from the features."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(lists), rng.integers(2, 13, lists)))
    X = rng.normal(size=(len(qid), features)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + X[:, 1] + 1), 0, 3).astype(int)
    if nan:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y, qid


X, Y, QID = rows()


def grouped(X, y, qid):
    order = np.argsort(qid, kind="stable")
    return X[order], y[order], np.bincount(qid)


@pytest.mark.parametrize("weighted", [False, True])
def test_lightgbm_calls_it_with_four_arguments(weighted):
    lgb = pytest.importorskip("lightgbm")
    x, y, sizes = grouped(X, Y, QID)
    seen = []

    class Spy(type(objective("lambdarank"))):
        def derivatives(self, scores, labels, offsets, weights=None):
            seen.append((scores.dtype, np.diff(offsets).tolist(), weights))
            return super().derivatives(scores, labels, offsets, weights)

    weight = np.linspace(0.5, 2, len(y)) if weighted else None
    ranker = lgb.LGBMRanker(objective=Spy("lambdarank", "auto"), n_estimators=3, verbosity=-1, min_child_samples=3)
    ranker.fit(x, y, group=sizes, sample_weight=weight)
    assert len(seen) == 3
    assert seen[0][:2] == (np.float32, sizes.tolist())
    assert (seen[0][2] is not None) == weighted
    if weighted:
        np.testing.assert_allclose(seen[0][2], weight, rtol=1e-6)


def test_it_is_lightgbms_own_lambdarank_but_for_the_norm():
    pytest.importorskip("lightgbm")
    shared = {"trees": 20, "holdout": 0.0, "num_leaves": 8, "min_data_in_leaf": 3, "threads": 1}
    x, y, sizes = grouped(*rows(lists=60, seed=3))
    native = TreeRanker(
        loss="native:lambdarank", lambdarank_norm=False, lambdarank_truncation_level=4, sigmoid=2.0, **shared
    )
    ours = TreeRanker(loss="lambdaloss@4:scheme=ndcg2pp,mu=0,sigma=2", **shared)
    found = [ranker.fit(x, y, group=sizes).predict(x) for ranker in (native, ours)]
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-4)


def test_xgboost_takes_a_weight_a_list():
    xgb = pytest.importorskip("xgboost")
    x, y, sizes = grouped(X, Y, QID)
    lists = xgb.DMatrix(x, y)
    lists.set_group(sizes)
    each = np.linspace(0.5, 2, len(sizes))
    lists.set_weight(each)
    own = objective("lambdarank", "xgboost")
    scores = np.random.default_rng(0).normal(size=len(y)).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    expected = own.derivatives(scores, y.astype(np.float32), offsets, np.repeat(each, sizes).astype(np.float32))
    for a, b in zip(own(scores, lists), expected, strict=True):
        np.testing.assert_allclose(a, b)
    booster = xgb.train({"max_depth": 2, "base_score": 0.0}, lists, 10, obj=own)
    offsets = torch.tensor(offsets)
    assert ndcg(booster.predict(lists), y, offsets=offsets) > ndcg(np.zeros(len(y)), y, offsets=offsets) + 0.1
    with pytest.raises(ValueError, match="dtrain must have lists"):
        own(scores, xgb.DMatrix(x, y))


def test_threads_of_pytorch_and_lightgbm_get_along():
    pytest.importorskip("lightgbm")
    pytest.importorskip("xgboost")
    program = (
        "import numpy as np, torch; from rankgrad.trees import TreeRanker; torch.set_num_threads(2)\n"
        "r = np.random.default_rng(0); x = r.normal(size=(2000, 8)); y = (x[:, 0] > 0) * 1; a = torch.randn(500, 500)\n"
        "for name in ('lightgbm', 'xgboost'):\n"
        "    for loss in ('lambdarank', 'softmax', 'approx_ndcg'):\n"
        "        TreeRanker(name, loss, trees=5, threads=2).fit(x, y, group=[20] * 100); (a @ a).sum().item()\n"
        "print('done', torch.get_num_threads())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["done", "2"], done.stderr


# The estimator


def quick(framework="lightgbm", **settings):
    pytest.importorskip(framework)
    return TreeRanker(framework, **{"trees": 12, "threads": 1, **FRAMEWORKS[framework], **settings})


every_framework = pytest.mark.parametrize("framework", FRAMEWORKS)
NATIVE = [
    ("lightgbm", "native:lambdarank"), ("lightgbm", "native:rank_xendcg"), ("xgboost", "native:rank:ndcg"),
    ("xgboost", "native:rank:pairwise"), ("lightgbm", "lambdarank"), ("xgboost", "softmax"), ("lightgbm", "ranknet@5"),
]  # fmt: skip


@pytest.mark.parametrize(("framework", "loss"), NATIVE)
def test_it_learns_and_predicts_in_row_order(framework, loss):
    ranker = quick(framework, loss=loss).fit(X, Y, qid=QID)
    assert ranker.score(X, Y, qid=QID) > 0.85
    assert ranker.n_features_in_ == 4
    scores = ranker.predict(X)
    assert scores.shape == Y.shape
    order = np.random.default_rng(5).permutation(len(Y))
    np.testing.assert_array_equal(ranker.predict(X[order], QID[order]), scores[order])
    ranks = ranker.rank(X, QID)
    for query in np.unique(QID):
        here = np.equal(QID, query)
        np.testing.assert_array_equal(ranks[here], 1 + np.argsort(np.argsort(-scores[here], kind="stable")))


@every_framework
def test_early_stopping_is_on_our_metric(framework):
    x, y, qid = rows(seed=7)
    ranker = quick(framework, trees=60, patience=5)
    ranker.fit(X, Y, qid=QID, eval_set=(x, y), eval_qid=qid)
    values = [row["nDCG@10"] for row in ranker.history_]
    assert ranker.best_trees_ == 1 + int(np.argmax(values))
    assert len(values) <= ranker.best_trees_ + 5
    assert ranker.score(x, y, qid=qid) == pytest.approx(max(values), abs=1e-6)
    assert ranker.model_.metrics["validation"]["nDCG@10"] == max(values)


@every_framework
def test_without_patience_all_trees_grow_and_the_best_are_kept(framework):
    x, y, qid = rows(seed=7)
    y = np.random.default_rng(0).permutation(y)  # nothing to be learned of, so that the last tree is not the best
    ranker = quick(framework, trees=30, patience=None).fit(X, Y, qid=QID, eval_set=(x, y), eval_qid=qid)
    values = [row["nDCG@10"] for row in ranker.history_]
    assert len(values) == 30
    assert ranker.best_trees_ < 30
    assert ranker.score(x, y, qid=qid) == pytest.approx(max(values), abs=1e-6)


def test_a_loss_with_parameters_is_not_changed_by_a_fit():
    learn = losses.LearnDCG()
    ranker = quick(loss=learn, loss_lr=0.1, trees=5)
    first, again = (ranker.fit(X, Y, qid=QID).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert learn.learned()["alpha"] == 1.0
    assert ranker.history_[-1]["alpha"] != 1.0


@pytest.mark.parametrize(
    ("framework", "params", "said"),
    [
        ("lightgbm", {"loss": "learndcg", "loss_lr": -1}, "loss_lr must be None or a number above 0"),
        ("lightgbm", {"loss": "softmax", "loss_lr": 0.1}, "loss_lr must be None for a loss without parameters"),
        ("lightgbm", {"num_round": 5}, "num_round must be given as trees"),
        (
            "xgboost",
            {"max_dept": 3},
            "parameter must be one that xgboost has; got 'max_dept'; did you mean 'max_depth'",
        ),
    ],
)
def test_settings_that_would_be_passed_over_are_errors(framework, params, said):
    with pytest.raises(ValueError, match=said):
        quick(framework, **params).plan()


@every_framework
def test_leaves_are_counted(framework):
    model = quick(framework, trees=3, patience=None, holdout=0.0).fit(X, Y, qid=QID).model_
    if framework == "lightgbm":
        trees = [tree["num_leaves"] for tree in model.booster.dump_model()["tree_info"]]
    else:
        trees = [text.count(":leaf=") for text in model.booster.get_dump()]
    assert len(trees) == 3
    assert model.leaves == sum(trees) > 3


def test_history_has_what_was_learned_after_each_tree():
    ranker = quick(loss="learndcg", loss_lr=0.1, trees=5).fit(X, Y, qid=QID)
    alphas = [row["alpha"] for row in ranker.history_]
    assert len(set(alphas)) == len(alphas) == 5
    assert ranker.model_.metrics["loss"]["alpha"] == alphas[ranker.best_trees_ - 1]
    assert all(row["seconds"] > 0 and row["judge_seconds"] > 0 for row in ranker.history_)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_settings_as_text_are_those_of_the_ranker(framework):
    given = FRAMEWORKS[framework]
    text = f"{framework}:{','.join(f'{name}={value}' for name, value in given.items())}"
    made = spelled({"model": text, "loss": "softmax", "trees": 7})
    assert made.get_params() == TreeRanker(framework, "softmax", trees=7, **given).get_params()
    with pytest.raises(ValueError, match="max_bin must be given once; the model says max_bin=63; got 15"):
        spelled({"model": f"{framework}:max_bin=63", "max_bin": 15})
    with pytest.raises(ValueError, match="model must have no cutoff"):
        spelled({"model": f"{framework}@5"})


@every_framework
def test_saved_and_loaded_it_predicts_identically(framework, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    ranker = quick(framework, loss="lambdarank@5", seed=3).fit(frame, Y, qid=QID)
    ranker.save(tmp_path / "model")
    again = TreeRanker.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(frame), ranker.predict(frame))
    assert again.get_params() == ranker.get_params()
    assert again.feature_names_in_.tolist() == list("abcd")
    assert again.best_trees_ == ranker.best_trees_
    again.save(tmp_path / "twice")
    np.testing.assert_array_equal(TreeRanker.load(tmp_path / "twice").predict(frame), ranker.predict(frame))


@pytest.mark.parametrize("loss", ["lambdarank", "native:lambdarank"])
def test_plain_lightgbm_loads_the_file(loss, tmp_path):
    lgb = pytest.importorskip("lightgbm")
    ranker = quick(loss=loss).fit(X, Y, qid=QID)
    ranker.save(tmp_path)
    plain = lgb.Booster(model_file=str(tmp_path / "model.txt"))
    assert plain.num_trees() == ranker.best_trees_
    np.testing.assert_allclose(plain.predict(X), ranker.predict(X), rtol=1e-6)


@pytest.mark.parametrize("loss", ["lambdarank", "native:rank:ndcg"])
def test_plain_xgboost_loads_the_file(loss, tmp_path):
    xgb = pytest.importorskip("xgboost")
    ranker = quick("xgboost", loss=loss).fit(X, Y, qid=QID)
    ranker.save(tmp_path)
    plain = xgb.Booster(model_file=str(tmp_path / "model.json"))
    assert plain.num_boosted_rounds() == ranker.best_trees_
    np.testing.assert_allclose(plain.predict(xgb.DMatrix(X)), ranker.predict(X), rtol=1e-6)


@every_framework
@pytest.mark.parametrize("native", [False, True])
def test_weights_are_honoured(framework, native):
    loss = {"lightgbm": "native:lambdarank", "xgboost": "native:rank:ndcg"}[framework] if native else "lambdarank"
    first = QID < 20
    other = np.where(first, Y, Y.max() - Y)  # the lists from 20 on teach the opposite
    heavy = np.where(first, 1.0, 1e-4)
    ranker = quick(framework, loss=loss, holdout=0.0)
    with_weights = ranker.fit(X, other, qid=QID, sample_weight=heavy).score(X[first], Y[first], QID[first])
    without = ranker.fit(X, other, qid=QID).score(X[first], Y[first], QID[first])
    assert with_weights > without + 0.05


def test_settings_go_through_clone_and_set_params():
    ranker = quick(num_leaves=5)
    assert clone(ranker).get_params() == ranker.get_params()
    ranker.set_params(num_leaves=7, trees=3)
    assert (ranker.get_params()["num_leaves"], ranker.trees) == (7, 3)
    fitted = ranker.set_params(holdout=0.0).fit(X, Y, qid=QID)
    assert fitted.model_.booster.num_trees() == 3
    assert fitted.best_trees_ == 3
    assert fitted.history_ == []


@every_framework
def test_missing_values_are_the_trees_own_business(framework):
    x, y, qid = rows(seed=1, nan=True)
    ranker = quick(framework).fit(x, y, qid=qid)
    assert np.isfinite(ranker.predict(x, qid)).all()
    assert ranker.score(x, y, qid=qid) > 0.7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"framework": "catboost"}, "framework must be one of"),
        ({"loss": "lamdarank"}, "did you mean 'lambdarank'"),
        (
            {"loss": "native:rank:ndcg"},
            "loss after native: must be one of 'lambdarank', 'rank_xendcg'; got 'rank:ndcg'",
        ),
        ({"n_estimators": 5}, "n_estimators must be given as trees; got n_estimators=5"),
        ({"trees": 0}, "trees must be a whole number of at least 1; got 0"),
        ({"holdout": 1.0}, "holdout must be a number of at least 0 and below 1"),
        ({"metric": "nDGC@10"}, "nDCG"),
        ({"num_leave": 3}, "parameter must be one that lightgbm has; got 'num_leave'; did you mean 'num_leaves'"),
        ({"epochs": 3}, "epochs must be given as trees; got epochs=3"),
        ({"smooth": 0.5}, "smooth must be None for all losses but softmax and listnet; got lambdarank"),
        ({"loss": "softmax", "smooth": 2}, "smooth must be None, 'drawn' or a number from 0 to 1; got 2"),
        ({"loss": "native:lambdarank", "smooth": 0.5}, "smooth must be None for a native objective; got 0.5"),
        ({"loss": "native:lambdarank", "loss_lr": 0.5}, "loss_lr must be None for a native objective; got 0.5"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        TreeRanker(**settings).fit(X, Y, qid=QID)


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="qid or group must be given"):
        quick().fit(X, Y)
    with pytest.raises(NotFittedError):
        quick().predict(X)
    with pytest.raises(ValueError, match=r"sample_weight must be None for approx_ndcg, which takes no weights"):
        quick(loss="approx_ndcg").fit(X, Y, qid=QID, sample_weight=np.ones(len(Y)))
    quick().fit(X, Y, qid=QID).save(tmp_path)
    (tmp_path / "model.txt").write_text("nothing")
    with pytest.raises(ValueError, match=r"model.txt must be a model of lightgbm; got"):
        TreeRanker.load(tmp_path)


@every_framework
def test_without_the_extra_one_sentence_says_what_to_do(framework, monkeypatch):
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ImportError, match=rf"trees need {framework}: pip install 'rankgrad\[trees\]'"):
        TreeRanker(framework).fit(X, Y, qid=QID)


def test_importing_loads_no_framework():
    program = (
        "import sys, rankgrad.trees, rankgrad.blending; print([n for n in ('lightgbm', 'xgboost') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The command line


def command(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("model", "loss"), [("lightgbm:num_leaves=4", "native:lambdarank"), ("xgboost:max_depth=2", "lambdarank@10")]
)
def test_one_flag_away_on_the_command_line(model, loss, tmp_path):
    pytest.importorskip(model.partition(":")[0])
    data = ("--data", "synthetic:lists=40,features=12")
    out = tmp_path / "run"
    said = command("train", *data, "--model", model, "--loss", loss, "--epochs", 8, "--lr", 0.2, "--out", out)
    assert "of 8 trees, nDCG@10" in said
    ranker = TreeRanker.load(out)
    assert ranker.trees == 8
    assert ranker.get_params()["learning_rate" if "lightgbm" in model else "eta"] == 0.2
    assert "nDCG@10" in command("evaluate", out)
    lines = tmp_path / "test.txt"
    values = np.random.default_rng(0).normal(size=(5, 12)).astype(np.float32)
    lines.write_text(
        "".join(f"0 qid:1 {' '.join(f'{i}:{v!r}' for i, v in enumerate(row.tolist(), 1))}\n" for row in values)
    )
    command("predict", out, lines, "--out", tmp_path / "scores.txt")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "scores.txt"), ranker.predict(values), rtol=1e-6)


def test_what_trees_do_not_have_is_said(tmp_path):
    pytest.importorskip("lightgbm")
    data = ("--data", "synthetic:lists=40,features=12", "--out", tmp_path / "run")
    with pytest.raises(ValueError, match="preprocess must not be given with lightgbm, which has no such setting"):
        command("train", *data, "--model", "lightgbm", "--preprocess", "none")
    with pytest.raises(ValueError, match="resume must be for neural rankers"):
        command("train", *data, "--model", "lightgbm", "--resume")
