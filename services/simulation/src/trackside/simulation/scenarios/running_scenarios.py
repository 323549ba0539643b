"""Scenarios of tasks that save and continue, that ask, and of services; and all scenarios that there are."""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from trackside.aggregates.batch.messages import BatchStatus, StopTasks, SubmitTasks
from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.search.messages import TrialEnded, TrialStatus
from trackside.contracts.envelope.message import Command, Record
from trackside.contracts.tasks.instructions import InstructTask
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState
from trackside.simulation.host.worker_state import ASKING_TYPE, SERVICE_TYPE, TRAINING_TYPE
from trackside.simulation.scenarios.pipeline_scenario import PipelineScenario
from trackside.simulation.scenarios.rounds_scenario import RoundsScenario
from trackside.simulation.scenarios.scenarios import BatchScenario, SearchScenario, StreamScenario
from trackside.simulation.tasks.tasks import training_values


def report_violations(task: Task) -> list[str]:
    """Returns what is wrong with the reports of a training that has ended: each step counts once."""
    expected = list(enumerate(training_values(task.task_id)))
    if task.end is not AttemptEnd.FINISHED:
        # One that was stopped may have resumed and reported nothing more.
        expected = expected[: len(task.reports)]
    elif task.final != expected[-1][1]:
        return [f"task {task.task_id} ends with {task.final}, not with {expected[-1][1]}"]
    if task.reports != expected:
        return [f"task {task.task_id} has the reports {task.reports}, not {expected}"]
    return []


class TrainingScenario(SearchScenario):
    """A search whose trials save checkpoints and continue from them; no step is missing, or counts twice."""

    name = "training"
    plural = "searches that resume"
    task_type = TRAINING_TYPE
    saves = True

    def take(self, record: Record, stream: Stream) -> None:
        """Checks the reports of each trial at the end of its task, too."""
        super().take(record, stream)
        if type(record.message) is AttemptEnded:
            task = stream.tasks[record.message.task_id]
            if task.state is TaskState.ENDED:
                self._violations += report_violations(task)


class AskingScenario(SearchScenario):
    """A search whose tasks ask for one trial after another; each trial has its own reports alone."""

    name = "asking"
    plural = "searches whose tasks ask"
    task_type = ASKING_TYPE

    def take(self, record: Record, stream: Stream) -> None:
        """Checks the value of each trial, too: its tasks report its parameter."""
        super().take(record, stream)
        event = record.message
        if type(event) is TrialEnded and event.status is TrialStatus.SUCCEEDED:
            x = stream.root.trials[event.trial].parameters["x"]
            if event.value != x:
                self._violations.append(f"trial {event.trial} has the value {event.value}, not {x}")


class ServicesScenario(BatchScenario):
    """A batch of services beside trainings that are preempted; its user instructs services and stops them.

    One service needs no device. Each fails, or hangs, in its first attempts. The user stops the batch once
    the trainings are over and each service has acknowledged its newest instruction.
    """

    name = "services"
    plural = "batches with services"
    has_user = saves = True
    services = 2
    """How many services there are."""
    instructions = 4
    """How many instructions each service gets at most."""

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        self._trainings = max(1, tasks // 3)
        self._reports: list[str] = []
        self._service_ends: Counter[str] = Counter()

    def command(self) -> SubmitTasks:
        """Returns the command that submits the batch."""
        services = [self._service(number) for number in range(self.services)]
        trainings = [self._task(number) for number in range(self._trainings)]
        return SubmitTasks.model_validate(
            {
                "groups": [{"tasks": [*services, *trainings]}],
                "concurrency": self.concurrency + self.services,
                "checkpoint_grace_s": 1.0,
                "keep_checkpoints": {"newest": 1 + self.seed % 3, "best": self.seed % 2},
            }
        )

    def _service(self, number: int) -> Mapping[str, Any]:
        hangs = (self.seed + number) % 2 == 0
        return {
            "name": f"service-{number}",
            "task_type": SERVICE_TYPE,
            "parameters": {"failing_attempts": (self.seed // 2 + number) % 3},
            "service": {"unresponsive_s": 1.5} if hangs else True,
            "resources": {"devices": number % 2},
        }

    def _task(self, number: int) -> Mapping[str, Any]:
        retry = {"lost": 100, "failed": {"times": self.retries, "backoff_s": 0.2}}
        return {**super()._task(number), "task_type": TRAINING_TYPE, "retry": retry}

    def next_command(self, stream: Stream, rng: Random) -> Command | None:
        """Returns an instruction, or the stop, as the stream is now."""
        batch = batch_of(stream)
        services = [task for task in stream.tasks.values() if task.needs.service is not None]
        if batch is None or batch.status is not BatchStatus.RUNNING or len(services) < self.services:
            return None
        given = [0 if task.instruction is None else task.instruction.number for task in services]
        number = rng.randrange(len(services))
        if given[number] < self.instructions and rng.random() < 0.5:
            return InstructTask(task=services[number].task_id, body={"version": given[number] + 1})
        if len(batch.open) > len(services) or not all(map(_has_acknowledged, services)):
            return None
        return StopTasks()

    def take(self, record: Record, stream: Stream) -> None:
        """Checks the reports of each training at its end, and counts how services end."""
        if type(record.message) is AttemptEnded:
            task = stream.tasks[record.message.task_id]
            if task.end is not None and task.needs.service is not None:
                self._service_ends[task.end.value] += 1
            elif task.end is not None:
                self._reports += report_violations(task)

    def violations(self, stream: Stream) -> list[str]:
        """Returns what is wrong with the batch, which its user has stopped, and with its reports."""
        batch = batch_of(stream)
        if batch is None or batch.status is not BatchStatus.STOPPED:
            return [f"the batch is {batch and batch.status}, not stopped"]
        # One whose worker was lost just then ends without an attempt.
        if not self._service_ends.keys() <= {"cancelled"}:
            return [f"not all services ran until they were stopped: {dict(self._service_ends)}"]
        return self._reports


def _has_acknowledged(task: Task) -> bool:
    """Returns whether a service runs, and has acted on an instruction, and on the newest one."""
    given = task.instruction
    return task.state is TaskState.ACTIVE and given is not None and task.acknowledged == given.number


SCENARIO_TYPES: tuple[type[StreamScenario], ...] = (
    SearchScenario,
    BatchScenario,
    TrainingScenario,
    AskingScenario,
    ServicesScenario,
    PipelineScenario,
    RoundsScenario,
)
SCENARIOS: Mapping[str, type[StreamScenario]] = {each.name: each for each in SCENARIO_TYPES}
"""The scenarios that there are, by name."""
