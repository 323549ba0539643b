"""Wall times of event files."""

import math


def milliseconds(seconds: float) -> int:
    """Returns a wall time in milliseconds; 0 for one that isn't finite."""
    return round(seconds * 1000) if math.isfinite(seconds) else 0
