"""Finds artifacts by what a user calls them: STREAM/TASK/NAME@VERSION, or the beginning of a digest."""

import math
import re
from dataclasses import dataclass, replace

from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.cli.commands.artifacts.imported import imported_rows
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage
from trackside.contracts.envelope.refusals import nearest
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.rows.table import ViewRow
from trackside.eventlog.settings.settings import read_settings
from trackside.projections.reading.reads import ReadModels
from trackside.replay.transfer.imported_streams import PREFIX

ALL = 1_000_000
_DIGEST = re.compile(r"(?:store:sha256/|sha256[:/])?([0-9a-f]{6,64})")
_VERSION = re.compile(r"(.+)@([1-9]\d{0,15})")
EXPECTED = "expected STREAM/TASK/NAME, STREAM/TASK/NAME@VERSION, or 6 or more digits of a digest"


@dataclass(frozen=True, slots=True)
class ArtifactScope:
    """A stream, or one of its tasks; empty texts are any. `imported`: not the live stream of this name."""

    stream: str = ""
    task: str = ""
    imported: bool = False

    def has(self, row: ViewRow) -> bool:
        """Returns whether an artifact of the stream is of its task, which may be called without its name."""
        return not self.task or row["task_id"] in (self.task, f"{self.stream}.{self.task}")


def place_of(text: str) -> ArtifactScope:
    """Parses STREAM or STREAM/TASK; raises BadUsage. A task may be called without its stream's name."""
    stream, slash, task = text.removeprefix(PREFIX).partition("/")
    if "/" in task or (text and not stream) or (slash and not task):
        raise BadUsage(f"{text!r}: expected STREAM or STREAM/TASK")
    return ArtifactScope(stream, task, text.startswith(PREFIX))


async def artifacts_at(models: ReadModels, place: ArtifactScope, limit: int = ALL) -> list[ViewRow]:
    """Returns the artifacts of a stream or a task, newest first; of a live one, else of an imported one."""
    if place.imported:
        return _of_place(await imported_rows(place.stream), place, limit)
    rows = await models.rows("artifacts", place.stream or None, place.task or None, limit)
    if not rows and place.task:
        rows = await models.rows("artifacts", place.stream, f"{place.stream}.{place.task}", limit)
    if not rows and place.stream and not await models.rows("artifacts", place.stream, None, 1):
        return _of_place(await imported_rows(place.stream), place, limit)
    return rows


def _of_place(rows: list[ViewRow], place: ArtifactScope, limit: int) -> list[ViewRow]:
    return [row for row in rows if place.has(row)][:limit]


async def artifact_called(models: ReadModels, text: str) -> ViewRow:
    """Returns the artifact that a user means, the newest version unless one is given; raises BadUsage."""
    digest = _DIGEST.fullmatch(text)
    if digest is not None:
        return await _by_digest(models, digest[1])
    parts = text.removeprefix(PREFIX).split("/")
    if len(parts) != 3 or not all(parts):
        raise BadUsage(f"{text!r} is not an artifact: {EXPECTED}")
    stream, task, name = parts
    versioned = _VERSION.fullmatch(name)
    name, version = (versioned[1], int(versioned[2])) if versioned else (name, None)
    of_stream = ArtifactScope(stream, imported=text.startswith(PREFIX))
    rows = await artifacts_at(models, replace(of_stream, task=task))
    if not rows:
        raise BadUsage(await _unknown_task(models, of_stream, task))
    named = [row for row in rows if row["name"] == name]
    if not named:
        names = sorted({row["name"] for row in rows})
        raise BadUsage(
            f"task {rows[0]['task_id']} has no artifact {name!r}{nearest(name, names)}; it has {_some(names)}"
        )
    found = [row for row in named if version in (None, row["version"])]
    if not found:
        versions = ", ".join(str(row["version"]) for row in reversed(named[:20]))
        raise BadUsage(f"{stream}/{task}/{name} has no version {version}; it has {versions}")
    return found[0]


async def _by_digest(models: ReadModels, beginning: str) -> ViewRow:
    rows = await models.rows("artifacts_by_digest", beginning)
    rows += [
        {**row, "version": None, "kind": row["use"], "saved_at": row["submitted_at"], "forgotten_at": None}
        for row in await models.rows("inputs_by_digest", beginning)
    ]
    if not rows:
        raise BadUsage(f"no stream has an artifact whose digest begins with {beginning}")
    digests = sorted({row["sha256"] for row in rows})
    if len(digests) > 1:
        raise BadUsage(f"{len(digests)} digests begin with {beginning}, such as {', '.join(digests[:3])}")
    return rows[0]


async def _unknown_task(models: ReadModels, place: ArtifactScope, task: str) -> str:
    stream = place.stream
    if rows := await artifacts_at(models, place):
        tasks = sorted({row["task_id"] for row in rows})
        hint = f"{nearest(task, tasks)}; those that have: {_some(tasks)}"
        return f"no task {task!r} of {stream} has artifacts{hint}"
    streams = sorted({row["stream_id"] for row in await models.rows("artifacts", None, None, ALL)})
    hint = f"; those that have: {_some(streams)}" if streams else "; no stream has any yet"
    return f"{stream!r} has no artifacts{nearest(stream, streams)}{hint}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def reference_of(row: ViewRow) -> ArtifactReference:
    """Returns the reference to an artifact, as specs take it for an input."""
    return ArtifactReference(
        uri=row["uri"],
        sha256=row["sha256"],
        size_bytes=row["size_bytes"],
        media_type=row["media_type"],
        source=row["source"] or "",
        credential=row.get("credential"),
    )


def installed_store(timeout_s: float = math.inf) -> Store:
    """Opens the store of the installation, which must answer in time if that is less than the setting.

    Raises CommandFailed, StoreMissing or CredentialMissing.
    """
    settings = read_settings(StoreSettings)
    changed = {
        "store": settings.store or Addresses().store,
        "store_timeout_s": min(timeout_s, settings.store_timeout_s),
    }
    return open_store(settings.model_copy(update=changed))
