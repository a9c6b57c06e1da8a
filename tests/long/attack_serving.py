"""Hostile requests to the example server: each has an answer with the right status, right ones with right scores."""

import atexit
import json
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http.client import HTTPResponse
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from paths import ROOT
from small_trees import quick

NAMES = ["bm25", "price", "age of the page", "ülk\u2028", "shop"]
SHOPS = ["ant", "7", "bee", "true"]
_WILD = (None, "x", "1.5", "", [], [1], {}, {"a": 1}, float("nan"), float("inf"), 1e39, -1e300, 10**400, True, "\ud800")


@cache
def _server():
    """Start a server of trees with a categorical feature."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 4)).astype(np.float32), columns=NAMES[:4])
    X = X.assign(shop=rng.choice(SHOPS, 400))
    y, qid = (X["bm25"] > 0) + X["shop"].map(dict(zip(SHOPS, (0, 3, 1, 2), strict=True))), np.repeat(range(40), 10)
    model = quick(trees=20, patience=None, holdout=0.0, categorical=["shop"]).fit(X, y, qid=qid).model_
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.export(path)
        command = [sys.executable, ROOT / "examples" / "serve_onnx.py", path, "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        atexit.register(process.kill)
        port = int(process.stdout.readline().rpartition(":")[2])
    return SimpleNamespace(model=model, process=process, port=port)


def _documents(server, rng, count):
    """Return documents as rows of JSON values, and the scores of the model."""
    rows = rng.normal(size=(count, 4)).astype(np.float32) * np.float32(10.0 ** rng.integers(-3, 4))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    shops = rng.choice([*SHOPS, "new"], count)
    codes = [server.model.categories[4].index(shop) if shop in SHOPS else np.nan for shop in shops]
    values = [[None if value != value else value for value in row] for row in rows.tolist()]
    return [[*row, shop] for row, shop in zip(values, shops.tolist(), strict=True)], server.model.score(
        np.column_stack([rows, np.float32(codes)])
    )


def _named(rows, rng):
    """Return the documents as objects, each with its names in another order; some categories are numbers or truths."""
    found = []
    for row in rows:
        row = [*row[:4], {"7": 7.0, "true": True}.get(str(row[4]), row[4]) if rng.random() < 0.5 else row[4]]
        found.append({NAMES[place]: row[place] for place in rng.permutation(5)})
    return found


def _exchange(server, content, end=False):
    """Send bytes, and return the status and the JSON value of the answer; `end` ends what the client sends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=25) as client:
        client.sendall(content)
        if end:
            client.shutdown(socket.SHUT_WR)
        answer = HTTPResponse(client, method=content[:4].decode("latin-1").strip())
        answer.begin()
        body = answer.read()
    found = json.loads(body) if body else {"error": " must ; got "}
    assert answer.status == 200 or (" must " in found["error"] and "; got " in found["error"]), (answer.status, found)
    return answer.status, found


def _post(body, length=None, header=b""):
    length = str(len(body)).encode() if length is None else length
    return b"POST / HTTP/1.1\r\nHost: a\r\n" + header + b"Content-Length: " + length + b"\r\n\r\n" + body


def _right(server, rng):
    """Send a right request, and compare the scores of the answer with those of the model."""
    rows, wanted = _documents(server, rng, int(rng.integers(1, 30)))
    sent = rows if rng.random() < 0.5 else _named(rows, rng)
    status, found = _exchange(server, _post(json.dumps({"features": sent, "more": 1}).encode()))
    assert status == 200, found
    np.testing.assert_allclose(found["scores"], wanted, rtol=0, atol=1e-5 * max(1, np.abs(wanted).max()))
    return "scored"


def _many(server, rng):
    seeds = rng.integers(2**32, size=100)
    with ThreadPoolExecutor(50) as clients:
        list(clients.map(lambda seed: _right(server, np.random.default_rng(seed)), seeds))
    return "scored"


def _wrong_names(server, rng):
    documents = _named(_documents(server, rng, 3)[0], rng)
    one, name = documents[rng.integers(3)], NAMES[rng.integers(5)]
    told, kind = name, rng.integers(3)
    if kind < 2:
        value = one.pop(name)
    if kind > 0:
        told = f"{name}?" if kind == 2 else name
        one[f"{name}?"] = 1 if kind == 2 else value
    status, found = _exchange(server, _post(json.dumps({"features": documents}).encode()))
    assert status == 400, found
    assert repr(told) in found["error"], found
    return "refused"


def _wild_value(server, rng):
    """One value is not a number: only a missing value, a truth and a category may have scores."""
    rows = _documents(server, rng, 3)[0]
    place, value = int(rng.integers(5)), _WILD[rng.integers(len(_WILD))]
    rows[1][place] = value
    sent = rows if rng.random() < 0.5 else _named(rows, rng)
    status, found = _exchange(server, _post(json.dumps({"features": sent}).encode()))
    if place < 4 and not (value is True or value is None or value != value):
        assert status == 400, (value, found)
    if status == 200:
        assert len(found["scores"]) == 3
    return "scored" if status == 200 else "refused"


def _wrong_shape(server, rng):
    rows = _documents(server, rng, 3)[0]
    wrong = (
        [row[:4] for row in rows], [[*row, 1] for row in rows], [rows[0], rows[1][:2]], [rows, rows], [], [[]], {},
        "ab", 7, None, rows[0], [rows[0], 5], [rows[0], _named(rows, rng)[1], None], {"a": rows}, [rows[:1]],
    )  # fmt: skip
    sent = wrong[rng.integers(len(wrong))]
    whole = ({"features": sent}, sent, {"feature": sent}, [sent])[rng.integers(4)]
    status, found = _exchange(server, _post(json.dumps(whole).encode()))
    assert status == 400, found
    return "refused"


def _damaged(server, rng):
    """Some bytes of a right request differ: it may still be JSON."""
    body = bytearray(json.dumps({"features": _documents(server, rng, 3)[0]}).encode())
    for _ in range(rng.integers(1, 5)):
        body[rng.integers(len(body))] = rng.integers(256)
    content = (bytes(body), bytes(rng.integers(256, size=99, dtype=np.uint8)), b"[" * 50_000)[
        min(2, rng.geometric(0.7) - 1)
    ]
    status, found = _exchange(server, _post(content))
    assert status in (200, 400), found
    return "scored" if status == 200 else "refused"


def _cut(server, rng):
    """The body is shorter or longer than its length, or the client ends in the middle of the request."""
    body = json.dumps({"features": _documents(server, rng, 3)[0]}).encode()
    place = int(rng.integers(1, len(body)))
    if rng.random() < 0.3:
        with socket.create_connection(("127.0.0.1", server.port), timeout=25) as client:
            client.sendall(_post(body)[: place + 20])
        return "left"
    content = _post(body[:place], str(len(body)).encode()) if rng.random() < 0.5 else _post(body, str(place).encode())
    status, found = _exchange(server, content, end=True)
    assert status == 400, found
    return "refused"


def _large(server, rng):
    rows = _documents(server, rng, 1)[0] * 10_001
    body = json.dumps({"features": rows}).encode() if rng.random() < 0.5 else b" " * (10_000_001 + rng.integers(10**7))
    status, found = _exchange(server, _post(body))
    assert status == 413, found
    return "refused"


def _wrong_length(server, rng):
    wrong = {
        b"-1": 400,
        b"1_0": 400,
        b"x": 400,
        b"9" * 5000: 400,
        b"1e3": 400,
        b"\xb2": 400,
        b"": 411,
        b"99999999999": 413,
    }
    length = list(wrong)[rng.integers(len(wrong))]
    chunked = rng.random() < 0.2
    header = b"Transfer-Encoding: chunked\r\n" if chunked else b""
    status, found = _exchange(server, _post(b"{}", length, header), end=True)
    assert status == (411 if chunked else wrong[length]), found
    return "refused"


def _no_post(server, rng):
    wrong = (
        b"GET / HTTP/1.1", b"HEAD / HTTP/1.1", b"PUT /", b"nonsense", b"POST / HTTP/9.9", b"POST / HTTP/x",
        b"\x16\x03\x01", b"POST " + b"a" * 70_000 + b" HTTP/1.1", b"POST / HTTP/1.1\r\nX: " + b"a" * 70_000, b"GET /",
        b"POST / HTTP/1.1\r\n" + b"X: 1\r\n" * 200, b"POST / HTTP/1.1 more",
    )  # fmt: skip
    status, found = _exchange(server, wrong[rng.integers(len(wrong))] + b"\r\n\r\n", end=True)
    assert status in (400, 414, 431, 501, 505), found
    return "refused"


def case(rng, folder):
    server = _server()
    kinds = (
        _right,
        _right,
        _many,
        _wrong_names,
        _wild_value,
        _wrong_shape,
        _damaged,
        _cut,
        _large,
        _wrong_length,
        _no_post,
    )
    kind = kinds[rng.integers(len(kinds))]
    ended = kind(server, rng)
    _right(server, rng)
    assert server.process.poll() is None, "the server has ended"
    return ended
