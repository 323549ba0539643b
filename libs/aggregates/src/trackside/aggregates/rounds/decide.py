"""What the dispatcher decides about jobs of incremental learning, whatever its reason. Pure."""

from collections.abc import Iterator

from trackside.aggregates.rounds import deletion, deploying, services, stages
from trackside.aggregates.rounds.evaluation import evaluate, next_evaluation_ms
from trackside.aggregates.rounds.messages import JobStatus, SamplesAssigned, StageState
from trackside.aggregates.rounds.others import dataset_state
from trackside.aggregates.rounds.parts import FOLDER, samples_of
from trackside.aggregates.rounds.split import added, count, share_of
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.children import ChildStopRequested
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.domain.folding.lookup import Lookup
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream


def lacking(stream: Stream[IncrementalJob], lookup: Lookup) -> Iterator[Proposal]:
    """Yields what a job lacks now: samples of its dataset, stages, deployments, services, stops."""
    job = stream.root
    if job.status is JobStatus.DELETED:
        yield from _stops(stream)
        yield from deletion.lacking(stream)
    else:
        yield from _samples(stream, lookup)
        yield from stages.lacking(stream, lookup)
        yield from deploying.lacking(stream)
    yield from services.lacking(stream, lookup)


def _samples(stream: Stream[IncrementalJob], lookup: Lookup) -> Iterator[Proposal]:
    """Yields the division of the samples of the dataset that the job has not taken in yet."""
    job = stream.root
    pool, name = job.pool, job.spec.dataset.name
    dataset = dataset_state(lookup, name)
    if dataset is None or dataset.end.lines <= pool.end or dataset.end.size <= pool.size_bytes:
        return
    begin, end, share = pool.end, dataset.end.lines, share_of(job.spec.dataset.train_prob)
    segments = added(pool.segments, begin, share)
    trained = count(segments, begin, end, "train")
    assigned = SamplesAssigned(
        begin=begin,
        end=end,
        share=share,
        carry=segments[-1].carry_at(begin),
        train=trained,
        evaluation=end - begin - trained,
        size_bytes=dataset.end.size,
        sha256=dataset.end.sha256,
        metrics=dict(dataset.metrics),
    )
    yield Proposal("assign samples", [assigned], dataset.changed_at, stream.traceparent, name)


def _stops(stream: Stream[IncrementalJob]) -> Iterator[Proposal]:
    """Yields the stops of what is open of a job that was deleted."""
    job = stream.root
    removes = job.removal is not None and not job.removal.ended
    for purpose, open_id in job.open_tasks.items():
        if purpose == FOLDER and removes:
            continue
        task, child = stream.tasks.get(open_id), stream.children.get(open_id)
        stop: Event | None = None
        if task is not None and not task.stop_reason:
            stop = TaskStopRequested(task_id=open_id, reason="user")
        elif child is not None and child.open and not child.stopping:
            stop = ChildStopRequested(child_id=open_id, reason="user")
        if stop is not None:
            yield Proposal("stop task", [stop], job.changed_at, stream.traceparent)


def next_due_ms(stream: Stream[IncrementalJob]) -> int | None:
    """Returns when the next thing follows from time alone: a trigger, another try, a time limit."""
    job = stream.root
    if job.status is JobStatus.DELETED:
        return deletion.next_due_ms(job)
    found = (next_evaluation_ms(job), deploying.next_due_ms(stream), _manifest_again_ms(job))
    return min((each for each in found if each is not None), default=None)


def _manifest_again_ms(job: IncrementalJob) -> int | None:
    """Returns when the samples of a stage are written again after a failure; None without one."""
    round_ = job.round
    if round_ is None or job.stage_state is not StageState.READY or job.stage == "deploy":
        return None
    outcome = round_.outcomes.get(samples_of(job.stage))
    return None if outcome is None or outcome.succeeded or not job.again_ms else job.again_ms


def due(stream: Stream[IncrementalJob], now_ms: int) -> Iterator[Proposal]:
    """Yields what follows from the times that are reached."""
    job = stream.root
    if job.status is JobStatus.DELETED:
        yield from deletion.due(stream, now_ms)
        return
    due_ms = next_evaluation_ms(job)
    if due_ms is not None and now_ms >= due_ms:
        events = evaluate(job, now_ms, due_ms)
        yield Proposal("evaluate trigger", events, job.changed_at, stream.traceparent)
    yield from deploying.due(stream, now_ms)
    again_ms = _manifest_again_ms(job)
    if job.round is not None and again_ms is not None and now_ms >= again_ms:
        submitted = stages.submit_manifest(job, job.round)
        yield Proposal("write samples", [submitted], job.changed_at, stream.traceparent)
