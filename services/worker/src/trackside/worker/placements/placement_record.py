"""What a placement runs, on the disk, for a worker that takes it over."""

from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from trackside.contracts.tasks.device_commands import RunTask
from trackside.worker.catalogue.task_catalogue import TaskType
from trackside.worker.durable_files import write_atomically
from trackside.worker.reporting.journal import Journal, JournalEntry


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """What a placement runs: the command that placed it, and the task type as it was then."""

    command: RunTask
    task_type: TaskType


_RECORD = TypeAdapter(PlacementRecord)


def write_record(journal: Journal, entry: JournalEntry, record: PlacementRecord) -> None:
    """Records what runs. Raises OSError."""
    write_atomically(journal.placement_file(entry), _RECORD.dump_json(record))


def read_record(journal: Journal, entry: JournalEntry) -> PlacementRecord | None:
    """Returns what runs; None if it was not recorded, or can't be read."""
    try:
        return _RECORD.validate_json(journal.placement_file(entry).read_bytes())
    except (OSError, ValidationError):
        return None
