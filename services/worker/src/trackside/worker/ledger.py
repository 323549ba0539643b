"""Which device runs what, and what each command means then. Pure."""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto

from trackside.contracts.message import Event
from trackside.contracts.tasks import RunTask, StopTask

REMEMBERED_TASKS = 100_000


class Verdict(Enum):
    """What is to be done about a device command."""

    IGNORE = auto()
    """It is meant for another incarnation, or a newer placement of the task is known."""
    ANSWER_AGAIN = auto()
    """It was answered before."""
    RUN = auto()
    STOP = auto()
    NEVER_RUN = auto()
    """A stop for a placement that was never seen: it must not run if its command comes late."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a placement isn't run: code and sentence."""

    code: str
    message: str


@dataclass(slots=True)
class Known:
    """The newest placement of a task: whether it runs, and the newest answer to its command."""

    token: tuple[int, int]
    running_on: str = ""
    answer: Event | None = None


@dataclass(slots=True)
class Ledger:
    """The devices of one incarnation, and the newest placement of each task it was told about."""

    incarnation: str
    devices: Collection[str]
    task_types: Collection[str]
    busy: dict[str, str] = field(default_factory=dict)
    """Device to task."""
    tasks: OrderedDict[str, Known] = field(default_factory=OrderedDict)

    def judge_run(self, command: RunTask, device_id: str) -> Verdict | Refusal:
        """Says what to do about a RunTask; changes nothing."""
        verdict = self._known(command)
        if verdict is not None:
            return verdict
        if command.task_type not in self.task_types:
            return Refusal("unknown_task_type", f"task type {command.task_type!r} is not in the catalogue")
        if device_id in self.busy:
            return Refusal("device_busy", f"{device_id} runs task {self.busy[device_id]}")
        return Verdict.RUN

    def judge_stop(self, command: StopTask) -> Verdict:
        """Says what to do about a StopTask; changes nothing."""
        verdict = self._known(command)
        if verdict is None:
            return Verdict.NEVER_RUN
        if verdict is Verdict.ANSWER_AGAIN and self.tasks[command.task_id].running_on:
            return Verdict.STOP
        return verdict

    def _known(self, command: RunTask | StopTask) -> Verdict | None:
        if command.incarnation != self.incarnation:
            return Verdict.IGNORE
        known = self.tasks.get(command.task_id)
        token = (command.attempt, command.placement)
        if known is None or known.token < token:
            return None
        return Verdict.ANSWER_AGAIN if known.token == token else Verdict.IGNORE

    def started(self, task_id: str, token: tuple[int, int], device_id: str) -> None:
        """Notes that a placement occupies a device from now on."""
        self.busy[device_id] = task_id
        self._note(task_id, Known(token, running_on=device_id))

    def buried(self, task_id: str, token: tuple[int, int]) -> None:
        """Notes that a placement must never run."""
        self._note(task_id, Known(token))

    def answered(self, task_id: str, token: tuple[int, int], answer: Event) -> None:
        """Notes the answer that a repeated command shall get."""
        known = self.tasks.get(task_id)
        if known is not None and known.token == token:
            known.answer = answer
        elif known is None or known.token < token:  # a refusal is all that is known of it
            self._note(task_id, Known(token, answer=answer))

    def ended(self, task_id: str, token: tuple[int, int], device_id: str) -> None:
        """Notes that a placement has left its device."""
        self.busy.pop(device_id, None)
        known = self.tasks.get(task_id)
        if known is not None and known.token == token:
            known.running_on = ""

    def _note(self, task_id: str, known: Known) -> None:
        self.tasks[task_id] = known
        self.tasks.move_to_end(task_id)
        while len(self.tasks) > REMEMBERED_TASKS:
            self.tasks.popitem(last=False)
