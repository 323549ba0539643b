"""Instructions to a running task, as the task sees them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trackside.sdk.in_task.channel import Channel

MAX_DETAIL_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class GivenInstruction:
    """The newest instruction of the task: its number, counted from 1, and its body."""

    number: int
    body: dict[str, Any]
    _channel: Channel = field(repr=False, compare=False)

    def acknowledge(self, ok: bool = True, **detail: Any) -> None:
        """Reports that it was carried out, or was not; only the first call counts.

        Raises TypeError for a detail that JSON can't hold, ValueError for one of more than 64 KiB.
        """
        self._channel.acknowledge(self.number, ok, plain(detail))


def plain(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a detail as JSON has it; raises TypeError if it can't, ValueError if it is too large."""
    text = json.dumps(dict(detail), allow_nan=False)
    if len(text) > MAX_DETAIL_BYTES:
        raise ValueError(f"expected a detail of at most {MAX_DETAIL_BYTES} bytes, got {len(text)}")
    found: dict[str, Any] = json.loads(text)
    return found
