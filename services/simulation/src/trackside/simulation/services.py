"""The deciding services in a simulation: the shipped ones, but their advisors answer in the same process."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from random import Random
from typing import Any

from trackside.contracts.message import Record
from trackside.contracts.topics import Topics
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import AdviceFailed, AdvisorOp, AdvisorProcess
from trackside.dispatcher.advisor.advisor import Advisor
from trackside.dispatcher.service import Dispatcher
from trackside.dispatcher.tuners.tuner import suggestion_seed
from trackside.domain.streams import Streams
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Entry, Log
from trackside.eventlog.reactor import Reactor
from trackside.eventlog.service_context import ServiceContext
from trackside.eventlog.serving import from_end, from_start
from trackside.scheduler.service import Scheduler
from trackside.scheduler.settings import SchedulerSettings

Decoded = Callable[[Entry], Record | None]
Held = Callable[[Streams], None]
"""Told of the streams that a service folds into, each time that it begins anew."""


def drawn(space: Mapping[str, Mapping[str, Any]], seed: int, number: int) -> dict[str, Any]:
    """Suggests the parameters of a trial by chance, in a space of uniform parameters: the same each time."""
    chance = Random(suggestion_seed(seed, number))
    return {name: chance.uniform(space[name]["low"], space[name]["high"]) for name in sorted(space)}


class SimulatedAdvisor(AdvisorProcess):
    """A lane without a process: the shipped assessors judge in this one, and trials are drawn by chance."""

    def __init__(self, name: str, chance: Random, answer_s: float) -> None:
        super().__init__(name)
        self.generation = 1
        self._chance = chance
        self._answer_s = answer_s
        self._tuners: dict[str, tuple[Any, int]] = {}
        self._advisor = Advisor()

    async def request(self, search: str, ops: Any, ops_a_line: int = 0) -> Any:
        """Answers the last of the ops, after a moment."""
        await asyncio.sleep(self._chance.random() * self._answer_s)
        result = None
        listed: Iterable[AdvisorOp] = ops(self.generation) if callable(ops) else ops
        for op in listed:
            result = self._answer(search, op)
        return result

    def _answer(self, search: str, op: AdvisorOp) -> Any:
        if op["op"] == "open" and op["kind"] == "tuner":
            self._tuners[search] = (op["space"], op["seed"])
        elif op["op"] == "ask":
            return drawn(*self._tuners[search], op["number"])
        elif search not in self._tuners:
            said = self._advisor.answer(json.dumps({"search": search, "ops": [op]}))
            if "error" in said:
                raise AdviceFailed(str(said["error"]))
            return said["result"]
        return None


def dispatcher(
    log: Log,
    topics: Topics,
    instance: str,
    chance: Random,
    held: Held,
    *,
    standby: bool = False,
    decoded: Decoded = decode,
) -> Coroutine[Any, Any, None]:
    """Runs a dispatcher from an empty memory, for ever."""

    async def run() -> None:
        service, streams = ServiceContext.on(log, topics, "dispatcher", instance), Streams()
        held(streams)
        advice = AdviceLoop(
            SimulatedAdvisor("tuner", chance, 0.005),
            SimulatedAdvisor("assessor", chance, 0.002),
            service.background,
        )
        reactor = Reactor(
            service,
            Dispatcher(service, streams, advice),
            starts=await from_start(log, topics.events) | await from_start(log, topics.fleet),
            raw=await from_start(log, topics.commands),
            partitions={topics.events.name: topics.event_partitions, topics.fleet.name: 1},
            standby=standby,
            decoded=decoded,
        )
        advice.ready = reactor.wake
        await reactor.run()

    return run()


def scheduler(
    log: Log,
    topics: Topics,
    instance: str,
    settings: SchedulerSettings,
    held: Held,
    *,
    standby: bool = False,
    decoded: Decoded = decode,
) -> Coroutine[Any, Any, None]:
    """Runs a scheduler from an empty memory, for ever."""

    async def run() -> None:
        service, streams = ServiceContext.on(log, topics, "scheduler", instance), Streams()
        held(streams)
        starts = await from_start(log, topics.events) | await from_start(log, topics.fleet)
        reactor = Reactor(
            service,
            Scheduler(service, streams, settings),
            starts=starts | await from_end(log, topics.heartbeats),
            raw={},
            partitions={topics.events.name: topics.event_partitions, topics.fleet.name: 1},
            standby=standby,
            decoded=decoded,
        )
        await reactor.run()

    return run()


def shipped_settings() -> SchedulerSettings:
    """Gives the scheduler's settings as they are by default, whatever the environment says."""
    return SchedulerSettings.model_construct()
