"""Time zones by their names, as the database of the host has them."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trackside.contracts.envelope.refusals import Problem


def find_zone(name: str) -> tzinfo | None:
    """Returns a time zone; None if this host has none of the name, as the one that accepted it had."""
    if name == "UTC":  # known without a database of time zones
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def check_zone(name: str, path: str) -> list[Problem]:
    """Returns the problem of a name that no time zone has, at `path`."""
    if find_zone(name) is not None:
        return []
    message = f"{name!r} is no time zone; expected a name such as Europe/Berlin or UTC"
    return [Problem(code="unknown_value", path=path, message=message)]
