"""The state of a dataset: how far it was observed, and who watches it. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field

from trackside.aggregates.dataset.messages import WATCH, DatasetEnd, DatasetSpec, DatasetStatus
from trackside.contracts.tasks.tasks import Figure
from trackside.domain.streams.stream import Stream

STOPPED = frozenset({DatasetStatus.TRUNCATED, DatasetStatus.CHANGED, DatasetStatus.REFUSED})
"""The states in which nothing is taken from a dataset since something is wrong with it."""


@dataclass(slots=True)
class Dataset:
    """A dataset as folded from the log."""

    dataset_id: str
    """Its name, which is also the id of its stream."""
    spec: DatasetSpec
    """Where it is, and how it is read."""
    registered_ms: int
    """When it was registered: append time of DatasetRegistered, in ms since 1970."""
    status: DatasetStatus = DatasetStatus.ACTIVE
    """Its state."""
    status_ms: int = 0
    """When it took that state: append time of that event, in ms since 1970."""
    end: DatasetEnd = field(default_factory=DatasetEnd)
    """How far it was observed."""
    metrics: dict[str, Figure] = field(default_factory=dict)
    """What its watcher has computed of the samples that are observed last, by name; empty if nothing."""
    observed_at: int = -1
    """Offset of the event that `end` is from; -1 before the first."""
    observed_ms: int = 0
    """When it was observed last: append time of DatasetObserved, in ms since 1970; 0 before that."""
    changes: int = 0
    """How often people have changed it."""
    stops: int = 0
    """How often something wrong with it has stopped the intake."""
    reason: str = ""
    """Why it is not ACTIVE, as a sentence; empty while it is."""
    watchers: int = 0
    """How many services have watched it: the number of the newest one."""
    watching: bool = False
    """Whether the newest one has not ended."""
    dismissed: int = 0
    """The number of the newest one that is to end: what those up to it report has no effect."""
    told: tuple[int, int] = (0, 0)
    """The attempt and placement of the watcher that was given the end; zeros for none."""
    changed_at: int = -1
    """Offset of the last event that changed it."""
    settled: list[str] = field(default_factory=list)
    """The ids of watchers that have ended and are still kept."""

    @property
    def over(self) -> bool:
        """Returns whether nothing watches it."""
        return not self.watching and self.status is not DatasetStatus.ACTIVE

    @property
    def served(self) -> bool:
        """Returns whether a service watches it whose reports count."""
        return self.watching and self.watchers > self.dismissed

    @property
    def closed(self) -> bool:
        """Returns False: it may still change, as the service that watches a deleted one has to end."""
        return False

    def has_settled(self, task_id: str) -> bool:
        """Returns whether a task that is not kept was a watcher that has ended."""
        prefix, _, number = task_id.rpartition(".")
        if prefix != f"{self.dataset_id}.{WATCH}" or not number.isdecimal():
            return False
        return 1 <= int(number) <= self.watchers - self.watching and str(int(number)) == number

    def trim(self) -> None:
        """Keeps all: it does not grow."""

    def release(self) -> None:
        """Keeps all: it does not grow."""

    def watcher_id(self, number: int | None = None) -> str:
        """Returns the id of a watcher, by default of the newest one."""
        return watcher_id(self.dataset_id, self.watchers if number is None else number)


def watcher_id(dataset_id: str, number: int) -> str:
    """Returns the id of the task that watches a dataset for the time of this number, from 1."""
    return f"{dataset_id}.{WATCH}.{number}"


def dataset_of(stream: Stream) -> Dataset | None:
    """Returns the dataset of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, Dataset) else None
