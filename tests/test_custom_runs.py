"""Own parts in a run that dies, in the estimator; callbacks after each epoch; training from a trained model."""

import pickle

import numpy as np
import pytest
import torch
from custom_parts import (
    HERE,
    LISTS,
    QUICK,
    ModuleSoftmax,
    Padded,
    Scaled,
    centred,
    list_softmax,
    padded_softmax,
    rows_of,
    run,
    same,
    score,
    top_label,
)
from sklearn.base import clone

import rankgrad as rg
from rankgrad.atomic_files import read_tensors
from rankgrad.data import load
from rankgrad.losses.custom import CustomLoss
from rankgrad.models.neural import NEURAL
from rankgrad.training import SettingsError
from rankgrad.training.cuda_graphs import GraphStep
from rankgrad.training.loop import NeuralTraining

# Resume, callbacks and a warm start


@pytest.mark.parametrize("loss", [Scaled(), list_softmax], ids=["module", "function"])
def test_a_run_that_dies_goes_on_with_the_objects(loss, tmp_path):
    settings = {"loss": loss, "model": Padded(), "metric": top_label, "loss_lr": 0.1, "save_steps": 2, "ema": 0.5}
    whole = run(out=tmp_path / "whole", **settings)
    assert same(whole, run(out=tmp_path / "whole", resume=True, **settings))  # it is done: read from the folder

    class Dies(Exception):
        pass

    calls, as_it_was = [], CustomLoss.forward

    def dying(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 8:  # in the middle of the second epoch, after a checkpoint
            raise Dies
        return as_it_was(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CustomLoss, "forward", dying)
        with pytest.raises(Dies):
            run(out=tmp_path / "dead", **settings)
    found = run(out=tmp_path / "dead", resume=True, **settings)
    assert same(found, whole)
    assert rows_of(found) == rows_of(whole)
    files = [read_tensors(tmp_path / name / "last.safetensors")[0] for name in ("whole", "dead")]
    assert files[0].keys() == files[1].keys()
    assert all(torch.equal(value, files[1][name]) for name, value in files[0].items())
    if isinstance(loss, Scaled):
        assert (float(loss.scale.detach()), int(loss.calls)) == (0.5, 0)
        assert whole.history[-1]["scale"] != 0.5
        assert "module.loss.function.calls" in files[0]
        assert "loss.function.scale" in read_tensors(tmp_path / "dead" / "model.safetensors")[0]


def test_another_object_is_another_run(tmp_path):
    run(out=tmp_path, loss=list_softmax, epochs=1)
    with pytest.raises(ValueError, match=rf"loss must be 'own:{HERE}.list_softmax', to resume "):
        run(out=tmp_path, loss=padded_softmax, epochs=2, resume=True)


def test_a_callback_sees_each_epoch_and_may_end_the_run(tmp_path):
    whole, seen = run(out=tmp_path / "whole"), []

    def second(row):
        seen.append(row)
        row["loss"] = None  # a copy: nothing of the run changes
        return row["epoch"] == 2

    stopped = run(out=tmp_path / "stopped", callbacks=[second, lambda row: seen.append(row["epoch"])])
    assert [row if isinstance(row, int) else row["epoch"] for row in seen] == [1, 1, 2, 2]
    assert rows_of(stopped) == rows_of(whole)[:2]
    assert same(run(out=tmp_path / "stopped", resume=True), whole)
    with pytest.raises(TypeError, match="callbacks must be functions with one argument, a log row; got int"):
        run(callbacks=[1])


def test_training_starts_from_a_trained_model(tmp_path):
    first = run(loss=Scaled(), loss_lr=0.1)
    shifted = LISTS.test
    again = run(data=shifted, loss=Scaled(), loss_lr=1e-9, lr=1e-9, epochs=1, init_model=first)
    np.testing.assert_allclose(score(again), score(first), atol=1e-5)  # on other data, with the first preprocessing
    assert again.history[0]["scale"] == pytest.approx(first.metrics["loss"]["scale"])
    other = run(data=shifted, loss="softmax", lr=1e-9, epochs=1, init_model=first)
    np.testing.assert_allclose(score(other), score(first), atol=1e-5)
    assert not np.allclose(score(run(data=shifted, lr=1e-9, epochs=1)), score(first), atol=1e-2)
    whole = run(data=shifted, epochs=3, init_model=first)
    kept = {"out": tmp_path, "data": shifted}
    run(**kept, epochs=1, init_model=first)
    for wrong, got in ((None, "None"), (again, "a different model")):
        with pytest.raises(
            ValueError, match=f"init_model must be the model that the run started from, to resume .*; got {got}"
        ):
            run(**kept, resume=True, init_model=wrong)
    assert same(run(**kept, resume=True, init_model=first), whole)
    fitted = NEURAL.fit({**QUICK, "epochs": 1, "lr": 1e-9}, shifted, LISTS.validation, init_model=first)
    np.testing.assert_allclose(score(fitted), score(first), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "mlp:widths=9"}, r"architecture of the new run \(widths=\[9\]\); got widths=\[8\]"),
        (
            {"preprocess": "quantile"},
            "preprocess must be 'standardise', as in the model init_model; got 'quantile",
        ),
        ({"data": load("synthetic:lists=9,features=11").train}, r"features=11\); got features=10"),
    ],
)
def test_a_model_that_does_not_fit_is_no_start(settings, message):
    first = run(epochs=1)
    with pytest.raises(ValueError, match=message):
        run(init_model=first, **settings)
    with pytest.raises(TypeError, match="init_model must be a trained neural model; got str"):
        run(init_model="model")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    ("settings", "recorded"),
    [
        ({"loss": list_softmax}, False),
        ({"model": Padded()}, False),
        ({"loss": rg.losses.LearnDCG()}, True),
        ({"loss": "softmax", "metric": top_label}, True),
    ],
)
def test_own_code_is_not_recorded_on_a_gpu(settings, recorded, monkeypatch):
    made = []
    epoch = NeuralTraining.train
    monkeypatch.setattr(NeuralTraining, "train", lambda self, loop: (made.append(self.step), epoch(self, loop))[1])
    model = run(**settings, device="cuda", batch_size=8)
    assert isinstance(made[0], GraphStep) == recorded
    assert np.isfinite(score(model)).all()


# The estimator


def rows(lists=12, seed=0):
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(lists), 5))
    X = rng.normal(size=(len(qid), 10)).astype(np.float32)
    return X, np.clip(np.round(X[:, 0] + 1), 0, 3).astype(int), qid


X, Y, QID = rows()
CUSTOM_PREFIX = {"model": Padded(), "loss": Scaled(), "metric": top_label}


def test_the_estimator_takes_own_parts_and_leaves_them(tmp_path):
    before = {
        name: {key: value.clone() for key, value in CUSTOM_PREFIX[name].state_dict().items()}
        for name in ("model", "loss")
    }
    ranker = rg.Ranker(**CUSTOM_PREFIX, epochs=2, lr=0.01, device="cpu")
    scores = ranker.fit(X, Y, qid=QID).predict(X, qid=QID)
    assert np.array_equal(scores, clone(ranker).fit(X, Y, qid=QID).predict(X, qid=QID))
    assert np.array_equal(scores, ranker.fit(X, Y, qid=QID).predict(X, qid=QID))
    for name, state in before.items():
        assert all(torch.equal(value, CUSTOM_PREFIX[name].state_dict()[key]) for key, value in state.items())
    assert ranker.get_params()["loss"] is CUSTOM_PREFIX["loss"]
    assert np.array_equal(pickle.loads(pickle.dumps(ranker)).predict(X, qid=QID), scores)
    with pytest.raises(ValueError, match=f"qid or group must be given, because with {HERE}.Padded a score depends"):
        ranker.predict(X)
    ranker.save(tmp_path)
    loaded = rg.Ranker.load(tmp_path, model=Padded())
    assert np.array_equal(loaded.predict(X, qid=QID), scores)
    with pytest.raises(SettingsError, match="loss must be given as an object again"):
        loaded.fit(X, Y, qid=QID)
    loaded = rg.Ranker.load(tmp_path, **CUSTOM_PREFIX)
    assert np.array_equal(loaded.fit(X, Y, qid=QID).predict(X, qid=QID), scores)


def test_weights_reach_an_own_loss():
    weights = np.where(QID % 2, 1.0, 3.0)
    own, known = (rg.Ranker(model="linear", loss=loss, epochs=2, lr=0.01) for loss in (ModuleSoftmax(), "softmax"))
    scores = [each.fit(X, Y, qid=QID, sample_weight=weights).predict(X) for each in (own, known)]
    np.testing.assert_allclose(*map(centred, scores), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"sample_weight must be None for own:.*list_softmax, which takes no weights"):
        rg.Ranker(loss=list_softmax).fit(X, Y, qid=QID, sample_weight=weights)


def test_the_estimator_passes_on_callbacks_and_a_start():
    seen = []
    first = rg.Ranker(model="linear", epochs=5).fit(
        X, Y, qid=QID, callbacks=[lambda row: seen.append(row) or len(seen) > 1]
    )
    assert len(first.history_) == len(seen) == 2
    for start in (first, first.model_):
        again = rg.Ranker(model="linear", epochs=1, lr=1e-9).fit(X, Y, qid=QID, init_model=start)
        np.testing.assert_allclose(again.predict(X), first.predict(X), atol=1e-5)
