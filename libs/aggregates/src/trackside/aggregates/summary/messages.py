"""Summaries of a job: the files of a directory, how far each is indexed, and what people say of a job."""

from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, SUMMARY_INDEXER, Command, Event, is_absent

MAX_FILES = 1_000
"""How many event files a job may have."""

MAX_PATH = 4_096
MAX_FILE_NAME = 1_000
"""Characters of a path and of the name of a file, as they are shown."""

FileName = Annotated[str, Field(min_length=1, max_length=MAX_FILE_NAME)]
_Reason = Annotated[str, Field(max_length=1_000)]


def _is_false(value: object) -> bool:
    return value is False


class SummaryJobStatus(StrEnum):
    """The states of a job; what is found of a deleted one is ignored until it is restored."""

    ACTIVE = "ACTIVE"
    VANISHED = "VANISHED"
    DELETED = "DELETED"


class SummaryFileStatus(StrEnum):
    """The states of a file: a quarantined one is read again later."""

    INDEXED = "INDEXED"
    QUARANTINED = "QUARANTINED"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SummarizedTask(_Part):
    """A task whose values are a job."""

    stream: Identifier
    task: Identifier


class SummaryJobSpec(_Part):
    """Whose values a job has: of a directory below a base, or of a task; the other one is absent.

    `path` is relative to `base`; `.` is the base itself. Bytes that are not UTF-8 are shown as `\\xff`.
    """

    base: str = Field(default="", max_length=MAX_PATH, exclude_if=is_absent)
    path: str = Field(default="", max_length=MAX_PATH, exclude_if=is_absent)
    task: SummarizedTask | None = Field(default=None, exclude_if=is_absent)


class RegisterSummaryDirectory(Command):
    """Asks for the job of a directory with event files, under the stream id that `directory_job_id` gives."""

    base: str = Field(min_length=1, max_length=MAX_PATH)
    path: str = Field(min_length=1, max_length=MAX_PATH)


class CacheTrainJob(Command):
    """Asks that a summary indexer has the values of a job in memory; nothing of the job changes.

    `task` names a job that is a task; its stream begins if it has none.
    """

    task: SummarizedTask | None = None


class RetrySummaryFile(Command):
    """Asks that a quarantined file is read again now; without a name all of them."""

    file: FileName | None = None


class DeleteSummaryJob(Command):
    """Asks that a job isn't shown any more, and that its files are ignored; the log keeps all of it.

    With `purge`, the rows of its values are removed from the read models, too.
    """

    task: SummarizedTask | None = None
    reason: _Reason = ""
    purge: bool = False


class RestoreSummaryJob(Command):
    """Asks that a deleted job is shown again, and its files are indexed further."""


class AnnotateSummaryJob(Command):
    """Asks for another tag or remark of a job; what is absent stays. `task` names a job that is a task."""

    task: SummarizedTask | None = None
    tag: int | None = Field(default=None, ge=0, le=10)
    remark: str | None = Field(default=None, max_length=128)


class SummaryJobFound(Event):
    """A job has begun: a directory was registered, or something is said of a task's values."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    job: SummaryJobSpec


class SummaryFileIndexed(Event):
    """The bytes of a file from `begin` to `end` are indexed: their points are in the log.

    A file begins with its first one, from 0, which may be empty; files are numbered in the order of these.
    Another empty one says that a file that was quarantined, or a directory that had vanished, is as it was.
    `sequence` numbers what the readers of a job write of it, from 1, so each one has an effect once.
    `fingerprint` is a hash of bytes before `end`, which tells another file of this name; in older records,
    and without new bytes, there is none.
    """

    written_by: ClassVar[frozenset[str]] = SUMMARY_INDEXER
    sequence: int
    file: FileName
    begin: int
    end: int
    records: int = 0
    fingerprint: str = Field(default="", max_length=64, exclude_if=is_absent)


class SummaryFileReplaced(Event):
    """A file is another one, or shorter, than what was indexed of it: it has a new number and begins at 0."""

    written_by: ClassVar[frozenset[str]] = SUMMARY_INDEXER
    sequence: int
    file: FileName


class SummaryFileQuarantined(Event):
    """A file can't be read from `offset` on; it is read again at `again_at_ms`, in ms since 1970."""

    written_by: ClassVar[frozenset[str]] = SUMMARY_INDEXER
    sequence: int
    file: FileName
    offset: int
    code: str
    message: str = ""
    again_at_ms: int


class SummaryFileRetried(Event):
    """A quarantined file is read again now."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    file: FileName


class SummaryJobVanished(Event):
    """The directory of a job is gone; what was indexed remains."""

    written_by: ClassVar[frozenset[str]] = SUMMARY_INDEXER
    sequence: int


class SummaryJobDeleted(Event):
    """A job isn't shown any more, and nothing more of its files is indexed.

    With `purge`, the rows of its values are removed; a deleted job may be purged later.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    reason: str = ""
    purge: bool = Field(default=False, exclude_if=_is_false)


class SummaryJobRestored(Event):
    """A job that was deleted is shown again; the files of one that was purged are read again from 0."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int


class SummaryJobAnnotated(Event):
    """A job has this tag and remark now. `change` counts what people changed of a job, from 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    tag: int | None = Field(default=None, exclude_if=is_absent)
    remark: str = Field(default="", exclude_if=is_absent)


def directory_job_id(base: bytes, path: bytes) -> str:
    """Returns the id of a directory's job, which is its stream id too: a hash of base and relative path."""
    return _job_id(b"directory", base, path)


def task_job_id(task_id: str) -> str:
    """Returns the stream id under which the job of a task is deleted, annotated or loaded."""
    return _job_id(b"task", task_id.encode("utf-8", "surrogatepass"))


def _job_id(*parts: bytes) -> str:
    return f"summary-{blake2b(bytes([0]).join(parts), digest_size=8).hexdigest()}"
