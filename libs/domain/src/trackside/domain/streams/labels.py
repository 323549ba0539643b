"""The labels of a stream, whatever its aggregate: tags, a note, and whether it is archived. Pure."""

from dataclasses import dataclass, replace

from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.labels import StreamAnnotated


@dataclass(frozen=True, slots=True)
class StreamLabels:
    """The labels of a stream that was annotated; `tags` are sorted.

    `changed_ms` is when they changed last, in ms since 1970 by the log's clock.
    """

    tags: tuple[str, ...] = ()
    note: str = ""
    archived: bool = False
    changed_ms: int = 0


def changed(labels: StreamLabels | None, event: StreamAnnotated, record: Record) -> StreamLabels:
    """Returns the labels after an event; None: the stream had none.

    An event has changes, not their result, so none is lost if two are decided at the same time. The number
    of tags is limited by what commands are refused for, not here.
    """
    known = labels or StreamLabels()
    return replace(
        known,
        tags=with_changes(known.tags, event.added_tags, event.removed_tags),
        note=known.note if event.note is None else event.note,
        archived=known.archived if event.archived is None else event.archived,
        changed_ms=record.append_time_ms,
    )


def with_changes(tags: tuple[str, ...], added: list[str], removed: list[str]) -> tuple[str, ...]:
    """Returns sorted tags without those that are removed, and with those that are added."""
    return tuple(sorted({*tags} - {*removed} | {*added}))
