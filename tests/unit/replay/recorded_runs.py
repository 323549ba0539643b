"""Runs that are recorded in a log: each event names its cause, and children have streams of their own."""

from dataclasses import dataclass

from tests.unit.aggregates.run.given import RunLog, step
from tests.unit.domain.given import STREAM
from tests.unit.replay.given import Clock, name_causes, outgoing
from trackside.aggregates.run.messages import StartPipelineRun
from trackside.contracts.envelope.message import Event, Json, Message
from trackside.contracts.envelope.topics import Topics
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import cause_of
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.point_in_time import PointInTime
from trackside.replay.history.recorded_stream import PastState, state_at

ONE = Topics(event_partitions=1)
"""Topics with one partition of events, so that all streams share their offsets."""
TRAIN = step("train", "prepare", parameters={"rows": "${prepare.result.rows}"})
CHAIN = (step("prepare"), TRAIN, step("report", "train"))


@dataclass
class RecordedRun(RunLog):
    """A log whose events name their causes, as dispatchers write them."""

    def tell(self, *messages: Message, role: str = "", stream: str = STREAM) -> list[Outcome]:
        """Appends messages; those of a task rest on what was told of it before."""
        outcomes = super().tell(*messages, role=role, stream=stream)
        for record in self.records[-len(messages) :]:
            task_id = getattr(record.message, "task_id", "")
            before = [r.offset for r in self.records if getattr(r.message, "task_id", "") == task_id]
            if task_id and before[0] < record.offset:
                name_causes([record], cause_of(stream, before[before.index(record.offset) - 1]))
        return outcomes

    def settle(self) -> list[Event]:
        """Lets dispatchers write whatever any stream lacks, each decision with its cause."""
        events: list[Event] = []
        while proposals := list(self._proposals()):
            for stream, proposal in proposals:
                outcomes = self.tell(*proposal.events, role="dispatcher", stream=stream)
                assert set(outcomes) == {Outcome.APPLIED}, (proposal, outcomes)
                cause = cause_of(proposal.follows_in or stream, proposal.follows)
                for record in self.records[-len(proposal.events) :]:
                    name_causes([record], cause)
                events += proposal.events
        self.written += events
        return events

    async def write(self) -> MemoryLog:
        log = MemoryLog(Clock())
        await log.ensure(ONE.shared)
        for record in self.records:
            await log.append(ONE.events.name, 0, [outgoing(record)])
        return log

    async def past(self, offset: int | None = None) -> PastState:
        return await state_at(await find_stream(await self.write(), ONE, STREAM), PointInTime(offset=offset))


def recorded(*steps: Json, parameters: Json | None = None, **fields: object) -> RecordedRun:
    """Returns the log of a run of these steps, as far as it comes without its tasks."""
    log = RecordedRun()
    body = {"pipeline": {"steps": list(steps), **fields}, "parameters": parameters or {}}
    log.command(StartPipelineRun.wire_type(), body)
    assert STREAM in log.streams.by_id
    return log


def finished_chain() -> RecordedRun:
    log = recorded(*CHAIN)
    log.finish("prepare", {"rows": 3}, table="data")
    log.finish("train", {"loss": 0.5})
    log.finish("report")
    assert log.run.status.value == "SUCCEEDED"
    return log
