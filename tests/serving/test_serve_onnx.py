"""The example server: it answers with the scores of the model, and with a sentence if a request is wrong."""

import http.client
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from paths import ROOT
from small_trees import lists, plan, quick

import rankgrad as rg
from rankgrad.trees.boosting import boost


@contextmanager
def serving(path):
    command = [sys.executable, ROOT / "examples" / "serve_onnx.py", path, "0"]  # port 0: a free port
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    pytest.importorskip("onnxruntime")
    model = boost(plan("lightgbm"), lists(0, nan=True), None)
    path = tmp_path_factory.mktemp("served") / "model.onnx"
    model.export(path)
    with serving(path) as address:
        yield model, address


def ask(address, content):
    with urllib.request.urlopen(urllib.request.Request(address, data=content), timeout=20) as answer:
        return json.loads(answer.read())


def test_the_server_answers_with_the_scores_of_the_model(served):
    model, address = served
    rows = lists(7, nan=True).features[:40]
    sent = [[None if np.isnan(value) else value for value in row] for row in rows.tolist()]
    scores = ask(address, json.dumps({"features": sent}).encode())["scores"]
    np.testing.assert_allclose(scores, model.score(rows), rtol=1e-5, atol=1e-6)


def fitted(kind, frame, y, qid):
    """Return a ranker that was trained on a frame with the categorical column `shop`."""
    options = {"epochs": 2, "missing": "mean", "device": "cpu", "holdout": 0.0, "categorical": ["shop"]}
    trees = quick(trees=5, patience=None, holdout=0.0, categorical=["shop"])
    made = {"network": [rg.Ranker("mlp:widths=8", **options)], "trees": [trees]}
    made["blend"] = made["network"] + made["trees"]
    rankers = [ranker.fit(frame, y, qid=qid) for ranker in made[kind]]
    return rankers[0] if len(rankers) == 1 else rg.blend(rankers).fit(frame, y, qid=qid)


@pytest.mark.parametrize("kind", ["network", "trees", "blend"])
def test_features_and_categories_by_name(kind, tmp_path):
    pandas, runtime = pytest.importorskip("pandas"), pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(4)
    frame = pandas.DataFrame(rng.normal(size=(240, 3)), columns=["bm25", "price", "9"])
    frame = frame.assign(shop=rng.choice(["ant", "7", "bee"], 240))
    frame.loc[rng.random(240) < 0.2, "price"] = None
    labels = (frame["shop"] == "bee").astype(int) + (frame["bm25"] > 0)
    ranker = fitted(kind, frame, labels, np.repeat(range(24), 10))
    path = tmp_path / "model.onnx"
    ranker.model_.export(path)
    about = runtime.InferenceSession(path).get_modelmeta().custom_metadata_map
    assert {key: about[key] for key in about if key.startswith("rankgrad.")} == {
        "rankgrad.version": rg.__version__,
        "rankgrad.feature_names": '["bm25", "price", "9", "shop"]',
        "rankgrad.categories": '{"3": ["7", "ant", "bee"]}',
    }
    some = frame[:10].assign(shop=["ant", "7", "bee", None, "new"] * 2)
    wanted = ranker.predict(some, qid=np.zeros(10))
    rows = [[None if value != value else value for value in row] for row in some.to_numpy(dtype=object).tolist()]
    named = [dict(reversed([*zip(frame.columns, row, strict=True)])) for row in rows]
    named[1]["shop"] = 7.0  # a number and its text are the same category, as in a table
    with serving(path) as address:
        for sent in (named, rows):
            got = ask(address, json.dumps({"features": sent}).encode())["scores"]
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
        del named[3]["9"]
        assert refused(address, json.dumps({"features": named}).encode()).endswith("a document has no feature '9'")
        named[3] |= {"9": 1, "prize": 2}
        assert "the feature 'prize', which" in refused(address, json.dumps({"features": named}).encode())
        named[3] = {**named[2], "price": "12"}
        assert refused(address, json.dumps({"features": named}).encode()).endswith("feature 2 has the value '12'")


def test_no_request_of_a_hundred_clients_is_lost(served):
    content = json.dumps({"features": [[1, 2, 3, 4]] * 3}).encode()
    wanted = ask(served[1], content)
    with ThreadPoolExecutor(100) as clients:  # each request has its own connection
        answers = [*clients.map(lambda _: ask(served[1], content), range(2000))]
    assert answers == [wanted] * 2000


def refused(address, content):
    """Return the error of an answer with status 400."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(address, content)
    with caught.value as answer:
        assert answer.code == 400
        return json.loads(answer.read())["error"]


WRONG = [
    b"{", b"{}", b"[]", b'{"features": [[1, 2]]}', b'{"features": ["a"]}', b'{"features": []}', b"[" * 9999,
    b'{"features": [["1", 2, 3, 4]]}', b'{"features": {"a": 1}}', b'{"features": [{"a": 1}]}', b"\xff",
]  # fmt: skip


@pytest.mark.parametrize("content", WRONG)
def test_a_wrong_request_has_an_answer(served, content):
    must = "request must be a JSON object with features, a list of documents; got the error "
    assert refused(served[1], content).startswith(must)


@pytest.mark.parametrize("value", ["1e39", "-1e39", "Infinity"])
def test_a_number_beyond_float32_is_refused(served, value):
    assert refused(served[1], f'{{"features": [[1, 2, 3, {value}]]}}'.encode()) == (
        "features must be float32 numbers, or null for a missing value; got infinity"
    )


def test_a_model_that_takes_no_missing_values(tmp_path):
    """Its scores would be NaN, which JSON does not have."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    features = helper.make_tensor_value_info("features", number, ["lists", "documents", 2])
    mask = helper.make_tensor_value_info("mask", onnx.TensorProto.BOOL, ["lists", "documents"])
    scores = helper.make_tensor_value_info("scores", number, ["lists", "documents"])
    total = helper.make_node("ReduceSum", ["features", "axis"], ["scores"], keepdims=0)
    axis = onnx.numpy_helper.from_array(np.array([-1]), "axis")
    graph = helper.make_graph([total], "sums", [features, mask], [scores], [axis])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    with serving(tmp_path / "model.onnx") as address:
        assert ask(address, b'{"features": [[1, 2], [3, 4]]}') == {"scores": [3, 7]}
        must = "scores must be finite; got NaN or infinity"
        hint = "the model takes no null, or a feature is too large"
        assert refused(address, b'{"features": [[1, 2], [3, null]]}') == f"{must}: {hint}"
        assert refused(address, b'{"features": [[3e38, 3e38]]}') == f"{must}: {hint}"


HEADERS = [
    (b"Content-Length: -1", 400), (b"Content-Length: 1_0", 400), (b"Content-Length: " + b"9" * 5000, 400),
    (b"Content-Length: 10000001", 413), (b"X: 1", 411), (b"Transfer-Encoding: chunked", 411),
    (b"Transfer-Encoding: chunked\r\nContent-Length: 2", 411),
    (b"Content-Length: 10000001\r\n\r\n" + b"1" * 10**7, 413),  # a client that sends everything reads the answer
    (b'Content-Length: 40\r\n\r\n{"features": [[1, 2, 3, 4]]}', 400),
]  # fmt: skip


@pytest.mark.parametrize(("header", "status"), HEADERS, ids=lambda value: str(value)[:40])
def test_a_body_that_cannot_be_read_ends_the_connection(served, header, status):
    port = int(served[1].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(4096), b""))  # until the server ends the connection
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert head.count(b"HTTP/1.1") == 1
    assert json.loads(body)["error"].startswith("Content-Length must be ")


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1", b"NONSENSE", b"POST / HTTP/9.9", b"A" * 70_000])
def test_a_request_that_is_no_post_has_an_answer(served, request_line):
    port = int(served[1].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(request_line + b"\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 414 ", b"HTTP/1.1 501 ", b"HTTP/1.1 505 "))
    assert json.loads(body)["error"].startswith("request must be an HTTP request with the method POST; got ")


def test_an_open_connection_answers_more_than_once(served):
    model, address = served
    client = http.client.HTTPConnection(address.removeprefix("http://"), timeout=10)
    for _ in range(3):
        client.request("POST", "/", b'{"features": [[1, 2, 3, 4]]}')
        with client.getresponse() as answer:
            (score,) = json.loads(answer.read())["scores"]
        assert score == pytest.approx(model.score(np.array([[1, 2, 3, 4]]))[0], abs=1e-5)
    client.close()
