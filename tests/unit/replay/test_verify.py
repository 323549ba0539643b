"""The verifier: silent about every honest history, and it sees each bug that is planted."""

from collections.abc import Callable, Iterable

import pytest

from tests.unit.projections.histories import (
    DISPATCHER,
    SCHEDULER,
    WORKER,
    Decision,
    History,
    decisions,
    received,
    small,
)
from trackside.contracts.commands import CommandAccepted
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchEnded, SearchStatus, TrialEnded, TrialStatus, TrialSuggested
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, TaskAccepted, TaskAssigned, TaskSubmitted
from trackside.contracts.topics import Topics
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.eventlog.memory import MemoryLog
from trackside.replay.verify import GRACE_MS, verify

TOPICS = Topics(event_partitions=3)


class Clock:
    """A clock that a test sets, in ms."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        self.ms += 1
        return self.ms


@pytest.fixture
async def log() -> MemoryLog:
    written = MemoryLog(Clock())
    await written.ensure(TOPICS.shared)
    return written


async def plant(log: MemoryLog, stream: str, planned: Iterable[Decision]) -> None:
    history = History(log, TOPICS)
    for decision in planned:
        await history.append(stream, decision)


def lax(*kinds: type) -> Callable[[Record], tuple[Stream, Outcome]]:
    """Gives a fold with a bug: events of these kinds always count."""
    streams = Streams()

    def fold(record: Record) -> tuple[Stream, Outcome]:
        stream, outcome = streams.fold(record)
        return stream, Outcome.APPLIED if isinstance(record.message, kinds) else outcome

    return fold


def of(**changes: object) -> dict[str, object]:
    return {"task_id": "s.0", "attempt": 1, "placement": 1, "incarnation": "i1", **changes}


async def test_honest_histories_have_no_findings(log: MemoryLog) -> None:
    await small(log, TOPICS)
    assert await verify(log, TOPICS) == []


async def test_an_event_that_the_fold_ignores_is_no_finding(log: MemoryLog) -> None:
    planned = list(decisions("s"))
    late = AttemptEnded.model_validate({**of(), "end": AttemptEnd.FAILED})
    await plant(log, "s", [*planned, [WORKER.single("s", late)], planned[3]])
    assert await verify(log, TOPICS) == []


async def test_a_command_without_an_answer_is_found(log: MemoryLog) -> None:
    await plant(log, "s", [[DISPATCHER.single("s", received("s", "c", "trackside.x.v1", 4))]])
    (found,) = await verify(log, TOPICS)
    assert (found.invariant, found.topic, found.offset) == ("INV-1", TOPICS.events.name, 0)
    assert "no answer" in str(found)


async def test_a_command_that_has_just_arrived_may_still_be_answered(log: MemoryLog) -> None:
    fresh = MemoryLog()
    await fresh.ensure(TOPICS.shared)
    await plant(fresh, "s", [[DISPATCHER.single("s", received("s", "c", "trackside.x.v1", 4))]])
    assert GRACE_MS > 1_000
    assert await verify(fresh, TOPICS) == []


async def test_a_second_answer_is_found(log: MemoryLog) -> None:
    planned = list(decisions("s", trials=1))
    await plant(log, "s", [*planned[:2], planned[1][:1], *planned[2:]])
    (found,) = await verify(log, TOPICS, lax(CommandAccepted))
    assert (found.invariant, found.offset) == ("INV-1", 3)


async def test_a_task_that_ends_twice_is_found(log: MemoryLog) -> None:
    planned = list(decisions("s", trials=1))
    again = AttemptEnded.model_validate({**of(), "end": AttemptEnd.FINISHED})
    await plant(log, "s", [*planned[:-2], [WORKER.single("s", again)]])
    found = await verify(log, TOPICS, lax(AttemptEnded))
    assert {finding.invariant for finding in found} == {"INV-2", "INV-3"}
    assert {finding.offset for finding in found} == {sum(len(decision) for decision in planned[:-2])}


async def test_a_task_left_behind_by_its_stream_is_found(log: MemoryLog) -> None:
    extra = TaskSubmitted(task_id="s.extra", task_type="digits", parameters={}, trial=0)
    planned = list(decisions("s", trials=1))
    await plant(log, "s", [*planned[:-1], [DISPATCHER.single("s", extra)], planned[-1]])
    (found,) = await verify(log, TOPICS)
    assert found.invariant == "INV-2"
    assert "s.extra has not ended" in found.message


@pytest.mark.parametrize(
    ("event", "lost"),
    [
        (TaskAccepted.model_validate(of()), "accepted twice"),
        (
            TaskAssigned.model_validate(of(attempt=3, worker_id="w", device_ids=["d"], seen=0)),
            "comes after attempt 1",
        ),
        (
            TaskAssigned.model_validate(of(attempt=2, worker_id="w", device_ids=["d"], seen=0)),
            "before the one before it has ended",
        ),
    ],
)
async def test_attempts_that_are_not_in_line_are_found(
    log: MemoryLog, event: TaskAccepted | TaskAssigned, lost: str
) -> None:
    planned = list(decisions("s", trials=1))
    author = WORKER if isinstance(event, TaskAccepted) else SCHEDULER
    await plant(log, "s", [*planned[:5], [author.single("s", event)]])
    found = await verify(log, TOPICS, lax(type(event)))
    assert any(finding.invariant == "INV-3" and lost in finding.message for finding in found)


async def test_two_attempts_on_one_device_at_once_are_found(log: MemoryLog) -> None:
    one, two = list(decisions("one", trials=1)), list(decisions("two", trials=1))
    await plant(log, "one", one[:6])
    await plant(log, "two", two)
    await plant(log, "one", one[6:])
    (found,) = await verify(log, TOPICS)
    assert (found.invariant, found.stream) == ("INV-4", "two")
    assert "w1/cpu0 has task two.0 while it has one.0" in found.message


async def test_too_many_trials_are_found(log: MemoryLog) -> None:
    planned = list(decisions("s", trials=2))
    extra = [DISPATCHER.single("s", TrialSuggested(trial=2, parameters={}, seen=0))]
    ended = [DISPATCHER.single("s", TrialEnded(trial=2, status=TrialStatus.FAILED))]
    over = [DISPATCHER.single("s", SearchEnded(status=SearchStatus.DONE, trials=2))]
    await plant(log, "s", [*planned[:-1], extra, ended, over])
    (found,) = await verify(log, TOPICS, lax(TrialSuggested))
    assert (found.invariant, found.message) == ("INV-12", "3 trials, the limit is 2")


async def test_too_many_trials_at_once_are_found(log: MemoryLog) -> None:
    planned = list(decisions("s", trials=2))
    extra = [DISPATCHER.single("s", TrialSuggested(trial=1, parameters={}, seen=0))]
    await plant(log, "s", [*planned[:4], extra])
    (found,) = await verify(log, TOPICS, lax(TrialSuggested))
    assert (found.invariant, found.message) == ("INV-12", "2 trials at once, the concurrency is 1")
