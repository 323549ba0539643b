"""Virtual time: a loop that jumps, processes that are killed and paused, and the shipped reactor in it."""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from tests.unit.eventlog.test_reactor import TOPIC, CountingDecider
from trackside.aggregates.search.messages import SearchExhausted
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.clock import ClockReading, monotonic_s, now_ms, read_forward
from trackside.eventlog.errors import TransientError
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.simulation.virtual.log import NetworkFaults, VirtualLog
from trackside.simulation.virtual.loop import EPOCH_MS, SimulatedProcess, VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as made:  # type: ignore[abstract]
        yield made


def started(loop: VirtualLoop, said: list[str], name: str = "p") -> SimulatedProcess:
    async def ticks() -> None:
        try:
            for number in range(100):
                said.append(f"{number} at {monotonic_s():g} s, {now_ms() - EPOCH_MS} ms")
                await asyncio.sleep(1)
        finally:
            said.append("goodbye")

    return loop.start(name, ticks, Random(1).randbytes)[0]


def test_an_hour_passes_at_once(loop: VirtualLoop) -> None:
    async def slept() -> float:
        await asyncio.sleep(3_600)
        return monotonic_s()

    assert loop.run_until_complete(slept()) == 3_600


def test_a_process_that_is_killed_says_no_goodbye(loop: VirtualLoop) -> None:
    said: list[str] = []
    process = started(loop, said)
    loop.run_until(1.5)
    loop.kill(process)
    loop.run_until(10)
    assert said == ["0 at 0 s, 0 ms", "1 at 1 s, 1000 ms"]


def test_a_process_that_was_paused_goes_on_as_if_nothing_had_been(loop: VirtualLoop) -> None:
    said: list[str] = []
    process = started(loop, said)
    loop.run_until(0.5)
    loop.pause(process)
    loop.call_later(5, loop.resume, process, context=loop.network)
    loop.run_until(6)
    assert said == ["0 at 0 s, 0 ms", "1 at 5 s, 5000 ms", "2 at 6 s, 6000 ms"]


def test_a_clock_that_jumps_is_the_process_s_own(loop: VirtualLoop) -> None:
    said: list[str] = []
    started(loop, said).clock_error_ms = -3_600_000
    loop.run_until(0.5)
    assert (said, loop.now_ms()) == (["0 at 0 s, -3600000 ms"], EPOCH_MS)


def test_something_strikes_at_the_step_that_was_said() -> None:
    said: list[str] = []
    with VirtualLoop(lambda process: process.loop.kill(process)) as loop:  # type: ignore[abstract]
        started(loop, said).fault_at_step = 4
        loop.run_until(60)
        assert said == ["0 at 0 s, 0 ms", "1 at 1 s, 1000 ms"]


def test_what_nobody_was_told_of_may_land_nevertheless(loop: VirtualLoop) -> None:
    log = VirtualLog(loop, Random(1), NetworkFaults(late=1.0))
    log.create([TOPIC])
    record = RecordWriter("dispatcher", "0").single("s", SearchExhausted(trials=0))
    with pytest.raises(TransientError, match="late"):
        loop.run_until_complete(log.append(TOPIC.name, 0, [record]))
    assert loop.run_until_complete(log.ends(TOPIC.name)) == {0: 0, 1: 0}
    loop.run_until(60)
    assert loop.run_until_complete(log.ends(TOPIC.name)) == {0: 1, 1: 0}


class Impatient(CountingDecider):
    """Is always due, and counts how often it may act."""

    turns = 0

    def act(self, facts: object) -> None:
        self.turns += 1

    def next_due_ms(self) -> int | None:
        return now_ms() - 1


def turns_beside_a_busy_log(loop: VirtualLoop, standby: bool) -> int:
    log = VirtualLog(loop, Random(1))
    log.create([TOPIC])
    decider = Impatient(asyncio.Event())

    async def run() -> None:
        reactor = Reactor(
            ServiceContext.on(log, Topics(), "scheduler"),
            decider,
            starts={(TOPIC.name, 0): 0, (TOPIC.name, 1): 0},
            raw={},
            partitions={TOPIC.name: 2},
            standby=standby,
        )
        await reactor.run()

    async def write() -> None:
        for number in range(100):
            await log.append(
                TOPIC.name, 1, [RecordWriter("dispatcher", "0").single("s", SearchExhausted(trials=number))]
            )
            await asyncio.sleep(0.1)

    loop.start("reactor", run, Random(1).randbytes)
    loop.run_until_complete(write())
    return decider.turns


def test_a_standby_doesn_t_turn_in_circles_while_it_may_not_decide(loop: VirtualLoop) -> None:
    assert turns_beside_a_busy_log(loop, standby=True) < 250


def test_timers_go_on_when_the_clock_is_put_back(loop: VirtualLoop) -> None:
    said: list[int] = []

    async def look() -> None:
        time = ClockReading(now_ms(), monotonic_s())
        for _ in range(4):
            await asyncio.sleep(1)
            time = read_forward(time)
            said.append(int(time.now_ms) - EPOCH_MS)

    process, _ = loop.start("p", look, Random(1).randbytes)
    loop.run_until(1.5)
    process.clock_error_ms = -3_600_000
    loop.run_until(3.5)
    process.clock_error_ms = 500
    loop.run_until(10)
    assert said == [1_000, 2_000, 3_000, 4_500]
