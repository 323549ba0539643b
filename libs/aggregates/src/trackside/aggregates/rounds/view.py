"""What people see of an incremental job: the stage it is in, its samples, its rounds, what is live."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from trackside.aggregates.rounds.display.round_display import (
    DIGEST_WIDTH,
    deployment_table,
    facts,
    result_of,
    round_table,
    service_problems,
    service_table,
    trigger_line,
)
from trackside.aggregates.rounds.display.trigger_display import trigger_rows
from trackside.aggregates.rounds.job.split import count
from trackside.aggregates.rounds.listing import IncrementalJobListing
from trackside.aggregates.rounds.messages import JobStatus, StageState
from trackside.aggregates.rounds.state import IncrementalJob, ServiceState
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.report import ReportSection
from trackside.domain.display.selection import SortKey
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import Column, TextTable, counted, duration
from trackside.domain.display.view import Page, Progress, QueriedRows, StreamEnd, View
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream

ROUNDS, SERVICES, DEPLOYMENTS = "rounds", "inference_services", "deployments"
METRICS, CONDITIONS = "round_metrics", "job_conditions"
SHOWN_DEPLOYMENTS = 10


class IncrementalJobView(IncrementalJobListing, View[IncrementalJob]):
    """What people see of an incremental job."""

    queries: ClassVar[Mapping[str, str]] = {
        ROUNDS: "SELECT * FROM rounds WHERE job_id = $1 ORDER BY round",
        SERVICES: "SELECT * FROM inference_services WHERE job_id = $1 AND state <> 'stopped' ORDER BY target",
        DEPLOYMENTS: "SELECT * FROM deployments WHERE job_id = $1 ORDER BY update_number",
        METRICS: "SELECT * FROM round_metrics WHERE job_id = $1 ORDER BY metric, round",
        CONDITIONS: "SELECT * FROM job_conditions WHERE job_id = $1",
    }
    page_queries = (ROUNDS, SERVICES, DEPLOYMENTS)
    report_queries = (ROUNDS, SERVICES, DEPLOYMENTS)
    list_query = ROUNDS
    statuses = ("running", "completed", "failed")
    parts: ClassVar[Mapping[str, str]] = {"services": "serve"}
    state_names = ("stage", "stage_state", "round", "blocked", "live", "last_trained")

    def sort_keys(self, row: ViewRow) -> Mapping[str, SortKey]:
        """Returns what its rounds may be sorted by."""
        return {
            "round": SortKey(lambda each: each["round"], descending=True),
            "result": SortKey(result_of),
            "duration": SortKey(lambda each: each["duration_s"], descending=True),
        }

    def status_of(self, row: ViewRow) -> str:
        """Returns the state of a round."""
        return str(row["status"])

    def facts(self, row: ViewRow, rows: QueriedRows) -> Sequence[tuple[str, object]]:
        """Returns where it is and why it waits."""
        return [*facts(row), *service_problems(rows[SERVICES])]

    def tables(self, row: ViewRow, rows: QueriedRows) -> Sequence[TextTable]:
        """Returns its rounds, services and newest deployments."""
        tables = [round_table(rows[ROUNDS])] if rows[ROUNDS] else []
        tables += [service_table(rows[SERVICES])] if rows[SERVICES] else []
        newest = rows[DEPLOYMENTS][-SHOWN_DEPLOYMENTS:]
        return [*tables, deployment_table(newest)] if newest else tables

    def lists(self, row: ViewRow, rows: QueriedRows) -> dict[str, Sequence[ViewRow]]:
        """Returns its rounds, services and deployments."""
        return {ROUNDS: rows[ROUNDS], SERVICES: rows[SERVICES], DEPLOYMENTS: rows[DEPLOYMENTS]}

    def report_page(self, row: ViewRow, rows: QueriedRows) -> Page:
        """Returns what its page has, with all deployments."""
        tables = self.tables(row, {**rows, DEPLOYMENTS: ()})
        every = [deployment_table(rows[DEPLOYMENTS])] if rows[DEPLOYMENTS] else []
        return Page(self.facts(row, rows), [*tables, *every])

    def sections(self, row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
        """Returns no sections: its rounds say what its tasks have found."""
        return []

    def progress(self, stream: Stream[IncrementalJob]) -> Progress:
        """Returns how many rounds have ended, the stage that it is in, and what that waits for."""
        job = stream.root
        going = f", round {job.round.number}" if job.round is not None else ""
        return Progress(
            status=job.status.value,
            started_ms=job.created_ms,
            ended_ms=job.clock_ms if job.over else 0,
            ended=job.ended_rounds,
            total=None,
            unit=ROUNDS,
            detail=f"{going}: {job.stage} {job.stage_state.value}",
            lines=_progress_lines(job),
            rows=[_service_row(target, service) for target, service in _serving(job)],
            waits=job.status is JobStatus.PAUSED or job.stage_state is StageState.WAITING,
        )

    def end(self, stream: Stream[IncrementalJob], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns how many rounds it had: it ends when it is deleted."""
        job, found = stream.root, self.progress(stream)
        summary = {
            self.id_column: stream.stream_id,
            "status": found.status,
            ROUNDS: job.ended_rounds,
            "live": _name(job),
            "duration_s": found.duration_s,
        }
        rounds = counted(job.ended_rounds, "round")
        line = f"{stream.stream_id} {found.status}: {rounds} in {duration(found.duration_s)}"
        return StreamEnd(summary, [f"{line}, {_name(job)} was live"])

    def state(self, stream: Stream[IncrementalJob]) -> Fields:
        """Returns its state without its services."""
        job, pool, last = stream.root, stream.root.pool, stream.root.last_trained
        held = 0 if job.round is None else count(job.round.segments, *job.round.train, "train")
        return {
            "name": job.spec.name,
            "status": job.status.value,
            "stage": job.stage,
            "stage_state": job.stage_state.value,
            "round": job.rounds,
            "ended_rounds": job.ended_rounds,
            "blocked": job.blocked_message or job.blocked or None,
            "samples": pool.end - job.spec.dataset.begin,
            "waiting_samples": pool.training,
            "round_samples": held,
            "evaluation_ranges": [list(version) for version in pool.versions],
            "triggers": [trigger_line(each) for each in trigger_rows(job)],
            "waits_for_approval": job.round is not None and job.round.waits_for_approval,
            "live": _name(job),
            "live_sha256": job.live.artifact.sha256,
            "last_trained": None if last is None else f"{last.model}@{last.version}",
            "update_open": [] if job.update is None else list(job.update.open),
            "hard_examples": job.hard_examples,
            "started_ms": job.created_ms,
            "ended_ms": job.clock_ms if job.over else None,
        }

    def state_lines(self, state: Fields) -> list[str]:
        """Returns its fields as a line, its samples, and its triggers."""
        samples = (
            f"samples={state['samples']:,}  waiting={state['waiting_samples']:,}  "
            f"in the round={state['round_samples']:,}"
        )
        return [*super().state_lines(state), samples, *(f"trigger {line}" for line in state["triggers"])]

    def state_of_parts(self, stream: Stream[IncrementalJob]) -> dict[str, dict[Any, Fields]]:
        """Returns its services by their targets."""
        found: dict[Any, Fields] = {
            target: {
                "running": service.running,
                "update": service.serves,
                "sha256": service.sha256,
                "inferences": service.counts.inferences,
                "hard_examples": service.counts.hard,
            }
            for target, service in stream.root.services.items()
        }
        return {"services": found}

    def state_tables(
        self, parts: Mapping[str, Mapping[Any, Fields]], tasks: Mapping[str, Fields]
    ) -> list[TextTable]:
        """Returns the tables of its services and of the tasks that it keeps."""
        columns = [
            Column("service", keep=True),
            Column("runs"),
            Column("update", right=True),
            Column("digest"),
        ]
        columns += [Column("inferences", right=True), Column("hard", right=True)]
        rows = [
            [target, each["running"], each["update"], each["sha256"][:DIGEST_WIDTH], *_counts(each)]
            for target, each in parts["services"].items()
        ]
        return [*([TextTable(columns, rows)] if rows else []), *super().state_tables(parts, tasks)]


def _counts(service: Fields) -> tuple[int, int]:
    return service["inferences"], service["hard_examples"]


def _name(job: IncrementalJob) -> str:
    return f"{job.live.model}@{job.live.version}"


def _progress_lines(job: IncrementalJob) -> list[str]:
    """Returns what a job waits for, and what is live."""
    lines = []
    if job.round is not None and job.round.waits_for_approval:
        lines.append(f"the deployment waits: trackside approve {job.job_id}")
    if job.blocked:
        lines.append(f"blocked: {job.blocked_message or job.blocked}")
    lines += [f"trigger {trigger_line(each)}" for each in trigger_rows(job) if each["seen"]]
    if job.update is not None:
        waits = ", ".join(job.update.open)
        lines.append(f"update to version {job.update.model.version}: waits for {waits}")
    return [*lines, f"live: {_name(job)}"]


def _serving(job: IncrementalJob) -> list[tuple[str, ServiceState]]:
    return [(target, service) for target, service in job.services.items() if service.running]


def _service_row(target: str, service: ServiceState) -> list[str]:
    counts = f"{service.counts.inferences:,} inferences", f"{service.counts.hard:,} hard"
    return [target, service.sha256[:DIGEST_WIDTH], *counts]


VIEW = IncrementalJobView()
