"""Exported models give the scores of the model, at any shape, in the programs that run them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankgrad import rankers
from rankgrad.data import Preprocessing, load
from rankgrad.rankers import MODELS
from rankgrad.training import Model
from rankgrad.training import export as module
from rankgrad.training.export import export

DATA = load("synthetic:lists=30,features=12").train
SHAPES = [(1, 7), (6, 21)]  # lists and documents; neither is one that `export` traces or checks itself

CASES = [
    ("mlp:widths=8,norm=batch,norm_place=after,input_norm=batch", "log1p,standardise"),
    pytest.param("mlp:widths=8,norm=layer,activation=gelu", "standardise_per_query,clip=2", marks=pytest.mark.long),
    pytest.param("mlp:widths=8", "quantile", marks=pytest.mark.long),
    ("linear", "none"),
    ("context_aware:width=8,heads=2,feed_forward=8,position=learned,positions=4", "standardise"),
    *(
        pytest.param(model, "standardise", marks=pytest.mark.long)
        for model in (
            "context_aware:width=8,feed_forward=8,position=fixed,output=tanh",
            "attsets:widths=8,head=8",
            "attsets:widths=8,head=8,mode=reweight",
            "attention_mil:widths=8,attention=4,gated=true,head=8",
            "attention_mil:widths=8,attention=4,mode=reweight,head=8",
            "dasalc:width=8,layers=2,head_size=4,projection=true",
        )
    ),
]


def make(text, preprocess):
    """A model whose batch norms have seen something, so that their statistics count."""
    torch.manual_seed(0)
    name, options = rankers.parse_ranker(text)
    model = Model(rankers.build(name, features=12, **options), Preprocessing.parse(preprocess).fit(DATA))
    with torch.no_grad():
        model.ranker.train()
        rows = torch.from_numpy(model.steps.transform(DATA.features, DATA.offsets))
        model.ranker(rows, torch.from_numpy(DATA.offsets))
    model.ranker.eval()
    return model


def lists_of(shape):
    """Rows of the data as padded lists with NaN for padding, the last list empty; what they are flat."""
    lists, n = shape
    rows = DATA.features[: lists * n].reshape(lists, n, 12).copy()
    lengths = np.array([1 + (3 * number) % n for number in range(lists)])
    if lists > 1:
        lengths[-1] = 0
    mask = np.arange(n) < lengths[:, None]
    flat = rows[mask]
    rows[~mask] = np.nan
    return rows, mask, flat, np.concatenate([[0], np.cumsum(lengths)])


def compare(model, run):
    for shape in SHAPES:
        rows, mask, flat, offsets = lists_of(shape)
        scores = run(rows, mask)
        assert scores.shape == shape
        assert np.isfinite(scores).all()
        np.testing.assert_allclose(scores[mask], model.score(flat, offsets), rtol=1e-5, atol=1e-5)


def in_onnxruntime(path):
    session = pytest.importorskip("onnxruntime").InferenceSession(str(path))
    return lambda rows, mask: session.run(["scores"], {"features": rows, "mask": mask})[0]


def in_torch(path):
    program = torch.export.load(str(path)).module()
    return lambda rows, mask: program(torch.from_numpy(rows), torch.from_numpy(mask)).detach().numpy()


def test_every_ranker_is_here():
    texts = [getattr(case, "values", case)[0] for case in CASES]
    assert {text.partition(":")[0] for text in texts} == set(MODELS)


@pytest.mark.parametrize(("text", "preprocess"), CASES)
def test_onnx_gives_the_scores_of_the_model(text, preprocess, tmp_path):
    pytest.importorskip("onnxscript")
    model, path = make(text, preprocess), tmp_path / "model.onnx"
    done = export(model, path)
    assert done.engine == "onnxruntime"
    assert done.difference < 1e-5
    compare(model, in_onnxruntime(path))
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]  # one file, all in it


def test_onnx_keeps_the_digits_of_tiny_features(tmp_path):
    pytest.importorskip("onnxscript")
    tiny = replace(DATA, features=DATA.features * np.float32(1e-6))
    model = Model(rankers.build("linear", features=12), Preprocessing.parse("log1p,standardise").fit(tiny))
    export(model, tmp_path / "model.onnx")
    rows = tiny.features[None, :20]
    scores = in_onnxruntime(tmp_path / "model.onnx")(rows, np.ones((1, 20), dtype=bool))
    np.testing.assert_allclose(scores[0], model.score(rows[0]), rtol=1e-5, atol=1e-5)


def test_onnx_names_its_axes(tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    export(make("linear", "none"), tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    found = {each.name: each.shape for each in (*session.get_inputs(), *session.get_outputs())}
    lists = ["lists", "documents"]
    assert found == {"features": [*lists, 12], "mask": lists, "scores": lists}


@pytest.mark.parametrize(("text", "preprocess"), CASES[:1] + CASES[4:])
def test_torch_export_gives_the_scores_of_the_model(text, preprocess, tmp_path):
    model, path = make(text, preprocess), tmp_path / "model.pt2"
    assert export(model, path).engine == "torch.export"
    compare(model, in_torch(path))


def test_a_format_goes_before_the_ending(tmp_path):
    model = make("linear", "none")
    assert export(model, tmp_path / "model.bin", format="torch").format == "torch"
    with pytest.raises(ValueError, match=r"path must end in \.onnx or \.pt2"):
        export(model, tmp_path / "model.bin")
    with pytest.raises(ValueError, match="format must be one of 'onnx', 'torch'"):
        export(model, tmp_path / "model.onnx", format="tflite")


@pytest.mark.parametrize(
    ("value", "must"), [(0.0, "differ from the model's scores by at most 1e-05"), (np.nan, "be finite")]
)
def test_a_file_that_scores_otherwise_is_not_written(value, must, tmp_path, monkeypatch):
    wrong = (b"content", "torch.export", lambda rows, mask: np.full(mask.shape, value))
    monkeypatch.setattr(module, "_torch", lambda program: wrong)
    with pytest.raises(ArithmeticError, match=f"exported scores must {must}"):
        export(make("linear", "none"), tmp_path / "model.pt2")
    assert not [*tmp_path.iterdir()]


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(ModuleNotFoundError, match=r"needs onnxscript: pip install 'rankgrad\[export\]'"):
        export(make("linear", "none"), tmp_path / "model.onnx")


def test_the_model_that_was_given_stays_as_it_was(tmp_path):
    model = make("mlp:widths=8,norm=batch", "standardise")
    before = {name: tensor.clone() for name, tensor in model.ranker.state_dict().items()}
    export(model, tmp_path / "model.pt2")
    assert not model.ranker.training
    for name, tensor in model.ranker.state_dict().items():
        assert torch.equal(tensor, before[name])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=130), st.lists(st.integers(-6, 6), min_size=1))
def test_halving_is_searchsorted(knots, values):
    knots, values = torch.tensor(sorted(knots)).float()[None], torch.tensor(values).float()[None]
    assert torch.equal(module._search(knots, values), torch.searchsorted(knots, values))


def test_log1p_keeps_the_digits_of_small_numbers():
    x = torch.tensor([0.0, 1e-30, 3e-9, 1.23456e-6, 0.3, -0.5, 7.0, 3e38])
    torch.testing.assert_close(module._log1p(x), torch.log1p(x), rtol=3e-7, atol=0)
