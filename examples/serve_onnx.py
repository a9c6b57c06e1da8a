"""Serve the ONNX file of a ranker: `python examples/serve_onnx.py model.onnx 8000`; POST {"features": [[...], ...]}."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime

LARGEST = 10_000_000  # bytes of a request


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1  # connections stay open; header and body are sent together
    timeout = 30  # seconds after which a connection that sends nothing is closed

    def do_POST(self):
        status, answer = self.answer()
        content = json.dumps(answer, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status != 200:
            self.send_header("Connection", "close")  # a part of the request may be unread
        self.end_headers()
        self.wfile.write(content)

    def answer(self):
        """Return the status and the content of the answer."""
        length = self.headers.get("Content-Length", "")
        if not length or "Transfer-Encoding" in self.headers:
            return 411, {"error": "Content-Length must be given; got a request of unknown length"}
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            return 400, {"error": f"Content-Length must be a number of bytes; got {length[:20]!r}"}
        if int(length) > LARGEST:
            return 413, {"error": f"Content-Length must be at most {LARGEST}; got {length}"}
        content = self.rfile.read(int(length))
        try:
            features = np.array([json.loads(content)["features"]], dtype=np.float32)  # one list; null becomes NaN
            if np.isinf(features).any():
                return 400, {"error": "features must be float32 numbers, or null for a missing value; got infinity"}
            inputs = {"features": features, "mask": np.ones(features.shape[:2], dtype=bool)}
            scores = session.run(["scores"], inputs)[0][0]
        except Exception as error:
            must = "request must be a JSON object with features, a list of rows of numbers"
            return 400, {"error": f"{must}; got the error {error}"}
        if not np.isfinite(scores).all():
            hint = "the model takes no null, or a feature is too large"
            return 400, {"error": f"scores must be finite; got NaN or infinity: {hint}"}
        return 200, {"scores": scores.tolist()}


options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1  # many requests share the cores; each of them needs one
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
