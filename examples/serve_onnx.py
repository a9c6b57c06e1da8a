"""Serve the ONNX file of a ranker: `python examples/serve_onnx.py model.onnx 8000`; POST {"features": [[...], ...]}."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1  # connections stay open; header and body are sent together

    def do_POST(self):
        try:
            rows = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), 10_000_000)))["features"]
            # One list. A value that is null in JSON is NaN, a missing value.
            inputs = {"features": np.array([rows], dtype=np.float32), "mask": np.ones((1, len(rows)), dtype=bool)}
            status, answer = 200, {"scores": session.run(["scores"], inputs)[0][0].tolist()}
        except Exception as error:
            status, answer = 400, {"error": str(error)}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1  # many requests share the cores; each of them needs one
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
