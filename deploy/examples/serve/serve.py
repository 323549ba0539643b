"""Serves a digits model over HTTP on loopback, and takes another one when it is instructed to."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy

from trackside.sdk import FetchError, Service, trial


class Model:
    """Weights and biases of a linear classifier, read from an .npz file that holds no code."""

    def __init__(self, path: Path) -> None:
        octets = path.read_bytes()
        self.sha256 = hashlib.sha256(octets).hexdigest()
        with numpy.load(path, allow_pickle=False) as arrays:
            self.weights, self.biases = arrays["weights"], arrays["biases"]
        if self.weights.shape != (10, 64) or self.biases.shape != (10,):
            raise ValueError(f"{path}: expected weights of 10 x 64 and 10 biases, got {self.weights.shape}")

    def digit(self, pixels: list[float]) -> int:
        """Returns the digit that an image of 8 x 8 pixels, each from 0 to 16, shows."""
        return int((self.weights @ numpy.asarray(pixels) + self.biases).argmax())


class Digits(Service):
    """Answers POST / with the digit of an image, and GET / with the digest of the model that it has.

    Its input `model` is what `train.py` has saved. Instructions: `{"model": {...}}`, a reference to another.
    """

    def load(self) -> None:
        """Reads the first model."""
        self.model = Model(trial.input("model"))

    def serve(self, device: str) -> None:
        """Serves until it is stopped; if a model can't be fetched or read, the one before stays in use."""
        with ThreadingHTTPServer(("127.0.0.1", 0), self.handler()) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            trial.ready(url=f"http://127.0.0.1:{server.server_port}/", sha256=self.model.sha256)
            while not trial.should_stop():
                instruction = trial.instruction(wait_s=0.5)
                if instruction is None:
                    continue
                try:
                    self.model = Model(trial.fetch(instruction.body["model"]))
                except (FetchError, KeyError, OSError, TypeError, ValueError) as error:
                    instruction.acknowledge(ok=False, reason=str(error), sha256=self.model.sha256)
                else:
                    instruction.acknowledge(sha256=self.model.sha256)
            server.shutdown()

    def handler(self) -> type[BaseHTTPRequestHandler]:
        """Returns the class that answers requests from the model that there is now."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, {"sha256": service.model.sha256})

            def do_POST(self) -> None:
                model = service.model
                try:
                    asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                    self.answer(200, {"digit": model.digit(asked["pixels"]), "sha256": model.sha256})
                except (KeyError, TypeError, ValueError) as error:
                    self.answer(400, {"problem": f"expected 64 pixels as a list: {error}"})

            def answer(self, status: int, body: dict[str, Any]) -> None:
                octets = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(octets)))
                self.end_headers()
                self.wfile.write(octets)

        return Handler
