"""Wall times of event files."""

_LATEST_MS = 253_402_300_799_999
"""The end of the year 9999."""


def milliseconds(seconds: float) -> int:
    """Returns a wall time in milliseconds since 1970; 0 for one that no calendar has."""
    scaled = seconds * 1000
    return round(scaled) if -_LATEST_MS <= scaled <= _LATEST_MS else 0
