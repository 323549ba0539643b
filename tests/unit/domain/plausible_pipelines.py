"""Events of pipelines and their runs, drawn at random: as services write them, or not at all."""

from random import Random
from typing import Any

from tests.unit.domain.given_pipelines import asked, defined, numbered, run_over
from trackside.aggregates.pipeline.messages import PipelineRetired, PipelineStatus, RunCancelled, run_id
from trackside.aggregates.pipeline.schedule_messages import (
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
from trackside.contracts.children import ChildStopRequested
from trackside.contracts.message import Message
from trackside.domain.stream import Stream

Move = list[Message]
NAMES = ("a", "b")
HOURLY = ScheduleSpec(cron="0 * * * *")
SPECS = (HOURLY, ScheduleSpec(on=ScheduleTrigger(stream="faces", event="version")))
ENDS = ("SUCCEEDED", "FAILED", "REFUSED")


def moves(random: Random, stream: Stream[DefinedPipeline], now_ms: int) -> list[Move]:
    """Returns what may happen to a pipeline or one of its runs next."""
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
    change, number = root.changes + 1, root.numbered + 1
    schedule = root.schedules.get(random.choice(NAMES))
    if schedule is None:
        missing = [name for name in NAMES if name not in root.schedules]
        spec = {"name": missing[0], "schedule": random.choice(SPECS)}
        return [[ScheduleCreated.model_validate({"command_id": "c-5", "change": change, **spec})]]
    name = schedule.name
    found: list[Move] = random.sample(
        [
            [ScheduleUpdated(command_id="c-6", change=change, name=name, schedule=HOURLY)],
            [SchedulePaused(command_id="c-7", change=change, name=name)],
            [ScheduleResumed(command_id="c-8", change=change, name=name)],
            [ScheduleDeleted(command_id="c-9", change=change, name=name)],
        ],
        1,
    )
    fire: dict[str, Any] = {"name": name, "fire": schedule.fires + 1}
    run = numbered(number, schedule=name, alone=schedule.due_ms is not None and random.random() < 0.5)
    if schedule.spec.on is not None and schedule.seen is None:
        found += [[ScheduleWatched(name=name, key="1")]] * 4
    elif schedule.spec.on is not None:
        fire |= {"key": str(random.randint(1, 3)), "cause": "faces@1"}
        found += [[ScheduleFired(**fire, run=run.run), run], [ScheduleFired(**fire, skipped="x")]] * 2
    if schedule.needs_time:
        due_ms = now_ms + random.randint(1, 3)
        found += [[ScheduleArmed(name=name, after_ms=schedule.after_ms, due_ms=due_ms)]] * 4
    elif schedule.due_ms is not None:
        fire["due_ms"] = schedule.due_ms
        found += [[ScheduleFired(**fire, run=run.run), run], [ScheduleFired(**fire, skipped="x")]] * 2
        passed = {"after_ms": schedule.after_ms, "passed_ms": schedule.due_ms}
        found.append([ScheduleArmed(name=name, due_ms=now_ms, **passed)])
    return found
