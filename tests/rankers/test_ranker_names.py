"""Rankers by name: text, options, presets, and what is said about wrong ones."""

import json

import pytest
import torch
from test_rankers import CASES, F, each_ranker, made, rows_of
from torch import nn
from torch.testing import assert_close

from rankgrad import rankers
from rankgrad.data import Preprocessing
from rankgrad.rankers.batch_norm import BatchNorm


@each_ranker
def test_config_makes_the_same_architecture(case):
    ranker = made(case)
    config = ranker.config
    again = rankers.build(**json.loads(json.dumps(config)))
    assert again.config == config == made(case).config
    assert {name: t.shape for name, t in again.state_dict().items()} == {
        name: t.shape for name, t in ranker.state_dict().items()
    }
    config["features"] = 99
    config.get("widths", []).append(1)
    assert ranker.config == again.config


def test_every_model_has_a_case():
    assert {text.partition(":")[0] for text in CASES.values()} == set(rankers.MODELS)
    assert {kind.__name__ for kind in rankers.MODELS.values()} < set(rankers.__all__)
    assert all(name == kind.model for name, kind in rankers.MODELS.items())


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("mlp", "mlp", {}),
        (" MLP:Widths=256-128, dropout=0.1 ", "mlp", {"widths": [256, 128], "dropout": 0.1}),
        ("mlp:widths=64,dropout=1e-2,norm=None", "mlp", {"widths": 64, "dropout": 0.01, "norm": "none"}),
        ("context-aware:width=96,blocks=2,heads=1", "context_aware", {"width": 96, "blocks": 2, "heads": 1}),
        ("attention_mil:gated=TRUE,mode=Reweight", "attention_mil", {"gated": True, "mode": "reweight"}),
        ("SmoothI-DNN:dropout=0.2", "smoothi-dnn", {"dropout": 0.2}),
    ],
)
def test_parse(text, name, options):
    assert rankers.parse_ranker(text) == (name, options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("atsets", r"model must be a known name; got 'atsets'; did you mean 'attsets'\?"),
        ("lambdaloss-dn", "did you mean 'lambdaloss-dnn'?"),
        ("mlp@5", "without a cutoff"),
        ("mlp:width=3", r"option must be an option of mlp \(widths, .*\); got 'width'; did you mean 'widths'"),
        ("mlp:features=3", "option must be an option of mlp"),
        ("linear:bias=1", "option must be left out, because linear has no options; got 'bias'"),
        ("smoothi-dnn:drop=1", "did you mean 'dropout'"),
        ("mlp:widths=0", "widths must be an integer, at least 1; got 0"),
        ("mlp:widths=8-0.5", "each value of widths must be an integer, at least 1; got 0.5"),
        ("mlp:widths=8,widths=9", "contain the option widths only once"),
        ("mlp:norm=bach", "norm must be one of 'none', 'batch', 'layer'; got 'bach'"),
        ("mlp:norm_place=over", "norm_place must be one of"),
        ("mlp:input_norm=layer", "input_norm must be one of"),
        ("mlp:init=zero", "init must be one of"),
        ("mlp:activation=rleu", "did you mean 'relu'"),
        ("mlp:dropout=1", "dropout must be a number, at least 0 and below 1; got 1"),
        ("mlp:dropout=0.1-0.2-0.3", "dropout must be one number, or one number for each of the 2 hidden layers"),
        ("mlp:dropout=true", "dropout must be a number, at least 0"),
        ("mlp:noise=-1", "noise must be a finite number, at least 0; got -1"),
        ("context_aware:width=10,heads=3", "width must be a multiple of heads, 3; got 10"),
        ("context_aware:heads=0", "heads must be an integer"),
        ("context_aware:output=softmax", "output must be one of"),
        ("context_aware:position=sine", "position must be one of"),
        ("attsets:mode=pool", "mode must be one of 'pooled', 'reweight'"),
        ("attention_mil:gated=1", "gated must be true or false; got 1"),
        ("dasalc:layers=0", "layers must be an integer, at least 1"),
        ("dasalc:projection=2", "projection must be true or false"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(ValueError, match=message):
        rankers.parse_ranker(text)


def test_none_is_a_word():
    assert rankers.build("mlp", features=F, norm=None).config["norm"] == "none"


@pytest.mark.parametrize("features", [0, -1, 2.0, True, None])
def test_features_must_be_counted(features):
    with pytest.raises(ValueError, match="features must be an integer, at least 1"):
        rankers.build("linear", features=features)


@pytest.mark.skipif(torch.get_default_device().type != "cpu", reason="values on a GPU are not looked at")
def test_bad_input_is_named():
    ranker = made("context_aware", torch.float32)
    rows, offsets = rows_of([3, 2], torch.float32)
    for error, message, *arguments in (
        (ValueError, r"features must have shape \(documents, 5\); got \(5, 4\)", rows[:, :4], offsets),
        (ValueError, r"features must have shape \(documents, 5\); got \(1, 5, 5\)", rows[None], offsets),
        (TypeError, "features must be floating point", rows.long(), offsets),
        (ValueError, "offsets must be integers", rows, offsets.float()),
        (ValueError, "offsets must have a last value of at most 4, the number of documents; got 5", rows[:4], offsets),
        (ValueError, "offsets must start at 0; got 1", rows, torch.tensor([1, 5])),
        (ValueError, "offsets must not decrease; got decreasing offsets", rows, torch.tensor([0, 4, 3, 5])),
        (ValueError, "offsets must be on the device of features", rows, offsets.to("meta")),
    ):
        with pytest.raises(error, match=message):
            ranker(*arguments)
    with pytest.raises(ValueError, match="width must be at least the length of the longest list, 3; got 2"):
        ranker(rows, offsets, width=2)
    with pytest.raises(ValueError, match=r"mask must be boolean, of shape \(1, 5\)"):
        ranker.padded(rows[None], torch.ones(1, 5))
    with pytest.raises(ValueError, match=r"features must have shape \(lists, n, 5\)"):
        ranker.padded(rows, torch.ones(5) > 0)


def test_offsets_may_be_of_32_bits():
    ranker = made("context_aware", torch.float32)
    rows, offsets = rows_of([3, 2], torch.float32)
    assert_close(ranker(rows, offsets.int()), ranker(rows, offsets))


# Shapes of all weight matrices, in order, as the papers describe them.
SHAPES = {
    "lambdaloss-dnn": (136, [(1024, 136), (512, 1024), (256, 512), (1, 256)]),
    "smoothi-dnn": (46, [(1024, 46), (1, 1024)]),
    "neuralndcg-web30k": (136, [(96, 136), *[(288, 96), (96, 96), (384, 96), (96, 384)] * 2, (1, 96)]),
    "neuralndcg-istella": (220, [(128, 220), *[(384, 128), (128, 128), (384, 128), (128, 384)] * 2, (1, 128)]),
    "dasalc-web30k": (
        136,
        [(512, 136), (512, 512), (100, 136), *[(600, 100), (100, 200)] * 4, (512, 100), (1, 512)],
    ),
    "dasalc-yahoo": (
        699,
        [(512, 699), (512, 512), (100, 699), *[(1200, 100), (100, 400)] * 4, (512, 100), (1, 512)],
    ),
    "dasalc-istella": (
        220,
        [(3072, 220), (3072, 3072), (100, 220), *[(600, 100), (100, 200)] * 2, (3072, 100), (1, 3072)],
    ),
}


@pytest.mark.parametrize("name", rankers.PRESETS)
def test_presets_have_the_papers_shapes(name):
    features, shapes = SHAPES[name]
    with torch.device("meta"):
        ranker = rankers.build(name, features=features)
    linear = [tuple(each.weight.shape) for each in ranker.modules() if isinstance(each, nn.Linear)]
    assert linear == shapes
    assert rankers.parse_ranker(name.upper()) == (name, {})
    preset = rankers.PRESETS[name]
    assert ranker.config["model"] == preset.model
    assert preset.options.items() <= ranker.config.items()
    if preset.preprocess:
        assert str(Preprocessing.parse(preset.preprocess)) == preset.preprocess


def test_presets_have_the_papers_settings():
    of = rankers.PRESETS
    assert set(SHAPES) == set(of)
    dnn = rankers.build("lambdaloss-dnn", features=F)
    assert [dropout.p for dropout in dnn.tower.dropouts] == [0.5, 0.5, 0.8]
    assert [norm.momentum for norm in dnn.tower.norms] == [0.001] * 3
    smooth = rankers.build("smoothi-dnn", features=F)
    assert isinstance(smooth.input_norm, BatchNorm)
    assert not smooth.tower.norm_first
    assert not smooth.head.bias.any()
    for name, width, batch in (("web30k", 96, 64), ("istella", 128, 110)):
        preset = of[f"neuralndcg-{name}"]
        assert (preset.options["width"], preset.batch, preset.list_size, preset.epochs) == (width, batch, 240, 100)
        assert isinstance(rankers.build(f"neuralndcg-{name}", features=F).output, nn.Tanh)
    for name, noise, dropout, lr, batch in (
        ("web30k", 1.5, 0.4, 1e-3, 128),
        ("yahoo", 4.5, 0.7, 1e-4, 256),
        ("istella", 0.2, 0.4, 1e-3, 128),
    ):
        preset = of[f"dasalc-{name}"]
        assert (preset.options["noise"], preset.options["dropout"], preset.lr, preset.batch) == (
            noise,
            dropout,
            lr,
            batch,
        )
    with pytest.raises(TypeError):
        of["smoothi-dnn"].options["widths"] = [1]


@pytest.mark.parametrize("name", ["lightgbm", "XGBoost", "lightgbm:num_leaves=7"])
def test_trees_are_another_estimator(name):
    told = rf"trees.*rankgrad.trees.TreeRanker\('{name.lower().partition(':')[0]}'\)"
    with pytest.raises(ValueError, match=told):
        rankers.parse_ranker(name)
