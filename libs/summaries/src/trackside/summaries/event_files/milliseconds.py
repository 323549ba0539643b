"""Wall times of event files."""

LATEST_S = 9e12
"""The latest time that the read models hold, and as long before 1970; a date is below 2.5e11 s."""


def milliseconds(seconds: float) -> int:
    """Returns a wall time in milliseconds since 1970; 0 for one beyond `LATEST_S`, or that is no number."""
    return round(seconds * 1000) if -LATEST_S <= seconds <= LATEST_S else 0
