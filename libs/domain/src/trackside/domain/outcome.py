"""What became of an event when it was folded."""

from enum import Enum


class Outcome(Enum):
    """Applied: it counts. Duplicate: its identity was there. Overtaken: the state doesn't permit it.

    Parked: its stream waits for a newer release, or for an operator, and so does the event.
    """

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    OVERTAKEN = "overtaken"
    PARKED = "parked"
