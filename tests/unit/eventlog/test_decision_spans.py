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


@pytest.mark.parametrize(("log", "instances"), [(MemoryLog, 1), (MemoryLog, 2), (FaultyLog, 1)])
async def test_each_decision_that_counts_is_exported_once_however_many_compete_and_whatever_is_lost(
    exported: list[Span], log: type[MemoryLog], instances: int
) -> None:
    await run(log(), instances, traced)
    assert sorted(int(each.attributes["trials"]) for each in exported) == list(range(GOAL))
    assert len({each.traceparent for each in exported}) == GOAL
    for each in exported:
        assert each.kind == "producer" and each.start_ns <= each.end_ns
        assert each.attributes["messaging.destination.name"] == TOPIC.name
        if log is MemoryLog and instances == 1:
            assert each.attributes["messaging.kafka.offset"] == each.attributes["trials"]


async def test_a_fold_of_the_past_exports_nothing(exported: list[Span]) -> None:
    log = MemoryLog()
    await run(log, 1, traced)
    exported.clear()
    await run(log, 1, traced)
    assert exported == []
