"""How much each publisher may ask for: by default, and for publishers that a file names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trackside.contracts.envelope.refusals import nearest
from trackside.eventlog.files_by_id import read_by_id

_KINDS = ("key:", "source:")


class BadLimitsError(Exception):
    """The file of limits is not valid; the message names the file, the publisher and the rule."""


@dataclass(frozen=True, slots=True)
class PublisherLimit:
    """The limits of one publisher; 0 is none."""

    max_commands_per_s: float = 0.0
    max_open_streams: int = 0


@dataclass(frozen=True, slots=True)
class PublisherLimits:
    """The limits of all publishers: those that are named have their own."""

    default: PublisherLimit = PublisherLimit()
    named: Mapping[str, PublisherLimit] = field(default_factory=dict)

    @property
    def is_off(self) -> bool:
        """Returns whether no publisher has a limit."""
        return all(each == PublisherLimit() for each in (self.default, *self.named.values()))

    def of(self, publisher: str) -> PublisherLimit:
        """Returns the limits of a publisher, which is `key:ID` or `source:URI`."""
        return self.named.get(publisher, self.default)


NO_LIMITS = PublisherLimits()
"""The default: no publisher has a limit."""
_FIELDS = {each.name: type(each.default) for each in fields(PublisherLimit)}


def read_limits(path: Path, default: PublisherLimit) -> dict[str, PublisherLimit]:
    """Reads the limits of named publishers: {"key:ID": {"max_commands_per_s": 5, ...}, "source:URI": ...}.

    What a publisher doesn't have there is the default. Raises BadLimitsError.
    """
    try:
        body = read_by_id(path, "limits")
    except ValueError as error:
        raise BadLimitsError(str(error)) from error
    return {name: _limit(f"{path}: publisher {name!r}", name, found, default) for name, found in body.items()}


def _limit(where: str, name: str, found: Any, default: PublisherLimit) -> PublisherLimit:
    if not any(name.startswith(kind) and name != kind for kind in _KINDS):
        raise BadLimitsError(f"{where}: expected key:ID (of a verified signature) or source:URI")
    if not isinstance(found, dict):
        raise BadLimitsError(f"{where}: expected an object of limits, got {type(found).__name__}")
    for each, value in found.items():
        if each not in _FIELDS:
            known = ", ".join(_FIELDS)
            raise BadLimitsError(f"{where}: unknown limit {each!r}; known: {known}{nearest(each, _FIELDS)}")
        whole = _FIELDS[each] is int
        number = type(value) is int or (type(value) is float and not whole and math.isfinite(value))
        if not number or value < 0:
            wanted = "a whole number" if whole else "a number"
            raise BadLimitsError(f"{where}: {each}: expected {wanted}, 0 (no limit) or more, got {value!r}")
    return PublisherLimit(
        float(found.get("max_commands_per_s", default.max_commands_per_s)),
        found.get("max_open_streams", default.max_open_streams),
    )
