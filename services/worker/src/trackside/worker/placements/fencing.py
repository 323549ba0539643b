"""Which placement of each task is the newest here, and what each command means then. Pure."""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto

from trackside.contracts.message import Event
from trackside.contracts.tasks import NextParameters, RecallTask, RunTask, StopTask

REMEMBERED_TASKS = 100_000

Token = tuple[int, int]
"""What orders the placements of one task: attempt, then placement."""


class Verdict(Enum):
    """What is to be done about a device command."""

    IGNORE = auto()
    """It is meant for another incarnation, or a newer placement of the task is known."""
    ANSWER_AGAIN = auto()
    """It was answered before."""
    RUN = auto()
    STOP = auto()
    RETURN = auto()
    """It waits for its devices and has not begun."""
    NEVER_RUN = auto()
    """The placement was never seen: it must not run if its command comes late."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a placement isn't run: code and sentence."""

    code: str
    message: str


@dataclass(slots=True)
class Known:
    """The newest placement of a task: whether it is here, has begun, and the newest answer to its command."""

    token: Token
    here: bool = False
    begun: bool = False
    answer: Event | None = None


@dataclass(slots=True)
class Tokens:
    """The newest placement of each task that one incarnation was told about."""

    incarnation: str
    task_types: Collection[str]
    tasks: OrderedDict[str, Known] = field(default_factory=OrderedDict)

    def judge_run(self, command: RunTask) -> Verdict | Refusal:
        """Says what to do about a RunTask; changes nothing."""
        verdict = self._known(command)
        if verdict is not None:
            return verdict
        if command.task_type not in self.task_types:
            return Refusal("unknown_task_type", f"task type {command.task_type!r} is not in the catalogue")
        return Verdict.RUN

    def judge_stop(self, command: StopTask) -> Verdict:
        """Says what to do about a StopTask; changes nothing."""
        verdict = self._known(command)
        if verdict is None:
            return Verdict.NEVER_RUN
        here = verdict is Verdict.ANSWER_AGAIN and self.tasks[command.task_id].here
        return Verdict.STOP if here else verdict

    def judge_recall(self, command: RecallTask) -> Verdict:
        """Says what to do about a RecallTask; changes nothing."""
        verdict = self._known(command)
        if verdict is None:
            return Verdict.NEVER_RUN
        known = self.tasks.get(command.task_id)
        waits = verdict is Verdict.ANSWER_AGAIN and known is not None and known.here and not known.begun
        return Verdict.RETURN if waits else verdict

    def is_here(self, command: NextParameters) -> bool:
        """Says whether an answer is for the newest placement of its task, and that is here."""
        known = self.tasks.get(command.task_id)
        return self._known(command) is Verdict.ANSWER_AGAIN and known is not None and known.here

    def _known(self, command: RunTask | StopTask | RecallTask | NextParameters) -> Verdict | None:
        if command.incarnation != self.incarnation:
            return Verdict.IGNORE
        known = self.tasks.get(command.task_id)
        token = (command.attempt, command.placement)
        if known is None or known.token < token:
            return None
        return Verdict.ANSWER_AGAIN if known.token == token else Verdict.IGNORE

    def came(self, task_id: str, token: Token) -> None:
        """Notes that a placement was taken on."""
        self._note(task_id, Known(token, here=True))

    def begun(self, task_id: str, token: Token) -> None:
        """Notes that a placement has begun: it can't be given back any more."""
        known = self.tasks.get(task_id)
        if known is not None and known.token == token:
            known.begun = True

    def buried(self, task_id: str, token: Token) -> None:
        """Notes that a placement must never run."""
        self._note(task_id, Known(token))

    def answered(self, task_id: str, token: Token, answer: Event) -> None:
        """Notes the answer that a repeated command shall get."""
        known = self.tasks.get(task_id)
        if known is not None and known.token == token:
            known.answer = answer
        elif known is None or known.token < token:  # a refusal is all that is known of it
            self._note(task_id, Known(token, answer=answer))

    def left(self, task_id: str, token: Token) -> None:
        """Notes that a placement is over."""
        known = self.tasks.get(task_id)
        if known is not None and known.token == token:
            known.here = False

    def _note(self, task_id: str, known: Known) -> None:
        self.tasks[task_id] = known
        self.tasks.move_to_end(task_id)
        while len(self.tasks) > REMEMBERED_TASKS:
            self.tasks.popitem(last=False)
