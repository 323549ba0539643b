"""Values of a task that are no numbers, collected until they are published."""

import json
from typing import Any

from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.redaction import redact
from trackside.contracts.tasks.summaries import ItemArtifact, ReportedItem, SummaryItemsReported
from trackside.contracts.wire.secret_search import without_secrets
from trackside.worker.messages.report_messages import SummaryValueReport
from trackside.worker.output_text import tag_text
from trackside.worker.reporting.journal import JournalEntry

MAX_ITEMS = 200
MAX_BODY_BYTES = 32 * 1024
MAX_BATCH_BYTES = 262_144
_WRITTEN_BY_PEOPLE = frozenset({"text", "hparams"})
"""Kinds whose texts may hold what looks like a secret; it is redacted, as in output."""


def problem_of(report: SummaryValueReport) -> str | None:
    """Returns why a value can't be published; None if it can."""
    if not is_identifier(report.kind):
        return f"its kind {report.kind[:80]!r} is not an identifier"
    size_bytes = _size(report.body)
    if size_bytes > MAX_BODY_BYTES:
        return f"its body has {size_bytes:,} bytes as JSON, more than {MAX_BODY_BYTES:,}"
    return None


class ItemBatch:
    """The values that were collected."""

    def __init__(self, entry: JournalEntry) -> None:
        self._entry = entry
        self._items: list[ReportedItem] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        """Whether a record should have no more."""
        return len(self._items) >= MAX_ITEMS or self._bytes >= MAX_BATCH_BYTES

    def add(self, report: SummaryValueReport, artifact: ItemArtifact | None) -> None:
        """Takes a value, and where its bytes are if it has any."""
        body = without_secrets(_redacted(report.body)) if report.kind in _WRITTEN_BY_PEOPLE else report.body
        item = ReportedItem(
            kind=report.kind,
            tag=tag_text(report.tag),
            step=report.step,
            time_ms=report.time_ms,
            index=report.item,
            body=body,
            artifact=artifact,
        )
        self._items.append(item)
        self._bytes += _size(body)

    def take(self) -> SummaryItemsReported:
        """Returns what was collected, and forgets it."""
        items, self._items, self._bytes = self._items, [], 0
        entry = self._entry
        return SummaryItemsReported(
            stream=entry.stream, task_id=entry.task_id, attempt=entry.attempt, items=items
        )


def _size(body: dict[str, Any]) -> int:
    return len(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))


def _redacted(value: Any) -> Any:
    """Returns JSON whose texts have no secrets."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _redacted(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_redacted(each) for each in value]
    return value
