"""The state of a batch: its groups, one after another, and when it is over. Drawn in ARCHITECTURE.md."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import PlainSerializer

from trackside.aggregates.batch.messages import BatchSpec, BatchStatus, task_name
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.streams.stream import Stream

OVER = frozenset({BatchStatus.DONE, BatchStatus.STOPPED})


@dataclass(slots=True)
class Batch:
    """A batch as folded from the log."""

    batch_id: str
    """Its id, which is also the id of its stream."""
    spec: BatchSpec
    """What the user submitted: its groups, their tasks and children."""
    started_ms: int
    """When it started: append time of BatchStarted, in ms since 1970."""
    status: BatchStatus = BatchStatus.RUNNING
    """Its state: RUNNING, STOPPING, or how it ended."""
    group: int = 0
    """The number of the group that runs now, from 0; the number of groups once all are over."""
    submitted: int = 0
    """How many tasks of that group were submitted, in their order."""
    begun: int = 0
    """How many children of that group were requested, in their order."""
    open: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(default_factory=set)
    """The ids of those of the tasks that have not ended."""
    open_children: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(
        default_factory=set
    )
    """The ids of those of the children that have not ended."""
    ends: dict[str, int] = field(default_factory=dict)
    """How many of both have ended, by their end; that of a child is its status in lower case."""
    ended: list[dict[str, int]] = field(default_factory=list)
    """The same counts for each group that is over, by number."""
    unfinished: dict[str, AttemptEnd] = field(default_factory=dict)
    """How those of its tasks ended that have not finished, by id; the others that are over have finished."""
    settled: list[str] = field(default_factory=list)
    """The ids of the tasks that have ended and are still kept."""
    stop_reason: str = ""
    """Why it was stopped; empty before that."""
    ended_ms: int = 0
    """When it ended: append time of BatchEnded, in ms since 1970; 0 before that."""
    asking: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(default_factory=set)
    """The ids of tasks whose process waits for another trial's parameters: a batch has none for them."""
    changed_at: int = -1
    """Offset of the last event that changed it, such as the end of a task; a cause of later decisions.
    -1: none.
    """
    stopped_at: int = -1
    """Offset of the BatchStopRequested that counts; a cause of later decisions. -1: none."""

    @property
    def over(self) -> bool:
        """Returns whether all its groups are over, or it was stopped and no task of it runs."""
        return self.status in OVER

    @property
    def closed(self) -> bool:
        """Returns whether its end is final: that of a batch is."""
        return self.over

    def has_settled(self, task_id: str) -> bool:
        """Returns whether a task that is not kept has settled: whether it has had its turn."""
        prefix = f"{self.batch_id}."
        digits, _, name = task_id.removeprefix(prefix).partition(".")
        group = next((at for at in range(self.group + 1) if digits == str(at + 1)), len(self.spec.groups))
        if not task_id.startswith(prefix) or group >= len(self.spec.groups):
            return False
        tasks = self.spec.groups[group].tasks
        submitted = len(tasks) if group < self.group else self.submitted
        return any(task_name(task, at) == name for at, task in enumerate(tasks[:submitted]))

    def trim(self) -> None:
        """Keeps all: how its tasks ended is counted."""

    def release(self) -> None:
        """Drops what is about single tasks."""
        self.asking.clear()
        self.unfinished.clear()
        self.settled.clear()

    @property
    def group_is_over(self) -> bool:
        """Returns whether every task and child of the group that runs now has ended."""
        if self.group == len(self.spec.groups) or self.open or self.open_children:
            return False
        group = self.spec.groups[self.group]
        return self.submitted == len(group.tasks) and self.begun == len(group.children)

    @property
    def next_task(self) -> int | None:
        """The number of the task to submit now, if there is one and its turn has come: after the children."""
        if not self.room or self.next_child is not None:
            return None
        return self.submitted if self.submitted < len(self.spec.groups[self.group].tasks) else None

    @property
    def next_child(self) -> int | None:
        """The number of the child to request now, if there is one and its turn has come."""
        if not self.room:
            return None
        return self.begun if self.begun < len(self.spec.groups[self.group].children) else None

    @property
    def room(self) -> int:
        """How many tasks and children of the group that runs now may begin, if it has so many."""
        if self.status is not BatchStatus.RUNNING or self.group == len(self.spec.groups):
            return 0
        return max(0, self.spec.concurrency - len(self.open) - len(self.open_children))

    @property
    def outcome(self) -> dict[str, Any]:
        """How its tasks and children have ended, for a parent stream: counted by their end."""
        counted: Counter[str] = Counter()
        for ends in (*self.ended, self.ends):
            counted.update(ends)
        return {"ends": dict(sorted(counted.items()))}


def batch_of(stream: Stream) -> Batch | None:
    """Returns the batch of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, Batch) else None
