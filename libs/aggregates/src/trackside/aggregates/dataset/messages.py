"""Datasets: files that grow at their end, how far each was observed, and what stops that."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json, is_absent
from trackside.contracts.tasks.artifacts import Sha256, Url
from trackside.contracts.tasks.tasks import Figure

WATCH = "watch"
"""The kind of part of the service that watches a dataset; its number counts from 1."""
MAX_LINE_BYTES = 1_048_576
"""The longest sample, in bytes; a longer one stops the intake of its dataset."""
DEFAULT_LOOK_S = 1.0
"""How often a file is looked at that says nothing of its changes itself, such as an object of S3."""

DatasetFormat = Literal["txt", "csv", "jsonl"]
"""A sample is a line: of `txt` any, of `csv` each after the first one, of `jsonl` one JSON value."""
MAX_METRICS = 20
"""How many metrics of its newest samples a dataset has."""
_Reason = Annotated[str, Field(max_length=1_000)]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Samples = Annotated[int, Field(ge=2, le=100_000)]


class DatasetStatus(StrEnum):
    """The states of a dataset; of one that is TRUNCATED or CHANGED nothing is taken until it is resumed."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    TRUNCATED = "TRUNCATED"
    CHANGED = "CHANGED"
    REFUSED = "REFUSED"
    DELETED = "DELETED"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DriftSpec(_Part):
    """How far the newest samples of a dataset differ from its first ones, as its metric `drift`.

    `detector` compares the newest `window` samples with the first `reference` ones; `parameters` are its own.
    `columns` are those that it compares, by default all with numbers; a `txt` has none.
    """

    detector: Identifier
    parameters: Json = Field(default={}, exclude_if=is_absent)
    reference: _Samples = 200
    window: _Samples = 200
    columns: list[str] | None = Field(default=None, min_length=1, max_length=1_000, exclude_if=is_absent)


class DatasetSpec(_Part):
    """Where a dataset is, and how it is read.

    `url` is a file of the hosts of the workers, or an object of S3 for which these have the `credential`.
    `queue` is that of the service that watches it, which looks at it every `look_s` seconds where the file
    system doesn't report changes, and computes `drift` of what is new.
    """

    url: Url
    format: DatasetFormat = "txt"
    credential: Identifier | None = Field(default=None, exclude_if=is_absent)
    look_s: float = Field(default=DEFAULT_LOOK_S, ge=0.05, le=86_400, allow_inf_nan=False)
    queue: Identifier = "default"
    drift: DriftSpec | None = Field(default=None, exclude_if=is_absent)
    description: str = Field(default="", max_length=10_000, exclude_if=is_absent)


class DatasetEnd(_Part):
    """How far a dataset was read: `lines` samples, which end at byte `size`, and what was there.

    `sha256` is the digest of all bytes before `size`, the header of a csv included.
    """

    lines: _Count = 0
    size: _Count = 0
    sha256: Sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class RegisterDataset(Command, DatasetSpec):
    """Asks for a dataset, under the stream id of the command, and that it is watched from its beginning."""


class PauseDataset(Command):
    """Asks that a dataset isn't watched."""

    reason: _Reason = ""


class ResumeDataset(Command):
    """Asks that a dataset is watched again, once what has stopped the intake is repaired.

    What was observed of it is compared again first: if that is still changed or missing, it stops again.
    """


class DeleteDataset(Command):
    """Asks that a dataset isn't used any more; its id stays taken, its file as it is."""

    reason: _Reason = ""


class DatasetRegistered(Event):
    """A dataset has begun, without samples."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    dataset: DatasetSpec


class DatasetObserved(Event):
    """A dataset has the samples `begin` to `end`, the last one not included; they count from 0.

    They are its bytes `begin_byte` to `end_byte`; `sha256` is the digest of all bytes before `end_byte`.
    The watcher of number `watcher` has reported it, in this placement, which must be the one that was given
    the end of what is known; the same holds for the events that stop the intake.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    watcher: int
    attempt: int
    placement: int
    begin: _Count
    end: _Count
    begin_byte: _Count
    end_byte: _Count
    sha256: Sha256
    metrics: dict[str, Figure] = Field(default={}, exclude_if=is_absent)
    """Numbers that its watcher has computed of the newest samples, such as `drift`."""


class DatasetTruncated(Event):
    """A dataset has become shorter than what was observed of it: nothing more is taken from it.

    `stop` counts what has stopped the intake, from 1.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    watcher: int
    attempt: int
    placement: int
    stop: int
    observed_bytes: int
    size_bytes: int


class DatasetChanged(Event):
    """Bytes of a dataset that were observed are other ones now: nothing more is taken from it.

    `sha256` is the digest of as many bytes as were observed; empty if the watcher did not say.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    watcher: int
    attempt: int
    placement: int
    stop: int
    observed_sha256: str
    sha256: str = Field(default="", exclude_if=is_absent)


class DatasetRefused(Event):
    """A dataset has a sample that can't be one, or can't be read: nothing more is taken from it.

    `code` is the reason, `line` the number of the sample from 0, where it is about one.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    watcher: int
    attempt: int
    placement: int
    stop: int
    code: str
    line: int | None = Field(default=None, exclude_if=is_absent)
    message: str = Field(default="", exclude_if=is_absent)


DatasetReport = DatasetObserved | DatasetTruncated | DatasetChanged | DatasetRefused
"""What a watcher has reported."""


class DatasetPaused(Event):
    """A dataset isn't watched. `change` counts what people changed of it, from 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    reason: str = ""


class DatasetResumed(Event):
    """A dataset is watched again."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int


class DatasetDeleted(Event):
    """A dataset isn't used any more."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    reason: str = ""
