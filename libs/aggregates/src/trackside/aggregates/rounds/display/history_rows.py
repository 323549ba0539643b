"""Rows of the definitions, rounds, stages and samples that a job has had, each completed by its events."""

from collections.abc import Iterable

from trackside.aggregates.rounds import messages
from trackside.aggregates.rounds.display.record_cells import Cells, rows_of
from trackside.aggregates.rounds.job import deploy_messages as deploying
from trackside.aggregates.rounds.job.job_spec import StageName
from trackside.aggregates.rounds.job.split import Use, count
from trackside.aggregates.rounds.messages import StageState
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.contracts.envelope.message import Event, Record
from trackside.domain.rows.cells import bigint, json_text, without_nul
from trackside.domain.rows.table import RowValues, Table
from trackside.domain.streams.stream import Stream

FOLLOWING: dict[StageName, StageName] = {"train": "eval", "eval": "deploy"}


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
        return rows_of(self, stream, record)

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
        return rows_of(self, stream, record)

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
            *(deploying.DeployDecided, deploying.DeployApproved, deploying.ModelUpdatePublished),
            *(deploying.ModelCopied, deploying.ModelUpdateConfirmed),
        }
    )

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the rows of the stages that an event begins, changes or ends."""
        return rows_of(self, stream, record)

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
        case deploying.DeployDecided(deploy=True, approval=False) | deploying.DeployApproved():
            by = without_nul(event.command_id) or None
            yield {"round": event.round, "stage": "deploy", "ready_ms": at_ms, "command_id": by}
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
    )
    kinds: frozenset[type[Event]] = frozenset({*(messages.RoundStarted, messages.TriggerEvaluated)})

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the rows of the ranges of a round."""
        return rows_of(self, stream, record)

    def cells(self, job: IncrementalJob, record: Record) -> Iterable[Cells]:
        """Yields the cells of the ranges."""
        event, going = record.message, job.round
        begins = isinstance(event, messages.RoundStarted)
        evaluates = isinstance(event, messages.TriggerEvaluated) and event.fired and event.stage == "eval"
        if going is None or not (begins or evaluates):
            return
        uses: dict[Use, list[messages.Range]] = {"train": [going.train], "eval": going.evaluation}
        for use, ranges in uses.items():
            for number, (begin, end) in enumerate(ranges, 1):
                samples = count(going.segments, begin, end, use)
                place: Cells = {"round": going.number, "use": use, "number": number}
                yield place | {"begin_sample": begin, "end_sample": end, "samples": samples}
