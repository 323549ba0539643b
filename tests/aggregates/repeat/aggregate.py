"""The repeat as an aggregate type."""

from collections.abc import Iterable, Mapping

from tests.aggregates.repeat import decide, evolve, messages
from tests.aggregates.repeat.causes import RepeatCausality
from tests.aggregates.repeat.invariants import RepeatInvariants
from tests.aggregates.repeat.rows import RepeatRows
from tests.aggregates.repeat.spec import SPECS, stop_command
from tests.aggregates.repeat.state import Repeat
from tests.aggregates.repeat.view import VIEW
from trackside.contracts.envelope.message import Command, Record
from trackside.contracts.streams.watches import TaskWatch
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.aggregate import Aggregates, AggregateType, FindStream, Handler
from trackside.domain.folding.lookup import Lookup
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.outgoing import OutgoingCommand
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task


class RepeatType(AggregateType[Repeat]):
    """Repeats."""

    kind = "repeat"
    state = Repeat
    begins_with = messages.RepeatStarted
    ends_with = messages.RepeatArchived
    events = (
        *(messages.RepeatStarted, messages.RepeatExtended, messages.RepeatStopRequested),
        *(messages.RepeatEnded, messages.RepeatExtensionAnswered, messages.RepeatArchived),
    )
    commands: Mapping[type[Command], Handler] = {
        messages.StartRepeat: decide.start,
        messages.ExtendRepeat: decide.extend,
        messages.StopRepeat: decide.stop,
    }
    mailed = (messages.RepeatEnded,)
    may_be_too_late = (messages.RepeatStopRequested,)
    causes = RepeatCausality()
    invariants = RepeatInvariants
    specs = SPECS
    rows = (RepeatRows(),)
    view = VIEW

    def begin(self, stream_id: str, event: messages.RepeatStarted, record: Record) -> Repeat:
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: Repeat, tasks: dict[str, Task], record: Record) -> Outcome:
        return evolve.evolve(root, record)

    def admits(self, root: Repeat, event: TaskSubmitted) -> bool:
        return evolve.admits(root, event)

    def task_submitted(self, root: Repeat, task: Task, record: Record) -> None:
        evolve.note_submitted(root, task)

    def task_changed(self, root: Repeat, task: Task, record: Record, reports: int) -> None:
        evolve.note_changed(root, task, record)

    def stop_command(self, task: str, reason: str) -> Command:
        return stop_command(task, reason)

    def lacking(self, stream: Stream[Repeat], lookup: Lookup) -> Iterable[Proposal]:
        return decide.lacking(stream)

    def outgoing(self, root: Repeat) -> Iterable[OutgoingCommand]:
        if not root.asks:
            return []
        asked = messages.ExtendRepeat(more=1)
        return [
            OutgoingCommand(
                root.spec.extends, root.ended_at, asked.wire_type(), asked.model_dump(mode="json")
            )
        ]

    def awaits(self, root: Repeat) -> Iterable[tuple[str, TaskWatch | None]]:
        return [(root.spec.extends, None)] if root.asks else []

    def signalled(
        self, stream: Stream[Repeat], find: FindStream, aggregates: Aggregates
    ) -> Iterable[Proposal]:
        return decide.extension_answered(stream, find)

    def next_due_ms(self, stream: Stream[Repeat]) -> int | None:
        return stream.root.due_ms

    def due(self, stream: Stream[Repeat], now_ms: int) -> Iterable[Proposal]:
        return decide.due(stream, now_ms)


REPEAT = RepeatType()
