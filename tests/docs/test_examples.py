"""The scripts in examples/ run and draw; the notebooks next to them contain the same cells."""

import json
import runpy
import shutil

import pytest
from paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
NOTEBOOKS = ["plot_lightgbm_first_hour", "plot_text"]  # the two longest
NEEDS = {"plot_from_data_frame": ["pandas"], "plot_lightgbm_first_hour": ["lightgbm"], "plot_text": ["bm25s"]}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run_and_draw(script, monkeypatch):
    for package in ["matplotlib", *NEEDS.get(script.stem, [])]:
        pytest.importorskip(package)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    names = runpy.run_path(str(script))
    assert pyplot.get_fignums()
    pyplot.close("all")
    if script.stem == "plot_text":
        assert names["after"]["nDCG@10"] > names["before"]["nDCG@10"]
    if script.stem == "plot_from_data_frame":
        assert names["found"].names[names["found"].values.argmin()] in ("noise", "sold")  # the labels ignore both


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_contain_the_cells_of_the_scripts(name, tmp_path):
    notebook = pytest.importorskip("sphinx_gallery.notebook")
    shutil.copy(ROOT / "examples" / f"{name}.py", tmp_path)
    notebook.python_to_jupyter_cli([str(tmp_path / f"{name}.py")])
    fresh, stored = (json.loads((folder / f"{name}.ipynb").read_text()) for folder in (tmp_path, ROOT / "examples"))
    repair = f"sphinx_gallery_py2jupyter examples/{name}.py"
    assert [cell["source"] for cell in stored["cells"]] == [cell["source"] for cell in fresh["cells"]], repair
    assert all(not cell.get("outputs") for cell in stored["cells"])
