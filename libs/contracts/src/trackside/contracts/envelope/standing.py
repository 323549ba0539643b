"""What a record is worth to its stream: whether it had an effect, and if not why."""

from enum import StrEnum


class Standing(StrEnum):
    """Applied: it had an effect. All others had none.

    Duplicate: the same event had its effect before. Overtaken: the state at its offset did not permit it,
    most often since another decider was first. Void: its writer may not write it, whatever the state. Forged:
    its signature does not count. Parked: its stream waited here, for a newer release, an operator or its key.
    """

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    OVERTAKEN = "overtaken"
    VOID = "void"
    FORGED = "forged"
    PARKED = "parked"
