"""Which alerts each fault causes. Every alert has a fault."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from tests.chaos.alerts import faults
from tests.chaos.alerts.installation import Installation

Fault = Callable[[Installation], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Case:
    """A fault and its alerts; those in `perhaps` fire as well if it lasts long, or its end takes long.

    `minute_s` is how long a minute of the rules is, in s: not so short that a busy machine is a fault.
    """

    fault: Fault
    alerts: tuple[str, ...]
    perhaps: tuple[str, ...] = ()
    minute_s: float = 3.0

    @property
    def name(self) -> str:
        """The name of the fault."""
        return str(getattr(self.fault, "__name__", self.fault))


OF_INPUTS = (
    Case(
        faults.inputs_of_people,
        (
            "TracksideDeadLetters",
            "TracksideStreamsParked",
            "TracksideTasksUnschedulable",
            "TracksideOutOfMemory",
            "TracksideNoDecisions",
            "TracksideSearchStalled",
        ),
        minute_s=2.0,
    ),
    Case(
        faults.decision_too_large,
        ("TracksideServiceAbsent", "TracksideServiceDown"),
        perhaps=("TracksideServiceRestarts",),
        minute_s=2.0,
    ),
    Case(
        faults.decision_too_long,
        ("TracksideDecisionTooLong",),
        perhaps=("TracksideServiceDown",),
        minute_s=2.0,
    ),
)
OF_DECISIONS = (
    Case(
        faults.second_dispatcher_with_a_wrong_clock,
        ("TracksideDecisionsWithoutEffect", "TracksideClockSkew", "TracksideCommandsRefused"),
        # Rows that wait for a moment are as old as its clock is ahead: 20 minutes of these rules.
        perhaps=("TracksideServiceDown", "TracksideReadModelsLate"),
    ),
    Case(
        faults.appends_of_dispatcher_slow,
        (
            "TracksideDecisionsSlow",
            "TracksideCommandsLateFast",
            "TracksideCommandsLateSlow",
            "TracksideCommandsRefused",
        ),
        perhaps=("TracksideAppendsUnanswered",),
    ),
)
OF_CONNECTIONS = (
    Case(faults.reads_of_scheduler_held_back, ("TracksideLogLag",)),
    Case(faults.appends_of_scheduler_held_back, ("TracksideAppendsUnanswered",)),
)
OF_SERVERS = (
    Case(
        faults.postgres_unreachable,
        ("TracksidePostgresUnreachable", "TracksideReadModelsLate", "TracksideServiceNotReady"),
        perhaps=("TracksideLogLag",),
    ),
    Case(faults.broker_unreachable, ("TracksideServiceNotReady", "TracksideLogLag")),
    Case(faults.disk_nearly_full, ("TracksideDiskLow", "TracksideDiskFilling")),
)
OF_PROCESSES = (
    Case(faults.indexer_starved, ("TracksideEventLoopLate",)),
    Case(
        faults.scheduler_paused_while_the_log_is_busy,
        ("TracksideDeviceIdle", "TracksideServiceDown"),
        minute_s=2.0,  # ten of these must be less than after what time the supervisor ends the scheduler
    ),
    Case(
        faults.service_killed_again,
        ("TracksideServiceRestarts",),
        perhaps=("TracksideServiceDown", "TracksideServiceAbsent"),
        minute_s=2.0,
    ),
)
CASES = {
    "inputs": OF_INPUTS,
    "decisions": OF_DECISIONS,
    "connections": OF_CONNECTIONS,
    "servers": OF_SERVERS,
    "processes": OF_PROCESSES,
}
"""Faults by what they are about; those of one word are made in one piece of the long run."""
