"""The example server: it answers with the scores of the model, and with a sentence if a request is wrong."""

import json
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
from paths import ROOT
from small_trees import lists, plan

from rankgrad.trees.boosting import boost


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    pytest.importorskip("onnxruntime")
    model = boost(plan("lightgbm"), lists(0, nan=True), None)
    path = tmp_path_factory.mktemp("served") / "model.onnx"
    model.export(path)
    command = [sys.executable, ROOT / "examples" / "serve_onnx.py", path, "0"]  # port 0: a free port
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield model, server.stdout.readline().strip()
        finally:
            server.kill()


def ask(address, content):
    with urllib.request.urlopen(urllib.request.Request(address, data=content), timeout=20) as answer:
        return json.loads(answer.read())


def test_the_server_answers_with_the_scores_of_the_model(served):
    model, address = served
    rows = lists(7, nan=True).features[:40]
    sent = [[None if np.isnan(value) else value for value in row] for row in rows.tolist()]
    scores = ask(address, json.dumps({"features": sent}).encode())["scores"]
    np.testing.assert_allclose(scores, model.score(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("content", [b"{", b"{}", b'{"features": [[1, 2]]}', b'{"features": ["a"]}'])
def test_a_wrong_request_has_an_answer(served, content):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(served[1], content)
    with caught.value as answer:
        assert answer.code == 400
        assert json.loads(answer.read())["error"]
