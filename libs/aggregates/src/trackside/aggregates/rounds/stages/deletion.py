"""The removal of what a deleted job has written below `config`: a task, tried again, and then given up. Pure.

Nothing but its folder is removed: outputs, the file of `copy_to`, and the bytes of its models stay.
"""

from collections.abc import Iterator

from trackside.aggregates.rounds.job.deploy_messages import ConfigRemovalEnded
from trackside.aggregates.rounds.stages.task_ids import file_task_needs, removal_task
from trackside.aggregates.rounds.state import ConfigRemoval, IncrementalJob, TaskOutcome
from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.fleet.fleet import COPY_MODEL
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.retries import backoff_ms

REMOVAL_MS = 600_000
"""How long the removal may take, all tries counted, from the first task on."""
STAYS = "config_stays"
"""Why a job that was deleted is `blocked`: its folder could not be removed."""


def lacking(stream: Stream[IncrementalJob]) -> Iterator[Proposal]:
    """Yields what the removal lacks now: its first task, once no other one writes there, or its end."""
    job, removal = stream.root, _going(stream.root)
    if removal is None or job.open_tasks:
        return
    outcome = removal.outcome
    if outcome is None:
        yield _submission(stream)
    elif outcome.succeeded or removal.tasks >= job.spec.deploy.tries:
        ended = _ended(job, removal, outcome.succeeded)
        yield Proposal("remove config", [ended], outcome.ended_at, stream.traceparent)


def next_due_ms(job: IncrementalJob) -> int | None:
    """Returns when the removal is tried again or given up; None if neither follows from time."""
    removal = _going(job)
    if removal is None or not removal.due_ms:
        return None
    again = removal.outcome is not None and not removal.outcome.succeeded and not job.open_tasks
    return min(removal.due_ms, removal.again_ms) if again else removal.due_ms


def due(stream: Stream[IncrementalJob], now_ms: int) -> Iterator[Proposal]:
    """Yields the end of a removal that took too long, or its next try."""
    job, removal = stream.root, _going(stream.root)
    if removal is None or not removal.due_ms:
        return
    if now_ms >= removal.due_ms:
        ended = _ended(job, removal, False, removal.due_ms)
        yield Proposal("time limit of removal", [ended], job.changed_at, stream.traceparent)
    elif removal.outcome is not None and not job.open_tasks and now_ms >= removal.again_ms:
        yield _submission(stream)


def _going(job: IncrementalJob) -> ConfigRemoval | None:
    return job.removal if job.removal is not None and not job.removal.ended else None


def folder_url(job: IncrementalJob) -> str:
    """Returns the URL of the folder of a job that has `config`."""
    config = job.spec.deploy.config
    assert config is not None
    return f"{config.url.rstrip('/')}/{job.job_id}"


def _submission(stream: Stream[IncrementalJob]) -> Proposal:
    """Returns the task that removes the folder of a job."""
    job = stream.root
    config = job.spec.deploy.config
    assert job.removal is not None
    assert config is not None
    task_id, part = removal_task(job)
    credential: Json = {} if config.credential is None else {"credential": config.credential}
    parameters: Json = {
        "target": "removal",
        "url": config.url,
        "job": job.job_id,
        "time_ms": job.removal.time_ms,
        **credential,
    }
    needs = file_task_needs(job.spec.train.needs.queue, config.credential)
    submitted = TaskSubmitted(
        task_id=task_id, task_type=COPY_MODEL, parameters=parameters, part=part, needs=needs
    )
    return Proposal("remove config", [submitted], job.changed_at, stream.traceparent)


def _ended(
    job: IncrementalJob, removal: ConfigRemoval, succeeded: bool, due_ms: int | None = None
) -> ConfigRemovalEnded:
    outcome, url = removal.outcome, folder_url(job)
    others = 0 if outcome is None or not succeeded else outcome.result.get("others", 0)
    message = ""
    if others:
        message = f"{others} files in it are not those of the job"
    elif not succeeded:
        known = "" if outcome is None else outcome.message
        message = known or f"no worker has removed it within {REMOVAL_MS // 60_000} minutes"
    return ConfigRemovalEnded(
        url=url,
        removed=succeeded and not others,
        tries=removal.tasks,
        due_ms=due_ms,
        message=message[:1_000],
    )


def admits(job: IncrementalJob, event: TaskSubmitted) -> bool:
    """Returns whether a task is the next one that removes the folder of a job that was deleted."""
    removal = _going(job)
    if removal is None or job.open_tasks or removal.tasks >= job.spec.deploy.tries:
        return False
    if removal.outcome is not None and removal.outcome.succeeded:
        return False
    return event.task_type == COPY_MODEL and (event.task_id, event.part) == removal_task(job)


def task_submitted(job: IncrementalJob, record: Record) -> None:
    """Takes in that a task was submitted that removes the folder."""
    removal = job.removal
    assert removal is not None
    removal.tasks, removal.outcome = removal.tasks + 1, None
    removal.due_ms = removal.due_ms or record.append_time_ms + REMOVAL_MS


def task_ended(job: IncrementalJob, outcome: TaskOutcome, record: Record) -> None:
    """Takes in how such a task has ended."""
    removal = job.removal
    assert removal is not None
    removal.outcome = outcome
    removal.again_ms = record.append_time_ms + backoff_ms(removal.tasks)


def removal_ended(job: IncrementalJob, event: ConfigRemovalEnded, record: Record) -> Outcome:
    """Folds that the folder is removed, as its task has said, or that it stays."""
    removal = job.removal
    if removal is None:
        return Outcome.OVERTAKEN
    if removal.ended:
        return Outcome.DUPLICATE
    if event.due_ms is None:
        outcome = removal.outcome
        if outcome is None or (not outcome.succeeded and removal.tasks < job.spec.deploy.tries):
            return Outcome.OVERTAKEN
        if event.removed and not outcome.succeeded:
            return Outcome.OVERTAKEN
    elif event.removed or event.due_ms != removal.due_ms or record.append_time_ms < event.due_ms:
        return Outcome.OVERTAKEN
    removal.ended = True
    if not event.removed:
        job.blocked = STAYS
        job.blocked_message = f"{event.url} stays: {event.message}"
    return Outcome.APPLIED
