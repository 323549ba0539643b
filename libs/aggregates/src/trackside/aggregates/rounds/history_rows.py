"""Rows that single events of a job add or complete: its state keeps only the round that goes on.

An event gives the cells that it knows; the others stay as they are. So there is a row for each round, stage
and deployment that a job has ever had, and what the job keeps of them stays small.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from trackside.aggregates.rounds import deploy_messages as deploying
from trackside.aggregates.rounds import messages
from trackside.aggregates.rounds.job_spec import StageName
from trackside.aggregates.rounds.messages import StageState
from trackside.aggregates.rounds.split import count
from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.contracts.message import Event, Record
from trackside.domain.cells import bigint, json_text, without_nul
from trackside.domain.stream import Stream
from trackside.domain.table import RowValues, Table

Cells = dict[str, Any]
FOLLOWING: dict[StageName, StageName] = {"train": "eval", "eval": "deploy"}


class _HasCells(Protocol):
    table: Table

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]: ...


def _rows(projection: _HasCells, stream: Stream, record: Record) -> Iterable[RowValues]:
    job = job_of(stream)
    if job is None:
        return ()
    columns = projection.table.columns
    return [
        tuple({"job_id": job.job_id, **cells}.get(name) for name in columns)
        for cells in projection.cells(job, record)
    ]


class DefinitionRows:
    """One row per definition that a job has had."""

    table = Table(
        "job_definitions",
        ("job_id", "change", "command_id", "spec", "defined_ms"),
        key_width=2,
        insert_only=True,
    )
    kinds: frozenset[type[Event]] = frozenset(
        {messages.IncrementalJobCreated, messages.IncrementalJobUpdated}
    )

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the row of the definition that an event gives."""
        return _rows(self, stream, record)

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]:
        """Yields the cells of the definition."""
        event = record.message
        if isinstance(event, messages.IncrementalJobCreated | messages.IncrementalJobUpdated):
            change = event.change if isinstance(event, messages.IncrementalJobUpdated) else 0
            spec = json_text(event.job.model_dump(mode="json", exclude_defaults=True))
            yield {
                "change": change,
                "command_id": event.command_id,
                "spec": spec,
                "defined_ms": record.append_time_ms,
            }


class RoundRows:
    """One row per round: its samples and models, both models' metrics, the decision, its end."""

    table = Table(
        "rounds",
        (
            *("job_id", "round", "status", "stage", "train_samples", "eval_samples"),
            *("base_model", "base_version", "version", "sha256", "trained", "deployed_metrics", "deltas"),
            *("deploy", "decision_reason", "conditions", "asks", "approval", "actor"),
            *("deployed", "reason", "fired_ms", "started_ms", "decided_ms", "ended_ms"),
        ),
        key_width=2,
        keeps_first=frozenset(
            {
                *("train_samples", "eval_samples", "base_model", "base_version", "version", "sha256"),
                *("trained", "deployed_metrics", "deltas", "deploy", "decision_reason", "conditions"),
                *(
                    "asks",
                    "approval",
                    "actor",
                    "deployed",
                    "reason",
                    "fired_ms",
                    "started_ms",
                    "decided_ms",
                    "ended_ms",
                ),
            }
        ),
    )
    kinds: frozenset[type[Event]] = frozenset(
        {
            *(messages.TriggerEvaluated, messages.SampleManifestWritten, messages.RoundStarted),
            *(messages.StageEnded, messages.RoundEnded, deploying.DeployDecided),
            *(deploying.DeployApproved, deploying.DeployRejected),
        }
    )

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the row of the round that an event is about, with what the event says of it."""
        return _rows(self, stream, record)

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]:
        """Yields the cells of the round."""
        event, at_ms = record.message, record.append_time_ms
        going: Cells = {"status": "running", "stage": job.stage}
        match event:
            case messages.TriggerEvaluated(fired=True, stage="train"):
                yield going | {"round": event.round, "stage": "train", "fired_ms": at_ms}
            case messages.SampleManifestWritten(stage="train"):
                yield going | {"round": event.round, "train_samples": bigint(event.lines)}
            case messages.SampleManifestWritten(stage="eval"):
                yield going | {"round": event.round, "eval_samples": bigint(event.lines)}
            case messages.RoundStarted():
                base = {"base_model": event.base.model, "base_version": event.base.version}
                yield going | {"round": event.number, "started_ms": at_ms, **base}
            case messages.StageEnded():
                yield going | {"round": event.round, **_stage_cells(event)}
            case deploying.DeployDecided():
                yield going | {"round": event.round, "decided_ms": at_ms, **_decision_cells(event)}
            case deploying.DeployApproved():
                said = {"approval": "approved", "actor": without_nul(event.actor)}
                yield going | {"round": event.round, **said}
            case deploying.DeployRejected():
                by = "rejected" if event.due_ms is None else "expired"
                said = {"approval": by, "actor": without_nul(event.actor)}
                yield going | {"round": event.round, "reason": without_nul(event.reason) or None, **said}
            case messages.RoundEnded():
                yield {
                    "round": event.number,
                    "status": event.status,
                    "stage": event.stage,
                    "deployed": event.deployed,
                    "reason": without_nul(event.reason),
                    "ended_ms": at_ms,
                }


def _stage_cells(event: messages.StageEnded) -> Cells:
    cells: Cells = {}
    if event.model is not None:
        cells |= {"version": event.model.version, "sha256": event.model.artifact.sha256}
    if event.metrics:
        cells |= {
            "trained": json_text(event.metrics.get("trained")),
            "deployed_metrics": json_text(event.metrics.get("deployed")),
        }
    return cells


def _decision_cells(event: deploying.DeployDecided) -> Cells:
    return {
        "deploy": event.deploy,
        "asks": event.approval,
        "decision_reason": without_nul(event.reason),
        "trained": json_text(event.trained) if event.trained else None,
        "deployed_metrics": json_text(event.deployed) if event.deployed else None,
        "deltas": json_text(event.deltas),
        "conditions": json_text(event.conditions),
    }


class StageRows:
    """One row per stage of a round, with the times of its states that no event of a task says."""

    table = Table(
        "stages",
        (
            *("job_id", "round", "stage", "waiting_ms", "ready_ms", "starting_ms", "running_ms", "ended_ms"),
            *("status", "reason", "message", "manifest_url", "manifest_sha256", "manifest_bytes", "lines"),
            *("command_id", "blocked", "blocked_message"),
        ),
        key_width=3,
        keeps_first=frozenset(
            {
                *("waiting_ms", "ready_ms", "starting_ms", "running_ms", "ended_ms", "status", "reason"),
                *("message", "manifest_url", "manifest_sha256", "manifest_bytes", "lines", "command_id"),
            }
        ),
    )
    kinds: frozenset[type[Event]] = frozenset(
        {
            *(messages.IncrementalJobCreated, messages.TriggerEvaluated, messages.SampleManifestWritten),
            *(messages.StageBlocked, messages.StageEnded, messages.RoundEnded),
            *(deploying.ModelUpdatePublished, deploying.ModelCopied, deploying.ModelUpdateConfirmed),
        }
    )

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the rows of the stages that an event begins, changes or ends."""
        return _rows(self, stream, record)

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]:
        """Yields the cells of the stages."""
        for found in _changed_stages(job, record):
            yield {"blocked": "", "blocked_message": "", **found}


def _changed_stages(job: IncrementalJob, record: Record) -> Iterable[Cells]:
    event, at_ms = record.message, record.append_time_ms
    match event:
        case messages.IncrementalJobCreated():
            yield {"round": 1, "stage": "train", "waiting_ms": at_ms}
        case messages.TriggerEvaluated(fired=True):
            by = without_nul(event.command_id) or None
            yield {"round": event.round, "stage": event.stage, "ready_ms": at_ms, "command_id": by}
        case messages.SampleManifestWritten():
            yield {
                "round": event.round,
                "stage": event.stage,
                "manifest_url": without_nul(event.url),
                "manifest_sha256": without_nul(event.sha256),
                "manifest_bytes": bigint(event.size_bytes),
                "lines": bigint(event.lines),
            }
        case messages.StageBlocked():
            said = {"blocked": without_nul(event.reason), "blocked_message": without_nul(event.message)}
            yield {"round": event.round, "stage": event.stage, **said}
        case messages.StageEnded():
            yield {
                "round": event.round,
                "stage": event.stage,
                "ended_ms": at_ms,
                "status": event.status.value,
                "reason": without_nul(event.reason),
                "message": without_nul(event.message),
            }
            following = FOLLOWING.get(event.stage)
            if following is not None and event.status is StageState.COMPLETED:
                yield {"round": event.round, "stage": following, "waiting_ms": at_ms}
        case messages.RoundEnded():
            yield {"round": event.number + 1, "stage": "train", "waiting_ms": at_ms}
        case deploying.ModelUpdatePublished(cause="round") if event.round is not None:
            yield {"round": event.round, "stage": "deploy", "starting_ms": at_ms}
        case deploying.ModelCopied() | deploying.ModelUpdateConfirmed():
            update = job.update
            if job.round is not None and update is not None and update.cause == "round":
                yield {"round": job.round.number, "stage": "deploy", "running_ms": at_ms}


class SampleRangeRows:
    """One row per range of samples that a round has: of its training, and each version to evaluate with."""

    table = Table(
        "sample_ranges",
        ("job_id", "round", "use", "number", "begin_sample", "end_sample", "samples"),
        key_width=4,
        insert_only=True,
    )
    kinds: frozenset[type[Event]] = frozenset({messages.RoundStarted})

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the rows of the ranges of a round."""
        return _rows(self, stream, record)

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]:
        """Yields the cells of the ranges."""
        event, segments = record.message, job.pool.segments
        if not isinstance(event, messages.RoundStarted):
            return
        for use, ranges in (("train", [event.train]), ("eval", event.evaluation)):
            for number, (begin, end) in enumerate(ranges, 1):
                samples = count(segments, begin, end, "train" if use == "train" else "eval")
                place: Cells = {"round": event.number, "use": use, "number": number}
                yield place | {"begin_sample": begin, "end_sample": end, "samples": samples}


class TriggerRows:
    """One row per evaluation of a trigger that was written."""

    table = Table(
        "trigger_evaluations",
        (
            *("job_id", "evaluation", "round", "stage", "result", "fired", "seen", "command_id"),
            "evaluated_ms",
        ),
        key_width=2,
        insert_only=True,
    )
    kinds: frozenset[type[Event]] = frozenset({messages.TriggerEvaluated})

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the row of the evaluation."""
        return _rows(self, stream, record)

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]:
        """Yields the cells of the evaluation."""
        event = record.message
        if isinstance(event, messages.TriggerEvaluated):
            yield {
                "evaluation": event.evaluation,
                "round": event.round,
                "stage": event.stage,
                "result": event.result,
                "fired": event.fired,
                "seen": json_text(event.values),
                "command_id": without_nul(event.command_id),
                "evaluated_ms": event.evaluated_ms,
            }


class DeploymentRows:
    """One row per update of what is live, with the targets that have not confirmed it."""

    table = Table(
        "deployments",
        (
            *("job_id", "update_number", "status", "open", "message", "cause", "round", "model", "version"),
            *("sha256", "targets", "published_ms", "deployed_ms"),
        ),
        key_width=2,
        keeps_first=frozenset(
            {
                *("cause", "round", "model", "version", "sha256", "targets", "published_ms", "deployed_ms"),
            }
        ),
    )
    kinds: frozenset[type[Event]] = frozenset(
        {
            *(deploying.ModelUpdatePublished, deploying.ModelCopied, deploying.ModelUpdateConfirmed),
            *(deploying.ModelUpdateFailed, deploying.ModelUpdateTimedOut, deploying.ModelDeployed),
        }
    )

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the row of the update, with what an event says of it."""
        return _rows(self, stream, record)

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]:
        """Yields the cells of the update."""
        event, at_ms = record.message, record.append_time_ms
        update = job.update
        left = [] if update is None else list(update.open)
        cells: Cells = {"status": "updating", "open": json_text(left), "message": ""}
        match event:
            case deploying.ModelUpdatePublished():
                yield cells | {
                    "update_number": event.update,
                    "cause": event.cause,
                    "round": event.round,
                    "model": event.model.model,
                    "version": event.model.version,
                    "sha256": event.model.artifact.sha256,
                    "targets": json_text(event.targets),
                    "open": json_text(event.targets),
                    "published_ms": at_ms,
                }
            case deploying.ModelCopied() | deploying.ModelUpdateConfirmed():
                if update is not None and update.number == event.update:
                    yield cells | {"update_number": event.update}
            case deploying.ModelUpdateFailed():
                if update is not None and update.number == event.update:
                    said = {"status": "failing", "message": without_nul(f"{event.target}: {event.message}")}
                    yield cells | {"update_number": event.update, **said}
            case deploying.ModelUpdateTimedOut():
                late = f"not confirmed in time: {', '.join(event.targets)}"
                yield cells | {"update_number": event.update, "status": "timed_out", "message": late}
            case deploying.ModelDeployed():
                done = {"status": "deployed", "open": json_text([]), "deployed_ms": at_ms}
                yield cells | {"update_number": event.update, **done}


class HardExampleRows:
    """One row per window of counts that a service has reported."""

    table = Table(
        "hard_examples",
        (
            *("job_id", "service", "window_number", "round", "inferences", "hard_examples", "uri", "sha256"),
            "reported_ms",
        ),
        key_width=3,
        insert_only=True,
    )
    kinds: frozenset[type[Event]] = frozenset({deploying.HardExamplesReported})

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the row of the window."""
        return _rows(self, stream, record)

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]:
        """Yields the cells of the window; its round is the newest that has begun."""
        event = record.message
        if isinstance(event, deploying.HardExamplesReported):
            artifact = event.artifact
            yield {
                "service": event.service,
                "window_number": event.window,
                "round": job.rounds,
                "inferences": bigint(event.inferences),
                "hard_examples": bigint(event.hard),
                "uri": None if artifact is None else without_nul(artifact.uri),
                "sha256": None if artifact is None else artifact.sha256,
                "reported_ms": record.append_time_ms,
            }
