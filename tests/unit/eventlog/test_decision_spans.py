"""Spans of decisions: once each, by who made them, and only if they count."""

from collections.abc import Iterator

import pytest

from tests.unit.eventlog.test_reactor import GOAL, TOPIC, CountingDecider, FaultyLog, reactor, run
from trackside.aggregates.search.messages import SearchExhausted
from trackside.domain.proposal import Proposal
from trackside.eventlog.decision_spans import Description
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.reactor import Reactor
from trackside.eventlog.service_context import ServiceContext
from trackside.telemetry import context
from trackside.telemetry.context import Span


@pytest.fixture
def exported() -> Iterator[list[Span]]:
    spans: list[Span] = []
    context.set_recorder(spans.append)
    yield spans
    context.set_recorder(None)


def described(_: str, proposal: Proposal) -> Description:
    (event,) = proposal.events
    assert isinstance(event, SearchExhausted)
    return Description({"trials": event.trials})


def traced(service: ServiceContext, decider: CountingDecider) -> Reactor:
    service.spans.describe = described
    return reactor(service, decider)


async def counted(log: MemoryLog, instances: int) -> None:
    await run(log, instances, traced)


@pytest.mark.parametrize("instances", [1, 2])
async def test_each_decision_that_counts_is_exported_once_however_many_compete(
    exported: list[Span], instances: int
) -> None:
    await counted(MemoryLog(), instances)
    assert sorted(int(each.attributes["trials"]) for each in exported) == list(range(GOAL))
    assert len({each.traceparent for each in exported}) == GOAL


async def test_a_decision_of_unknown_fate_is_exported_if_it_is_found_in_the_log(
    exported: list[Span],
) -> None:
    await counted(FaultyLog(), 1)
    assert sorted(int(each.attributes["trials"]) for each in exported) == list(range(GOAL))


async def test_a_fold_of_the_past_exports_nothing(exported: list[Span]) -> None:
    log = MemoryLog()
    await counted(log, 1)
    exported.clear()
    await counted(log, 1)
    assert exported == []


async def test_a_span_says_where_in_the_log_its_decision_is(exported: list[Span]) -> None:
    await counted(MemoryLog(), 1)
    for each in exported:
        assert each.kind == "producer" and each.start_ns <= each.end_ns
        assert each.attributes["messaging.destination.name"] == TOPIC.name
        assert each.attributes["messaging.kafka.offset"] == each.attributes["trials"]
