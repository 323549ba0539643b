"""Artifacts: files that outlive their task. The log has their digests, the store has their bytes."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, WORKER, Command, Event, Json, is_absent

FOLDER_MEDIA_TYPE = "application/vnd.trackside.manifest+json"
"""The media type of a folder: its blob is the manifest, which names the blobs of its files."""
CHECKPOINT = "checkpoint"
"""The kind of artifact that a later attempt may continue from."""
MAX_ARTIFACTS = 1_000
"""How many artifacts a task may save, checkpoints not counted."""
MAX_METADATA_BYTES = 16_384
"""How much metadata an artifact may have, as JSON."""
MODEL = "model"
"""The kind of artifact that has trained weights; its metadata say their format."""
MAX_MODEL_VERSIONS = 100_000
"""How many versions a model may have: one an hour for eleven years."""
STORED = "store:sha256/"
"""What the URI of an artifact in the store of the installation begins with; its digest follows."""
_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*@")
_SIGNED = re.compile(
    r"(?i)(x-amz-|x-goog-)?(signature|credential|security-token)|sig|sv|token|awsaccesskeyid|googleaccessid"
)

_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


def check_url(url: str) -> str:
    """Returns a URL; raises credentials_in_url, without repeating it, for one that has any in it."""
    has_user = _USER.match(url) is not None
    pairs = re.split("[&;]", url.partition("?")[2])
    names = (_ESCAPED.sub(lambda found: chr(int(found[1], 16)), pair.partition("=")[0]) for pair in pairs)
    if has_user or any(_SIGNED.fullmatch(name) for name in names):
        what = "a user or password" if has_user else "a signed query"
        raise PydanticCustomError(
            "credentials_in_url",
            "the URL has {what} in it; expected one without, and the name of a credential",
            {"what": what},
        )
    return url


def artifact_source(stream: str, task: str, name: str, version: int) -> str:
    """Returns what an artifact of a task is called, `STREAM/TASK/NAME@VERSION`: the source of references."""
    return f"{stream}/{task}/{name}@{version}"


Url = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(check_url)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ArtifactReference(BaseModel):
    """An artifact as a record refers to it: where its bytes are, their digest and their size in bytes.

    `uri` is `store:sha256/<digest>` in the store of the installation, else a URL, for which the worker's host
    may need the `credential` of that name. `source` is the artifact of a task that it is, as
    `STREAM/TASK/NAME@VERSION`; empty for one from outside.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    uri: Url
    sha256: Sha256
    size_bytes: int = Field(ge=0, le=2**53)
    media_type: str = Field(default="application/octet-stream", max_length=200)
    source: str = Field(default="", max_length=700, exclude_if=is_absent)
    credential: Identifier | None = Field(default=None, exclude_if=is_absent)


Inputs = Annotated[dict[Identifier, ArtifactReference], Field(max_length=100)]
"""Artifacts that a task is given, by the names that it knows them by."""


def place_of(reference: ArtifactReference) -> tuple[str, str, int, str]:
    """Returns where an artifact is and what it has: URI, digest, bytes and media type."""
    return reference.uri, reference.sha256, reference.size_bytes, reference.media_type


class CheckpointReference(ArtifactReference):
    """A checkpoint: training continues with `step`, and what was reported of the steps below it stays."""

    step: int = Field(ge=0, le=2**53)


class ArtifactSaved(Event):
    """The store has an artifact of a task: its bytes were written, and read back by size and digest.

    `number` counts what a placement saves from 1, `version` what the task has saved under this `name`.
    `kind` is `checkpoint`, `model`, `result`, `file`, or a name that the user chose.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    number: int
    name: str
    version: int
    kind: str
    uri: str
    sha256: str
    size_bytes: int
    media_type: str = "application/octet-stream"
    step: int | None = None
    metadata: Json = Field(default={})
    requests: int = 0


class TaskResumed(Event):
    """A training continues from a checkpoint, before it has reported anything.

    What earlier attempts, placements and trainings have reported of the steps below `step` stays; what they
    reported of it and of later ones doesn't count.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    step: int
    checkpoint: CheckpointReference
    interrupts: int = 0
    requests: int = 0


class ForgetArtifacts(Command):
    """Asks a stream to forget artifacts, whose bytes may be deleted then."""

    artifacts: list[Sha256] = Field(min_length=1, max_length=1_000)
    reason: str = Field(default="", max_length=1_000)


class ArtifactsForgotten(Event):
    """The store need not keep these artifacts of the stream any longer, by their digests."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    artifacts: list[str]
    reason: str = ""
