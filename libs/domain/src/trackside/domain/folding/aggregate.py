"""What an aggregate is: the folded state of one stream, how events change it, and what is decided about it.

An aggregate is what one stream is about, such as a search or a batch. The fold of a stream knows commands and
tasks; all else is its aggregate's, which is found by the type of the event that begins it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from trackside.contracts.envelope.message import Command, Event, Json, Message, Record
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.streams.children import ChildRequested, WantedChild
from trackside.contracts.streams.watches import TaskWatch
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.contracts.wire import codec
from trackside.domain.checks.invariants import AggregateInvariants
from trackside.domain.display.view import View
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.signals import GaugeReading, Signal
from trackside.domain.folding.spec_kind import SpecKind
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.rows.table import Projection, RecordProjection
from trackside.domain.streams.causality import Causality
from trackside.domain.streams.child import Child
from trackside.domain.streams.forgetting import Totals
from trackside.domain.streams.outgoing import OutgoingCommand
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task
from trackside.domain.tasks.task_events import KINDS, task_of


class Root(Protocol):
    """The folded state of what a stream is about.

    `changed_at` is the offset of the last event that changed it, which decisions name as their cause.
    `settled` are the ids of tasks and children that have settled and are still kept: no event changes them
    any more, and no decision depends on them. Each reader forgets them at its own time (`stream.shrink`), so
    outcomes and decisions must be the same whether a settled one is still there or not.
    """

    changed_at: int
    settled: list[str]

    @property
    def over(self) -> bool:
        """Returns whether nothing of it runs any more; commands are still answered."""
        ...

    @property
    def closed(self) -> bool:
        """Returns whether its end is final: no event but an answer to a command changes the stream.

        Follows from its own events alone, not from those of tasks.
        """
        ...

    def has_settled(self, task_id: str) -> bool:
        """Returns whether a task that is not kept has settled; else it was never submitted."""
        ...

    def trim(self) -> None:
        """Drops what is only needed to compute the rows of its parts that have ended."""
        ...

    def release(self) -> None:
        """Drops what nothing reads once it is closed."""
        ...


S = TypeVar("S", bound=Root)
FindStream = Callable[[str], Stream | None]
Decided = list[Event] | Problem | tuple[Problem, ...]
"""The events of a command's effect, or why it is refused: one problem, or all that are found."""
Handler = Callable[[Stream, Any, str, Lookup], Decided]
"""Decides a command: (stream, command, command id, lookup) to the events of its effect, or why not.

Why not is one problem, or all that are independent of each other; the first one is the code of the refusal.
An empty list: it is accepted and changes nothing. The stream may have no root, or one of another kind.
"""


class AggregateType(ABC, Generic[S]):
    """One kind of aggregate: its events and its fold. All methods are pure."""

    kind: str
    """Its name: the tag in snapshots."""
    state: type[S]
    """The class of its root."""
    begins_with: type[Event]
    """The event that begins it."""
    begins_once: bool = True
    """Whether this event changes nothing once it has begun."""
    ends_with: type[Event] | None = None
    """The event that ends it; None: it never ends."""
    events: tuple[type[Event], ...]
    """Its events, the first one too; events of commands and tasks are the kernel's."""
    commands: Mapping[type[Command], Handler]
    """What decides each of its commands."""
    opened_by: frozenset[type[Command]] = frozenset()
    """Its commands after which something of it runs until it is over."""
    other_messages: Mapping[str, Sequence[type[Message]]] = {}
    """Messages on topics of its own: the topic as an attribute of `Topics`, and the types on it."""
    mailed: tuple[type[Event], ...] = ()
    """Its events, besides its end, after which `trackside mail` sends a report."""
    may_be_too_late: tuple[type[Event], ...] = ()
    """Its events that alone may have no effect in a decision that has: what they stop may have ended."""
    causes: Causality[Any] = Causality()
    """What `trackside replay why` knows of its events."""
    specs: Sequence[SpecKind] = ()
    """The kinds of spec files that begin one."""
    invariants: type[AggregateInvariants] = AggregateInvariants
    """What `trackside verify-log` checks of one stream of it."""

    child_begins_by: type[Command] | None = None
    """The command that begins one as the child of another stream; None: it is never a child."""

    indexed_after: frozenset[type[Event]] = frozenset()
    """Its events after which one can be found by other keys: see `index_keys`."""

    rows: tuple[Projection[Stream], ...] = ()
    """The rows of its tables; `tables.sql` next to its module defines them, `views/` has views of them."""
    record_rows: tuple[RecordProjection, ...] = ()
    """The rows of its tables that single events add or complete, because its state forgets what they show."""
    view: View[S]
    """What people see of it."""

    @abstractmethod
    def begin(self, stream_id: str, event: Any, record: Record) -> S:
        """Makes the root of the event that begins it."""

    @abstractmethod
    def evolve(self, root: S, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds one of its events; changes root and tasks only if it returns APPLIED. Never raises."""

    @abstractmethod
    def admits(self, root: S, event: TaskSubmitted) -> bool:
        """Returns whether a task that is new may be submitted now: this makes the log the arbiter of tasks.

        A task that has settled may look new, so the root alone must tell.
        """

    def task_submitted(self, root: S, task: Task, record: Record) -> None:
        """Takes in that a task was submitted."""

    def task_changed(self, root: S, task: Task, record: Record, reports: int) -> None:
        """Takes in an event of a task; `reports` is how many reports it had before."""

    def stop_command(self, task: str, reason: str) -> Command | None:
        """Returns what stops it, or with `task` that task of it; None if there is no such command."""
        return None

    def changed_tasks(self, root: S, event: Event) -> Iterable[str]:
        """Returns the ids of the tasks that one of its own events, the last that was applied, has changed."""
        return ()

    def children_of(self, command: Command, stream_id: str) -> Iterable[WantedChild]:
        """Yields the children that a command for a stream asks for: each is checked before it is accepted."""
        return ()

    def admits_child(self, root: S, event: ChildRequested) -> bool:
        """Returns whether a child that is new may be requested now."""
        return False

    def child_changed(self, root: S, child: Child, record: Record) -> None:
        """Takes in that a child was requested, is to stop, or has ended."""

    def outcome(self, root: S) -> tuple[str, Json]:
        """Returns the status of one that is over, and what it has found; also of one that was released."""
        return "OVER", {}

    def ends(self, root: S) -> Mapping[str, int]:
        """Returns how many of its parts have ended, by how they did; also of one that was released."""
        return {}

    def totals(self, stream: Stream[S]) -> Totals:
        """Returns what is known of one that is over once it is forgotten; also of one that was released."""
        found, ends = self.view.progress(stream), self.ends(stream.root)
        began, ended = found.started_ms, found.ended_ms
        return Totals(found.status, found.unit, found.ended, ends, found.total, began, ended)

    def outgoing(self, root: S) -> Iterable[OutgoingCommand]:
        """Returns the commands that it sends to other streams, at least until each is answered.

        To see the answer it awaits the other stream (`awaits`), and reads it there (`outgoing.answer_of`).
        One that isn't in the other stream's log yet is not sent once it is no longer returned.
        """
        return ()

    def signals(self, root: S) -> Iterable[Signal]:
        """Yields what others may wait for: of most aggregates, that one is over."""
        if root.over:
            status, result = self.outcome(root)
            yield Signal("ended", status, {"status": status, "result": result})

    def gauges(self, root: S) -> Iterable[GaugeReading]:
        """Yields the numbers of it that monitoring follows; none once it is over."""
        return ()

    def schedules_of(self, root: S) -> list[str]:
        """Returns the schedules that led to it; none for what was begun by a command of its own."""
        return []

    def awaits(self, root: S) -> Iterable[tuple[str, TaskWatch | None]]:
        """Returns the ids of the streams that it waits for, with what of their tasks if it waits for that."""
        return ()

    def signalled(self, stream: Stream[S], find: FindStream, aggregates: "Aggregates") -> Iterable[Proposal]:
        """Yields what follows from the signals of the streams that it waits for; `find` returns them."""
        return ()

    def index_keys(self, root: S, event: Message | None) -> Iterable[tuple[str, int]]:
        """Yields keys by which decisions of other streams find this one, with since when, in ms since 1970.

        Those that the event has added, which was applied just now; without an event all.
        """
        return ()

    def artifacts_forgotten(self, root: S, digests: Collection[str]) -> None:
        """Takes in that the store need not keep artifacts of the stream; not if it is closed."""

    @abstractmethod
    def lacking(self, stream: Stream[S], lookup: Lookup) -> Iterable[Proposal]:
        """Yields what the stream lacks now, by its state and a lookup: tasks, ends of parts, its own end."""

    def next_due_ms(self, stream: Stream[S]) -> int | None:
        """Returns when its next time limit is reached, in ms since 1970; None without one."""
        return None

    def due(self, stream: Stream[S], now_ms: int) -> Iterable[Proposal]:
        """Yields what follows from its time limits that are reached.

        The log judges: an event that its clock finds too early has no effect, and is proposed again later.
        """
        return ()


class Aggregates:
    """The aggregate types that there are, by kind and by the event that begins them."""

    def __init__(self, types: Iterable[AggregateType[Any]]) -> None:
        self.types: list[AggregateType[Any]] = []
        self.by_kind: dict[str, AggregateType[Any]] = {}  # no properties: the fold reads them for each record
        self.by_event: dict[type[Message], AggregateType[Any]] = {}
        self._by_command: dict[type[Message], AggregateType[Any]] = {}
        self.codec = codec.Codec()
        for each in types:
            self.add(each)

    def add(self, added: AggregateType[Any]) -> None:
        """Adds a type. Raises ValueError if its kind, first event, a message or a kind of spec is taken."""
        if added.kind in self.by_kind or self.begun_by(added.begins_with) is not None:
            raise ValueError(f"there is an aggregate of kind {added.kind!r}, or one that begins as it does")
        if taken := [spec.name for spec in added.specs if spec.name in self.specs]:
            raise ValueError(f"there are two kinds of spec files called {', '.join(taken)}")
        self.codec.add(added.commands)
        self.codec.add(added.events)
        for others in added.other_messages.values():
            self.codec.add(others)
        self.types.append(added)
        self.by_kind[added.kind] = added
        self.by_event.update(dict.fromkeys(added.events, added))
        self._by_command.update(dict.fromkeys(added.commands, added))

    @property
    def commands(self) -> tuple[type[Command], ...]:
        """The commands of all aggregates, and those of none."""
        return (*(command for each in self.types for command in each.commands), *codec.COMMANDS)

    @property
    def opened_by(self) -> frozenset[str]:
        """The wire types of the commands after which something runs."""
        return frozenset(command.wire_type() for each in self.types for command in each.opened_by)

    @property
    def specs(self) -> dict[str, SpecKind]:
        """The kinds of spec files by their names."""
        return {spec.name: spec for each in self.types for spec in each.specs}

    def stop_command(self, kind: str, task: str, reason: str) -> Command | None:
        """Returns what stops a stream of a kind, or with `task` that task of it.

        If its aggregate has no such command, one of another aggregate, whose refusal says why; else None.
        """
        own = [each for each in self.types if each.kind == kind]
        commands = (each.stop_command(task, reason) for each in (*own, *self.types))
        return next((command for command in commands if command is not None), None)

    def of(self, stream: Stream) -> AggregateType[Any] | None:
        """Returns the aggregate type of a stream, or None if it has not begun."""
        return self.by_kind.get(stream.kind)

    def changed_tasks(self, stream: Stream, event: Event) -> Iterable[str]:
        """Returns the ids of the tasks that an event, the last that was applied, has changed."""
        if type(event) in KINDS:
            return (task_of(event),)
        aggregate = self.by_event.get(type(event))
        return () if aggregate is None else aggregate.changed_tasks(stream.root, event)

    def of_command(self, kind: type[Message]) -> AggregateType[Any] | None:
        """Returns the aggregate type that a type of command is of, or None."""
        return self._by_command.get(kind)

    def begun_by(self, kind: type[Message]) -> AggregateType[Any] | None:
        """Returns the aggregate type that an event type begins, or None."""
        found = self.by_event.get(kind)
        return found if found is not None and found.begins_with is kind else None
