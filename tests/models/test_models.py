"""The interface of all rankers: the registry, a kind from outside, and what every trained model can do."""

import importlib.metadata
import json
import sys

import numpy as np
import pytest
import yaml
from paths import TESTS
from programs import run_here as run
from tiny_study import no_processes, one_thread

from rankgrad import models
from rankgrad.data import load
from rankgrad.models import kind_of, registry
from rankgrad.models.folder import CONFIG, write_config

KINDS = TESTS / "kinds"
TINY = "synthetic:lists=40,features=10"

_one_thread = pytest.fixture(one_thread, autouse=True, scope="module")


def test_a_foreign_kind_has_at_most_30_lines_of_its_own():
    source = (KINDS / "least_squares.py").read_text().splitlines()
    lines = [line for line in source if line.strip() and not line.startswith(("import ", "from ", '"""'))]
    assert len(lines) <= 30


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A folder with the module of a foreign kind, which the commands are run in, and which is forgotten after."""
    (tmp_path / "least_squares.py").write_text((KINDS / "least_squares.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setenv(registry.IMPORTS, "")
    yield tmp_path
    sys.modules.pop("least_squares", None)
    registry._imported.cache_clear()


CUSTOM_PREFIX = ("--import", "least_squares")


def test_a_foreign_kind_goes_through_every_command(foreign, monkeypatch):
    advice = "see `rankgrad list models`; for a custom kind, use --import with the module that registers the kind"
    with pytest.raises(ValueError, match=f"^model must be a known name; got 'least_squares'; {advice}$"):
        run("train", "--data", TINY, "--model", "least_squares", "--out", "a")
    told = run("train", "--data", TINY, "--model", "least_squares", "--set", "ridge=0.5", "--out", "a", *CUSTOM_PREFIX)
    assert "training least_squares" in told
    assert "nDCG@10" in told
    assert json.loads((foreign / "a" / CONFIG).read_text())["kind"] == "least_squares"
    assert "nDCG@10" in run("evaluate", "a", *CUSTOM_PREFIX)
    (foreign / "some.txt").write_text(
        "".join(f"1 qid:1 {' '.join(f'{j}:{i}' for j in range(1, 11))}\n" for i in range(3))
    )
    run("predict", "a", "some.txt", "--out", "scores.txt", *CUSTOM_PREFIX)
    rows = np.arange(3, dtype=np.float32)[:, None] * np.ones(10, dtype=np.float32)
    scores = [float(line) for line in (foreign / "scores.txt").read_text().split()]
    assert scores == pytest.approx(models.load("a").score(rows), abs=1e-6)
    with monkeypatch.context() as patch:
        no_processes(patch)  # those of the experiment below show that processes know the kind, too
        told = run("tune", "--data", TINY, "--model", "least_squares", "--budget", 4, "--out", "best", *CUSTOM_PREFIX)
    assert "4 trials. The first trial has the default settings" in told
    assert json.loads((foreign / "best" / CONFIG).read_text())["kind"] == "least_squares"
    assert "a - b" in run("compare", "a", "best", *CUSTOM_PREFIX)
    recipe = {
        "title": "Two", "data": [TINY], "settings": {"epochs": 2}, "metrics": ["nDCG@10"], "losses": {"MSE": "mse"},
        "models": {"OLS": {"model": "least_squares", "search": {"ridge": [0.1, 10.0]}}, "Linear": {"model": "linear"}},
        "trials": 2,
    }  # fmt: skip
    (foreign / "two.yaml").write_text(yaml.safe_dump(recipe))
    told = run("experiment", "two.yaml", "--jobs", 2, "--out", "results", *CUSTOM_PREFIX)
    assert "OLS" in told
    run("report", "results", "--out", "report.html", *CUSTOM_PREFIX)
    assert "OLS" in (foreign / "report.html").read_text()
    assert "least_squares" in run("list", "models", *CUSTOM_PREFIX)
    with pytest.raises(ValueError, match="model must be of a kind that can be exported; got LinearModel"):
        run("export", "a", "a.onnx", *CUSTOM_PREFIX)
    with pytest.raises(ValueError, match="ridge must be at least 0; got -1"):
        run("train", "--data", TINY, "--model", "least_squares", "--set", "ridge=-1", "--out", "c", *CUSTOM_PREFIX)
    with pytest.raises(ModuleNotFoundError, match="--import must name a module that can be imported; got 'no_such'"):
        run("list", "models", "--import", "no_such")


def test_a_folder_of_a_foreign_kind_says_what_is_missing(tmp_path):
    write_config(tmp_path, "least_squares", {})
    with pytest.raises(ValueError, match=r"must have a known kind .*--import.*; got 'least_squares'"):
        models.load(tmp_path)


def test_a_kind_of_an_entry_point_is_loaded_when_its_name_is_asked_for(monkeypatch):
    class Point:
        name, loaded = "pointed", 0

        def load(self):
            type(self).loaded += 1
            return type("Pointed", (Quiet,), {"name": "pointed"})

    monkeypatch.setattr(registry, "entry_points", lambda group: [Point()] if group == "rankgrad.models" else [])
    assert kind_of("mlp").name == "neural"
    with pytest.raises(ValueError, match="model must be a known name"):
        kind_of("something")
    seen = Point.loaded  # to say what is known, all are asked
    assert kind_of("pointed:x=1").name == "pointed"
    assert Point.loaded == seen + 1
    assert importlib.metadata.entry_points(group="rankgrad.models") is not None


@pytest.mark.parametrize("command", [("train", "--out", "a"), ("tune", "--budget", "1", "--out", "b")])
def test_settings_of_an_unknown_model_are_not_judged(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^model must be a known name; got 'lightgmb'; did you mean 'lightgbm'\?$"):
        run(*command, "--data", TINY, "--model", "lightgmb", "--set", "num_leaves=31")
    with pytest.raises(ValueError, match=r"^model must be .*\?\nlr must be above 0 and finite; got -1$"):
        run(*command, "--data", TINY, "--model", "lightgmb", "--set", "num_leaves=31", "--set", "lr=-1")


class Quiet(models.RankerKind):
    """Does nothing."""

    name = "quiet"

    def check(self, settings):
        pass

    def fit(self, settings, train, validation=None, **_):
        raise NotImplementedError

    def load(self, folder, device="cpu"):
        raise NotImplementedError


def test_a_kind_cannot_take_a_name_of_the_package(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    for taken in ("mlp", "lightgbm", "blend", "trees", "neural"):
        monkeypatch.setattr(Quiet, "name", taken)
        with pytest.raises(ValueError, match="name of a kind must not be a name that rankgrad itself uses"):
            models.register(Quiet())
    with pytest.raises(TypeError, match="kind must be a RankerKind; got str"):
        models.register("mlp")
    monkeypatch.setattr(Quiet, "name", "quiet")
    own = models.register(Quiet())
    assert kind_of("Quiet:a=1") is own


def test_a_folder_names_a_kind_and_nothing_is_imported_for_it(tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for said in ("evil", "evil:Kind", "../evil", 3, ["evil"]):
        write_config(tmp_path, said, {})
        with pytest.raises(ValueError, match="must have a known kind"):
            models.load(tmp_path)
    assert "evil" not in sys.modules


@pytest.fixture(scope="module")
def trained():
    lists = load(TINY)
    made = {}
    for text, more in (("linear", {"epochs": 3}), ("lightgbm", {"trees": 5}), ("xgboost", {"trees": 5})):
        kind = kind_of(text)
        try:
            made[text] = kind.fit({"model": text, **more}, lists.train, lists.validation)
        except ImportError:
            continue
    return made, lists


def test_every_model_keeps_the_protocol(trained, tmp_path):
    made, lists = trained
    test = lists.test
    for text, model in made.items():
        assert isinstance(model, models.TrainedModel)
        assert model.features == 10
        assert model.kept >= 1
        assert model.size > 0
        assert model.history[0][model.unit] == 1
        model.save(tmp_path / text)
        read = models.load(tmp_path / text)
        np.testing.assert_array_equal(read.score(test.features, test.offsets), model.score(test.features, test.offsets))
        assert read.evaluate(test, ["nDCG@10"])["nDCG@10"] == model.evaluate(test, ["nDCG@10"])["nDCG@10"]
        shares = model.feature_importance(test, repeats=1).values
        assert shares.shape == (10,)
        assert shares.max() > 0.01
        assert model.feature_importance(test, repeats=1, seed=0).values == pytest.approx(shares)


def test_a_blend_is_trained_from_folders(trained, tmp_path):
    made, _ = trained
    for text, model in made.items():
        model.save(tmp_path / text)
    parts = "|".join(str(tmp_path / text) for text in made)
    told = run("train", "--data", TINY, "--model", "blend", "--set", f"parts={parts}", "--out", tmp_path / "b")
    assert "training blend" in told
    both = models.load(tmp_path / "b")
    assert len(both.weights) == len(made)
    assert both.weights.sum() == pytest.approx(1.0)
    assert "nDCG@10" in run("evaluate", tmp_path / "b")
    with pytest.raises(ValueError, match="parts must be folders of trained models"):
        run("train", "--data", TINY, "--model", "blend", "--out", tmp_path / "c")
