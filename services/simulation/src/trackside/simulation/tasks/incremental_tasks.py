"""What runs the tasks of incremental learning in a simulated worker: those built into workers, and of jobs.

What they make follows from what they get: the bytes of a model from its base and its samples, its accuracy
from its bytes. So each result is known, however often a task is tried.
"""

import asyncio
from hashlib import sha256

from trackside.aggregates.rounds.job.split import SplitRule, samples
from trackside.contracts.envelope.message import Json
from trackside.contracts.fleet.fleet import COPY_MODEL, WATCH_DATASET, WRITE_MANIFEST
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.instructions import Instruction
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.simulation.host.reporting import drawn
from trackside.simulation.host.store import StoreRefusesError
from trackside.simulation.host.worker_state import (
    ASKING_TYPE,
    COMPARE_TYPE,
    FIT_TYPE,
    INFERENCE_TYPE,
    SERVICE_TYPE,
    TRAINING_TYPE,
    SimulatedPlacement,
)
from trackside.simulation.tasks.asking_tasks import AskingTask
from trackside.simulation.tasks.tasks import (
    ANSWER_S,
    CoroutineTask,
    InstructedTask,
    ReportingTask,
    SimulatedService,
    SimulatedTask,
    SimulatedTraining,
)

LOOK_S = (0.1, 1.0)
"""How often a watcher looks at its dataset, s."""
FAILING_SHARE = 0.1
"""How often a task fails that writes a file."""
SERVED_S = (1.0, 60.0)
"""How long an inference service serves that is to fail, s."""
ATTEMPTS_THAT_MAY_FAIL = 2
"""Up to which attempt an inference service fails: it waits longer after each."""


class SimulatedWatcher(InstructedTask):
    """Watches the dataset: verifies the end that it is given, and reports what has come since."""

    _verified: Json | None = None

    def begin(self) -> None:
        """Watches, and knows what it has verified."""
        if self.placement.carried_out is not None:
            self._verified = self.placement.carried_out.body["end"]
        super().begin()

    async def _carry_out(self, instruction: Instruction) -> tuple[bool, Json] | None:
        await asyncio.sleep(drawn(self._rng, ANSWER_S))
        if instruction.number < self._received:
            return None
        given = instruction.body["end"]
        if self._files.dataset.end(given["lines"]) != given:
            self._ready({"problem": {"code": "changed"}})
            return False, {"code": "changed"}
        self._verified = given
        return True, {}

    async def _run(self) -> None:
        if not self._is_ready.is_set():
            await asyncio.sleep(drawn(self._rng, self._workload.seconds))
            self._ready({})
        dataset, reported = self._files.dataset, 0
        while True:
            lines = dataset.lines(asyncio.get_running_loop().time())
            if self._verified is not None and lines > max(reported, self._verified["lines"]):
                reported = lines
                self._ready({"end": dataset.end(lines), "metrics": {"drift": lines / 100}})
            await asyncio.sleep(drawn(self._rng, LOOK_S))


class SimulatedManifest(CoroutineTask):
    """Writes the samples of a stage to a file; fails if the dataset is not what was observed."""

    async def _run(self) -> None:
        await asyncio.sleep(drawn(self._rng, self._workload.seconds))
        wanted, dataset = self.placement.parameters, self._files.dataset
        whole = dataset.begins_with(wanted["end"]["size"], wanted["end"]["sha256"])
        if not whole or self._rng.random() < FAILING_SHARE:
            await self._end(AttemptEnd.FAILED)
            return
        segments = [SplitRule(**each) for each in wanted["segments"]]
        ranges = [(begin, end) for begin, end in wanted["ranges"]]
        chosen = [number for each in ranges for number in samples(segments, *each, wanted["use"])]
        content = b"".join(dataset.samples[number] for number in chosen)
        url, digest = f"{wanted['output']['url']}/{wanted['path']}", sha256(content).hexdigest()
        self._files.write(url, digest)
        sizes = {"size_bytes": len(content), "lines": len(chosen)}
        self.placement.result = {"url": url, "sha256": digest, **sizes}
        await self._end(AttemptEnd.FINISHED)


class SimulatedStage(CoroutineTask):
    """A stage of a round; fails in the rounds that its parameters name."""

    async def _run(self) -> None:
        await asyncio.sleep(drawn(self._rng, self._workload.seconds))
        command = self.placement.command
        assert command is not None
        if command.parameters["round"]["number"] in command.parameters["failing_rounds"]:
            await self._end(AttemptEnd.FAILED)
            return
        self._do_stage(command)
        await self._end(AttemptEnd.FINISHED)

    def _do_stage(self, command: RunTask) -> None:
        """Does what the stage is for."""
        raise NotImplementedError


class SimulatedFit(SimulatedStage):
    """Trains and saves a model."""

    def begin(self) -> None:
        """Takes its uploads up, and trains."""
        self._take_uploads_up()
        super().begin()

    def _do_stage(self, command: RunTask) -> None:
        model = fitted(command.inputs["model"].sha256, command.inputs["samples"].sha256)
        self._save("weights", "model", model)


class SimulatedComparison(SimulatedStage):
    """Evaluates the trained and the deployed model."""

    def _do_stage(self, command: RunTask) -> None:
        self.placement.result = {
            name: {"accuracy": accuracy_of(command.inputs[name].sha256)} for name in ("trained", "deployed")
        }


class SimulatedCopy(CoroutineTask):
    """Copies a model to where it is read, unless a later update was copied there; or removes such copies."""

    async def _run(self) -> None:
        await asyncio.sleep(drawn(self._rng, self._workload.seconds))
        url = self.placement.parameters["url"]
        if self._rng.random() < FAILING_SHARE or (result := self._copied(url)) is None:
            await self._end(AttemptEnd.FAILED)
            return
        self.placement.result = result
        await self._end(AttemptEnd.FINISHED)

    def _copied(self, url: str) -> Json | None:
        """Returns the result; None if a later update is there."""
        wanted = self.placement.parameters
        if wanted["target"] == "removal":
            self._files.remove(url, wanted["time_ms"])
            return {"url": url, "files": 1, "others": 0}
        sha256 = wanted["model"]["sha256"]
        written = self._files.write(url, sha256, wanted["time_ms"])
        return {"url": url, "sha256": sha256, "size_bytes": 1} if written else None


class SimulatedInference(InstructedTask):
    """Serves the model of its newest instruction, or that of its input if there is none, or it fails."""

    def begin(self) -> None:
        """Loads, and serves."""
        self._loading = asyncio.Lock()
        self._first: tuple[int, tuple[bool, Json]] | None = None
        super().begin()

    async def _carry_out(self, instruction: Instruction) -> tuple[bool, Json] | None:
        async with self._loading:
            if self._first is not None and self._first[0] == instruction.number:
                return self._first[1]
            done = await self._load_given(instruction)
            if done[0]:
                self._serve(done[1])
            return done

    async def _load_given(self, instruction: Instruction) -> tuple[bool, Json]:
        update, given = instruction.body["update"], instruction.body["model"]
        digest, served = given["artifact"]["sha256"], self._files.loaded.get(self.placement.key, [""])[-1]
        if digest != served and not await self._is_readable(digest):
            return False, {"update": update, "message": "it could not be read"}
        return True, {"update": update, "sha256": digest}

    async def _run(self) -> None:
        if not self._is_ready.is_set():
            await asyncio.sleep(drawn(self._rng, self._workload.seconds))
            if not await self._load():
                await self._end(AttemptEnd.FAILED)
                return
        if self.placement.key[1] > ATTEMPTS_THAT_MAY_FAIL:
            await asyncio.Event().wait()
        await asyncio.sleep(drawn(self._rng, SERVED_S))
        await self._end(AttemptEnd.FAILED)

    async def _load(self) -> bool:
        """Serves its first model; returns whether it can."""
        placement, command = self.placement, self.placement.command
        assert command is not None
        if placement.fails:
            return False
        detail = None
        if (given := command.instruction) is not None:
            done = await self._load_given(given)
            self._first = given.number, done
            detail = done[1] if done[0] else None
        if detail is None:
            detail = {"update": command.parameters["service"]["update"]}
            detail["sha256"] = command.inputs["model"].sha256
            if not await self._is_readable(detail["sha256"]) and placement.key[1] <= ATTEMPTS_THAT_MAY_FAIL:
                return False
        self._serve(detail)
        return True

    def _serve(self, detail: Json) -> None:
        """Puts a model into use, and says so."""
        self._files.loaded.setdefault(self.placement.key, []).append(detail["sha256"])
        self._ready(detail)

    async def _is_readable(self, digest: str) -> bool:
        try:
            return await self._store.get(digest) is not None
        except StoreRefusesError:
            return False


TASKS: dict[str, type[SimulatedTask]] = {
    TRAINING_TYPE: SimulatedTraining,
    SERVICE_TYPE: SimulatedService,
    ASKING_TYPE: AskingTask,
    WATCH_DATASET: SimulatedWatcher,
    WRITE_MANIFEST: SimulatedManifest,
    COPY_MODEL: SimulatedCopy,
    FIT_TYPE: SimulatedFit,
    COMPARE_TYPE: SimulatedComparison,
    INFERENCE_TYPE: SimulatedInference,
}
"""What runs the tasks of each type; of all others it is ReportingTask."""


def task_class(placement: SimulatedPlacement) -> type[SimulatedTask]:
    """Returns what runs in a placement."""
    return ReportingTask if placement.command is None else TASKS[placement.command.task_type]


def fitted(base: str, manifest: str) -> bytes:
    """Returns the model that is trained from a base, with the samples of a file, by the digests of both."""
    return f"{base} {manifest}".encode()


def fitted_digest(base: str, manifest: str) -> str:
    """Returns the digest of the model that is trained from a base, with the samples of a file."""
    return sha256(fitted(base, manifest)).hexdigest()


def accuracy_of(digest: str) -> float:
    """Returns the accuracy of a model by its digest, from 0 to 1."""
    return int(digest[:8], 16) / 16**8
