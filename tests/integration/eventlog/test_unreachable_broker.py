"""A service that is cut off from the broker is not ready, even if idle, and is ready again by itself."""

import asyncio
from collections.abc import Iterable
from http import HTTPStatus

import pytest

from tests.chaos.proxy import Proxy
from tests.polling import poll_until
from tests.stack import Servers
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.domain.outcome import Outcome
from trackside.embedded.ports import held_ports
from trackside.eventlog.kafka import kafka_log as kafka
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Entry
from trackside.eventlog.reactor import log_lag
from trackside.eventlog.reactor.decider import Decision, DecisionContext
from trackside.eventlog.reactor.log_lag import follow_log_lag
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.telemetry.health import Health, respond


class NothingToDecide:
    """The decider of a service that has no work."""

    def fold(self, record: Record) -> Outcome:
        raise AssertionError(record)

    def count(self, record: Record) -> None:
        raise AssertionError(record)

    def on_external_entry(self, entry: Entry) -> None:
        raise AssertionError(entry)

    def reconsider(self, stream: str) -> None:
        raise AssertionError(stream)

    def decide(self, context: DecisionContext) -> Iterable[Decision]:
        return ()

    def act(self, context: DecisionContext) -> None:
        pass

    def next_due_ms(self) -> int | None:
        return None


def answer(health: Health) -> tuple[HTTPStatus, str]:
    status, _, body = respond(health, "GET /ready HTTP/1.1")
    return status, body.decode()


async def test_an_idle_service_that_is_cut_off_says_so_until_the_broker_answers(
    stack: Servers, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(prefix=topic_prefix)
    upstream = int(stack.kafka_bootstrap.rpartition(":")[2])
    monkeypatch.setattr(log_lag, "EVERY_S", 0.1)
    with held_ports(1) as (port,), Proxy(port, lambda: upstream) as proxy:
        async with KafkaLog(proxy.address, "idle") as log:
            await log.ensure([topics.fleet])
            monkeypatch.setattr(kafka, "ANSWER_S", 1.0)
            service = ServiceContext.on(log, topics, "scheduler")
            starts = {(topics.fleet.name, 0): 0}
            reactor = Reactor(service, NothingToDecide(), starts=starts, raw={}, partitions={})
            service.background.spawn(follow_log_lag(log, reactor, service.health))

            async def is_ready() -> bool:
                return answer(service.health)[0] is HTTPStatus.OK

            async def is_cut_off() -> bool:
                status, body = answer(service.health)
                return status is HTTPStatus.SERVICE_UNAVAILABLE and "waiting for the log: " in body

            running = asyncio.create_task(reactor.run())
            for cut, mend in ((proxy.refuse, proxy.accept), (proxy.hold, proxy.flow)):
                await poll_until(is_ready, within_s=30)
                cut()
                await poll_until(is_cut_off, within_s=30)
                mend()
            await poll_until(is_ready, within_s=30)
            service.stop.set()
            await running
