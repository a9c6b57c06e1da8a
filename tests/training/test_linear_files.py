"""Files of linear rankers for search engines: interpreters that read only the file give the scores of the model."""

import json

import numpy as np
import pytest
import torch
from engine_interpreters import scores_of
from typer.testing import CliRunner

from rankgrad import rankers
from rankgrad.cli import app
from rankgrad.data import Preprocessing, from_arrays
from rankgrad.training import Model, linear_files

NAMES = [f"feature_{number}" for number in range(1, 6)]


def linear(steps, features=5, constant=0.7):
    torch.manual_seed(1)
    ranker = rankers.build("linear", features=features)
    with torch.no_grad():
        ranker.head.bias.fill_(constant)
    return Model(ranker, steps)


def raw(count=200):
    rng = np.random.default_rng(2)
    scale, shift = np.array([1, 1e-4, 1e5, 3, 1]), np.array([0, 1e-3, -2e5, 40, 0])
    rows = (rng.standard_normal((count, 5)) * scale + shift).astype(np.float32)
    rows[:, 4] = 2.5  # a constant feature
    return rows


def standardised(text="standardise"):
    rows = raw()
    return Preprocessing.parse(text).fit(from_arrays(rows, np.zeros(len(rows)), qid=np.zeros(len(rows), dtype=int))[0])


@pytest.mark.parametrize("format", linear_files.FORMATS)
@pytest.mark.parametrize("text", ["standardise", "standardise,standardise"])
@pytest.mark.parametrize("constant", [0.0, 0.7, -30.0])
def test_engines_give_the_scores_of_a_standardised_model(constant, text, format, tmp_path):
    model = linear(standardised(text), constant=constant)
    done = model.export(tmp_path / "model.json", format=format)
    assert (done.format, done.difference < 1e-6) == (format, True)
    rows = raw()
    expected = model.score(rows)
    scale = max(1.0, float(np.abs(expected).max()))
    found = scores_of(tmp_path / "model.json", format, rows, NAMES)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("format", linear_files.FORMATS)
def test_the_constant_is_not_lost_in_a_large_mean(format, tmp_path):
    """A time in seconds has a large mean and the largest weight; float32 numbers near its mean are 128 apart."""
    rows = raw()
    rows[:, 0] = 1.7e9 + 1e7 * np.random.default_rng(3).standard_normal(len(rows))
    steps = Preprocessing.parse("standardise")
    steps = steps.fit(from_arrays(rows, np.zeros(len(rows)), qid=np.zeros(len(rows), dtype=int))[0])
    for constant in (0.3, 0.7, -1.1):
        model = linear(steps, constant=constant)
        with torch.no_grad():
            model.ranker.head.weight[0, 0] = 3.0
        done = model.export(tmp_path / "model.json", format=format)
        assert done.difference < 1e-6
        expected = model.score(rows)
        found = scores_of(tmp_path / "model.json", format, rows, NAMES)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("format", linear_files.FORMATS)
def test_engines_give_the_scores_of_a_model_without_preprocessing(format, tmp_path):
    model = linear(Preprocessing())
    model.feature_names = ("a", "b", "c", "d", "e")
    model.export(tmp_path / "mine.json", format=format)
    rows = np.random.default_rng(0).standard_normal((50, 5), dtype=np.float32)
    found = scores_of(tmp_path / "mine.json", format, rows, model.feature_names)
    np.testing.assert_allclose(found, model.score(rows), rtol=0, atol=1e-6)


@pytest.mark.parametrize("format", linear_files.FORMATS)
def test_what_is_not_linear_is_one_sentence(format, tmp_path):
    path = tmp_path / "model.json"
    must = f"model must have no preprocessing step except standardise for the format {format}"
    with pytest.raises(ValueError, match=rf"^{must}; got 'log1p'$"):
        linear(standardised("log1p,standardise")).export(path, format=format)
    mlp = Model(rankers.build("mlp", features=5, widths=[3]), Preprocessing())
    with pytest.raises(ValueError, match=rf"linear ranker or trees for the format {format}.*; got the ranker mlp$"):
        mlp.export(path, format=format)
    empty = linear(Preprocessing())
    with torch.no_grad():
        empty.ranker.head.weight.zero_()
    with pytest.raises(ValueError, match=f"^model must have at least one weight that is not 0 for the format {format}"):
        empty.export(path, format=format)
    assert not [*tmp_path.iterdir()]


def test_the_command_line_writes_a_file_for_solr(tmp_path):
    model = linear(standardised())
    model.save(tmp_path / "run")
    out = tmp_path / "mine.json"
    result = CliRunner().invoke(app, ["export", str(tmp_path / "run"), str(out), "--format", "solr", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["format"] == "solr"
    rows = raw()
    expected = model.score(rows)
    np.testing.assert_allclose(scores_of(out, "solr", rows, NAMES), expected, atol=1e-6 * np.abs(expected).max())
