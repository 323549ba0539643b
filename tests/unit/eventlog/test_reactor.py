"""The loop: what is decided counts only when it came back from the log."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from trackside.aggregates.search.messages import SearchExhausted
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.eventlog.clock import now_ms
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Appended, Entry, Outgoing, TopicPartition
from trackside.eventlog.memory import MemoryLog, MemoryReader
from trackside.eventlog.reactor import reactor as reactor_module
from trackside.eventlog.reactor.decider import Decision, DecisionContext
from trackside.eventlog.reactor.decision_spans import Description
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.telemetry import context
from trackside.telemetry.context import Span

TOPIC = Topics(event_partitions=2).events
GOAL = 20


class CountingDecider:
    """Appends 0, 1, 2, ... up to GOAL: each number is decided from the numbers that were folded."""

    def __init__(self, done: asyncio.Event) -> None:
        self.folded: list[int] = []
        self.applied: list[int] = []
        self.counted: list[int] = []
        self.acted: list[int] = []
        self.now_ms = 0
        self.done = done

    def fold(self, record: Record) -> Outcome:
        assert isinstance(record.message, SearchExhausted)
        self.folded.append(record.message.trials)
        if record.message.trials != len(self.applied):
            return Outcome.OVERTAKEN
        self.applied.append(record.message.trials)
        return Outcome.APPLIED

    def count(self, record: Record) -> None:
        assert isinstance(record.message, SearchExhausted)
        self.counted.append(record.message.trials)

    def on_external_entry(self, entry: Entry) -> None:
        raise AssertionError(entry)

    def reconsider(self, stream: str) -> None:
        pass

    def decide(self, context: DecisionContext) -> Iterable[Decision]:
        if len(self.applied) < GOAL and not context.busy(TOPIC.name, "s"):
            exhausted = SearchExhausted(trials=len(self.applied))
            yield Decision(TOPIC.name, "s", Proposal("count", [exhausted]))

    def act(self, context: DecisionContext) -> None:
        self.acted = list(self.applied)
        self.now_ms = context.now_ms
        if len(self.applied) == GOAL:
            self.done.set()

    def next_due_ms(self) -> int | None:
        return None


class FaultyLog(MemoryLog):
    """Loses every third append, and writes every fifth without saying so."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        self.calls += 1
        if self.calls % 3 == 0:
            raise TransientError("lost")
        appended = await super().append(topic, partition, batch)
        if self.calls % 5 == 0:
            raise TransientError("written, but who knows")
        return appended


class SlowReader(MemoryReader):
    """Lets the service do what it has to do before it reads more."""

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        for _ in range(10):
            await asyncio.sleep(0)
        return await super().read(max_wait_s, max_records)


class SlowLog(MemoryLog):
    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> MemoryReader:
        return SlowReader(self, dict(starts))


class WatchingDecider(CountingDecider):
    """Decides nothing; notes how much is folded when something could be decided, and when it couldn't."""

    def __init__(self, done: asyncio.Event) -> None:
        super().__init__(done)
        self.idle_at: set[int] = set()
        self.busy_at: set[int] = set()

    def decide(self, context: DecisionContext) -> Iterable[Decision]:
        busy = context.busy(TOPIC.name, "s")
        (self.busy_at if busy else self.idle_at).add(len(self.folded))
        return ()


class SlowDecider(CountingDecider):
    """Looks at GOAL streams to look at, one of which fills a turn; notes how often others ran before each."""

    def __init__(self, done: asyncio.Event) -> None:
        super().__init__(done)
        self.others = 0
        self.others_at: list[int] = []

    def decide(self, context: DecisionContext) -> Iterable[Decision]:
        if len(self.others_at) < GOAL:
            self.others_at.append(self.others)
            assert context.is_over()
        else:
            self.done.set()
        return ()

    async def run_others(self) -> None:
        while not self.done.is_set():
            self.others += 1
            await asyncio.sleep(0)


def reactor(service: ServiceContext, decider: CountingDecider) -> Reactor:
    starts = {(TOPIC.name, 0): 0, (TOPIC.name, 1): 0}
    return Reactor(service, decider, starts=starts, raw={}, partitions={TOPIC.name: TOPIC.partitions})


async def run(
    log: MemoryLog, instances: int, made: Callable[[ServiceContext, CountingDecider], Reactor] = reactor
) -> list[CountingDecider]:
    await log.ensure([TOPIC])
    services = [ServiceContext.on(log, Topics(), "dispatcher", str(at)) for at in range(instances)]
    deciders = [CountingDecider(asyncio.Event()) for _ in services]
    pairs = zip(services, deciders, strict=True)
    running = [asyncio.create_task(made(service, decider).run()) for service, decider in pairs]
    await asyncio.gather(*(decider.done.wait() for decider in deciders))
    for service in services:
        service.stop.set()
    await asyncio.gather(*running)
    return deciders


async def test_every_decision_is_folded_before_the_next_is_made_and_neither_lost_nor_doubled() -> None:
    (alone,) = await run(MemoryLog(), 1)
    assert alone.folded == list(range(GOAL))
    (alone,) = await run(FaultyLog(), 1)
    assert alone.applied == alone.counted == list(range(GOAL))
    assert alone.folded == sorted(alone.folded)


async def test_rivals_agree_and_the_first_in_the_log_wins() -> None:
    first, second = await run(MemoryLog(), 2)
    shorter = min(len(first.folded), len(second.folded))
    assert first.folded[:shorter] == second.folded[:shorter]
    assert first.applied == second.applied == list(range(GOAL))
    assert sorted(first.counted + second.counted) == list(range(GOAL)), "the winner counts, the other doesn't"


@pytest.mark.parametrize("instances", [1, 2])
async def test_a_service_whose_clock_is_late_goes_by_the_time_of_the_log(instances: int) -> None:
    """A retry that is due by the log must not wait until the clock of the scheduler's host says so."""
    late_ms = 1_600_000
    deciders = await run(MemoryLog(clock=lambda: now_ms() + late_ms), instances)
    assert all(abs(decider.now_ms - now_ms() - late_ms) < 60_000 for decider in deciders)


async def test_nothing_is_decided_before_the_log_was_folded_to_its_end() -> None:
    log = MemoryLog()
    await run(log, 1)
    (late,) = await run(log, 1)
    assert late.folded == list(range(GOAL))
    assert late.counted == [], "another process decided them, of the same instance"


async def test_an_error_in_the_background_ends_the_loop() -> None:
    log = MemoryLog()
    await log.ensure([TOPIC])
    service = ServiceContext.on(log, Topics(), "dispatcher")

    async def fail() -> None:
        raise RuntimeError("in the background")

    service.background.spawn(fail())
    with pytest.raises(RuntimeError, match="in the background"):
        await reactor(service, CountingDecider(asyncio.Event())).run()


async def watched(decisions: Iterable[Sequence[Outgoing]], service: ServiceContext) -> WatchingDecider:
    """Appends decisions to the log of a service that decides nothing, one by one, until it has read all."""
    await service.log.ensure([TOPIC])
    decider = WatchingDecider(asyncio.Event())
    watching = reactor(service, decider)
    running = asyncio.create_task(watching.run())
    await watching.ready.wait()
    for decision in decisions:
        await service.log.append(TOPIC.name, partition_of("s", TOPIC.partitions), decision)
    await decider.done.wait()
    service.stop.set()
    await running
    return decider


async def test_nothing_is_decided_while_a_decision_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactor_module, "MOST_READ", 3)
    service = ServiceContext.on(SlowLog(), Topics(), "dispatcher")
    pairs = ([SearchExhausted(trials=at), SearchExhausted(trials=at + 1)] for at in range(0, GOAL, 2))
    decider = await watched((service.writer.decision("s", pair) for pair in pairs), service)
    assert any(folded % 2 for folded in decider.busy_at), "some decisions were read in part"
    assert not any(folded % 2 for folded in decider.idle_at)


async def test_a_record_that_claims_a_huge_decision_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactor_module, "MOST_READ", 1)
    service = ServiceContext.on(SlowLog(), Topics(), "dispatcher")
    forged = []
    for number in range(GOAL):
        (record,) = service.writer.decision("s", [SearchExhausted(trials=number)])
        headers = [*record.headers, ("ce_index", b"0"), ("ce_count", b"999999999")]
        forged.append([replace(record, headers=headers)])
    assert max((await watched(forged, service)).idle_at) == GOAL


async def test_a_cut_turn_is_followed_by_the_next_at_once_and_others_run_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reactor_module, "TURN_S", 0)
    monkeypatch.setattr(reactor_module, "IDLE_S", 3_600)
    service = ServiceContext.on(MemoryLog(), Topics(), "dispatcher")
    await service.log.ensure([TOPIC])
    decider = SlowDecider(asyncio.Event())
    running = [asyncio.create_task(each) for each in (reactor(service, decider).run(), decider.run_others())]
    await decider.done.wait()
    service.stop.set()
    await asyncio.gather(*running)
    assert len(set(decider.others_at)) == GOAL


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
