"""Forged records: each as a stranger with a plain Kafka producer would write it, and what it meets.

`ACL`: the principals whom the broker lets write it. `signature`: where signatures are required, it has no
effect because it lacks one. `fold`: it has no effect for any reader of an open stack. `verify-log`: it is a
finding at its place. `docs/security.md` has the same table.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.e2e.forged_records import (
    COMMANDS,
    EVENTS,
    HONEST,
    SUGGESTED,
    VICTIM,
    ForgedRecord,
    Seen,
    about_keys,
    assigned,
    dead_letter,
    ended,
    ended_trial,
    event,
    final,
    heartbeat,
    joined,
    lost,
    output,
    points,
    recall,
    received,
    run_task,
    stop,
    submitted,
    task_stop,
    trusted_key,
)

EVENT_WRITERS = ("dispatcher", "scheduler", "summary-indexer", "workers")
FLEET_WRITERS = ("scheduler", "workers")


class Forgery(NamedTuple):
    """One kind of forged record: what makes it, and what holds against it."""

    what: str
    forge: Callable[[Seen], ForgedRecord]
    written_by: tuple[str, ...]
    signed: bool
    effect: bool
    found: str = ""


S, W = EVENT_WRITERS, FLEET_WRITERS
FORGERIES: tuple[Forgery, ...] = (
    Forgery(
        "`CommandReceived` of a command that no client published",
        lambda s: received("ghost", 900_000),
        S,
        True,
        True,
        "INV-8",
    ),
    Forgery(
        "`CommandReceived` that names the record of another command",
        lambda s: received("ghoul", 0),
        S,
        True,
        True,
        "INV-8",
    ),
    Forgery(
        "`CommandAccepted` of a command that was not received",
        lambda s: event(
            HONEST,
            "dispatcher",
            "command-accepted.v1",
            {"command_id": "c", "source": {"topic": COMMANDS, "partition": 0, "offset": 900_000}},
        ),
        S,
        True,
        False,
    ),
    Forgery(
        "`SearchStarted` in a stream without a command",
        lambda s: event(
            "spook",
            "dispatcher",
            "search-started.v1",
            {
                "command_id": "c",
                "search": {
                    "task_type": "gated",
                    "space": {"x": {"type": "uniform", "low": 0, "high": 1}},
                    "max_trials": 1,
                },
                "seed": 1,
            },
        ),
        S,
        True,
        False,
    ),
    Forgery(
        "`TrialSuggested` ahead of its slot",
        lambda s: event(HONEST, "dispatcher", "trial-suggested.v1", SUGGESTED),
        S,
        True,
        False,
    ),
    Forgery("`TaskSubmitted` of a task that no trial has", lambda s: submitted(), S, True, False),
    Forgery(
        "`TaskAssigned` of a running task to another device",
        lambda s: assigned(s.task(HONEST, 0)),
        S,
        True,
        False,
    ),
    Forgery(
        "`AttemptEnded` of a running attempt by a stranger",
        lambda s: ended(s.task(HONEST, 0), "i9", "000000002"),
        S,
        True,
        False,
    ),
    Forgery(
        "FINAL `MetricReported` of a placement that is not there",
        lambda s: final(s.task(HONEST, 0), 7, "worker"),
        S,
        True,
        False,
    ),
    Forgery(
        "FINAL `MetricReported` of a running attempt by another worker",
        lambda s: final(s.task(VICTIM, 0), 1, "w9"),
        S,
        True,
        True,
        "INV-7",
    ),
    Forgery(
        "`TaskStopRequested` without a cause", lambda s: task_stop(s.task(VICTIM, 0)), S, True, True, "INV-18"
    ),
    Forgery(
        "`AttemptEnded` of a running attempt in the name of its worker",
        lambda s: ended(s.task(VICTIM, 0), s.task(VICTIM, 0).incarnation, "000000001"),
        S,
        True,
        True,
        "INV-7",
    ),
    Forgery(
        "`SearchExhausted` with a wrong number of trials",
        lambda s: event(HONEST, "dispatcher", "search-exhausted.v1", {"trials": 99, "seen": 0}),
        S,
        True,
        False,
    ),
    Forgery("`TrialEnded` of a trial whose task runs", lambda s: ended_trial(), S, True, False),
    Forgery(
        "`TrialEnded` with a time in the future",
        lambda s: ended_trial(time="2090-01-01T00:00:00Z"),
        S,
        True,
        False,
    ),
    Forgery(
        "`TrialEnded` with the decision id of another decision",
        lambda s: ended_trial(
            decisionid=dict(s.old.headers).get("ce_decisionid", b"d").decode(), index="1", count="2"
        ),
        S,
        True,
        False,
    ),
    Forgery(
        "an event of the dispatcher by the role of a worker", lambda s: stop(HONEST, "worker"), S, True, False
    ),
    Forgery("an event by an unknown role", lambda s: stop(HONEST, "root"), S, True, False),
    Forgery(
        "an event in another partition than its stream's",
        lambda s: stop(HONEST)._replace(partition=s.wrong_partition),
        S,
        False,
        False,
    ),
    Forgery("an old event again, byte by byte", lambda s: s.old, S, False, False),
    Forgery(
        "bytes that are no event", lambda s: ForgedRecord(EVENTS, HONEST, b"\xff\xfe", []), S, False, False
    ),
    Forgery(
        "the second event of a decision without the first",
        lambda s: event(
            VICTIM,
            "dispatcher",
            "search-paused.v1",
            {"command_id": "c", "change": 1, "running": "finish"},
            decisionid="half",
            index="1",
            count="2",
        ),
        S,
        True,
        True,
        "INV-9",
    ),
    Forgery("`SearchStopRequested` without a command", lambda s: stop(VICTIM), S, True, True, "INV-18"),
    Forgery(
        "`WorkerLost` of a worker that lives, by the role of a worker",
        lambda s: lost("worker", s.task(HONEST, 0).incarnation),
        W,
        False,
        False,
    ),
    Forgery(
        "`WorkerLost` of an incarnation that never joined", lambda s: lost("scheduler", "i9"), W, True, False
    ),
    Forgery("`WorkerJoined` of a worker that does not exist", lambda s: joined("i9"), W, True, True),
    Forgery("a heartbeat of an incarnation that never joined", lambda s: heartbeat(), W, False, False),
    Forgery(
        "`RunTask` on a device topic, of a placement that was not assigned",
        run_task,
        ("scheduler",),
        False,
        False,
        "INV-5",
    ),
    Forgery("`RecallTask` on a device topic, of a task that runs", recall, ("scheduler",), False, False),
    Forgery(
        "a dead letter of a command that was never published",
        lambda s: dead_letter(),
        ("dispatcher", "summary-indexer"),
        False,
        False,
        "INV-8",
    ),
    Forgery("`KeyTrusted` of a key of its own, signed with that", lambda s: trusted_key(), S, True, True),
    Forgery(
        "`SignatureModeChanged` that turns signatures off",
        lambda s: about_keys("signature-mode-changed.v1", number=1, mode="off"),
        S,
        True,
        False,
    ),
    Forgery(
        "metric points of a task that does not exist",
        lambda s: points(),
        ("summary-indexer", "workers"),
        False,
        False,
    ),
    Forgery("output of a task that does not exist", lambda s: output(), ("workers",), False, False),
)


def table() -> list[str]:
    """Returns the lines of the table in the documentation."""
    lines = [
        "| forged record | ACL: may be written by | signature | fold | `verify-log` |",
        "| --- | --- | --- | --- | --- |",
    ]
    for each in FORGERIES:
        fold = "**has an effect**" if each.effect else "no effect"
        cells = (
            each.what,
            ", ".join(each.written_by),
            "no effect" if each.signed else "-",
            fold,
            each.found or "-",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines
