"""Old import paths and names: they work, with a message that says what to use."""

import importlib
import warnings

import pytest
from paths import SOURCE
from programs import finished

import rankgrad as rg
from rankgrad import moved

# Public names of version 0.1.0 that have another name now.
NAMES = {
    "rankgrad.data.Steps": "Preprocessing",
    "rankgrad.data.cut": "truncate",
    "rankgrad.data.FactsWarning": "BenchmarkWarning",
    "rankgrad.experiments.load": "load_recipe",
    "rankgrad.experiments.parse": "parse_recipe",
    "rankgrad.losses.parse": "parse_loss",
    "rankgrad.metrics.parse": "parse_metric",
    "rankgrad.rankers.parse": "parse_ranker",
    "rankgrad.surrogate.Plan": "PretrainSpec",
}


@pytest.mark.parametrize("name", NAMES)
def test_old_names_are_the_new_objects(name):
    package, _, old = name.rpartition(".")
    module = importlib.import_module(package)
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated; use {package}.{NAMES[name]}") as seen:
        assert getattr(module, old) is getattr(module, NAMES[name])
    assert [warning.filename for warning in seen] == [__file__]
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018


def test_old_modules_are_the_new_ones_and_gone_from_the_source():
    for old, new in moved.MODULES.items():
        assert not (SOURCE / f"{old.replace('.', '/')}.py").exists(), old
        assert (SOURCE / f"{new.replace('.', '/')}.py").exists(), new


SCRIPTS = {
    "from rankgrad.ranker import Ranker": ("ranker", "estimators.neural"),
    "from rankgrad.data import facts": ("data.facts", "data.benchmarks"),
    "import rankgrad.data.faults as faults": ("data.faults", "data.letor.errors"),
    "from rankgrad.experiments.results import pack": ("experiments.results", "experiments.runs.results"),
    "from rankgrad.experiments.report import gather": ("experiments.report.gather", "experiments.report.writer.gather"),
}


def test_old_paths_in_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("\n".join(["import warnings; warnings.simplefilter('default')", *SCRIPTS]))
    done = finished(code=f"import runpy; runpy.run_path({str(script)!r})")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("DeprecationWarning") == len(SCRIPTS), done.stderr
    for line, (old, new) in enumerate(SCRIPTS.values(), 2):
        assert f"script.py:{line}: DeprecationWarning: rankgrad.{old} is deprecated; use rankgrad.{new}" in done.stderr


def test_what_was_never_there_is_an_error_and_new_paths_are_silent():
    for name in ("rankgrad.data.nonsense", "rankgrad.nonsense"):
        with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
            importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.reload(importlib.import_module("rankgrad.metrics.sort_order"))
        assert rg.metrics.parse_metric("nDCG@5") == rg.metrics.nDCG @ 5


def test_pickles_of_version_0_1_find_their_class():
    import pickle

    new = pickle.dumps(rg.Ranker(epochs=3), protocol=0)
    ranker = new.replace(b"crankgrad.estimators.neural\n", b"crankgrad.ranker\n")
    assert b"crankgrad.ranker\n" in ranker
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert pickle.loads(ranker).epochs == 3
