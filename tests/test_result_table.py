"""Tables of results: in a notebook as HTML, as text, and as data frames."""

import html
import sys

import numpy as np
import pytest

import rankgrad as rg
from rankgrad.data.inspection import inspect
from rankgrad.experiments.comparison import compare
from rankgrad.models.feature_importance import FeatureImportance

HOSTILE = "<b>a & b</b>"
DATA = rg.data.synthetic(20, features=12, seed=1)
RESULTS = {
    "importance": FeatureImportance((HOSTILE, "age"), np.array([0.01, 0.2]), None, None, "gain", "share"),
    "comparison": compare(DATA.test.best, DATA.test.features[:, 0], DATA.test, rounds=10),
    "inspection": inspect(DATA),
    "evaluation": rg.metrics.evaluate([1.0, 2.0], [1, 0], "P@1", qid=[HOSTILE, "b"]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_notebook_shows_the_cells_of_the_text_table(name):
    result = RESULTS[name]
    shown, cells = result._repr_html_(), [cell for row in result.rows() for cell in row]
    assert shown.count("<tr>") == len(result.rows()) > 1
    assert shown.count("<td>") == len(cells)
    assert all(f"<td>{html.escape(cell)}</td>" in shown and cell in str(result) for cell in cells)
    assert all(html.escape(note) in shown and note in str(result) for note in result.notes())
    assert "<b>" not in shown


@pytest.mark.parametrize(("qid", "queries"), [([7, 3, 7], [7, 3]), (["07", "3", "07"], ["07", "3"]), (None, None)])
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_has_one_row_per_query_with_its_id(monkeypatch, kind, qid, queries):
    library = pytest.importorskip(kind)
    if kind == "polars":
        monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    layout = {"qid": qid} if qid else {"group": [1, 2]}
    found = rg.metrics.evaluate([2.0, 3.0, 1.0], [2, 1, 0], ["P@1", "RR"], **layout).to_frame()
    assert isinstance(found, library.DataFrame)
    assert list(found.columns) == [*(["query"] if qid else []), "P@1", "RR"]
    assert found["RR"].to_list() == [1.0, 1.0]
    assert not qid or found["query"].to_list() == queries


def test_a_frame_of_a_trained_model_has_the_ids_of_the_data():
    result = rg.data.evaluation.evaluate_lists(DATA.test.best, DATA.test, "nDCG@10")
    assert result.to_frame()["query"].tolist() == DATA.test.qids.tolist()
