"""An inference service: serves a model over HTTP on loopback, and takes another one between two requests."""

import sys
import threading
import traceback
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from trackside.eventlog.clock import monotonic_s
from trackside.incremental.model_files import digest_of, read_model
from trackside.incremental.serving.hard_examples import DatasetFile, HardExample, HardExampleStore
from trackside.incremental.serving.http_front import FrontLimits, HttpAnswer, HttpFront, HttpProblem, encoded
from trackside.incremental.serving.miners import find_miner
from trackside.incremental.serving.serving_messages import (
    ServedVersion,
    ServiceSettings,
    read_settings,
    read_update,
)
from trackside.sdk import Service, trial
from trackside.sdk.in_task.instructions import GivenInstruction
from trackside.sdk.recent_artifacts import RecentArtifacts

LOOK_S = 0.25
"""How long a call waits for an instruction, so that a stop is noticed in time."""
MAX_MESSAGE = 500
MAX_COMPLAINTS = 100
"""How many problems, each of another text, a process writes to its output."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that was loaded, and what every answer that it gives says of it."""

    model: Any
    update: int
    version: ServedVersion
    sha256: str

    def names(self) -> dict[str, Any]:
        """Returns update, model, version and digest."""
        return {
            "update": self.update,
            "model": self.version.model,
            "version": self.version.version,
            "sha256": self.sha256,
        }


@dataclass(slots=True)
class ServingCounts:
    """What a service has counted since its process began. Guarded by the lock of its owner."""

    inferences: int = 0
    hard: int = 0
    errors: int = 0
    """Requests whose `predict` raised."""
    mining_errors: int = 0
    """Answers whose scores or sample could not be used; they are not hard."""


class InferenceService(Service):
    """Serves the newest model that it was given; users make a subclass with `predict` and what loads it.

    Its type has `runner: service` in the worker's catalogue. It begins with its input `model`, or with the
    model of its newest instruction. Each instruction names another one, which is loaded next to the one that
    is served; requests that began before the change are answered by the one before. One that can't be loaded
    changes nothing. See docs/rounds.md.
    """

    threads: ClassVar[int] = 1
    """How many threads call `predict`. More than one may call it, `scores` and the miner at the same time."""
    limits: ClassVar[FrontLimits] = FrontLimits()
    model_format = "file"
    """The format of the model that `load_model` is called for."""

    def make_model(self) -> Any:
        """Returns a new torch.nn.Module, which `load_model` fills with the weights of a file."""
        raise NotImplementedError(f"{type(self).__name__} has no make_model(self)")

    def load_model(self, path: Path, device: str) -> Any:
        """Returns the model of a file, on `device`; an error leaves the one before in use.

        Tensors (`safetensors`, `torch`) become the state of what `make_model` returns; of another format it
        is what `read_model` returns.
        """
        found = read_model(path, self.model_format, device)
        if self.model_format not in ("safetensors", "torch"):
            return found
        model = self.make_model()
        model.load_state_dict(found)
        return model.to(device).eval()

    def predict(self, model: Any, inputs: Any) -> Any:
        """Returns the outputs for the inputs of one request: what JSON can hold, or arrays or tensors."""
        raise NotImplementedError(f"{type(self).__name__} has no predict(self, model, inputs)")

    def scores(self, inputs: Any, outputs: Any) -> Any:
        """Returns the scores that the miner reads; the outputs, unless overridden."""
        return outputs

    def as_sample(self, inputs: Any) -> str:
        """Returns the line of a dataset for inputs; those that are a text, unless overridden."""
        if not isinstance(inputs, str):
            raise TypeError(f"{type(self).__name__} needs as_sample(self, inputs) -> str for its dataset")
        return inputs

    def serve(self, device: str) -> None:
        """Serves until it is stopped. Raises what `load_model` raises for the first model."""
        trial.should_stop()  # from here on SIGTERM is noticed
        settings = read_settings(trial.parameters())
        serving = _Serving(self, settings, device)
        serving.begin()
        front = HttpFront(serving.answer, serving.describe, self.threads, self.limits)
        with front.serve(settings.port) as address:
            serving.run(address)
        serving.end(address)


class _Serving:
    """One run of a service: the model that is served, its counts, and its hard examples.

    The main thread waits for instructions and reports, one loads models, others answer requests. A request
    reads the reference to the model once, so that it has one answer of one model.
    """

    def __init__(self, service: InferenceService, settings: ServiceSettings, device: str) -> None:
        self._service = service
        self._settings = settings
        self._device = device
        self._loaded: LoadedModel | None = None
        self._lock = threading.Lock()
        self._counts = ServingCounts()
        mining = settings.hard_examples
        self._miner = None if mining is None else find_miner(mining.miner, mining.parameters)
        target = None if mining is None else mining.append_to
        dataset = None if target is None else DatasetFile(target)
        self._store = HardExampleStore(dataset, settings.window_s, trial.save)
        self._said = ServingCounts()
        self._first: tuple[GivenInstruction, LoadedModel | str] | None = None
        self._complaints: set[str] = set()
        self._artifacts = RecentArtifacts()

    def begin(self) -> None:
        """Loads the model of the newest instruction; without one, or if it fails, that of the parameters."""
        given = trial.instruction()
        if given is not None:
            outcome = self._load_given(given)
            self._first = (given, outcome)
            self._loaded = outcome if isinstance(outcome, LoadedModel) else None
        if self._loaded is None:
            self._loaded = self._load_input()

    def run(self, address: str) -> None:
        """Reports itself ready; takes instructions, and reports after each window, until it is stopped."""
        self._say_ready(address)
        if self._first is not None:
            self._take(*self._first)
        window_s = self._settings.window_s
        due_s = monotonic_s() + window_s
        loader = ThreadPoolExecutor(1, "loading")
        loading: Future[LoadedModel | str] | None = None
        given: GivenInstruction | None = None
        while not trial.should_stop():
            if loading is None:
                given = trial.instruction(max(0.0, min(LOOK_S, due_s - monotonic_s())))
                loading = None if given is None else loader.submit(self._load_given, given)
            else:
                wait([loading], timeout=LOOK_S)
                trial.channel().alive()
            if loading is not None and given is not None and loading.done():
                self._take(given, loading.result())
                loading = None
                self._say_ready(address)
            if monotonic_s() >= due_s:
                due_s = monotonic_s() + window_s
                self.end_window()
                if self._counted() != self._said:
                    self._say_ready(address)
        loader.shutdown(wait=False, cancel_futures=True)

    def end(self, address: str) -> None:
        """Stores what is left of the last window, and reports its counts; all requests are answered."""
        self.end_window(is_last=True)
        if self._counted() != self._said:
            self._say_ready(address)

    def answer(self, inputs: Any) -> HttpAnswer:
        """Returns the answer to a request, by the model that is served when it begins."""
        loaded = self._current()
        try:
            outputs = self._service.predict(loaded.model, inputs)
        except Exception as error:
            message = f"predict raised {type(error).__name__}: {error}"[:MAX_MESSAGE]
            self._complain(message, error)
            self._count(errors=1)
            raise HttpProblem(500, "predict_failed", message) from error
        is_hard = self._is_hard(loaded, inputs, outputs)
        try:
            content = encoded({"outputs": outputs, "hard": is_hard, **loaded.names()})
        except HttpProblem:
            self._count(errors=1)
            raise
        self._count(inferences=1, hard=is_hard)
        headers = {
            "Trackside-Model-Version": str(loaded.version.version),
            "Trackside-Model-Sha256": loaded.sha256,
        }
        return HttpAnswer(content, 200, headers)

    def describe(self) -> HttpAnswer:
        """Returns what is served, and what was counted."""
        loaded = self._current()
        return HttpAnswer({**loaded.names(), "format": loaded.version.format, **asdict(self._counted())})

    def end_window(self, is_last: bool = False) -> None:
        """Appends and stores the hard examples of the window."""
        for problem in self._store.end_window(is_last):
            self._complain(problem)

    def _current(self) -> LoadedModel:
        assert self._loaded is not None, "requests come after the first model"
        return self._loaded

    def _count(self, inferences: int = 0, hard: int = 0, errors: int = 0, mining_errors: int = 0) -> None:
        with self._lock:
            self._counts.inferences += inferences
            self._counts.hard += hard
            self._counts.errors += errors
            self._counts.mining_errors += mining_errors

    def _counted(self) -> ServingCounts:
        with self._lock:
            return replace(self._counts)

    def _say_ready(self, address: str) -> None:
        loaded, self._said = self._current(), self._counted()
        trial.ready(
            address=address,
            update=loaded.update,
            version=loaded.version.version,
            sha256=loaded.sha256,
            inferences=self._said.inferences,
            hard=self._said.hard,
        )

    def _is_hard(self, loaded: LoadedModel, inputs: Any, outputs: Any) -> bool:
        """Asks the miner, and keeps a hard example; one that can't be kept is an error of mining."""
        if self._miner is None:
            return False
        try:
            scores = self._service.scores(inputs, outputs)
            if not self._miner.is_hard(scores):
                return False
            example = HardExample(inputs, outputs, scores, loaded.version.version)
            self._store.add(example, lambda: self._service.as_sample(inputs))
            return True
        except Exception as error:  # noqa: BLE001 - the answer of the model is right all the same
            self._count(mining_errors=1)
            message = f"an example was not mined: {type(error).__name__}: {error}"[:MAX_MESSAGE]
            self._complain(message, error)
            return False

    def _load_given(self, given: GivenInstruction) -> LoadedModel | str:
        """Returns the model of an instruction, or why it can't be loaded."""
        try:
            asked = read_update(given.body)
            loaded = self._loaded
            if loaded is not None and loaded.sha256 == asked.model.sha256:
                return replace(loaded, update=asked.update, version=asked.model)  # its bytes are loaded
            path = self._artifacts.fetch(asked.reference())
            try:
                return self._load(path, asked.model, asked.update)
            except BaseException:
                self._artifacts.drop(asked.reference())
                raise
        except Exception as error:  # noqa: BLE001 - the model before stays in use, and the answer says why
            message = f"{type(error).__name__}: {error}"[:MAX_MESSAGE]
            self._complain(message, error)
            return message

    def _load_input(self) -> LoadedModel:
        """Returns the model of the input. Raises ValueError if it isn't the one that the parameters name."""
        settings, path = self._settings, trial.input("model")
        sha256 = digest_of(path) if path.is_file() else settings.model.sha256
        if settings.model.sha256 not in ("", sha256):
            raise ValueError(f"input model has the digest {sha256}, expected {settings.model.sha256}")
        return replace(self._load(path, settings.model, settings.update), sha256=sha256)

    def _load(self, path: Path, version: ServedVersion, update: int) -> LoadedModel:
        self._service.model_format = version.format
        model = self._service.load_model(path, self._device)
        return LoadedModel(model, update, version, version.sha256)

    def _take(self, given: GivenInstruction, outcome: LoadedModel | str) -> None:
        """Puts a model that was loaded into use, between two requests; acknowledges the instruction."""
        if isinstance(outcome, str):
            given.acknowledge(ok=False, update=given.body.get("update"), message=outcome)
            return
        self._loaded = outcome
        self._artifacts.use(read_update(given.body).reference())
        version = outcome.version.version
        given.acknowledge(update=outcome.update, version=version, sha256=outcome.sha256)

    def _complain(self, text: str, error: Exception | None = None) -> None:
        """Writes a problem to the output of the task, each text once, with where it was raised."""
        with self._lock:
            if text in self._complaints or len(self._complaints) >= MAX_COMPLAINTS:
                return
            self._complaints.add(text)
        where = "" if error is None else "".join(traceback.format_tb(error.__traceback__))
        sys.stderr.write(f"{where}trackside: {text}\n")
