"""The board of incremental jobs: their stages, rounds, metrics, samples, deployments and services."""

from boards import annotations, links
from boards.board import Board, Place, Section, Variable
from boards.panels import Panel, graph, number
from boards.queries import curves, latest, promql, rows
from boards.selected import JOB, JOB_BOX
from boards.style import BLUE, COUNT, GREEN, SHARE, series
from boards.tables import Column, table
from boards.work_panels import count_of_faults


def board() -> Board:
    """Returns the board."""
    return Board(
        uid=links.ROUNDS,
        description="Incremental jobs: rounds of training, evaluation and deployment.",
        sections=[
            Section("Jobs", [Place(_jobs(), 24, 7)]),
            Section(
                "The job", [Place(_metrics(), 14, 9), Place(_deployments(), 10, 9), Place(_rounds(), 24, 8)]
            ),
            Section("Stages and services", [Place(_stages(), 14, 8), Place(_services(), 10, 8)]),
            Section("Samples", [Place(panel, 8, 8) for panel in _samples()]),
            Section("All jobs, as the dispatcher has them", [Place(panel, 8, 7) for panel in _gauges()]),
        ],
        variables=[
            JOB_BOX,
            Variable(
                "metric",
                "Metric",
                f"SELECT DISTINCT metric FROM round_metrics WHERE job_id = {JOB} ORDER BY 1 LIMIT 200",
            ),
        ],
        annotations=[annotations.deployments(JOB), annotations.changes(JOB), annotations.restarts()],
        span="now-7d",
    )


def _jobs() -> Panel:
    return table(
        "Incremental jobs",
        "Newest first. A blocked stage says what it waits for.",
        rows(
            """SELECT job_id, name, status, round, failed_rounds, stage, stage_state, blocked_message,
            waiting_samples,
            live_model, live_version, waits_for_approval, started_at, last_round_at FROM incremental_jobs
            ORDER BY started_at DESC LIMIT 200"""
        ),
        [
            Column("job_id", 200, "job", links.to_job()),
            Column("name", 120),
            Column("status", 80, status=True),
            Column("round", 60),
            Column("failed_rounds", 60, "failed"),
            Column("stage", 70),
            Column("stage_state", 90, "state", status=True),
            Column("blocked_message", title="blocked by"),
            Column("waiting_samples", 80, "samples"),
            Column("live_model", 140, "live model"),
            Column("live_version", 70, "version"),
            Column("waits_for_approval", 90, "approval"),
            Column("started_at", 155, "started"),
            Column("last_round_at", 155, "last round"),
        ],
    )


def _metrics() -> Panel:
    return graph(
        "Metrics of the trained and the live model",
        "The metric selected above, of each round that was evaluated.",
        curves(
            f"""SELECT at AS time, round_metrics.metric || ' ' || model.kind AS metric, model.value FROM
                round_metrics
            CROSS JOIN LATERAL (VALUES ('trained', trained), ('live', deployed)) AS model (kind, value)
            WHERE job_id = {JOB} AND metric = ${{metric:sqlstring}} AND $__timeFilter(at)
            AND model.value IS NOT NULL ORDER BY at LIMIT 5000"""
        ),
        unit=COUNT,
        minimum=None,
    )


def _deployments() -> Panel:
    return table(
        "Deployments",
        "Versions that became live, newest first.",
        rows(
            f"""SELECT deployed_at, version, cause, round, state, live_until FROM deployments WHERE job_id =
                {JOB}
            ORDER BY update_number DESC LIMIT 50"""
        ),
        [
            Column("deployed_at", 150, "deployed"),
            Column("version", 60),
            Column("cause"),
            Column("round", 55),
            Column("state", 80, status=True),
            Column("live_until", 150),
        ],
    )


def _rounds() -> Panel:
    return table(
        "Rounds",
        "Newest first.",
        rows(
            f"""SELECT round, status, train_samples, eval_samples, base_version, version, deployed,
            coalesce(nullif(reason, ''), decision_reason) AS reason, duration_s, began_at FROM rounds
            WHERE job_id = {JOB} ORDER BY round DESC LIMIT 100"""
        ),
        [
            Column("round", 70),
            Column("status", 100, status=True),
            Column("train_samples", 120),
            Column("eval_samples", 120),
            Column("base_version", 110),
            Column("version", 80),
            Column("deployed", 90),
            Column("reason"),
            Column("duration_s", 90, "took"),
            Column("began_at", 160, "began"),
        ],
    )


def _stages() -> Panel:
    return table(
        "Stages",
        "Of the newest 30 rounds.",
        rows(
            f"""SELECT round, stage, state, lines, duration_s, reason, message, ready_at, ended_at, task_id
                FROM stages
            WHERE job_id = {JOB} ORDER BY round DESC, array_position(ARRAY['train', 'eval', 'deploy'],
            stage::text)
            LIMIT 90"""
        ),
        [
            Column("round", 55),
            Column("stage", 70, link=links.to_trial()),
            Column("state", 90, status=True),
            Column("lines", 65, "samples"),
            Column("duration_s", 60, "took"),
            Column("reason", 110),
            Column("message"),
            Column("ready_at", 150, "ready"),
            Column("ended_at", 150, "ended"),
            Column("task_id", hidden=True),
        ],
    )


def _services() -> Panel:
    return table(
        "Inference services",
        "The version that each has confirmed, and its share of hard examples.",
        rows(
            f"""SELECT name, replica, state, version, is_live, inferences, hard_examples, hard_share, task_id
            FROM inference_services WHERE job_id = {JOB} ORDER BY target LIMIT 100"""
        ),
        [
            Column("name", link=links.to_trial()),
            Column("replica", 55),
            Column("state", 70, status=True),
            Column("version", 60),
            Column("is_live", 50, "live"),
            Column("inferences", 85),
            Column("hard_examples", 65, "hard"),
            Column("hard_share", 65, "share"),
            Column("task_id", hidden=True),
        ],
    )


def _samples() -> list[Panel]:
    training, evaluation = (
        "trackside.dispatcher.job_training.samples",
        "trackside.dispatcher.job_evaluation.samples",
    )
    inferences, hard = (
        "trackside.dispatcher.job_inferences.requests",
        "trackside.dispatcher.job_hard.requests",
    )
    return [
        graph(
            "Samples",
            "That wait for the next round, and that the job evaluates with.",
            promql(f"max by (job) ({series(training)})", "{{job}} waiting"),
            promql(f"max by (job) ({series(evaluation)})", "{{job}} evaluation"),
            unit=COUNT,
        ),
        graph(
            "Share of hard examples",
            "Of the inferences of each service, window by window.",
            curves(
                f"""SELECT $__timeGroup(reported_at, $__interval) AS time, service AS metric,
                    avg(hard_share) AS value
                FROM hard_examples WHERE job_id = {JOB} AND $__timeFilter(reported_at) GROUP BY 1, 2 ORDER
                BY 1"""
            ),
            unit=SHARE,
        ),
        graph(
            "Inferences",
            "That services have counted, and the hard ones of these.",
            promql(f"max by (job) ({series(inferences)})", "{{job}} inferences"),
            promql(f"max by (job) ({series(hard)})", "{{job}} hard"),
            unit=COUNT,
        ),
    ]


def _gauges() -> list[Panel]:
    begun, failed = (
        series("trackside.dispatcher.job_begun.rounds"),
        series("trackside.dispatcher.job_failed.rounds"),
    )
    stage, blocked = (
        series("trackside.dispatcher.job_stage.jobs"),
        series("trackside.dispatcher.job_blocked.stages"),
    )
    value, live = (
        series("trackside.dispatcher.job_metric.values"),
        series("trackside.dispatcher.job_live.versions"),
    )
    updating = series("trackside.dispatcher.job_updating.targets")
    return [
        count_of_faults("Blocked stages", "Jobs whose stage is blocked.", f"sum({blocked})"),
        count_of_faults("Failed rounds in a row", "Of the job with the most.", f"max({failed})"),
        number(
            "Targets to confirm",
            "Targets that have not confirmed the model that is deployed now.",
            latest(f"sum({updating})"),
            unit=COUNT,
            steps=((None, GREEN), (1, BLUE)),
        ),
        graph(
            "Rounds and live versions",
            "The newest round of each job, and the version that is live.",
            promql(f"max by (job) ({begun})", "{{job}} round"),
            promql(f"max by (job) ({live})", "{{job}} version"),
            unit=COUNT,
            style="steps",
        ),
        graph(
            "Stage of jobs",
            "1 for the stage that a job is in.",
            promql(f"max by (job, stage, state) ({stage}) > 0", "{{job}}: {{stage}} {{state}}"),
            unit=COUNT,
            style="steps",
        ),
        graph(
            "Newest metrics",
            "The metric selected above, of the trained and of the live model of each job.",
            promql(
                f'max by (job, model, metric) ({value}{{metric=~"$metric"}})', "{{job}} {{metric}} {{model}}"
            ),
            unit=COUNT,
            minimum=None,
        ),
    ]
