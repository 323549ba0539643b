"""Runs that are over leave the memory of a service until they are needed again."""

from tests.unit.aggregates.given import published
from tests.unit.aggregates.run.given import started, step
from tests.unit.domain.given import STREAM, record_of
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run.messages import RetryFailedSteps
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.folding.streams import MAX_IDLE_IN_MEMORY, Streams, dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream

MORE = 50


def over(name: str) -> Stream:
    log = started(step("a"), step("b", "a"))
    log.finish("a", {"n": 3})
    log.finish("b", end=AttemptEnd.FAILED)
    return load(pack(log.stream).replace(STREAM.encode(), name.encode()), AGGREGATES)


def idle(state: bytes) -> Streams:
    streams = Streams(AGGREGATES, spilled={})
    for number in range(MAX_IDLE_IN_MEMORY + MORE):
        streams.adopt(load(state.replace(b"run-0", f"run-{number}".encode()), AGGREGATES))
    streams.spill_idle()
    return streams


def test_only_the_newest_runs_that_are_over_stay_in_memory_and_the_others_come_back_unchanged() -> None:
    streams = idle(pack(over("run-0")))
    assert len(streams.by_id) == MAX_IDLE_IN_MEMORY
    assert "run-0" not in streams.by_id
    command = published(99, RetryFailedSteps.wire_type(), {})
    stream, outcome = streams.fold(record_of(command, 900, stream="run-0"))
    assert outcome is Outcome.APPLIED
    assert stream.unanswered
    assert dump(load(pack(stream), AGGREGATES)) == dump(stream)
    streams.spill_idle()
    assert "run-0" in streams.by_id


def test_a_run_that_goes_on_stays_in_memory() -> None:
    streams = idle(pack(started(step("a")).stream).replace(STREAM.encode(), b"run-0"))
    assert len(streams.by_id) == MAX_IDLE_IN_MEMORY + MORE
