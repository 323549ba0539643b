"""Metric events per second through an assessor with 100 active trials: append, read, fold, assess."""

import asyncio
from collections.abc import Iterator, Sequence

from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import (
    Assessor,
    SearchSpec,
    SearchStarted,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
    Tuner,
)
from trackside.aggregates.search.space.space import Uniform
from trackside.contracts.envelope.ids import trial_task_id
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.commands import RULES, CommandAccepted, CommandReceived, Source
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskAssigned,
    TaskSubmitted,
)
from trackside.dispatcher.advice.advisor_process import AdvisorProcess
from trackside.dispatcher.advice.assessments import AssessmentLoop
from trackside.domain.folding.streams import Streams
from trackside.eventlog.background import Background
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log, Outgoing

TOPICS = Topics("bench-verdicts.")
ENDED, LIVE, STEPS = 20, 100, 200
LIMIT_S = 120.0
OPTUNA_JOURNAL_PER_S = 523
"""Optuna's journal file with as many live trials on a machine like this one: quoted, not run here."""
_WRITERS = {role: RecordWriter(role, "bench") for role in ("dispatcher", "scheduler", "worker")}


async def measure(log: Log) -> Measurements:
    """Measures a search twice: assessed by the median rule, and only read and folded."""
    await log.ensure([TOPICS.events])
    assessed_s = await _run(log, "verdicts-judged", Assessor(name="median"))
    folded_s = await _run(log, "verdicts-folded", None)
    reports = LIVE * STEPS
    figure = Figure(
        "-", "reports through the median assessor", reports / assessed_s, "/s", reports / folded_s,
        "append, read and fold alone", Goal(OPTUNA_JOURNAL_PER_S, 5_000),
    )  # fmt: skip
    return Measurements([figure], [check_count("reports judged", reports, LIVE * STEPS)])


async def _run(log: Log, stream_id: str, assessor: Assessor | None) -> float:
    """Returns the seconds from the first append until the last report is assessed, or folded without one.

    All trials are good, but the last report is bad: its verdict can only come when all before it are judged.
    """
    partition = partition_of(stream_id, TOPICS.events.partitions)
    place = (TOPICS.events.name, partition)
    start = (await log.ends(TOPICS.events.name))[partition]
    for role, messages in _history(stream_id, assessor):
        await log.append(*place, _WRITERS[role].decision(stream_id, messages))
    requests = [[_report(stream_id, trial, step, 0.9) for trial in range(LIVE)] for step in range(STEPS)]
    requests[-1].append(_report(stream_id, LIVE, 0, 0.1))
    records = [[_WRITERS["worker"].single(stream_id, report) for report in batch] for batch in requests]
    background, advisor = Background(), AdvisorProcess("assessor")
    streams, stopped = Streams(AGGREGATES), asyncio.Event()
    assessment_loop = AssessmentLoop(advisor, background, lambda _stream, _answer: stopped.set())
    await advisor.start()
    try:
        async with asyncio.timeout(LIMIT_S):
            began = monotonic_s()
            background.spawn(_append(log, place, records))
            await _read(log, place, start, streams, assessment_loop, stream_id)
            if assessor is not None:
                await stopped.wait()
            return monotonic_s() - began
    except TimeoutError:
        raise MissingError(f"reports of {stream_id} were not judged in {LIMIT_S:g} s") from None
    finally:
        await advisor.close()
        await background.close()


async def _append(log: Log, place: tuple[str, int], requests: Sequence[list[Outgoing]]) -> None:
    for records in requests:
        await log.append(*place, records)


async def _read(
    log: Log,
    place: tuple[str, int],
    start: int,
    streams: Streams,
    assessment_loop: AssessmentLoop,
    stream_id: str,
) -> None:
    """Reads, folds and assesses until the report of the last trial is there."""
    reader = log.reader({place: start})
    last = trial_task_id(stream_id, ENDED + LIVE)
    try:
        while True:
            for entry in await reader.read(1.0):
                record = decode(entry)
                if record is not None:
                    streams.fold(record)
            stream = streams.by_id.get(stream_id)
            if stream is not None:
                assessment_loop.update(stream)
                if last in stream.tasks and stream.tasks[last].reports:
                    return
    finally:
        await reader.close()


def _history(stream_id: str, assessor: Assessor | None) -> Iterator[tuple[str, list[Message]]]:
    """Yields the start of a search, its ended trials, and the start of the active ones."""
    source = Source(topic=TOPICS.commands.name, partition=0, offset=0)
    spec = SearchSpec(
        task_type="digits",
        space={"x": Uniform(type="uniform", low=0.0, high=1.0)},
        tuner=Tuner(name="random"),
        assessor=assessor,
        max_trials=10_000,
        concurrency=ENDED + LIVE + 1,
    )
    received = CommandReceived(
        command_id="c", command_type="trackside.start-search.v1", body={}, digest="d", source=source,
        publisher="", rules=RULES,
    )  # fmt: skip
    yield "dispatcher", [received]
    started = SearchStarted(command_id="c", search=spec, seed=7)
    yield "dispatcher", [CommandAccepted(command_id="c", source=source), started]
    for trial in range(ENDED + LIVE + 1):
        task_id = trial_task_id(stream_id, trial)
        token = {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": "bench"}
        part, parameters = Part(kind="trial", number=trial), {"x": trial / 1_000}
        yield (
            "dispatcher",
            [
                TrialSuggested(trial=trial, parameters=parameters, seen=0),
                TaskSubmitted(task_id=task_id, task_type="digits", parameters=parameters, part=part),
            ],
        )
        device = {"worker_id": "bench", "device_ids": ["cpu-0"], "seen": 1}
        yield "scheduler", [TaskAssigned.model_validate(token | device)]
        yield "worker", [TaskAccepted.model_validate(token)]
        if trial < ENDED:
            reports: list[Message] = [_report(stream_id, trial - ENDED, step, 0.5) for step in range(STEPS)]
            end = {"end": AttemptEnd.FINISHED, "exit_code": 0}
            yield "worker", [*reports, AttemptEnded.model_validate(token | end)]
            yield "dispatcher", [TrialEnded(trial=trial, status=TrialStatus.SUCCEEDED, value=0.5)]


def _report(stream_id: str, live: int, step: int, value: float) -> MetricReported:
    """Returns a report of a trial; ended trials have negative numbers in `live`."""
    task_id = trial_task_id(stream_id, ENDED + live)
    return MetricReported(task_id=task_id, attempt=1, placement=1, kind="PERIODICAL", step=step, value=value)
