"""Rows of the deployments of a job, of its triggers, and of the hard examples of its services."""

from collections.abc import Iterable

from trackside.aggregates.rounds import messages
from trackside.aggregates.rounds.display.record_cells import Cells, rows_of
from trackside.aggregates.rounds.job import deploy_messages as deploying
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.contracts.envelope.message import Event, Record
from trackside.domain.rows.cells import bigint, json_text, without_nul
from trackside.domain.rows.table import RowValues, Table
from trackside.domain.streams.stream import Stream


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
        return rows_of(self, stream, record)

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
        return rows_of(self, stream, record)

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
        return rows_of(self, stream, record)

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
