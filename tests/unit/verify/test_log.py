from collections import Counter
from collections.abc import Iterable
from itertools import islice
from random import Random
from typing import Any

import pytest

from tests.unit.domain.given import STREAM, finish, search_running, submitted, suggested
from tests.unit.domain.plausible import Chance
from tests.unit.domain.plausible_forgetting import without_key
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from tests.unit.projections import given
from tests.unit.replay.given import TOPICS, empty
from tests.unit.verify import mutants
from tests.unit.verify.mutants import verified
from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.aggregates.search import messages
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.parts import Part
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import CommandAccepted
from trackside.contracts.tasks import tasks
from trackside.contracts.tasks.device_commands import RunTask
from trackside.domain.checks.findings import Finding
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task_events import KINDS
from trackside.eventlog.log import Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.verify.invariants import INVARIANTS
from trackside.verify.log import verify_topics
from trackside.verify.verifier import Fold, Verifier

OF_STREAMS = {"INV-1", "INV-2", "INV-3", "INV-5", "INV-6", "INV-8", "INV-10", "INV-12"}
"""What the fold alone holds up, whatever anybody writes."""


async def verify(log: MemoryLog, topics: Topics, fold: Fold | None = None) -> list[Finding]:
    """Returns what is wrong with a log that is complete, but for searches that have not come to their end."""
    found = (await verify_topics(log, topics, fold=fold)).complete().findings
    return [each for each in found if each.invariant != "INV-27"]


@pytest.fixture
async def log() -> MemoryLog:
    written = await empty()
    await given.HistoryWriter(written, TOPICS).join("w1", "i1")
    return written


async def plant(log: MemoryLog, stream: str, planned: Iterable[given.Decision]) -> None:
    history = given.HistoryWriter(log, TOPICS)
    for decision in planned:
        await history.append(stream, decision)


def lax(*kinds: type) -> Fold:
    return mutants.lax(lambda record: isinstance(record.message, kinds))


def of(**changes: object) -> dict[str, Any]:
    return {"task_id": "s.0", "attempt": 1, "placement": 1, "incarnation": "i1", **changes}


@pytest.mark.thorough
def test_whatever_is_written_the_fold_holds_up_what_is_said_of_streams(seed: int) -> None:
    ignored = 0
    for number in range(40):
        told = Chance(Random(f"{seed}/{number}")).history(200)
        verifier = Verifier()
        for record in told.records:
            ignored += verifier.take(record)[1] is not Outcome.APPLIED
        found = verifier.finish()
        assert [str(finding) for finding in found if finding.invariant in OF_STREAMS] == [], number
    assert ignored > 500


@pytest.mark.thorough
def test_what_the_fold_refuses_of_tasks_and_searches_is_found_if_a_broken_fold_applies_it(seed: int) -> None:
    """All but a few: the verifier does not draw the waits of retries, or know what a tuner has seen."""
    tried, missed, invariants = Counter[str](), Counter[str](), set[str]()
    for number in range(90):
        told = Chance(Random(f"{seed}/refused/{number}")).history(200)
        if told.stream.kind not in ("search", "batch"):
            continue
        outcomes = zip(told.records, told.outcomes, strict=True)
        ignored = [record for record, outcome in outcomes if outcome is not Outcome.APPLIED]
        refused = [record for record in ignored if is_of_trials(record)]
        for last in sorted(refused, key=lambda record: tried[type(record.message).__name__])[:3]:
            broken = mutants.lax(lambda record, last=last: record is last)  # type: ignore[misc]
            verifier = verified(told.records[: last.offset + 1], broken)
            found = [each for each in verifier.finish() if each.offset == last.offset]
            found = [each for each in found if "never joined" not in each.message]
            invariants |= {each.invariant for each in found}
            tried[type(last.message).__name__] += 1
            missed[type(last.message).__name__] += not found
    assert len(tried) > 35 and missed.total() < 0.1 * tried.total(), missed
    assert [kind for kind, count in tried.items() if count > 3 and missed[kind] == count] == []
    assert {"INV-2", "INV-3", "INV-5", "INV-6", "INV-7", "INV-10", "INV-21"} <= invariants


def is_of_trials(record: Record) -> bool:
    """Returns whether a record is an event of a task or a search, and a decision of its own."""
    kind = type(record.message)
    root = AGGREGATES.by_event.get(kind)
    return record.envelope.count == 1 and (kind in KINDS or (root is not None and root.kind == "search"))


async def test_honest_histories_have_no_findings(log: MemoryLog) -> None:
    whole = await empty()
    await given.write_small_history(whole, TOPICS)
    verdict = await verify_topics(whole, TOPICS)
    assert verdict.findings == []
    assert verdict.holds
    assert verdict.streams == 8
    assert set(verdict.skipped) == {"INV-13", "INV-15", "INV-22"}
    # There are no runs, causes, children, models, artifacts or incremental jobs.
    absent = {"INV-8", "INV-11", "INV-18", "INV-19", "INV-20", "INV-21", "INV-23", "INV-24"}
    looked_at = INVARIANTS.keys() - verdict.skipped.keys() - absent
    assert {name for name in looked_at if verdict.checked.get(name, 0) > 0} == looked_at


async def test_what_the_fold_ignores_is_no_finding_nor_a_stop_that_came_too_late(log: MemoryLog) -> None:
    planned = list(given.search_decisions("s"))
    late = tasks.AttemptEnded.model_validate({**of(), "end": tasks.AttemptEnd.FAILED})
    await plant(log, "s", [*planned, [given.WORKER.single("s", late)], planned[3]])
    assert await verify(log, TOPICS) == []
    planned = list(given.search_decisions("t", trials=1))
    stops = [tasks.TaskStopRequested(task_id=name, reason="user") for name in ("t.0", "t.9")]
    await plant(log, "t", [*planned[:4], given.DISPATCHER.decision("t", stops)])
    assert await verify(log, TOPICS) == []


async def test_a_record_that_no_service_can_read_is_told_of(log: MemoryLog) -> None:
    await log.append(TOPICS.events.name, 1, [Outgoing(b"s", b"not ours", [])])
    verdict = await verify_topics(log, TOPICS)
    assert (verdict.holds, verdict.events) == (True, 0)
    assert verdict.undecodable == [f"{TOPICS.events.name}-1@0"]


async def test_a_command_without_an_answer_is_found_and_open_in_a_live_log(log: MemoryLog) -> None:
    await plant(
        log, "s", [[given.DISPATCHER.single("s", given.command_received("s", "c", "trackside.x.v1", 4))]]
    )
    (found,) = await verify(log, TOPICS)
    assert (found.invariant, found.topic, found.offset) == ("INV-1", TOPICS.events.name, 0)
    assert "no answer" in str(found)
    report = await verify_topics(log, TOPICS)
    assert (report.holds, report.findings, report.open) == (True, [], [found])


async def test_a_second_answer_is_found(log: MemoryLog) -> None:
    planned = list(given.search_decisions("s", trials=1))
    source = given.command_received("s", "s-start", "trackside.start-search.v1", 0).source
    alone = [given.DISPATCHER.single("s", CommandAccepted(command_id="s-start", source=source))]
    await plant(log, "s", [*planned[:2], alone, *planned[2:]])
    (found,) = await verify(log, TOPICS, lax(CommandAccepted))
    assert (found.invariant, found.offset) == ("INV-1", 3)


async def test_a_record_of_the_commands_topic_that_nobody_received_is_found(log: MemoryLog) -> None:
    value = b'{"task_type": "digits"}'
    headers = [("ce_id", b"c"), ("ce_type", b"trackside.start-search.v1"), ("ce_partitionkey", b"lost")]
    await log.append(TOPICS.commands.name, 2, [Outgoing(b"lost", value, headers)])
    (found,) = await verify(log, TOPICS)
    assert str(found).startswith("INV-8 trackside.commands-2@0 lost: ")
    assert (await verify_topics(log, TOPICS, stream="another")).open == []
    assert (await verify_topics(log, TOPICS, stream="lost")).open == [found]
    live = await verify_topics(log, TOPICS)
    assert (live.findings, live.open) == ([], [found])


async def test_a_task_that_ends_twice_is_found(log: MemoryLog) -> None:
    planned = list(given.search_decisions("s", trials=1))
    again = tasks.AttemptEnded.model_validate({**of(), "end": tasks.AttemptEnd.FINISHED})
    await plant(log, "s", [*planned[:-2], [given.WORKER.single("s", again)]])
    (found,) = await verify(log, TOPICS, lax(tasks.AttemptEnded))
    assert (found.invariant, found.offset) == ("INV-2", sum(len(decision) for decision in planned[:-2]))


async def test_a_task_left_behind_by_its_stream_is_found(log: MemoryLog) -> None:
    extra = tasks.TaskSubmitted(task_id="s.extra", task_type="digits", parameters={}, part=submitted(0).part)
    planned = list(given.search_decisions("s", trials=1))
    await plant(log, "s", [*planned[:-1], [given.DISPATCHER.single("s", extra)], planned[-1]])
    found = await verify(log, TOPICS, lax(tasks.TaskSubmitted))
    assert [finding.invariant for finding in found] == ["INV-10", "INV-2"]
    assert "s.extra has not ended" in found[1].message


def assigned(**changes: object) -> tasks.TaskAssigned:
    return tasks.TaskAssigned.model_validate(of(worker_id="w1", device_ids=["d"], seen=0, **changes))


@pytest.mark.parametrize(
    ("event", "lost"),
    [
        (tasks.TaskAccepted.model_validate(of()), "accepted twice"),
        (assigned(attempt=3), "comes after attempt 1"),
        (assigned(attempt=2), "before attempt 1 has ended"),
        (assigned(placement=3), "comes after placement 1"),
    ],
)
async def test_attempts_that_are_not_in_line_are_found(
    log: MemoryLog, event: tasks.TaskAccepted | tasks.TaskAssigned, lost: str
) -> None:
    planned = list(given.search_decisions("s", trials=1))
    writer = given.WORKER if isinstance(event, tasks.TaskAccepted) else given.SCHEDULER
    await plant(log, "s", [*planned[:5], [writer.single("s", event)]])
    (found,) = await verify(log, TOPICS, lax(type(event)))
    assert found.invariant == "INV-3"
    assert lost in found.message


async def test_an_end_that_a_worker_recovered_may_be_before_the_next_attempt(log: MemoryLog) -> None:
    one, two = given.search_decisions("one", trials=1), given.search_decisions("two", trials=1)
    await plant(log, "one", islice(one, 9))
    given.NUMBERS[log]["i1"] += 1  # the end, which was in no partition yet when the worker crashed
    await plant(log, "two", two)
    await plant(log, "one", (with_recovered_end("one", decision) for decision in one))
    report = await verify_topics(log, TOPICS)
    assert (report.findings, report.uncompared_uses) == ([], 2)


async def test_two_attempts_on_one_device_at_once_are_found(log: MemoryLog) -> None:
    one, two = given.search_decisions("one", trials=1), given.search_decisions("two", trials=1)
    await plant(log, "one", islice(one, 6))
    await plant(log, "two", two)
    await plant(log, "one", one)
    (found,) = await verify(log, TOPICS)
    assert (found.invariant, found.stream) == ("INV-4", "two")
    assert "w1/cpu0 has task two.0 while it has one.0" in found.message


def with_recovered_end(stream: str, decision: given.Decision) -> given.Decision:
    """Returns a decision; an end of an attempt in it as a worker tells it after its restart."""
    [message, *others] = [CODEC.decode(CODEC.envelope(made.headers), made.value) for made in decision]
    if others or not isinstance(message, tasks.AttemptEnded):
        return decision
    return [given.WORKER.single(stream, message.model_copy(update={"recovered": True}))]


async def test_a_worker_that_never_joined_is_found(log: MemoryLog) -> None:
    foreign = {**of(incarnation="i9"), "worker_id": "w1", "device_ids": ["cpu0"], "seen": 1}
    planned = list(given.search_decisions("s", trials=1))
    assigned = [given.SCHEDULER.single("s", tasks.TaskAssigned.model_validate(foreign))]
    await plant(log, "s", [*planned[:3], assigned])
    (found,) = await verify(log, TOPICS)
    assert (found.invariant, "has never joined" in found.message) == ("INV-7", True)


async def test_a_command_to_a_device_that_nobody_assigned_is_found(log: MemoryLog) -> None:
    topic = TOPICS.device("w1", "cpu0")
    await log.ensure([topic])
    command = RunTask(stream="s", task_type="digits", parameters={}, device_ids=["cpu0"], **of())
    await log.publish(topic.name, 0, given.SCHEDULER.single("s.0", command))
    (found,) = await verify(log, TOPICS)
    assert str(found).startswith("INV-5 trackside.device.w1.cpu0-0@0 s: ")
    await plant(log, "s", list(given.search_decisions("s", trials=1)))
    others = await verify(log, TOPICS)
    assert {each.invariant for each in others} == {"INV-26"}
    assert any("is sent with parameters {}" in each.message for each in others)


async def test_a_torn_decision_is_found(log: MemoryLog) -> None:
    planned = list(given.search_decisions("s", trials=1))
    await plant(log, "s", [planned[0], planned[1], planned[2][:1]])
    (found,) = await verify(log, TOPICS)
    assert (found.invariant, found.offset) == ("INV-9", 3)
    assert "of the 2 events of this decision only 1 are there" in found.message


async def test_a_secret_is_found_wherever_it_is(log: MemoryLog) -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    planned = list(given.search_decisions("s", trials=1))
    trial, parameters = Part(kind="trial", number=0), {"a": ["\n" + key]}
    task = tasks.TaskSubmitted(task_id="s.0", task_type="digits", parameters=parameters, part=trial)
    await plant(log, "s", [*planned[:2], [given.DISPATCHER.single("s", task)]])
    found = {finding.invariant: finding for finding in await verify(log, TOPICS)}
    assert found["INV-14"].message == "$.parameters.a[0] looks like a secret"
    assert key not in str(found["INV-14"])


async def test_too_many_trials_at_all_or_at_once_are_found(log: MemoryLog) -> None:
    early = [given.DISPATCHER.single("t", messages.TrialSuggested(trial=1, parameters={}, seen=0))]
    await plant(log, "t", [*list(given.search_decisions("t", trials=2))[:4], early])
    (once,) = await verify(log, TOPICS, lax(messages.TrialSuggested))
    assert (once.invariant, once.message) == ("INV-12", "2 trials at once, the concurrency is 1")
    planned = list(given.search_decisions("s", trials=2))
    extra = [given.DISPATCHER.single("s", messages.TrialSuggested(trial=2, parameters={}, seen=0))]
    ended = [given.DISPATCHER.single("s", messages.TrialEnded(trial=2, status=messages.TrialStatus.FAILED))]
    over = [given.DISPATCHER.single("s", messages.SearchEnded(status=messages.SearchStatus.DONE, trials=2))]
    await plant(log, "s", [*planned[:-1], extra, ended, over])
    found = await verify(log, TOPICS, lax(messages.TrialSuggested))
    said = {(one.invariant, one.message) for one in found}
    assert said >= {("INV-12", "3 trials, the limit is 2")}


async def test_a_stream_can_be_verified_alone(log: MemoryLog) -> None:
    one, two = list(given.search_decisions("one", trials=1)), list(given.search_decisions("two", trials=1))
    await plant(log, "one", one)
    await plant(log, "two", [*two[:2], two[2][:1]])
    assert {finding.stream for finding in await verify(log, TOPICS)} == {"two"}
    alone = await verify_topics(log, TOPICS, stream="one")
    assert (alone.findings, alone.streams) == ([], 1)
    assert alone.events == sum(len(decision) for decision in one)
    assert (await verify_topics(log, TOPICS, stream="nobody")).streams == 0


def test_what_is_over_is_forgotten() -> None:
    told = search_running(max_trials=1, concurrency=1)
    told.tell(suggested(0), submitted(0))
    finish(told, 0, 0.5)
    assert verified(told.records).histories[STREAM].tasks
    told.tell(messages.SearchEnded(status=messages.SearchStatus.DONE, trials=1))
    history = verified(told.records).histories[STREAM]
    assert (history.over, history.tasks, history.root) == (True, {}, None)


@pytest.mark.parametrize("has_key", [True, False])
def test_a_forgotten_stream_is_no_violation(has_key: bool) -> None:
    told = ended_search()
    forget(told)
    told.tell(*decided(told))
    at = told.next_offset - 2
    records = [it if has_key or it.offset >= at else without_key(it) for it in told.records]
    verifier = verified(records)
    assert [finding for finding in verifier.finish() if finding.offset >= at or not has_key] == []
    assert STREAM not in verifier.histories


def test_a_stream_that_no_command_had_forgotten_is_a_violation() -> None:
    told = ended_search()
    told.records[-1].message = forget(told).model_copy(update={"commands": []})
    (finding,) = verified(map(without_key, told.records)).finish()
    assert finding.invariant == "INV-10" and "no command has asked for that" in finding.message
