"""Serve the ONNX file of a ranker: `python examples/serve_onnx.py model.onnx 8000`; POST {"features": [..., ...]}.

Each document is a list of values in the order of the features, or an object with the name of each feature.
"""

import json
import socket
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime

LARGEST = 10_000_000  # bytes of a request
DOCUMENTS = 10_000  # documents of a request; a ranker with attention needs memory for each pair of them


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1  # connections stay open; header and body are sent together
    default_request_version = "HTTP/1.0"  # the answer to a request line without a version has a status, too
    timeout = 30  # seconds after which a connection that sends nothing is closed

    def do_POST(self):
        self.reply(*self.answer())

    def send_error(self, code, message=None, explain=None):
        """Answer a request that the base class refuses."""
        self.reply(code, {"error": f"request must be an HTTP request with the method POST; got {message}"})

    def reply(self, status, answer):
        content = json.dumps(answer, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status != 200:
            self.send_header("Connection", "close")  # a part of the request may be unread
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        if status != 200:
            self.drain()

    def drain(self):
        """Read the rest of a request for some seconds. An answer is lost if data arrives at a closed connection."""
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            end = time.monotonic() + 5
            while time.monotonic() < end and self.connection.recv(1 << 16):
                pass

    def answer(self):
        """Return the status and the content of the answer."""
        length = self.headers.get("Content-Length", "")
        if not length or "Transfer-Encoding" in self.headers:
            return 411, {"error": "Content-Length must be given; got a request of unknown length"}
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            return 400, {"error": f"Content-Length must be a number of bytes; got {length[:20]!r}"}
        if int(length) > LARGEST:
            return 413, {"error": f"Content-Length must be at most {LARGEST}; got {length}"}
        try:
            content = self.rfile.read(int(length))
        except TimeoutError:
            return 408, {"error": f"request must be sent within {self.timeout} s; got less than {length} bytes"}
        if len(content) < int(length):
            return 400, {"error": f"Content-Length must be the length of the body; got {length} for {len(content)}"}
        try:
            features = matrix(json.loads(content)["features"])
            if np.isinf(features).any():
                return 400, {"error": "features must be float32 numbers, or null for a missing value; got infinity"}
            if features.shape[1] > DOCUMENTS:
                return 413, {"error": f"features must have at most {DOCUMENTS} documents; got {features.shape[1]}"}
            inputs = {"features": features, "mask": np.ones(features.shape[:2], dtype=bool)}
            scores = session.run(["scores"], inputs)[0][0]
        except Exception as error:
            must = "request must be a JSON object with features, a list of documents"
            return 400, {"error": f"{must}; got the error {error}"}
        if not np.isfinite(scores).all():
            hint = "the model takes no null, or a feature is too large"
            return 400, {"error": f"scores must be finite; got NaN or infinity: {hint}"}
        return 200, {"scores": scores.tolist()}


def matrix(documents):
    """Return the features of the documents (1, n, f), in the order of the model; null becomes NaN."""
    rows = [in_order(each) if isinstance(each, dict) else each for each in documents]
    if not isinstance(documents, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError("a document is not a list of values or an object with the names of the features")
    if str in set().union(*(map(type, row) for row in rows)):
        rows = [[code(*each) if isinstance(each[1], str) else each[1] for each in enumerate(row)] for row in rows]
    return np.array([rows], dtype=np.float32)


def in_order(document):
    """Return the values of a document with names, in the order of the model."""
    if not names:
        raise ValueError("the model has no names of features, and a document is an object")
    if lacking := [name for name in names if name not in document]:
        raise ValueError(f"a document has no feature {lacking[0]!r}")
    if len(document) > len(names):
        unknown = next(name for name in document if name not in names)
        raise ValueError(f"a document has the feature {unknown[:50]!r}, which the model does not have")
    values = [document[name] for name in names]
    for column in categories:
        values[column] = code(column, values[column])
    return values


def code(column, value):
    """Return the number of a category; None if it is missing or unknown, as in `rankgrad predict`."""
    if column not in categories or isinstance(value, list | dict):
        raise ValueError(f"feature {column + 1} has the value {str(value)[:50]!r}")
    whole = isinstance(value, float) and value.is_integer()
    text = value if isinstance(value, str) else json.dumps(int(value) if whole else value)
    return None if value is None else categories[column].get(text)


options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1  # many requests share the cores; each of them needs one
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
about = session.get_modelmeta().custom_metadata_map
names = json.loads(about.get("rankgrad.feature_names", "[]"))
known = json.loads(about.get("rankgrad.categories", "{}"))
categories = {int(column): {text: place for place, text in enumerate(texts)} for column, texts in known.items()}
ThreadingHTTPServer.request_queue_size = 1024  # clients that wait for a connection; others would be refused
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
