"""Fencing: the newest placement of each task, and what a device command means in view of it. Pure."""

from collections import OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto

from trackside.contracts.envelope.message import Event
from trackside.contracts.tasks.device_commands import (
    GiveInstruction,
    NextParameters,
    RecallTask,
    RunTask,
    StopTask,
)
from trackside.contracts.tasks.tasks import AttemptEnded

REMEMBERED_ANSWERS = 1_000
"""Of so many placements that have ended the answer is kept: a power cut may take the last from the log."""
REMEMBERED_TASKS = 100_000
"""Of so many more the token is kept, so that a late command does not run one again."""

FencingToken = tuple[int, int]
"""Orders the placements of one task: attempt number, then placement number."""


class CommandAction(Enum):
    """What to do about a device command."""

    IGNORE = auto()
    """It is for another incarnation, a newer placement of the task is known, or it has come too late."""
    ANSWER_AGAIN = auto()
    """It was answered before: send the same answer."""
    RUN = auto()
    STOP = auto()
    RETURN = auto()
    """Give it back: it waits for its devices and has not begun."""
    NEVER_RUN = auto()
    """The placement is unknown: it must not run if its RunTask comes later."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a placement is refused: code and sentence."""

    code: str
    message: str


@dataclass(slots=True)
class NewestPlacement:
    """The newest placement of a task: whether it is here, has begun, and the last answer about it."""

    token: FencingToken
    active: bool = False
    begun: bool = False
    answer: Event | None = None


@dataclass(slots=True)
class FencingTable:
    """The newest placement of each task that one incarnation has received a command about."""

    incarnation: str
    task_types: Collection[str]
    services: Collection[str] = ()
    tasks: dict[str, NewestPlacement] = field(default_factory=dict)
    _ended: deque[tuple[str, FencingToken]] = field(default_factory=deque)
    _over: OrderedDict[str, FencingToken] = field(default_factory=OrderedDict)

    def action_for_run(self, command: RunTask) -> CommandAction | Refusal:
        """Returns what to do about a RunTask, without recording it."""
        action = self._known_action(command)
        if action is not None:
            return action
        if command.task_type not in self.task_types:
            return Refusal("unknown_task_type", f"task type {command.task_type!r} is not in the catalogue")
        return self._wrong_kind(command) or CommandAction.RUN

    def _wrong_kind(self, command: RunTask) -> Refusal | None:
        """Returns why a task and the catalogue disagree on whether it is a service; None if they agree."""
        is_service = command.task_type in self.services
        if command.service and not is_service:
            hint = "leave `service` out, or write `runner: service` for it in the catalogue"
            return Refusal("not_a_service", f"task type {command.task_type!r} is not a service here: {hint}")
        if is_service and not command.service:
            hint = "write `service: true` for the task"
            return Refusal("service_expected", f"task type {command.task_type!r} is a service here: {hint}")
        return None

    def action_for_stop(self, command: StopTask) -> CommandAction:
        """Returns what to do about a StopTask, without recording it.

        What has ended needs no second end: the first one is in the log, or in the outbox, which loses none.
        """
        action = self._known_action(command)
        if action is not CommandAction.ANSWER_AGAIN:
            return action or CommandAction.NEVER_RUN
        newest = self.tasks[command.task_id]
        if newest.active:
            return CommandAction.STOP
        return CommandAction.IGNORE if isinstance(newest.answer, AttemptEnded) else action

    def action_for_recall(self, command: RecallTask) -> CommandAction:
        """Returns what to do about a RecallTask, without recording it."""
        action = self._known_action(command)
        if action is None:
            return CommandAction.NEVER_RUN
        newest = self.tasks.get(command.task_id)
        waits = (
            action is CommandAction.ANSWER_AGAIN and newest is not None and newest.active and not newest.begun
        )
        return CommandAction.RETURN if waits else action

    def is_current(self, command: NextParameters | GiveInstruction) -> bool:
        """Returns whether a command is for the newest placement of its task, and that is on this worker."""
        newest = self.tasks.get(command.task_id)
        return (
            self._known_action(command) is CommandAction.ANSWER_AGAIN and newest is not None and newest.active
        )

    def _known_action(
        self, command: RunTask | StopTask | RecallTask | NextParameters | GiveInstruction
    ) -> CommandAction | None:
        if command.incarnation != self.incarnation:
            return CommandAction.IGNORE
        newest = self.tasks.get(command.task_id)
        known = self._over.get(command.task_id) if newest is None else newest.token
        token = (command.attempt, command.placement)
        if known is None or known < token:
            return None
        return CommandAction.ANSWER_AGAIN if newest and known == token else CommandAction.IGNORE

    def record_accepted(self, task_id: str, token: FencingToken) -> None:
        """Records that a placement was accepted."""
        self._store(task_id, NewestPlacement(token, active=True))

    def record_begun(self, task_id: str, token: FencingToken) -> None:
        """Records that a placement has begun: it can't be given back any more."""
        newest = self.tasks.get(task_id)
        if newest is not None and newest.token == token:
            newest.begun = True

    def record_forbidden(self, task_id: str, token: FencingToken) -> None:
        """Records that a placement must never run."""
        self._store(task_id, NewestPlacement(token))
        self._retire(task_id, token)

    def record_answer(self, task_id: str, token: FencingToken, answer: Event) -> None:
        """Records the answer to repeated commands."""
        newest = self.tasks.get(task_id)
        if newest is not None and newest.token == token:
            newest.answer = answer
        elif newest is None or newest.token < token:  # it was refused, so nothing else is known of it
            self._store(task_id, NewestPlacement(token, answer=answer))
            self._retire(task_id, token)

    def record_finished(self, task_id: str, token: FencingToken) -> None:
        """Records that a placement has ended."""
        newest = self.tasks.get(task_id)
        if newest is not None and newest.token == token:
            newest.active = False
            self._retire(task_id, token)

    def _store(self, task_id: str, newest: NewestPlacement) -> None:
        self.tasks[task_id] = newest
        self._over.pop(task_id, None)

    def _retire(self, task_id: str, token: FencingToken) -> None:
        """Notes the end of a placement; of the one that has ended longest ago only the token is kept."""
        self._ended.append((task_id, token))
        if len(self._ended) <= REMEMBERED_ANSWERS:
            return
        oldest, its_token = self._ended.popleft()
        newest = self.tasks.get(oldest)
        if newest is not None and newest.token == its_token and not newest.active:
            del self.tasks[oldest]
            self._over[oldest] = its_token
            if len(self._over) > REMEMBERED_TASKS:
                self._over.popitem(last=False)
