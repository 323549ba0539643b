"""A search with one task that runs and writes lines, appended to a log step by step."""

from dataclasses import dataclass
from typing import Any

from tests.unit.domain import given
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.summaries import OutputWritten
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log

TASK = given.task_id(0)
WORKER = RecordWriter("worker", "w1")


@dataclass(frozen=True)
class TaskStream:
    """A search `digits-1` with the task `digits-1.0`, in any log."""

    log: Log
    topics: Topics

    async def append_events(self, *messages: Event) -> None:
        writer = RecordWriter(max(messages[0].written_by), "test")
        place = (self.topics.events.name, partition_of(given.STREAM, self.topics.events.partitions))
        await self.log.append(*place, writer.decision(given.STREAM, messages))

    async def queued(self) -> None:
        await self.log.ensure(self.topics.shared)
        await self.append_events(given.received())
        await self.append_events(given.accepted(), given.started(retry={"failed": 1}))
        search = given.spec(retry={"failed": 1})
        await self.append_events(given.suggested(0), given.submitted(0, needs=search.needs))

    async def runs(self, attempt: int = 1) -> None:
        await self.append_events(given.assigned(attempt=attempt))
        await self.append_events(given.begun(attempt=attempt))

    async def ends(self, end: AttemptEnd = AttemptEnd.FINISHED, attempt: int = 1) -> None:
        await self.append_events(given.ended(end, attempt=attempt))

    async def lines(
        self, first: int, *lines: str, task_id: str = TASK, message_id: str = "", **more: Any
    ) -> None:
        """Appends lines of stdout of the first attempt, unless `source` and `attempt` are given."""
        where: Any = {"stream": given.STREAM, "task_id": task_id, "attempt": 1, "source": "stdout", **more}
        output = OutputWritten(first_line=first, lines=list(lines), **where)
        record = WORKER.single(given.STREAM, output, message_id=message_id)
        keyed = type(record)(task_id.encode(), record.value, record.headers)
        place = (self.topics.logs.name, partition_of(task_id, self.topics.logs.partitions))
        await self.log.append(*place, [keyed])
