"""The state of a summary job: its files and what people say of it. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field

from trackside.aggregates.summary.messages import SummaryFileStatus, SummaryJobSpec, SummaryJobStatus
from trackside.domain.streams.stream import Stream


@dataclass(slots=True)
class SummaryFile:
    """An event file of a directory, as folded from the log."""

    number: int
    """Counts the files of the job in the order in which the log has them, from 1."""
    end: int = 0
    """Up to which byte it is indexed."""
    records: int = 0
    """How many records it had up to there."""
    fingerprint: str = ""
    """What tells another file of this name from it, as far as it is indexed; empty if that is not known."""
    status: SummaryFileStatus = SummaryFileStatus.INDEXED
    """Its state."""
    code: str = ""
    """Why it is quarantined; empty while it is not."""
    message: str = ""
    """What a person is told of that."""
    again_at_ms: int = 0
    """When a quarantined file is read again, in ms since 1970; 0: now."""
    indexed_ms: int = 0
    """When its last bytes were indexed: append time of the event, in ms since 1970."""


@dataclass(slots=True)
class Summary:
    """The summaries of a directory or of a task, as folded from the log."""

    job_id: str
    """Its id, which is also that of its stream."""
    spec: SummaryJobSpec
    """The directory or the task."""
    found_ms: int
    """When it was found: append time of SummaryJobFound, in ms since 1970."""
    status: SummaryJobStatus = SummaryJobStatus.ACTIVE
    """Its state."""
    files: dict[str, SummaryFile] = field(default_factory=dict)
    """Its files by their names."""
    numbered: int = 0
    """How many numbers of files were given; a replaced file has got another one."""
    tag: int | None = None
    """The tag that people gave it, 0 to 10."""
    remark: str = ""
    """What people say of it."""
    purged: bool = False
    """Whether the rows of its values are removed while it is deleted."""
    changes: int = 0
    """How many events of people have changed it: the number of the newest one."""
    reported: int = 0
    """How many events of readers have changed it: the sequence number of the newest one."""
    changed_ms: int = 0
    """When it was changed last: append time of the event, in ms since 1970."""
    changed_at: int = -1
    """Offset of the last event that changed it."""
    settled: list[str] = field(default_factory=list)
    """Empty: it has no tasks."""

    @property
    def over(self) -> bool:
        """Returns True, for nothing of it runs: it has no tasks."""
        return True

    @property
    def closed(self) -> bool:
        """Returns False, for it may still change: its files may grow."""
        return False

    def has_settled(self, task_id: str) -> bool:
        """Returns False: it has no tasks."""
        return False

    def trim(self) -> None:
        """Keeps all: a reader of its files goes on from it."""

    def release(self) -> None:
        """Keeps all: it is never closed."""


def summary_of(stream: Stream) -> Summary | None:
    """Returns the summary job of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, Summary) else None
