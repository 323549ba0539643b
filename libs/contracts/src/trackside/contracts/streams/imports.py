"""What is said of streams that were imported."""

from typing import ClassVar

from trackside.contracts.envelope.message import Event


class StreamImported(Event):
    """An import is complete: what it is of, where its records begin, and what they fold to."""

    written_by: ClassVar[frozenset[str]] = frozenset({"replay"})
    import_id: str
    stream: str
    original_stream: str
    rules: int
    partition: int
    first_offset: int
    last_offset: int
    records: int
    begin: int
    sha256: str
    fold: str
    state_sha256: str
