"""The state of a batch: its groups, one after another, and when it is over. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import PlainSerializer

from trackside.contracts.batches import BatchSpec, BatchStatus
from trackside.domain.stream import Stream

OVER = frozenset({BatchStatus.DONE, BatchStatus.STOPPED})


@dataclass(slots=True)
class Batch:
    """A batch as the log has it.

    `group` is the number of the group that runs now, `submitted` how many of its tasks were submitted, in
    their order, `open` those of them that have not ended, `ends` counts the others by their end; `ended`
    holds those counts of the groups that are over. `asking` are tasks whose process waits for parameters of
    another trial, which a batch has not. `changed_at` is the offset of the last event that changed
    it, such as the end of one of its tasks; `stopped_at` that of the BatchStopRequested that counts.
    """

    batch_id: str
    spec: BatchSpec
    started_ms: int
    status: BatchStatus = BatchStatus.RUNNING
    group: int = 0
    submitted: int = 0
    open: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(default_factory=set)
    ends: dict[str, int] = field(default_factory=dict)
    ended: list[dict[str, int]] = field(default_factory=list)
    stop_reason: str = ""
    ended_ms: int = 0
    asking: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(default_factory=set)
    changed_at: int = -1
    stopped_at: int = -1

    @property
    def over(self) -> bool:
        """Says whether all its groups are over, or it was stopped and no task of it runs."""
        return self.status in OVER

    @property
    def closed(self) -> bool:
        """Says whether its end is final: that of a batch is."""
        return self.status in OVER  # not `over`, which takes longer: the fold asks for each record

    def release(self) -> None:
        """Keeps all: how its tasks ended is counted, not kept."""
        self.asking.clear()

    @property
    def group_is_over(self) -> bool:
        """Says whether every task of the group that runs now has ended."""
        running = self.group < len(self.spec.groups)
        return running and not self.open and self.submitted == len(self.spec.groups[self.group].tasks)

    @property
    def next_task(self) -> int | None:
        """The number of the task to submit now, if there is one and its turn has come."""
        waits = self.status is BatchStatus.RUNNING and self.group < len(self.spec.groups)
        if not waits or len(self.open) >= self.spec.concurrency:
            return None
        return self.submitted if self.submitted < len(self.spec.groups[self.group].tasks) else None


def batch_of(stream: Stream) -> Batch | None:
    """Returns the batch of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, Batch) else None
