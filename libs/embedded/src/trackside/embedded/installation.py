"""The identity of a stack's folder: the same in the folder, in its log and in its read models.

The id is the cluster id of the folder's Kafka. Services write it into the read models and refuse those of
another log. The folder's own note also says where the folder was when it was last started: a folder that was
moved continues, a copy of one that still exists becomes an installation of its own.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from trackside.embedded.errors import StackError, StackMissing
from trackside.embedded.files import write_whole
from trackside.embedded.folder import read_status
from trackside.embedded.kafka import kafka
from trackside.embedded.kafka.jars import ReportProgress
from trackside.eventlog import log_id

NOTE = "installation.json"


@dataclass(frozen=True)
class Installation:
    """The id of an installation, and the path of its folder when it was last started."""

    id: str
    folder: str


def identify(folder: Path, progress: ReportProgress, *, has_log: bool) -> str:
    """Returns the id of the installation in a folder, and makes a copy of another one independent.

    `has_log` says whether its log is in the folder too. StackError, with both ids, if the log is of another
    installation, or is here and another Kafka was named; StackError if the folder was copied while its stack
    ran. The folder's lock is held.
    """
    known, log = _read(folder), kafka.cluster_id(folder / "kafka")
    if log is not None and not has_log:
        raise StackError(
            f"{folder} has a log of its own, {log}, but TRACKSIDE_KAFKA_BOOTSTRAP names another Kafka: unset "
            "it, start the stack in another folder, or remove "
            f"{folder / 'kafka'} and {folder / 'services'} to give that log up"
        )
    if known is None:
        known = Installation(log or kafka.new_id(), str(folder))
    elif is_copy(folder, known):
        _check_copied_whole(folder, known)
        progress(
            f"this folder is a copy of {known.folder}: it becomes an installation of its own; its log is "
            "kept, and its read models are made from that"
        )
        known = Installation(_separate(folder), str(folder))
    elif has_log and log is None:
        known = Installation(kafka.new_id(), str(folder))  # its log was removed, or was in another Kafka
    elif has_log and log != known.id:
        raise StackError(
            f"{folder} is the folder of installation {known.id}, but {folder / 'kafka'} is the log of "
            f"installation {log}: put the log of {known.id} there again, or remove {folder / NOTE} and "
            f"{folder / 'postgres'} to continue with the log of {log}"
        )
    write_whole(folder / NOTE, json.dumps(asdict(known) | {"folder": str(folder)}) + "\n")
    return known.id


def is_copy(folder: Path, known: Installation) -> bool:
    """Returns whether the folder that the note names still exists, as another one with the same id."""
    original = Path(known.folder)
    try:
        if original.samefile(folder):
            return False
        other = _read(original)
    except OSError:
        return False
    return other is not None and other.id == known.id


def _read(folder: Path) -> Installation | None:
    try:
        return Installation(**json.loads((folder / NOTE).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise StackError(
            f"{folder / NOTE} can't be read: expected an id and a folder, as JSON; remove it if nothing else "
            f"in {folder} was changed"
        ) from None


def _check_copied_whole(folder: Path, known: Installation) -> None:
    """Refuses a copy of a stack that ran: its files are of different moments."""
    try:
        state = read_status(folder).state
    except (StackMissing, ValueError, TypeError, KeyError):
        return
    if state not in ("stopped", "failed"):
        raise StackError(
            f"{folder} is a copy of {known.folder} (installation {known.id}) that was made while its stack "
            f"was {state}, so its files don't fit together: start and stop that one (`trackside up`, "
            f"`trackside down`) and copy it again; or remove {folder} to start without its data"
        )


def _separate(folder: Path) -> str:
    """Writes an id of its own into the log of a copy; returns it. A kill halfway leaves a copy."""
    shutil.rmtree(folder / "postgres", ignore_errors=True)  # perhaps only a link to the original's data
    for note in (folder / "services").glob(f"*/{log_id.NOTE}"):
        note.unlink()  # the journals are copies too, and belong to the log of the copy
    own = kafka.new_id()
    kafka.set_cluster_id(folder / "kafka", own)
    return own
