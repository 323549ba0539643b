"""P1 and P4: a search whose tasks do nothing, through all services, by the log and by the tasks' clock."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bench.answers import publish, search
from bench.figures import Figure, Findings, Goal, MissingError, equal, percentile
from bench.forks import Forks
from bench.place import SLOTS, TASK_TYPE, TOPICS
from bench.processor import spent, used_ms
from bench.watching import Seen, watched
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.ids import new_id
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchEnded, SearchStatus, TrialEnded, TrialStatus, TrialSuggested
from trackside.contracts.tasks import (
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskRecallRequested,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
    TaskSubmitted,
)
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

EVENTS_PER_TRIAL = 10
"""TrialSuggested, TaskSubmitted, TaskAssigned, TaskAccepted, 4 statuses, AttemptEnded, TrialEnded."""
EVENTS_PER_SEARCH = 4
"""CommandReceived, CommandAccepted, SearchStarted, SearchEnded."""
RAY_TRIALS_PER_S = 1.2
"""Ray Tune with a function trainable, two at a time, on a machine like this one: quoted, not run here."""
WARM_UP = 100
HOPS = ("ended", "trial_ended", "suggested", "assigned", "accepted", "available")


@dataclass(slots=True)
class Course:
    """What became of one task: the time of each step, ms since 1970 by the log's clock, and what it said."""

    device: str = ""
    at_ms: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    follows: int = -1
    pid: int = -1
    began_s: float = 0.0
    ended_s: float = 0.0


def courses(records: Sequence[Record]) -> dict[str, Course]:
    """Gives the course of every task of one search."""
    found: dict[str, Course] = defaultdict(Course)
    suggested: TrialSuggested | None = None
    for record in records:
        match record.message:
            case TrialSuggested() as message:
                suggested = message
            case TaskSubmitted(task_id=task_id):
                _note(found[task_id], "suggested", record)
                found[task_id].follows = suggested.seen if suggested else -1
            case TaskAssigned(task_id=task_id, device_ids=[device_id, *_]):
                _note(found[task_id], "assigned", record)
                found[task_id].device = device_id
            case TaskAccepted(task_id=task_id):
                _note(found[task_id], "accepted", record)
            case TaskStatusChanged(task_id=task_id, status=TaskStatus.AVAILABLE):
                _note(found[task_id], "available", record)
            case TaskStatusChanged(task_id=task_id, status=TaskStatus.TRAINING):
                _note(found[task_id], "training", record)
            case AttemptEnded(task_id=task_id) as ended:
                _note(found[task_id], "ended", record)
                said = ended.result or {}
                course = found[task_id]
                course.pid, course.began_s, course.ended_s = said["pid"], said["began_s"], said["ended_s"]
            case TrialEnded(trial=trial):
                _note(found[f"{record.envelope.stream}.{trial}"], "trial_ended", record)
    return dict(found)


def _note(course: Course, step: str, record: Record) -> None:
    course.at_ms.setdefault(step, record.append_time_ms)
    course.offsets.setdefault(step, record.offset)


def gaps(found: Mapping[str, Course]) -> tuple[list[float], list[float]]:
    """Gives, for all tasks but each slot's first, ms from the end before it in its slot to its start.

    First by the log, from AttemptEnded to the status AVAILABLE; then by the tasks' own clock, from the last
    line of one task's code to the first of the next's.
    """
    slots: dict[str, list[Course]] = defaultdict(list)
    for course in found.values():
        slots[course.device].append(course)
    by_log, by_code = [], []
    for slot in slots.values():
        slot.sort(key=lambda course: course.offsets["assigned"])
        for before, after in pairwise(slot):
            by_log.append(float(after.at_ms["available"] - before.at_ms["ended"]))
            by_code.append((after.began_s - before.ended_s) * 1000)
    return by_log, by_code


def hops(found: Mapping[str, Course]) -> dict[str, float]:
    """Gives the medians of the hops from a task's end to the start that it made room for, in ms."""
    ended = {course.offsets["trial_ended"]: course for course in found.values()}
    times: dict[str, list[float]] = defaultdict(list)
    for course in found.values():
        before = ended.get(course.follows)
        if before is None:
            continue
        at_ms = [before.at_ms["ended"], before.at_ms["trial_ended"], *(course.at_ms[hop] for hop in HOPS[2:])]
        for (first, second), (start, end) in zip(pairwise(HOPS), pairwise(at_ms), strict=True):
            times[f"{first} -> {second}"].append(float(end - start))
    for course in found.values():
        times["available -> training"].append(float(course.at_ms["training"] - course.at_ms["available"]))
        times["training -> ended"].append(float(course.at_ms["ended"] - course.at_ms["training"]))
    return {hop: percentile(values, 50) for hop, values in times.items()}


async def warm_up(log: Log) -> None:
    """Runs trials that nobody counts: the broker's JVM takes twice as long for the first hundred."""
    await run(log, WARM_UP, 120)


async def run(
    log: Log, trials: int, limit_s: float, concurrency: int = SLOTS, task_type: str = TASK_TYPE
) -> list[Seen]:
    """Runs a search to its end and gives all of its records."""
    stream_id = f"noop-{trials}-{new_id()[:6]}"
    async with watched(log, TOPICS.events) as watch:
        await publish(log, search(trials, concurrency, task_type), stream_id, new_id())
        try:
            await watch.until(lambda record: _is_end(record, stream_id), limit_s)
        except TimeoutError as error:
            ended = sum(isinstance(seen.record.message, TrialEnded) for seen in watch.seen)
            raise MissingError(f"{ended} of {trials} trials ended within {limit_s:g} s") from error
        return [seen for seen in watch.seen if seen.record.envelope.stream == stream_id]


def _is_end(record: Record, stream_id: str) -> bool:
    return isinstance(record.message, SearchEnded) and record.envelope.stream == stream_id


def checked(records: Sequence[Record], trials: int, warm: bool = False) -> list[str]:
    """Counts what a search must have left; raises MissingError for anything missing or double.

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
    good = sum(isinstance(m, TrialEnded) and m.status is TrialStatus.SUCCEEDED for m in applied)
    moved = sum(
        isinstance(m, TaskRecallRequested | TaskReturned) or (isinstance(m, TaskAssigned) and m.placement > 1)
        for m in applied
    )
    once = sum(isinstance(m, AttemptEnded) and m.attempt == 1 for m in applied)
    pids = {(m.result or {}).get("pid") for m in applied if isinstance(m, AttemptEnded)}
    return [
        equal("trials", good, trials),
        equal("first attempts finished", once, trials),
        f"{len(pids):,} warm pids" if warm else equal("fresh pids", len(pids), trials),
        equal("events", len(applied) - moved, trials * EVENTS_PER_TRIAL + EVENTS_PER_SEARCH),
        f"{moved:,} events of placements asked back",
        _ignored(records, outcomes),
    ]


def _ignored(records: Sequence[Record], outcomes: Sequence[tuple[Stream, Outcome]]) -> str:
    """Says what had no effect: an answer given twice, a proposal that came too late."""
    names = Counter(
        f"{type(record.message).__name__} {outcome.value}"
        for record, (_, outcome) in zip(records, outcomes, strict=True)
        if outcome is not Outcome.APPLIED
    )
    listed = ", ".join(f"{count} {name}" for name, count in names.items())
    return f"{names.total()} events without effect" + (f" ({listed})" if listed else "")


async def measured(stack: Stack, log: Log, trials: int, forks: Forks, append_ms: Sequence[float]) -> Findings:
    """Measures a search of that many trials."""
    before = used_ms(stack)
    seen = await run(log, trials, 60 + trials)
    cpu_ms = spent(before, used_ms(stack), trials)
    records = [each.record for each in seen]
    counted = checked(records, trials)
    found = courses(records)
    by_log, by_code = gaps(found)
    seconds = (records[-1].append_time_ms - records[0].append_time_ms) / 1000
    pids = sorted(course.pid for course in found.values())
    details = {
        "pids": pids,
        "hops_ms": hops(found),
        "cpu_ms": cpu_ms,
        "gap_ms": by_log,
        "code_gap_ms": by_code,
    }
    figures = _figures(trials / seconds, forks, (by_log, by_code), percentile(append_ms, 50))
    return Findings(figures, counted, details)


def _figures(
    rate: float, forks: Forks, found: tuple[list[float], list[float]], append_ms: float
) -> list[Figure]:
    what = "append + read back"
    median, tail = Goal(60, 20, at_most=True), Goal(250, 60, at_most=True)
    by_log, by_code = found
    ray = Goal(10 * RAY_TRIALS_PER_S, 40 * RAY_TRIALS_PER_S)

    def gap(title: str, values: list[float], percent: float, goal: Goal) -> Figure:
        return Figure("P4", title, percentile(values, percent), "ms", append_ms, what, goal)

    return [
        Figure("P1", "no-op trials, process each", rate, "/s", forks.bare, "bare forks", ray),
        Figure("P1", "the same", rate, "/s", forks.tasks, "same tasks, no log", ray),
        gap("saturated, log, p50", by_log, 50, median),
        gap("the same, p99", by_log, 99, tail),
        gap("saturated, code, p50", by_code, 50, median),
        gap("the same, p99", by_code, 99, tail),
    ]
