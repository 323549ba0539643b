"""What runs in the placements of a simulated worker: tasks that report, trainings that save, and services."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Any

from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import CHECKPOINT
from trackside.contracts.tasks.instructions import Instruction, InstructionAcknowledged, TaskReady
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.simulation.host.reporting import SimulatedReporter, drawn
from trackside.simulation.host.store import SharedResources, SimulatedUploads, read_blob
from trackside.simulation.host.worker_state import SimulatedPlacement, Workload

TRAINING_STEPS = 6
"""How many steps a training has."""
MAX_CHECKPOINT_EVERY = 3
"""A checkpoint is saved after every step, or after so many at most."""
ANSWER_S = (0.001, 1.0)
"""How long a service takes to act on an instruction, s."""
SERVED_S = (0.1, 2.0)
"""How long a service that is to fail serves before that, s."""

ENDING_S = 0.005
"""How long after its result a process ends, s."""

Finish = Callable[[SimulatedPlacement, AttemptEnd], None]


class SimulatedTask(ABC):
    """The process of a placement. It calls `finish` when it ends, and is cancelled then, or before.

    Its state is in the placement, so that it continues there after the death of its worker.
    """

    def __init__(
        self,
        placement: SimulatedPlacement,
        reporter: SimulatedReporter,
        workload: Workload,
        rng: Random,
        finish: Finish,
        shared: SharedResources,
    ) -> None:
        self.placement = placement
        self.uploads: SimulatedUploads | None = None
        self._reporter = reporter
        self._workload = workload
        self._rng = rng
        self._finish = finish
        self._store = shared.store
        self._files = shared.files

    @abstractmethod
    def begin(self) -> None:
        """Starts the process, or continues with one that has outlived its worker."""

    @abstractmethod
    def cancel(self) -> None:
        """Kills the process."""

    @classmethod  # noqa: B027 - most wait
    def run_on(cls, placement: SimulatedPlacement, workload: Workload) -> None:
        """Does what the process may have done without a worker."""

    def instruct(self, instruction: Instruction, cause: str) -> None:  # noqa: B027 - most take none
        """Hands over an instruction, or says again what the process said of it."""

    def answer(self, request: int, parameters: Json | None, cause: str) -> None:  # noqa: B027 - most don't ask
        """Hands over the answer to a request for parameters, or says again that the process has it."""

    def stop_after_checkpoint(self, end: AttemptEnd, seconds: float) -> bool:
        """Asks for a checkpoint before the end; returns False if it saves none: it is to end at once."""
        return False


class ReportingTask(SimulatedTask):
    """Reports values at even intervals, and ends."""

    @classmethod
    def run_on(cls, placement: SimulatedPlacement, workload: Workload) -> None:
        """Does all that it does, unless it has ended."""
        if placement.ending is None:
            values = placement.all_values(workload)
            placement.values = values[: max(1, len(placement.values))] if placement.fails else values
            placement.ending = AttemptEnd.FAILED if placement.fails else AttemptEnd.FINISHED
            placement.final = values[-1]

    def begin(self) -> None:
        """Draws how long it takes, and reports its first value in time."""
        interval_s = drawn(self._rng, self._workload.seconds) / self._workload.reports
        values = self.placement.all_values(self._workload)
        if self.placement.ending is not None:
            self._later(ENDING_S, self._finish, self.placement, self.placement.ending)
            return
        self._later(interval_s, self._report, values, interval_s)

    def cancel(self) -> None:
        """Reports nothing more."""
        self._timer.cancel()

    def _report(self, values: list[float], interval_s: float) -> None:
        placement = self.placement
        step = len(placement.values)
        placement.values.append(values[step])
        self._reporter.value(placement, "PERIODICAL", step, values[step])
        if placement.fails:
            placement.ending = AttemptEnd.FAILED
            self._later(ENDING_S, self._finish, placement, AttemptEnd.FAILED)
            return
        if step + 1 < len(values):
            self._later(interval_s, self._report, values, interval_s)
            return
        placement.ending = AttemptEnd.FINISHED  # on disk: a later incarnation can report it
        placement.final = values[-1]
        self._reporter.value(placement, "FINAL", len(values), placement.final)
        self._later(ENDING_S, self._finish, placement, AttemptEnd.FINISHED)

    def _later(self, delay_s: float, what: Callable[..., None], *arguments: Any) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, what, *arguments)


class CoroutineTask(SimulatedTask):
    """A process that is a coroutine."""

    def begin(self) -> None:
        """Runs the coroutine."""
        ending = self.placement.ending
        work = self._run() if ending is None else self._end(ending)
        self._work = asyncio.get_running_loop().create_task(work)

    def cancel(self) -> None:
        """Cancels the coroutine."""
        self._work.cancel()

    @abstractmethod
    async def _run(self) -> None: ...

    def _save(self, name: str, kind: str, content: bytes, step: int | None = None) -> None:
        """Leaves something in the spool, which outlives the process."""
        assert self.uploads is not None
        artifact = self.placement.spooled(name, kind, content, step)
        self.placement.spool.append(artifact)
        self.uploads.add(artifact)

    def _take_uploads_up(self) -> None:
        """Uploads what is in the spool already, and what comes there."""
        self.uploads = SimulatedUploads(self._store, self.placement, self._reporter.saved)
        for artifact in self.placement.spool:
            self.uploads.add(artifact)

    async def _end(self, end: AttemptEnd) -> None:
        self.placement.ending = end
        await asyncio.sleep(ENDING_S)
        self._finish(self.placement, end)


class SimulatedTraining(CoroutineTask):
    """Trains some steps and saves checkpoints; what it carries from step to step is in them."""

    def begin(self) -> None:
        """Takes its uploads up, and trains."""
        self._take_uploads_up()
        self._end_after_checkpoint: AttemptEnd | None = None
        self._patience: asyncio.TimerHandle | None = None
        super().begin()

    def cancel(self) -> None:
        """Ends it; what is in its spool is uploaded."""
        if self._patience is not None:
            self._patience.cancel()
        super().cancel()

    def stop_after_checkpoint(self, end: AttemptEnd, seconds: float) -> bool:
        """Ends it after its next checkpoint, or when so many seconds are over."""
        if self._end_after_checkpoint is None:
            self._end_after_checkpoint = end
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(seconds, self._stop)
        return True

    def _stop(self) -> None:
        assert self._end_after_checkpoint is not None
        self._finish(self.placement, self.placement.ending or self._end_after_checkpoint)

    async def _run(self) -> None:
        placement, reporter = self.placement, self._reporter
        every = self._rng.randint(1, MAX_CHECKPOINT_EVERY)
        interval_s = drawn(self._rng, self._workload.seconds) / self._workload.reports
        state, step = await self._resume()
        fails_after = self._rng.randint(1, TRAINING_STEPS) if placement.fails else 0
        while step < TRAINING_STEPS:
            await asyncio.sleep(interval_s)
            state = trained(state)
            placement.values.append(value_of(state))
            reporter.value(placement, "PERIODICAL", step, placement.values[-1])
            step += 1
            if fails_after and (len(placement.values) >= fails_after or step == TRAINING_STEPS):
                await self._end(AttemptEnd.FAILED)
                return
            if step % every == 0 or self._end_after_checkpoint is not None:
                self._save(CHECKPOINT, CHECKPOINT, b"%d " % step + state, step)
                if self._end_after_checkpoint is not None:
                    self._stop()
                    return
        self._save("weights", "model", state)
        placement.ending, placement.final = AttemptEnd.FINISHED, value_of(state)
        reporter.value(placement, "FINAL", step, placement.final)
        await self._end(AttemptEnd.FINISHED)

    async def _resume(self) -> tuple[bytes, int]:
        """Returns state and step to begin with: its own, or those of the newest readable checkpoint."""
        placement = self.placement
        if placement.resumed is not None or placement.values:
            step = placement.first_step + len(placement.values)
            return state_after(placement.key[0], step), step
        for checkpoint in placement.command.checkpoints if placement.command is not None else ():
            content = await read_blob(self._store, checkpoint.sha256)
            if content is None:
                continue
            placement.resumed = checkpoint
            self._reporter.event(placement, placement.resumed_event())
            return content.partition(b" ")[2], checkpoint.step
        return first_state(placement.key[0]), 0


class InstructedTask(CoroutineTask):
    """A service that acts on instructions, once it is ready."""

    def begin(self) -> None:
        """Loads, and serves."""
        said = [event for event, _ in self.placement.said]
        self._ready_number = sum(isinstance(event, TaskReady) for event in said)
        answers = [event for event in said if isinstance(event, InstructionAcknowledged)]
        self._answer = answers[-1] if answers else None
        self._received = 0 if self._answer is None else self._answer.number
        self._is_ready = asyncio.Event()
        if self._ready_number:
            self._is_ready.set()
        self._answers: set[asyncio.Task[None]] = set()
        super().begin()
        command = self.placement.command
        if command is not None and command.instruction is not None:
            self.instruct(command.instruction, self.placement.cause)

    def cancel(self) -> None:
        """Ends it, with the answers that are under way."""
        for answer in self._answers:
            answer.cancel()
        super().cancel()

    def instruct(self, instruction: Instruction, cause: str) -> None:
        """Hands each number over once, and repeats the answer of one that was answered."""
        if instruction.number > self._received:
            self._received = instruction.number
            answer = asyncio.get_running_loop().create_task(self._act(instruction, cause))
            self._answers.add(answer)
            answer.add_done_callback(self._answers.discard)
        elif self._answer is not None and self._answer.number == instruction.number:
            self._reporter.event(self.placement, self._answer, cause=cause)

    @abstractmethod
    async def _carry_out(self, instruction: Instruction) -> tuple[bool, Json] | None:
        """Returns whether it has done what an instruction says, and its answer; None for no answer."""

    async def _act(self, instruction: Instruction, cause: str) -> None:
        await self._is_ready.wait()
        done = await self._carry_out(instruction)
        if done is None:
            return
        placement = self.placement
        self._answer = InstructionAcknowledged(
            **placement.token,
            incarnation=placement.incarnation,
            number=instruction.number,
            ok=done[0],
            detail=done[1],
        )
        if done[0]:
            placement.carried_out = instruction
        placement.said.append((self._answer, cause))
        for _ in range(1 + (self._rng.random() < 0.2)):
            self._reporter.event(placement, self._answer, cause=cause)

    def _ready(self, detail: Json) -> None:
        """Reports that it is ready, and something of itself."""
        self._ready_number += 1
        placement, number = self.placement, self._ready_number
        said = TaskReady(**placement.token, incarnation=placement.incarnation, number=number, detail=detail)
        placement.said.append((said, placement.cause))
        self._reporter.event(placement, said)
        self._is_ready.set()


class SimulatedService(InstructedTask):
    """Serves until it is stopped, unless it is to fail, or to hang; acts on instructions."""

    _hangs = False

    async def _carry_out(self, instruction: Instruction) -> tuple[bool, Json] | None:
        await asyncio.sleep(drawn(self._rng, ANSWER_S))
        return None if self._hangs else (self._rng.random() < 0.9, dict(instruction.body))

    async def _run(self) -> None:
        placement, command = self.placement, self.placement.command
        if not self._is_ready.is_set():
            await asyncio.sleep(drawn(self._rng, self._workload.seconds))
            self._ready({"port": 8_000})
        if placement.fails:
            await asyncio.sleep(drawn(self._rng, SERVED_S))
            self._ready({"port": 8_000})
            if command is not None and command.unresponsive_s is not None:
                self._hangs = True
                await asyncio.sleep(command.unresponsive_s)  # its worker ends it then
            await self._end(AttemptEnd.FAILED)
            return
        await asyncio.Event().wait()


def first_state(task_id: str) -> bytes:
    """Returns what a training begins with: each task has its own."""
    return blake2b(task_id.encode(), digest_size=8).hexdigest().encode()


def state_after(task_id: str, steps: int) -> bytes:
    """Returns what a training has after so many steps."""
    state = first_state(task_id)
    for _ in range(steps):
        state = trained(state)
    return state


def trained(state: bytes) -> bytes:
    """Returns the state after one more step."""
    return blake2b(state, digest_size=8).hexdigest().encode()


def value_of(state: bytes) -> float:
    """Returns the value that a training reports of a state, from 0 to 1."""
    return float(int(state, 16) / 2**64)


def training_values(task_id: str) -> list[float]:
    """Returns the values that a training reports, step by step, however often it is interrupted."""
    state, values = first_state(task_id), []
    for _ in range(TRAINING_STEPS):
        state = trained(state)
        values.append(value_of(state))
    return values
