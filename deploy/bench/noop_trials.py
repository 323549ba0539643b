"""P1 and P4: a search whose tasks do nothing, through all services, by the log's and the tasks' clock."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bench.command_latency import publish, search
from bench.cpu_time import spent, used_ms
from bench.fork_rate import ForkRates
from bench.fresh_stack import SLOTS, TASK_TYPE, TOPICS
from bench.log_watch import SeenRecord, watch_topic
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count, percentile
from bench.smallest import size
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchStatus,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
)
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import (
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskRecallRequested,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
    TaskSubmitted,
)
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

EVENTS_PER_TRIAL = 10
"""TrialSuggested, TaskSubmitted, TaskAssigned, TaskAccepted, 4 statuses, AttemptEnded, TrialEnded."""
EVENTS_PER_SEARCH = 4
"""CommandReceived, CommandAccepted, SearchStarted, SearchEnded."""
COLD_GOAL = Goal(0.08, 0.33, ratio=True)
"""Trials relative to the same tasks without the log; relative to Ray Tune: `bench.peers.comparison`."""
WARM_UP = size(100, 10)
HOPS = ("ended", "trial_ended", "suggested", "assigned", "accepted", "available")


@dataclass(slots=True)
class TaskTimeline:
    """The timeline of one task: the time of each step, ms since 1970 by the log's clock, and its result."""

    device: str = ""
    at_ms: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    follows: int = -1
    pid: int = -1
    began_s: float = 0.0
    ended_s: float = 0.0


def timelines(records: Sequence[Record]) -> dict[str, TaskTimeline]:
    """Returns the timeline of every task of one search."""
    timelines_by_task: dict[str, TaskTimeline] = defaultdict(TaskTimeline)
    suggested: TrialSuggested | None = None
    for record in records:
        match record.message:
            case TrialSuggested() as message:
                suggested = message
            case TaskSubmitted(task_id=task_id):
                _set_time(timelines_by_task[task_id], "suggested", record)
                timelines_by_task[task_id].follows = suggested.seen if suggested else -1
            case TaskAssigned(task_id=task_id, device_ids=[device_id, *_]):
                _set_time(timelines_by_task[task_id], "assigned", record)
                timelines_by_task[task_id].device = device_id
            case TaskAccepted(task_id=task_id):
                _set_time(timelines_by_task[task_id], "accepted", record)
            case TaskStatusChanged(task_id=task_id, status=TaskStatus.AVAILABLE):
                _set_time(timelines_by_task[task_id], "available", record)
            case TaskStatusChanged(task_id=task_id, status=TaskStatus.TRAINING):
                _set_time(timelines_by_task[task_id], "training", record)
            case AttemptEnded(task_id=task_id) as ended:
                _set_time(timelines_by_task[task_id], "ended", record)
                result = ended.result or {}
                timeline = timelines_by_task[task_id]
                timeline.pid, timeline.began_s, timeline.ended_s = (
                    result["pid"],
                    result["began_s"],
                    result["ended_s"],
                )
            case TrialEnded(trial=trial):
                _set_time(timelines_by_task[f"{record.envelope.stream}.{trial}"], "trial_ended", record)
    return dict(timelines_by_task)


def _set_time(timeline: TaskTimeline, step: str, record: Record) -> None:
    timeline.at_ms.setdefault(step, record.append_time_ms)
    timeline.offsets.setdefault(step, record.offset)


def gaps(timelines_by_task: Mapping[str, TaskTimeline]) -> tuple[list[float], list[float]]:
    """Returns, for all tasks but each slot's first, ms from the previous end in its slot to its start.

    First by the log, from AttemptEnded to the status AVAILABLE; then by the tasks' own clock, from the last
    line of one task's code to the first of the next's.
    """
    slots: dict[str, list[TaskTimeline]] = defaultdict(list)
    for timeline in timelines_by_task.values():
        slots[timeline.device].append(timeline)
    by_log, by_code = [], []
    for slot in slots.values():
        slot.sort(key=lambda timeline: timeline.offsets["assigned"])
        for previous, after in pairwise(slot):
            by_log.append(float(after.at_ms["available"] - previous.at_ms["ended"]))
            by_code.append((after.began_s - previous.ended_s) * 1000)
    return by_log, by_code


def hops(timelines_by_task: Mapping[str, TaskTimeline]) -> dict[str, float]:
    """Returns the medians of the steps from a task's end to the start of the next one, ms."""
    ended = {  # a trial that was drawn ahead rests on the end of the attempt
        timeline.offsets[step]: timeline for timeline in timelines_by_task.values() for step in HOPS[:2]
    }
    times: dict[str, list[float]] = defaultdict(list)
    for timeline in timelines_by_task.values():
        previous = ended.get(timeline.follows)
        if previous is None:
            continue
        at_ms = [
            previous.at_ms["ended"],
            previous.at_ms["trial_ended"],
            *(timeline.at_ms[hop] for hop in HOPS[2:]),
        ]
        for (first, second), (start, end) in zip(pairwise(HOPS), pairwise(at_ms), strict=True):
            times[f"{first} -> {second}"].append(float(end - start))
    for timeline in timelines_by_task.values():
        times["available -> training"].append(float(timeline.at_ms["training"] - timeline.at_ms["available"]))
        times["training -> ended"].append(float(timeline.at_ms["ended"] - timeline.at_ms["training"]))
    return {hop: percentile(values, 50) for hop, values in times.items()}


async def warm_up(log: Log) -> None:
    """Runs trials that are not counted: the broker's JVM takes twice as long for the first hundred."""
    await run(log, WARM_UP, 120)


async def run(
    log: Log, trials: int, limit_s: float, concurrency: int = SLOTS, task_type: str = TASK_TYPE
) -> list[SeenRecord]:
    """Runs a search to its end and gives all of its records."""
    stream_id = f"noop-{trials}-{new_id()[:6]}"
    async with watch_topic(log, TOPICS.events) as watch:
        await publish(log, search(trials, concurrency, task_type), stream_id, new_id())
        try:
            await watch.until(lambda record: _is_end(record, stream_id), limit_s)
        except TimeoutError as error:
            ended = sum(isinstance(seen.record.message, TrialEnded) for seen in watch.seen)
            raise MissingError(f"{ended} of {trials} trials ended within {limit_s:g} s") from error
        return [seen for seen in watch.seen if seen.record.envelope.stream == stream_id]


def _is_end(record: Record, stream_id: str) -> bool:
    return isinstance(record.message, SearchEnded) and record.envelope.stream == stream_id


def count_records(records: Sequence[Record], trials: int, warm: bool = False) -> list[str]:
    """Counts the records of a search; raises MissingError if any are missing or duplicate.

    Each trial has a process of its own, unless they are `warm`.
    """
    streams = Streams(AGGREGATES)
    outcomes = [streams.fold(record) for record in records]
    applied = [
        record.message
        for record, (_, outcome) in zip(records, outcomes, strict=True)
        if outcome is Outcome.APPLIED
    ]
    stream = outcomes[-1][0]
    if stream.root is None or stream.root.status is not SearchStatus.DONE:
        raise MissingError(f"the search ended as {stream.root and stream.root.status}, expected DONE")
    succeeded = sum(isinstance(m, TrialEnded) and m.status is TrialStatus.SUCCEEDED for m in applied)
    recalls = sum(
        isinstance(m, TaskRecallRequested | TaskReturned) or (isinstance(m, TaskAssigned) and m.placement > 1)
        for m in applied
    )
    first_attempts = sum(isinstance(m, AttemptEnded) and m.attempt == 1 for m in applied)
    pids = {(m.result or {}).get("pid") for m in applied if isinstance(m, AttemptEnded)}
    return [
        check_count("trials", succeeded, trials),
        check_count("first attempts finished", first_attempts, trials),
        f"{len(pids):,} warm pids" if warm else check_count("fresh pids", len(pids), trials),
        check_count("events", len(applied) - recalls, trials * EVENTS_PER_TRIAL + EVENTS_PER_SEARCH),
        f"{recalls:,} events of placements asked back",
        _ignored(records, outcomes),
    ]


def _ignored(records: Sequence[Record], outcomes: Sequence[tuple[Stream, Outcome]]) -> str:
    """Returns the counts of events without effect: duplicate answers, late proposals."""
    names = Counter(
        f"{type(record.message).__name__} {outcome.value}"
        for record, (_, outcome) in zip(records, outcomes, strict=True)
        if outcome is not Outcome.APPLIED
    )
    listed = ", ".join(f"{count} {name}" for name, count in names.items())
    return f"{names.total()} events without effect" + (f" ({listed})" if listed else "")


async def measure(
    stack: Stack, log: Log, trials: int, forks: ForkRates, append_ms: Sequence[float]
) -> Measurements:
    """Measures a search of `trials` trials."""
    previous = used_ms(stack)
    seen = await run(log, trials, 60 + trials)
    cpu_ms = spent(previous, used_ms(stack), trials)
    records = [each.record for each in seen]
    counted = count_records(records, trials)
    timelines_by_task = timelines(records)
    by_log, by_code = gaps(timelines_by_task)
    seconds = (records[-1].append_time_ms - records[0].append_time_ms) / 1000
    pids = sorted(timeline.pid for timeline in timelines_by_task.values())
    details = {
        "pids": pids,
        "hops_ms": hops(timelines_by_task),
        "cpu_ms": cpu_ms,
        "gap_ms": by_log,
        "code_gap_ms": by_code,
    }
    figures = _figures(trials / seconds, forks, (by_log, by_code), percentile(append_ms, 50))
    return Measurements(figures, counted, details)


def _figures(
    rate: float, forks: ForkRates, timelines_by_task: tuple[list[float], list[float]], append_ms: float
) -> list[Figure]:
    what = "append + read back"
    median, tail = Goal(60, 20, at_most=True), Goal(250, 60, at_most=True)
    by_log, by_code = timelines_by_task

    def gap(title: str, values: list[float], percent: float, goal: Goal) -> Figure:
        return Figure("P4", title, percentile(values, percent), "ms", append_ms, what, goal)

    return [
        Figure("P1", "no-op trials, process each", rate, "/s", forks.bare, "bare forks"),
        Figure("P1", "the same", rate, "/s", forks.tasks, "same tasks, no log", COLD_GOAL),
        gap("saturated, log, p50", by_log, 50, median),
        gap("the same, p99", by_log, 99, tail),
        gap("saturated, code, p50", by_code, 50, median),
        gap("the same, p99", by_code, 99, tail),
    ]
