"""Wall times of event files."""

import math


def milliseconds(seconds: float) -> int:
    """Returns a wall time in milliseconds; 0 for one that isn't finite or too large to be a time."""
    scaled = seconds * 1000
    return round(scaled) if math.isfinite(scaled) else 0
