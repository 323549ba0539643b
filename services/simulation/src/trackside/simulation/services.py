"""The dispatcher and the scheduler of a simulation: the shipped ones, with advisors in the same process."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import AdviceFailed, AdvisorOp, AdvisorProcess
from trackside.dispatcher.advisor.advisor import Advisor
from trackside.dispatcher.service import Dispatcher
from trackside.domain.folding.streams import Streams
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import from_end, from_start
from trackside.scheduler.service import Scheduler
from trackside.scheduler.settings import SchedulerSettings
from trackside.simulation.scenarios.scenarios import random_parameters
from trackside.verify.log import EntryDecoder

MakeService = Callable[[], ServiceContext]
"""Returns what a service begins with, each time that it starts."""
OnStreams = Callable[[Streams], None]
"""Called with the streams that a service folds into, each time that it starts."""


class SimulatedAdvisor(AdvisorProcess):
    """An advisor without a process: the shipped assessors, and a tuner that draws at random."""

    def __init__(self, name: str, rng: Random, answer_s: float) -> None:
        super().__init__(name)
        self.generation = 1
        self._rng = rng
        self._answer_s = answer_s
        self._tuners: dict[str, tuple[Any, int]] = {}
        self._advisor = Advisor()

    async def request(self, search: str, ops: Any, ops_a_line: int = 0) -> Any:
        """Executes the ops and returns the result of the last one, after up to `answer_s`."""
        await asyncio.sleep(self._rng.random() * self._answer_s)
        result = None
        listed: Iterable[AdvisorOp] = ops(self.generation) if callable(ops) else ops
        for op in listed:
            result = self._answer(search, op)
        return result

    def _answer(self, search: str, op: AdvisorOp) -> Any:
        if op["op"] == "open" and op["kind"] == "tuner":
            self._tuners[search] = (op["space"], op["seed"])
        elif op["op"] == "ask":
            return random_parameters(*self._tuners[search], op["number"])
        elif search not in self._tuners:
            answer = self._advisor.answer(json.dumps({"search": search, "ops": [op]}))
            if "error" in answer:
                raise AdviceFailed(str(answer["error"]))
            return answer["result"]
        return None


def dispatcher(
    make_service: MakeService,
    rng: Random,
    on_streams: OnStreams,
    *,
    standby: bool = False,
    decoded: EntryDecoder = decode,
) -> Coroutine[Any, Any, None]:
    """Runs a dispatcher that starts from an empty state, until it is cancelled."""

    async def run() -> None:
        service, streams = make_service(), Streams(AGGREGATES)
        log, topics = service.log, service.topics
        on_streams(streams)
        advice = AdviceLoop(
            SimulatedAdvisor("tuner", rng, 0.005),
            SimulatedAdvisor("assessor", rng, 0.002),
            service.background,
        )
        decider = Dispatcher(service, streams, advice)
        reactor = Reactor(
            service,
            decider,
            starts=await from_start(log, topics.events) | await from_start(log, topics.fleet),
            raw=await from_start(log, topics.commands),
            partitions={topics.events.name: topics.event_partitions, topics.fleet.name: 1},
            standby=standby,
            decoded=decoded,
        )
        reactor.paused = decider.paused_topics
        service.background.spawn(decider.rereading.run(reactor.wake))
        service.background.spawn(decider.read_released(reactor.wake))
        advice.ready = reactor.wake
        await reactor.run()

    return run()


def scheduler(
    make_service: MakeService,
    settings: SchedulerSettings,
    on_streams: OnStreams,
    *,
    standby: bool = False,
    decoded: EntryDecoder = decode,
) -> Coroutine[Any, Any, None]:
    """Runs a scheduler that starts from an empty state, until it is cancelled."""

    async def run() -> None:
        service, streams = make_service(), Streams(AGGREGATES)
        log, topics = service.log, service.topics
        on_streams(streams)
        starts = await from_start(log, topics.events) | await from_start(log, topics.fleet)
        decider = Scheduler(service, streams, settings)
        reactor = Reactor(
            service,
            decider,
            starts=starts | await from_end(log, topics.heartbeats),
            raw={},
            partitions={topics.events.name: topics.event_partitions, topics.fleet.name: 1},
            standby=standby,
            decoded=decoded,
        )
        service.background.spawn(decider.read_released(reactor.wake))
        await reactor.run()

    return run()


def shipped_settings() -> SchedulerSettings:
    """Returns the scheduler's default settings, whatever the environment has."""
    return SchedulerSettings.model_construct()
