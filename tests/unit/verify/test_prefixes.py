from collections import Counter
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.eventlog.log import Entry, Outgoing, TopicPartition
from trackside.eventlog.memory import MemoryLog
from trackside.simulation import worker as simulated_worker
from trackside.simulation.config import SimulationConfig
from trackside.simulation.run import Simulation
from trackside.simulation.scenarios.scenarios import BatchScenario
from trackside.simulation.virtual.shuffled import ShuffledLog
from trackside.verify.log import VerificationReport, verify_topics

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("quiet_services")]

SEEDS = 6
TRIALS = 12
"""Tasks of each simulated stream, whose log has some 400 records."""
Violation = tuple[str, str, int, int]


@dataclass(frozen=True)
class SimulatedLog:
    """The log of a simulation with faults; `order` has the partitions in the order of the appends to them."""

    simulation: Simulation
    order: tuple[TopicPartition, ...]

    def cut(self, share: float) -> dict[TopicPartition, int]:
        """Returns the ends of partitions after a share of all appends, between decisions."""
        count = int(share * len(self.order))
        ends = Counter(self.order[:count])
        while count < len(self.order) and self._is_within_decision(self.order[count], ends):
            ends[self.order[count]] += 1
            count += 1
        return ends

    async def verify(self, ends: dict[TopicPartition, int], rng: Random) -> VerificationReport:
        """Verifies the log up to these ends, in a random order of reading."""
        topics = self.simulation.topics
        log = MemoryLog()
        await log.ensure(list(self.simulation.log._topics.values()))

        def between(place: TopicPartition, first: int, end: int) -> list[Entry]:
            return list(self.simulation.log.entries[place][first : min(end, ends[place])])

        for place, end in ends.items():
            for entry in between(place, 0, end):
                await log.append(*place, [Outgoing(entry.key, entry.value, entry.headers)])
        return await verify_topics(ShuffledLog(log, between, rng), topics)

    def _is_within_decision(self, place: TopicPartition, ends: dict[TopicPartition, int]) -> bool:
        headers = dict(self.simulation.log.entries[place][ends[place]].headers)
        return headers.get("ce_index", b"0") != b"0"


def simulated_log(seed: int, scenario: str = "search") -> SimulatedLog:
    scenarios: dict[str, Any] = {"scenario": BatchScenario} if scenario == "batch" else {}
    simulation = Simulation(seed, SimulationConfig(trials=TRIALS, **scenarios))
    order, on_append = list[TopicPartition](), simulation.log.on_append
    ends: Counter[TopicPartition] = Counter()
    assert on_append is not None

    def note(topic: str, record: Outgoing) -> None:
        entries = simulation.log.entries
        [place] = [each for each in entries if each[0] == topic and len(entries[each]) > ends[each]]
        ends[place] += 1
        order.append(place)
        on_append(topic, record)

    simulation.log.on_append = note
    simulation.run()
    return SimulatedLog(simulation, tuple(order))


@cache
def honest_log(seed: int, scenario: str) -> SimulatedLog:
    log = simulated_log(seed, scenario)
    assert log.simulation.result.violations == []
    return log


@cache
def log_with_overlaps(seed: int) -> SimulatedLog:
    """Returns the log of a simulation whose workers begin tasks on devices that are in use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated_worker._Incarnation, "_is_busy", lambda *_: False)
        return simulated_log(seed)


def places_of(report: VerificationReport) -> set[Violation]:
    return {(each.invariant, each.topic, each.partition, each.offset) for each in report.findings}


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, SEEDS - 1),
    scenario=st.sampled_from(["search", "batch"]),
    share=st.floats(0, 1),
    reading=st.randoms(use_true_random=False),
)
async def test_a_log_that_is_right_is_right_wherever_it_ends(
    seed: int, scenario: str, share: float, reading: Random
) -> None:
    log = honest_log(seed, scenario)
    assert (await log.verify(log.cut(share), reading)).findings == []


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, SEEDS - 1),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    reading=st.randoms(use_true_random=False),
)
async def test_what_is_found_in_a_part_of_a_log_is_found_in_all_of_it(
    seed: int, shares: tuple[float, float], reading: Random
) -> None:
    log = log_with_overlaps(seed)
    less, more = (log.cut(share) for share in sorted(shares))
    assert places_of(await log.verify(less, reading)) <= places_of(await log.verify(more, reading))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, SEEDS - 1), share=st.floats(0, 1), readings=st.lists(st.randoms(), min_size=2))
async def test_the_same_is_found_in_whatever_order_partitions_are_read(
    seed: int, share: float, readings: list[Random]
) -> None:
    log = log_with_overlaps(seed)
    ends = log.cut(share)
    reports = [await log.verify(ends, reading) for reading in readings]
    assert len({tuple(map(str, report.findings)) for report in reports}) == 1
    assert len({(tuple(map(str, report.open)), report.uncompared_uses) for report in reports}) == 1
