"""Masks the values of the secrets that a task was given, in what it writes. Pure."""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from trackside.contracts.envelope.redaction import REDACTED

MIN_CHARACTERS: Final = 6
"""A shorter value is not masked: it would be found in words and numbers that are none."""
_TEXTS: Final = frozenset(
    (
        *("body", "detail", "error", "final", "leftovers", "metadata", "others", "points", "problem"),
        *("reason", "reports", "result", "tag", "value"),
    )
)
"""The fields of messages with what a task has chosen; others are names and numbers of the worker."""
Masked = TypeVar("Masked")


class SecretMask:
    """Replaces values, also single lines of them, and as JSON and `repr` write them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        parts = {each for value in values for each in _written(value) if len(each) >= MIN_CHARACTERS}
        longest_first = sorted(parts, key=lambda part: (-len(part), part))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if parts else None
        self.longest = len(longest_first[0]) if parts else 0

    def text(self, text: str) -> str:
        """Returns a text without the values."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def message(self, message: Masked) -> Masked:
        """Returns a message of a task process without the values in its texts."""
        if self._pattern is None:
            return message
        fields: dict[str, Any] = message._asdict()  # type: ignore[attr-defined]
        texts = {name: self._plain(value) for name, value in fields.items() if name in _TEXTS}
        replaced: Masked = message._replace(**texts)  # type: ignore[attr-defined]
        return replaced

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(name)): self._plain(each) for name, each in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self.message(value)
        return [self._plain(each) for each in value] if isinstance(value, list) else value


def _written(value: str) -> Iterable[str]:
    lines = [line.strip() for line in value.splitlines()]
    for each in (value, *lines):
        yield from (
            each,
            json.dumps(each)[1:-1],
            json.dumps(each, ensure_ascii=False)[1:-1],
            repr(each)[1:-1],
        )
