"""A stream: its aggregate with everything that belongs to it, as folded from one partition of the log."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.envelope.trusted_keys import Trust
from trackside.domain.streams import command
from trackside.domain.streams.child import Child
from trackside.domain.streams.draining import DrainedDevice
from trackside.domain.streams.forgetting import Forgotten
from trackside.domain.streams.labels import StreamLabels
from trackside.domain.streams.parking import ITS_KEY, Parked, Released, SkippedRecord, needed_at, place_of
from trackside.domain.streams.watches import Watched
from trackside.domain.tasks.retries import KEPT_ATTEMPTS
from trackside.domain.tasks.task import Attempt, Task

S = TypeVar("S", default=Any)


@dataclass(slots=True)
class Stream(Generic[S]):
    """The state of one stream; `root` is the state of its aggregate, of type `kind`, once that has begun."""

    stream_id: str
    partition: int
    kind: str = ""
    rules: int = 0
    first_offset: int = -1
    last_offset: int = -1
    traceparent: str = ""
    publisher: str = ""
    """Who published the last command that was accepted while nothing of it ran: if it is open, by whom."""
    commands: command.Commands = field(default_factory=dict)
    root: S = cast(Any, None)  # noqa: RUF009  # until its aggregate has begun
    tasks: dict[str, Task] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)
    ignored_decision: bytes = b""
    next_digest: bytes = b""
    """The digest of the next record of a signed decision, which the record before it names."""
    trust: Trust | None = None
    """The keys that its partition trusts, in the stream of the events about keys."""
    crowded: dict[str, None] = field(default_factory=dict)
    """The services with more attempts than are kept: their oldest ones are forgotten next."""
    watches: dict[str, Watched] = field(default_factory=dict)
    """What schedules wait for in its tasks, by key."""
    labels: StreamLabels | None = None
    """Its tags, its note and whether it is archived; None: it was never annotated. Kept when it is closed."""
    drained: dict[str, DrainedDevice] = field(default_factory=dict)
    """The drained devices of the worker that has the stream's id, by device id. Kept when it is closed."""
    parked: Parked | None = None
    """Why nothing more of it is folded or decided; None: it is as any other stream."""
    released: Released | None = None
    """From where on it is read again, since the record that parked it was skipped; None: it is folded."""
    skipped: list[SkippedRecord] = field(default_factory=list)
    """Its records that count for no reader, the first skipped one first. Kept when it is closed."""
    placed: dict[str, int] = field(default_factory=dict)
    """How many of its tasks each worker has now, by worker id; for workers that have any."""
    public_key: str = ""
    """The key that its events are encrypted with, from its first record; empty: they are not encrypted."""
    commands_at: int = -1
    """Offset of the last event about one of its commands, whether it counted or not; also of one that this
    reader can't read."""
    forgotten: Forgotten | None = None
    """What is known of it since it was forgotten, besides the commands that came later; None: it was not."""
    closed: bool = False
    """Whether the end of its aggregate is final: only commands are still answered. Read for each record."""

    def is_settled(self, task_id: str) -> bool:
        """Returns whether nothing changes a task any more, for one that `tasks` does not have."""
        return self.closed or (self.root is not None and bool(cast(Any, self.root).has_settled(task_id)))

    @property
    def waits(self) -> bool:
        """Returns whether nothing is decided about it: it is parked, or not all of it is read again yet."""
        return self.parked is not None or self.released is not None

    @property
    def lacks_key(self) -> bool:
        """Returns whether it is encrypted and this reader does not have its key."""
        return self.parked is not None and self.parked.needs == ITS_KEY

    @property
    def over(self) -> bool:
        """Returns whether nothing of its aggregate runs; unless it is closed too, it may go on again."""
        return self.root is not None and bool(cast(Any, self.root).over)

    @property
    def unanswered(self) -> bool:
        """Returns whether a publication of a command still wants an answer."""
        return any(
            not publication.answered
            for received in self.commands.values()
            for publication in received.publications
        )


def told(stream: Stream) -> str:
    """Returns what a stream waits for: `needs a newer release: type trackside.x.v1 at 3/17`."""
    if stream.parked is not None:
        return needed_at(stream.parked, stream.partition)
    assert stream.released is not None  # or it does not wait
    return f"reads again what came after {place_of(stream.partition, stream.released.read_to)}"


def check_not_begun(stream: Stream) -> Problem | None:
    """Returns why nothing can begin in a stream, or None if it has no aggregate yet."""
    if not stream.kind:
        return None
    message = f"stream {stream.stream_id} exists already, of kind {stream.kind}; choose another id"
    return Problem(code="already_exists", path="$partitionkey", message=message)


def no_aggregate(stream: Stream, kind: str) -> Problem:
    """Returns why a command for an aggregate of a kind is refused: the stream has none, or another one."""
    hint = f"; it is of kind {stream.kind}" if stream.kind else ""
    message = f"no {kind} {stream.stream_id!r}{hint}"
    return Problem(code=f"unknown_{kind}", path="$partitionkey", message=message)


def shrink(stream: Stream) -> None:
    """Forgets what nothing later reads: settled tasks, and most of a stream that is closed."""
    if stream.closed:
        stream.tasks.clear()
        stream.children.clear()
        if stream.root is not None:  # of a forgotten one nothing is left
            stream.root.release()
    else:
        forget_settled(stream)


def forget(stream: Stream, forgotten: Forgotten, commands: command.Commands) -> None:
    """Leaves nothing of a stream but that it was forgotten, and the commands that asked for that."""
    empty: Stream = Stream(stream.stream_id, stream.partition)
    for each in fields(Stream):
        setattr(stream, each.name, getattr(empty, each.name))
    stream.forgotten = forgotten
    stream.commands = commands
    stream.closed = True


def settled_part(stream: Stream) -> Stream:
    """Returns the stream with only those tasks and children that have settled and are still kept."""
    settled = () if stream.root is None else stream.root.settled
    return replace(
        stream,
        tasks={task_id: stream.tasks[task_id] for task_id in settled if task_id in stream.tasks},
        children={each: stream.children[each] for each in settled if each in stream.children},
    )


def forgotten_attempts(stream: Stream) -> Iterator[tuple[str, Attempt]]:
    """Yields the attempts that are forgotten next, with their task: of settled tasks, and of services."""
    settled = () if stream.root is None else stream.root.settled
    for task_id in settled:
        if (task := stream.tasks.get(task_id)) is not None:
            yield from ((task_id, attempt) for attempt in task.attempts)
    for task_id in stream.crowded.keys() - set(settled):
        if (task := stream.tasks.get(task_id)) is not None:
            yield from ((task_id, attempt) for attempt in task.attempts[:-KEPT_ATTEMPTS])


def forget_settled(stream: Stream) -> None:
    """Forgets the tasks and children that have settled, and what only rows of ended parts need."""
    root = stream.root
    if stream.crowded:
        for task_id in stream.crowded:
            if (task := stream.tasks.get(task_id)) is not None:
                del task.attempts[:-KEPT_ATTEMPTS]
        stream.crowded.clear()
    if root is None:
        return
    if root.settled:  # seldom, and a service calls this for each record
        for task_id in root.settled:
            stream.tasks.pop(task_id, None)
            stream.children.pop(task_id, None)
        root.settled.clear()
    root.trim()
