"""Forged records: each as a stranger with a plain Kafka producer would write it, and what it meets.

`ACL`: the principals whom the broker lets write it. `signature`: where signatures are required, it has no
effect because it lacks one. `fold`: it has no effect for any reader of an open stack. `verify-log`: it is a
finding at its place. `docs/security.md` has the same table.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.e2e import forged_records as forged
from tests.e2e.forged_records import COMMANDS, EVENTS, ForgedRecord, Seen, event

EVENT_WRITERS = ("dispatcher", "scheduler", "summary-indexer", "workers")
FLEET_WRITERS = ("scheduler", "workers")


class Forgery(NamedTuple):
    """One kind of forged record: what makes it, and what holds against it."""

    what: str
    forge: Callable[[Seen], ForgedRecord]
    written_by: tuple[str, ...] = EVENT_WRITERS
    signed: bool = True
    effect: bool = False
    found: str = ""


def effective(what: str, forge: Callable[[Seen], ForgedRecord], found: str) -> Forgery:
    """Returns what has an effect on an open stack, and is found."""
    return Forgery(what, forge, effect=True, found=found)


def decided(kind: str, **body: Any) -> Callable[[Seen], ForgedRecord]:
    """Returns what makes an event of the dispatcher in the honest search."""
    return lambda s: event(s.honest, "dispatcher", kind, body)


NOWHERE = {"topic": COMMANDS, "partition": 0, "offset": 900_000}
SEARCH = {"task_type": "gated", "space": {"x": {"type": "uniform", "low": 0, "high": 1}}, "max_trials": 1}
FORGERIES: tuple[Forgery, ...] = (
    effective(
        "`CommandReceived` of a command that no client published",
        lambda s: forged.received("ghost", 900_000),
        "INV-8",
    ),
    effective(
        "`CommandReceived` that names the record of another command",
        lambda s: forged.received("ghoul", 0),
        "INV-8",
    ),
    Forgery(
        "`CommandAccepted` of a command that was not received",
        decided("command-accepted.v1", command_id="c", source=NOWHERE),
    ),
    Forgery(
        "`SearchStarted` in a stream without a command",
        lambda s: event(
            "spook",
            "dispatcher",
            "search-started.v1",
            {"command_id": "c", "search": SEARCH, "seed": 1},
        ),
    ),
    Forgery(
        "`TrialSuggested` ahead of its slot",
        decided("trial-suggested.v1", trial=99, parameters={"x": 0.5}, seen=0),
    ),
    Forgery(
        "`TaskSubmitted` of a task that no trial has",
        lambda s: event(
            s.honest,
            "dispatcher",
            "task-submitted.v2",
            {"task_id": f"{s.honest}.77", "task_type": "gated", "parameters": {}},
        ),
    ),
    Forgery(
        "`TaskAssigned` of a running task to another device",
        lambda s: forged.assigned(s.honest_task),
    ),
    Forgery(
        "`AttemptEnded` of a running attempt by a stranger",
        lambda s: forged.ended(s.honest_task, "i9", "000000002"),
    ),
    Forgery(
        "FINAL `MetricReported` of a placement that is not there",
        lambda s: forged.final(s.honest_task, 7, "worker"),
    ),
    effective(
        "FINAL `MetricReported` of a running attempt by another worker",
        lambda s: forged.final(s.victim_task, 1, "w9"),
        "INV-7",
    ),
    effective(
        "`TaskStopRequested` without a cause",
        lambda s: event(
            s.victim,
            "dispatcher",
            "task-stop-requested.v1",
            {"task_id": s.victim_task.task_id, "reason": "user"},
            cause="",
        ),
        "INV-18",
    ),
    effective(
        "`AttemptEnded` of a running attempt in the name of its worker",
        lambda s: forged.ended(s.victim_task, s.victim_task.incarnation, "000000001"),
        "INV-7",
    ),
    Forgery(
        "`SearchExhausted` with a wrong number of trials", decided("search-exhausted.v1", trials=99, seen=0)
    ),
    Forgery("`TrialEnded` of a trial whose task runs", lambda s: forged.ended_trial(s.honest)),
    Forgery(
        "`TrialEnded` with a time in the future",
        lambda s: forged.ended_trial(s.honest, time="2090-01-01T00:00:00Z"),
    ),
    Forgery(
        "`TrialEnded` with the decision id of another decision",
        lambda s: forged.ended_trial(
            s.honest,
            decisionid=dict(s.old.headers).get("ce_decisionid", b"d").decode(),
            index="1",
            count="2",
        ),
    ),
    Forgery("an event of the dispatcher by the role of a worker", lambda s: forged.stop(s.honest, "worker")),
    Forgery(
        "an event of an unknown type by a worker that has no task of its stream",
        lambda s: event(s.honest, "worker", "thing-done.v7", {}, instance="w9"),
    ),
    Forgery(
        "an event of an unknown type by the summary-indexer",
        lambda s: event(s.honest, "summary-indexer", "thing-done.v7", {}),
    ),
    Forgery(
        "an event of a worker that is encrypted for another stream",
        lambda s: event(s.honest, "worker", "task-accepted.v1", {}, publickey="YWJj"),
    ),
    Forgery("an event by an unknown role", lambda s: forged.stop(s.honest, "root")),
    Forgery(
        "an event in another partition than its stream's",
        lambda s: forged.stop(s.honest)._replace(partition=s.wrong_partition),
        signed=False,
    ),
    Forgery("an old event again, byte by byte", lambda s: s.old, signed=False),
    Forgery(
        "bytes that are no event",
        lambda s: ForgedRecord(EVENTS, s.honest, b"\xff\xfe", []),
        signed=False,
    ),
    effective(
        "the second event of a decision without the first",
        lambda s: event(
            s.victim,
            "dispatcher",
            "search-paused.v1",
            {"command_id": "c", "change": 1, "running": "finish"},
            decisionid="half",
            index="1",
            count="2",
        ),
        "INV-9",
    ),
    effective("`SearchStopRequested` without a command", lambda s: forged.stop(s.victim), "INV-18"),
    Forgery(
        "`WorkerLost` of a worker that lives, by the role of a worker",
        lambda s: forged.lost("worker", s.honest_task.incarnation),
        FLEET_WRITERS,
        signed=False,
    ),
    Forgery(
        "`WorkerLost` of an incarnation that never joined",
        lambda s: forged.lost("scheduler", "i9"),
        FLEET_WRITERS,
    ),
    Forgery(
        "`WorkerJoined` of a worker that does not exist",
        lambda s: forged.joined("i9"),
        FLEET_WRITERS,
        effect=True,
    ),
    Forgery(
        "a heartbeat of an incarnation that never joined",
        lambda s: forged.heartbeat(),
        FLEET_WRITERS,
        signed=False,
    ),
    Forgery(
        "`RunTask` on a device topic, of a placement that was not assigned",
        lambda s: forged.for_device(
            s, "run-task.v1", "i9", attempt=9, task_type="gated", parameters={}, device_ids=["cpu-0"]
        ),
        ("scheduler",),
        signed=False,
        found="INV-5",
    ),
    Forgery(
        "`RecallTask` on a device topic, of a task that runs",
        lambda s: forged.for_device(s, "recall-task.v1", s.honest_task.incarnation),
        ("scheduler",),
        signed=False,
    ),
    Forgery(
        "a dead letter of a command that was never published",
        lambda s: forged.dead_letter(),
        ("dispatcher", "summary-indexer"),
        signed=False,
        found="INV-8",
    ),
    Forgery("`KeyTrusted` of a key of its own, signed with that", forged.trusted_key, effect=True),
    Forgery(
        "`SignatureModeChanged` that turns signatures off",
        lambda s: forged.about_keys(s, "signature-mode-changed.v1", number=1, mode="off"),
    ),
    Forgery(
        "metric points of a task that does not exist",
        lambda s: forged.of_no_task(
            s,
            "metrics",
            "metric-points-reported.v1",
            series=[{"tag": "loss", "steps": [1], "times_ms": [1], "values": [0.5]}],
        ),
        ("summary-indexer", "workers"),
        signed=False,
    ),
    Forgery(
        "output of a task that does not exist",
        lambda s: forged.of_no_task(
            s, "logs", "output-written.v1", source="stdout", first_line=1, lines=["ok"]
        ),
        ("workers",),
        signed=False,
    ),
)


def table() -> list[str]:
    """Returns the lines of the table in the documentation."""
    lines = [
        "| forged record | ACL: may be written by | signature | fold | `verify-log` |",
        "| --- | --- | --- | --- | --- |",
    ]
    for each in FORGERIES:
        signature = "no effect" if each.signed else "-"
        fold = "**has an effect**" if each.effect else "no effect"
        cells = (each.what, ", ".join(each.written_by), signature, fold, each.found or "-")
        lines.append("| " + " | ".join(cells) + " |")
    return lines
