"""A run of 10,000 steps in memory: folded from bytes, and decided. The reference of the fold decodes only."""

import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bench.measurements import Figure, Measurements, MissingError, check_count
from bench.smallest import size
from bench.synthetic_log import DISPATCHER, INCARNATION, SCHEDULER, STATUSES, WORKER
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run.messages import RunStatus, StartPipelineRun
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import StepExpanded
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Json, Message
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.commands import RULES, CommandReceived, Source
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskStatusChanged,
    TaskSubmitted,
)
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream, shrink
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.garbage import collecting_seldom
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Outgoing
from trackside.eventlog.memory import MemoryLog

STREAM, TASK_TYPE = "flow-0000", "noop"
SMALL, LARGE = size(1_000, 100), size(10_000, 300)
AT_ONCE = 100
CAPABILITIES = Capabilities(task_types=frozenset({TASK_TYPE}))


async def measure() -> Measurements:
    """Decides a run of 1,000 steps and one of 10,000, and folds the larger one's records again.

    Garbage is collected as in a dispatcher.
    """
    with collecting_seldom():
        return await _measured()


async def _measured() -> Measurements:
    small, large = await _SyntheticRun.of(SMALL), await _SyntheticRun.of(LARGE)
    entries = await large.entries()
    began = monotonic_s()
    for entry in entries:
        decode(entry)
    decode_s = monotonic_s() - began
    fold_s = _folded_s(entries)
    limited_kb, open_kb = await _kept_kb(AT_ONCE), await _kept_kb(None)
    figures = [
        Figure(
            "D7",
            f"run of {LARGE:,} steps, folded",
            len(entries) / fold_s,
            "/s",
            len(entries) / decode_s,
            "decoded only",
        ),
        Figure("D7", "the same, events decided", large.rate, "/s", small.rate, f"{SMALL:,} steps"),
        Figure("D7", f"{LARGE:,} items, {AT_ONCE} at once, kept", limited_kb, "KB", open_kb, "all at once"),
    ]
    counted = [
        check_count("steps of the run that was folded", LARGE, large.ended),
        f"{len(entries):,} events of it, {large.decided:,} decided",
    ]
    return Measurements(figures, counted, {"fold_s": fold_s, "decide_s": large.decide_s})


def _folded_s(entries: Iterable[Entry]) -> float:
    streams = Streams(AGGREGATES)
    began = monotonic_s()
    for entry in entries:
        record = decode(entry)
        assert record is not None
        shrink(streams.fold(record)[0])
    seconds = monotonic_s() - began
    status = _run(streams.by_id[STREAM]).status
    if status is not RunStatus.SUCCEEDED:
        raise MissingError(f"the folded run ended as {status}, expected SUCCEEDED")
    return seconds


async def _kept_kb(at_once: int | None) -> float:
    """Returns what the state of a fan-out takes once it has begun all that it may, without its items."""
    each: Json = {"name": "each", "task_type": TASK_TYPE, "each": "${pipeline.items}"}
    each |= {"parameters": {"n": "${item}"}, "at_once": at_once or LARGE}
    pipeline: Json = {"parameters": {"items": {"type": "array"}}, "steps": [each], "concurrency": LARGE}
    body: Json = {"pipeline": pipeline, "parameters": {"items": list(range(LARGE))}}
    begun = await _SyntheticRun.begun(body)
    check_count("tasks of the fan-out", len(begun.submitted), at_once or LARGE)
    entries = await begun.entries()
    kept: list[int] = []
    tracemalloc.start()
    try:
        streams = Streams(AGGREGATES)
        for entry in entries:
            record = decode(entry)
            assert record is not None
            shrink(streams.fold(record)[0])
            if isinstance(record.message, StepExpanded):
                kept.append(tracemalloc.get_traced_memory()[0])
        return (tracemalloc.get_traced_memory()[0] - kept[0]) / 1_000
    finally:
        tracemalloc.stop()


def _run(stream: Stream) -> Run:
    run = run_of(stream)
    assert run is not None
    return run


def definition(size: int) -> Json:
    """Returns a pipeline whose every second step needs the one before it."""
    return {
        "steps": [
            {"name": f"s{at}", "task_type": TASK_TYPE} | ({"needs": [f"s{at - 1}"]} if at % 2 else {})
            for at in range(size)
        ]
    }


@dataclass(slots=True)
class _SyntheticRun:
    """A run in a log in memory, decided after each end of a task as a dispatcher does."""

    log: MemoryLog = field(default_factory=MemoryLog)
    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))
    topics: Topics = field(default_factory=Topics)
    decided: int = 0
    decide_s: float = 0.0
    submitted: list[TaskSubmitted] = field(default_factory=list)
    ended: int = 0

    @classmethod
    async def of(cls, size: int) -> "_SyntheticRun":
        """Runs a pipeline of that many steps to its end."""
        made = await cls._received({"pipeline": definition(size)})
        while await made._decide() or made.submitted:
            for task in made.submitted[:1]:
                del made.submitted[0]
                for writer, message in _life(task.task_id):
                    await made._write(writer, message)
                made.ended += 1
        return made

    @classmethod
    async def begun(cls, body: Json) -> "_SyntheticRun":
        """Begins a run of which no task ends."""
        made = await cls._received(body)
        while await made._decide():
            pass
        return made

    @classmethod
    async def _received(cls, body: Json) -> "_SyntheticRun":
        made = cls()
        await made.log.ensure(made.topics.shared)
        await made._write(DISPATCHER, _received(body))
        return made

    @property
    def rate(self) -> float:
        """How many events were decided in a second of deciding."""
        return self.decided / self.decide_s

    @property
    def place(self) -> tuple[str, int]:
        """The partition of the run."""
        return self.topics.events.name, partition_of(STREAM, self.topics.events.partitions)

    async def entries(self) -> list[Entry]:
        """Returns all records of the run."""
        _, partition = self.place
        expected = (await self.log.ends(self.topics.events.name))[partition]
        reader, found = self.log.reader({self.place: 0}), list[Entry]()
        while len(found) < expected:
            found += await reader.read(1.0, 10_000)
        await reader.close()
        return found

    async def _decide(self) -> bool:
        """Writes what the run lacks; returns whether it lacked anything."""
        began = monotonic_s()
        proposals = react(self.streams.by_id[STREAM], CAPABILITIES, AGGREGATES)
        self.decide_s += monotonic_s() - began
        for proposal in proposals:
            self.decided += len(proposal.events)
            self.submitted += [event for event in proposal.events if isinstance(event, TaskSubmitted)]
            await self._write(DISPATCHER, *proposal.events)
        return bool(proposals)

    async def _write(self, writer: RecordWriter, *messages: Message) -> None:
        records = writer.decision(STREAM, messages)
        appended = await self.log.append(*self.place, records)
        for at, record in enumerate(records):
            self._fold(record, appended.offset + at, appended.append_time_ms)

    def _fold(self, record: Outgoing, offset: int, time_ms: int) -> None:
        entry = Entry(*self.place, offset, time_ms, record.key, record.value, list(record.headers))
        decoded = decode(entry)
        assert decoded is not None
        shrink(self.streams.fold(decoded)[0])


def _received(body: Json) -> CommandReceived:
    return CommandReceived(
        command_id=new_id(),
        command_type=StartPipelineRun.wire_type(),
        body=body,
        digest="0" * 64,
        source=Source(topic="trackside.commands", partition=0, offset=0),
        publisher="trackside/sdk/bench",
        rules=RULES,
    )


def _life(task_id: str) -> Iterator[tuple[RecordWriter, Message]]:
    """Yields the events of a task that is placed, accepted and finished."""
    token: Json = {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": INCARNATION}
    placed: Json = {"worker_id": "bench", "device_ids": ["cpu-0"], "seen": 0}
    yield SCHEDULER, TaskAssigned.model_validate(token | placed)
    yield WORKER, TaskAccepted.model_validate(token)
    for status in STATUSES:
        yield WORKER, TaskStatusChanged.model_validate(token | {"status": status})
    yield WORKER, AttemptEnded.model_validate(token | {"end": AttemptEnd.FINISHED, "result": {"n": 1}})
