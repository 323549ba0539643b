"""Events of pipelines and their runs, drawn at random: as services write them, or not at all."""

from random import Random

from tests.unit.domain.given_pipelines import asked, defined, numbered, run_over
from trackside.aggregates.pipeline.messages import PipelineRetired, PipelineStatus, RunCancelled, run_id
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    ScheduleArmed,
    ScheduleCreated,
    ScheduleDeleted,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleSpec,
    ScheduleTrigger,
    ScheduleUpdated,
    ScheduleWatched,
)
from trackside.aggregates.pipeline.state import DefinedPipeline
from trackside.contracts.envelope.message import Message
from trackside.contracts.streams.children import ChildStopRequested
from trackside.domain.streams.stream import Stream

Move = list[Message]
NAMES = ("a", "b")
HOURLY = ScheduleSpec(cron="0 * * * *")
SPECS = (HOURLY, ScheduleSpec(on=ScheduleTrigger(stream="faces", event="version")))
ENDS = ("SUCCEEDED", "FAILED", "REFUSED")


def moves(random: Random, stream: Stream[DefinedPipeline], now_ms: int) -> list[Move]:
    root = stream.root
    change, versions = root.changes + 1, len(root.versions)
    found: list[Move] = [[defined(change, versions + 1)]]
    found.append([defined(change, random.randint(1, versions), max_runs=random.randint(1, 3))])
    if root.status is PipelineStatus.RETIRED:
        return found
    found += [[numbered(root.numbered + 1, random.randint(1, versions), parameters={"n": 1})]] * 4
    if root.next_run is not None:
        found += [[asked(root.next_run.number)]] * 4
    for number in root.open_runs:
        found.append([run_over(number, random.choice(ENDS))])
        if random.random() < 0.3:
            found.append([ChildStopRequested(child_id=run_id(stream.stream_id, number), reason="user")])
    if root.queued and random.random() < 0.3:
        found.append([RunCancelled(command_id="c-3", number=random.choice(root.queued))])
    found += _of_schedules(random, root, now_ms)
    if random.random() < 0.1:
        found.append([PipelineRetired(command_id="c-4", change=change, reason="old")])
    return found


def _of_schedules(random: Random, root: DefinedPipeline, now_ms: int) -> list[Move]:
    change = root.changes + 1
    schedule = root.schedules.get(random.choice(NAMES))
    if schedule is None:
        created = ScheduleCreated(
            command_id="c-5", change=change, name=random.choice(NAMES), schedule=random.choice(SPECS)
        )
        return [] if created.name in root.schedules else [[created]]
    name = schedule.name
    found: list[Move] = [
        [ScheduleUpdated(command_id="c-6", change=change, name=name, schedule=HOURLY)],
        [SchedulePaused(command_id="c-7", change=change, name=name)],
        [ScheduleResumed(command_id="c-8", change=change, name=name)],
        [ScheduleDeleted(command_id="c-9", change=change, name=name)],
    ]
    found = random.sample(found, 1)
    due_ms = now_ms + random.randint(1, 3)
    if schedule.spec.on is not None and schedule.seen is None:
        found += [[ScheduleWatched(name=name, key="1")]] * 4
    elif schedule.spec.on is not None:
        fired = {
            "name": name,
            "fire": schedule.fires + 1,
            "key": str(random.randint(1, 3)),
            "cause": "faces@1",
        }
        run = numbered(root.numbered + 1, schedule=name)
        found += [[ScheduleFired(**fired, run=run.run), run], [ScheduleFired(**fired, skipped="x")]] * 2
    if schedule.needs_time:
        found += [[ScheduleArmed(name=name, after_ms=schedule.after_ms, due_ms=due_ms)]] * 4
    elif schedule.due_ms is not None:
        number = root.numbered + 1
        run = numbered(number, schedule=name, alone=random.random() < 0.5)
        fire = {"name": name, "fire": schedule.fires + 1, "due_ms": schedule.due_ms}
        found += [[ScheduleFired(**fire, run=run.run), run], [ScheduleFired(**fire, skipped="x")]] * 2
        passed = {"after_ms": schedule.after_ms, "passed_ms": schedule.due_ms}
        found.append([ScheduleArmed(name=name, due_ms=now_ms, **passed)])
    return found


def guesses(random: Random, stream: Stream[DefinedPipeline]) -> list[Message]:
    root = stream.root
    number, version = random.randint(1, root.numbered + 2), random.randint(1, len(root.versions) + 2)
    change = root.changes + random.randrange(3)
    return [
        *(defined(), defined(change, version), defined(change, version, number=random.randint(1, 4))),
        *(numbered(number, version), asked(number), run_over(number)),
        ChildStopRequested(child_id=run_id(stream.stream_id, number), reason=""),
        RunCancelled(command_id="c-3", number=number),
        PipelineRetired(command_id="c-4", change=change),
        ScheduleCreated(command_id="c-5", change=change, name="a", schedule=HOURLY),
        ScheduleDeleted(command_id="c-9", change=change, name="b"),
        ScheduleArmed(name="a", after_ms=number, due_ms=number + 1),
        ScheduleFired(name="a", fire=number, run=run_id(stream.stream_id, number)),
        ScheduleFired(name="b", fire=number, due_ms=number),
    ]
