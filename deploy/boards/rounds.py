"""The board of incremental jobs: their stages, rounds, metrics, samples, deployments and services."""

from boards import annotations, links
from boards.board import Board, Place, Section, Variable
from boards.panels import Panel, graph, number
from boards.queries import curves, latest, promql
from boards.selected import JOB, JOB_BOX
from boards.style import BLUE, GREEN, SHARE
from boards.tables import table
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
        """SELECT job_id, name, status, round, failed_rounds, stage, stage_state, blocked_message,
        waiting_samples, live_model, live_version, waits_for_approval, started_at, last_round_at
        FROM incremental_jobs ORDER BY started_at DESC LIMIT 200""",
        """job_id 200 job > job | name 120 | status 80 ! | round 60 | failed_rounds 60 failed |
        stage 70 | stage_state 90 ! state | blocked_message blocked by |
        waiting_samples 80 samples | live_model 140 live model | live_version 70 version |
        waits_for_approval 90 approval | started_at 155 started | last_round_at 155 last round""",
    )


def _metrics() -> Panel:
    return graph(
        "Metrics of the trained and the live model",
        "The metric selected above, of each round that was evaluated.",
        curves(
            f"""SELECT at AS time, round_metrics.metric || ' ' || model.kind AS metric, model.value
            FROM round_metrics CROSS JOIN LATERAL (VALUES ('trained', trained), ('live', deployed))
            AS model (kind, value) WHERE job_id = {JOB} AND metric = ${{metric:sqlstring}}
            AND $__timeFilter(at) AND model.value IS NOT NULL ORDER BY at LIMIT 5000"""
        ),
        minimum=None,
    )


def _deployments() -> Panel:
    return table(
        "Deployments",
        "Versions that became live, newest first.",
        f"""SELECT deployed_at, version, cause, round, state, live_until FROM deployments
        WHERE job_id = {JOB} ORDER BY update_number DESC LIMIT 50""",
        "deployed_at 150 deployed | version 60 | cause | round 55 | state 80 ! | live_until 150",
    )


def _rounds() -> Panel:
    return table(
        "Rounds",
        "Newest first.",
        f"""SELECT round, status, train_samples, eval_samples, base_version, version, deployed,
            coalesce(nullif(reason, ''), decision_reason) AS reason, duration_s, began_at FROM rounds
            WHERE job_id = {JOB} ORDER BY round DESC LIMIT 100""",
        """round 70 | status 100 ! | train_samples 120 | eval_samples 120 | base_version 110 |
        version 80 | deployed 90 | reason | duration_s 90 took | began_at 160 began""",
    )


def _stages() -> Panel:
    return table(
        "Stages",
        "Of the newest 30 rounds.",
        f"""SELECT round, stage, state, lines, duration_s, reason, message, ready_at, ended_at, task_id
        FROM stages WHERE job_id = {JOB} ORDER BY round DESC, array_position(ARRAY['train', 'eval',
        'deploy'], stage::text) LIMIT 90""",
        """round 55 | stage 70 > trial | state 90 ! | lines 65 samples | duration_s 60 took |
        reason 110 | message | ready_at 150 ready | ended_at 150 ended | (task_id)""",
    )


def _services() -> Panel:
    return table(
        "Inference services",
        "The version that each has confirmed, and its share of hard examples.",
        f"""SELECT name, replica, state, version, is_live, inferences, hard_examples, hard_share, task_id
            FROM inference_services WHERE job_id = {JOB} ORDER BY target LIMIT 100""",
        """name > trial | replica 55 | state 70 ! | version 60 | is_live 50 live | inferences 85 |
        hard_examples 65 hard | hard_share 65 share | (task_id)""",
    )


def _samples() -> list[Panel]:
    return [
        graph(
            "Samples",
            "That wait for the next round, and that the job evaluates with.",
            promql("max by (job) (trackside.dispatcher.job_training.samples)", "{{job}} waiting"),
            promql("max by (job) (trackside.dispatcher.job_evaluation.samples)", "{{job}} evaluation"),
        ),
        graph(
            "Share of hard examples",
            "Of the inferences of each service, window by window.",
            curves(
                f"""SELECT $__timeGroup(reported_at, $__interval) AS time, service AS metric,
                avg(hard_share) AS value FROM hard_examples WHERE job_id = {JOB}
                AND $__timeFilter(reported_at) GROUP BY 1, 2 ORDER BY 1"""
            ),
            unit=SHARE,
        ),
        graph(
            "Inferences",
            "That services have counted, and the hard ones of these.",
            promql("max by (job) (trackside.dispatcher.job_inferences.requests)", "{{job}} inferences"),
            promql("max by (job) (trackside.dispatcher.job_hard.requests)", "{{job}} hard"),
        ),
    ]


def _gauges() -> list[Panel]:
    return [
        count_of_faults(
            "Blocked stages", "Jobs whose stage is blocked.", "sum(trackside.dispatcher.job_blocked.stages)"
        ),
        count_of_faults(
            "Failed rounds in a row",
            "Of the job with the most.",
            "max(trackside.dispatcher.job_failed.rounds)",
        ),
        number(
            "Targets to confirm",
            "Targets that have not confirmed the model that is deployed now.",
            latest("sum(trackside.dispatcher.job_updating.targets)"),
            steps=((None, GREEN), (1, BLUE)),
        ),
        graph(
            "Rounds and live versions",
            "The newest round of each job, and the version that is live.",
            promql("max by (job) (trackside.dispatcher.job_begun.rounds)", "{{job}} round"),
            promql("max by (job) (trackside.dispatcher.job_live.versions)", "{{job}} version"),
            style="steps",
        ),
        graph(
            "Stage of jobs",
            "1 for the stage that a job is in.",
            promql(
                "max by (job, stage, state) (trackside.dispatcher.job_stage.jobs) > 0",
                "{{job}}: {{stage}} {{state}}",
            ),
            style="steps",
        ),
        graph(
            "Newest metrics",
            "The metric selected above, of the trained and of the live model of each job.",
            promql(
                'max by (job, model, metric) (trackside.dispatcher.job_metric.values{metric=~"$metric"})',
                "{{job}} {{metric}} {{model}}",
            ),
            minimum=None,
        ),
    ]
