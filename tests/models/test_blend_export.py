"""A blend is exported as one ONNX file that gives the scores of the blend."""

import numpy as np
import pytest
import torch
from programs import run_here
from sklearn.linear_model import LinearRegression
from small_trees import grouped, quick, rows

from rankgrad import rankers
from rankgrad.data import Preprocessing, from_arrays
from rankgrad.estimators.blend import EstimatorModel
from rankgrad.models.blend import BlendModel
from rankgrad.training import Model
from rankgrad.training import export as network_export

pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")

X, Y, GROUP = grouped(*rows())
DATA = from_arrays(X, Y, group=GROUP)[0]


def network(text, preprocess="none", seed=0):
    torch.manual_seed(seed)
    name, options = rankers.parse_ranker(text)
    return Model(rankers.build(name, features=4, **options), Preprocessing.parse(preprocess).fit(DATA))


def blend(models, *weights):
    return BlendModel(models, np.array(weights))


def score(path, lists, extra=2):
    """Scores of the file for lists of documents, which are padded with NaN; one list has no documents."""
    n = max(map(len, lists)) + extra
    features, mask = np.full((len(lists) + 1, n, 4), np.nan, dtype=np.float32), np.zeros((len(lists) + 1, n), bool)
    for number, each in enumerate(lists):
        features[number, : len(each)], mask[number, : len(each)] = each, True
    scores = runtime.InferenceSession(str(path)).run(["scores"], {"features": features, "mask": mask})[0]
    assert scores.shape == mask.shape
    assert not scores[~mask].any()  # padding has the score 0
    return scores[mask]


def agree(model, path, lists):
    offsets = np.cumsum([0, *map(len, lists)])
    expected = model.score(np.concatenate(lists), offsets)
    np.testing.assert_allclose(score(path, lists), expected, atol=1e-5)
    return expected


LISTS = np.split(X, np.cumsum(GROUP)[:-1])


@pytest.fixture(scope="module")
def trees():
    qid = np.repeat(np.arange(len(GROUP)), GROUP)
    return [quick(framework).fit(X, Y, qid=qid).model_ for framework in ("lightgbm", "xgboost")]


@pytest.fixture(scope="module")
def mixed(trees):
    parts = [network("linear", "log1p,standardise"), network("mlp:widths=8,norm=batch", "standardise_per_query")]
    return blend([*parts, *trees], 0.4, 0.3, 0.2, 0.1)


@pytest.fixture(scope="module")
def exported(mixed, tmp_path_factory):
    path = tmp_path_factory.mktemp("blend") / "model.onnx"
    done = mixed.export(path)
    assert (done.path, done.format, done.engine, done.difference < 1e-5) == (path, "onnx", "onnxruntime", True)
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]
    return path


def test_the_file_gives_the_scores_of_a_mixed_blend(mixed, exported):
    assert np.std(agree(mixed, exported, LISTS)) > 0.3


def test_lists_of_one_document_and_equal_documents_get_the_score_0(mixed, exported):
    assert not agree(mixed, exported, [X[:1]]).any()
    scores = agree(mixed, exported, [X[:1], np.repeat(X[:1], 5, axis=0), X[:7]])
    assert not scores[:6].any()
    assert scores[6:].any()


def test_inputs_and_outputs_have_the_names_of_other_exports(exported):
    session = runtime.InferenceSession(str(exported))
    found = {each.name: each.shape for each in (*session.get_inputs(), *session.get_outputs())}
    lists = ["lists", "documents"]
    assert found == {"features": [*lists, 4], "mask": lists, "scores": lists}


def test_a_blend_of_blends_calls_the_exporter_once_per_architecture(trees, tmp_path, monkeypatch):
    converted = []
    convert = network_export._convert
    monkeypatch.setattr(network_export, "_convert", lambda *a, **b: converted.append(1) or convert(*a, **b))
    folds = [network("mlp:widths=4", "standardise", seed) for seed in range(3)]
    half = from_arrays(X[: sum(GROUP[:20])], Y[: sum(GROUP[:20])], group=GROUP[:20])[0]
    folds[1].steps = Preprocessing.parse("standardise").fit(half)  # the same architecture, other means
    inner = blend([blend(folds, 0.2, 0.3, 0.5), blend(trees, 0.5, 0.5)], 0.6, 0.4)
    model = blend([inner, network("mlp:widths=4", "none"), folds[0]], 0.7, 0.3, 0.0)
    assert model.export(tmp_path / "model.onnx").difference < 1e-5
    agree(model, tmp_path / "model.onnx", LISTS)
    assert len(converted) == 2


def test_a_blend_of_trees_takes_missing_values(trees, tmp_path):
    blend(trees, 0.5, 0.5).export(tmp_path / "trees.onnx")
    agree(blend(trees, 0.5, 0.5), tmp_path / "trees.onnx", [np.where(each > 1, np.nan, each) for each in LISTS])


def test_models_that_cancel_each_other_leave_no_rounding_error():
    one, other = network("linear"), network("linear")
    with torch.no_grad():
        other.ranker.head.weight.copy_(-one.ranker.head.weight)
    both = blend([one, other, other, one], 0.1, 0.2, 0.3, 0.4)
    assert not both.score(X[:2]).any()  # a list of two documents: the models give 1 and -1, or -1 and 1
    assert not blend([both, both], 0.5, 0.5).score(X[:2]).any()


def test_the_command_writes_and_describes_the_file(trees, tmp_path):
    blend([blend(trees, 0.5, 0.5), trees[0]], 0.5, 0.5).save(tmp_path / "best")
    told = run_here("export", tmp_path / "best", tmp_path / "model.onnx")
    assert "scores of onnxruntime agree with the model's scores within 1e-05" in " ".join(told.split())
    assert "model.onnx: onnx, " in told.replace("\n", "")


def test_errors_are_one_sentence_and_no_file_is_written(mixed, tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    with pytest.raises(
        ValueError, match=r"^path must end in \.onnx for a blend if format is None; got '.*model\.pt2'$"
    ):
        mixed.export(tmp_path / "model.pt2")
    with pytest.raises(ValueError, match=r"^format must be one of 'onnx'; got 'torch'$"):
        mixed.export(path, format="torch")
    only = "format must be 'onnx' for a blend, because other formats cannot standardise scores per list; got 'solr'"
    with pytest.raises(ValueError, match=f"^{only}$"):
        mixed.export(path, format="solr")
    other = EstimatorModel(LinearRegression().fit(X, Y), 4)
    with pytest.raises(ValueError, match=r"^part-1/part-2 must be a network, LightGBM.*; got LinearRegression$"):
        blend([blend([mixed.models[2], other], 0.5, 0.5)], 1.0).export(path)
    monkeypatch.setattr(BlendModel, "score", lambda self, features, offsets: np.full(len(features), 0.25, np.float32))
    with pytest.raises(ArithmeticError, match="exported scores must differ from the model's scores by at most 1e-05"):
        blend([mixed.models[2]], 1.0).export(path)
    assert not path.exists()
