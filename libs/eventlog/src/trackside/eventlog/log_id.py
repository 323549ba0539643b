"""Which log a folder belongs to: written into it, so that nothing of one log is reported to another.

A restored backup, a copy and a clone are logs of their own: each has a cluster of its own, whose id differs.
"""

from pathlib import Path

from trackside.contracts.topics import Topics
from trackside.eventlog.log import Log

NOTE = "log-id"
"""The file in a folder with the id of the log that it belongs to."""


class AnotherLogError(Exception):
    """What is here belongs to another log than the one that is read."""


async def log_id_of(log: Log, topics: Topics) -> str:
    """Returns the name of a log: its cluster's id, with the prefix of its topics; raises TransientError."""
    cluster = await log.cluster_id()
    return f"{cluster}/{topics.prefix}" if topics.prefix else cluster


def claim_folder(folder: Path, log_id: str) -> None:
    """Writes the log's id into a folder that has none; raises AnotherLogError if it belongs to another log.

    Raises OSError.
    """
    note = folder / NOTE
    try:
        known = note.read_text("utf-8").strip()
    except FileNotFoundError:
        known = ""
    if known and known != log_id:
        raise AnotherLogError(
            f"{folder} belongs to the log {known}, but this log is {log_id}: a restored or copied "
            "installation is another one, and its workers have folders of their own; set "
            f"TRACKSIDE_KAFKA_BOOTSTRAP to the Kafka of {known}, or TRACKSIDE_WORKER_DATA_DIR to an empty "
            f"folder. If {log_id} replaces {known} for good, remove {folder}"
        )
    if not known:
        unfinished = note.with_suffix(".unfinished")
        unfinished.write_text(f"{log_id}\n", "utf-8")
        unfinished.replace(note)
