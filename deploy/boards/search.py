"""The board of one search: best value, values, curves, what its parameters explain, times, and its trials."""

from boards import annotations, links
from boards.board import Board, Place, Section, Variable
from boards.held_devices import held_devices
from boards.panels import Panel, by_step, graph, histogram, note, number, scatter
from boards.queries import FROM_MS, TO_MS, bucket, curves, rows, within
from boards.selected import SEARCH, SEARCH_BOX
from boards.style import GREEN, SECONDS, SHARE, TRIAL_ENDS
from boards.tables import table

MIN_TRIALS = 20
"""Fewer trials that succeeded say little about a parameter: its effect is not shown."""
CURVES = 10
_OBJECTIVE = "CASE objective WHEN 'default' THEN 'value' ELSE objective END"


def board() -> Board:
    """Returns the board."""
    return Board(
        uid=links.SEARCH,
        description="One search. Its trials link to their boards. Queries are thinned for 100,000 trials.",
        sections=[
            Section("The search", [Place(_search(), 24, 3), *(Place(panel, 4, 4) for panel in _numbers())]),
            Section("Values", [Place(panel, 12, 9) for panel in [*_values(), *_curves_and_effects()]]),
            Section("Trials", [Place(_best(), 24, 9), Place(_failed(), 24, 8)]),
            Section("Times", [Place(panel, 8, 8) for panel in _times()]),
            Section("Several objectives", [Place(_pareto(), 10, 9), Place(_front(), 14, 9)]),
            Section("Traces and output", [Place(_further(), 24, 5)]),
        ],
        variables=[
            SEARCH_BOX,
            Variable(
                "tag",
                "Curve",
                f"""SELECT tag FROM series_totals WHERE task_id IN (
                    SELECT task_id FROM trials WHERE search_id = {SEARCH} ORDER BY trial DESC LIMIT 20
                ) GROUP BY tag ORDER BY tag LIKE 'system/%', tag = 'objective' DESC, tag LIMIT 200""",
            ),
        ],
        annotations=[
            annotations.searches(f"search_id = {SEARCH}"),
            annotations.changes(SEARCH),
            annotations.failures(SEARCH),
            annotations.workers(),
            annotations.restarts(),
        ],
    )


def _search() -> Panel:
    return table(
        "Search",
        "An empty text box selects the newest search.",
        f"""SELECT search_id, name, status, ended_trials, running_trials, max_trials, concurrency,
            tuner, assessor, direction, queue, started_at, duration_s, trace_id,
            coalesce(nullif(failure, ''), stop_reason) AS reason,
            {links.span("started_at", "ended_at")} FROM searches WHERE search_id = {SEARCH}""",
        """search_id 200 search > search+time | name 130 | status 120 ! | ended_trials 70 ended |
        running_trials 75 running | max_trials 70 limit | concurrency 75 at once | tuner 80 |
        assessor 90 | direction 80 | queue 80 | started_at 160 started | duration_s 90 took |
        trace_id | reason | (from_ms) | (to_ms)""",
    )


def _numbers() -> list[Panel]:
    counted = f"FROM trials WHERE search_id = {SEARCH}"
    return [
        number(
            "Best value",
            "Of the first objective.",
            rows(f"SELECT best_value FROM searches WHERE search_id = {SEARCH}"),
            steps=((None, GREEN),),
        ),
        number(
            "Trials ended",
            "Of those that were suggested.",
            rows(f"SELECT count(*) FILTER (WHERE ended_at IS NOT NULL) AS ended_trials {counted}"),
        ),
        number(
            "Early-stopped share",
            "Of the trials that ended, those that an assessor stopped.",
            rows(
                f"""SELECT (count(*) FILTER (WHERE status = 'EARLY_STOPPED'))::float8
                / nullif(count(*) FILTER (WHERE ended_at IS NOT NULL), 0) AS early_stopped_share {counted}"""
            ),
            unit=SHARE,
        ),
        number(
            "Failed share",
            "Of the trials that ended, those that failed.",
            rows(
                f"""SELECT (count(*) FILTER (WHERE status = 'FAILED'))::float8
                / nullif(count(*) FILTER (WHERE ended_at IS NOT NULL), 0) AS failed_share {counted}"""
            ),
            unit=SHARE,
        ),
        number(
            "Device time",
            "Time that the tasks of the search held devices, summed over devices.",
            rows(
                f"""SELECT sum(coalesce(ended_ms, extract(epoch FROM now())::float8 * 1000) - began_ms) /
                1000 AS held_s FROM device_use WHERE stream_id = {SEARCH}"""
            ),
            unit=SECONDS,
        ),
        number(
            "Expected end in",
            "If the remaining trials take as long as those so far did.",
            rows(
                f"""SELECT CASE WHEN ended_at IS NULL AND ended_trials > 0 THEN extract(epoch
                FROM now() - started_at) * (max_trials - ended_trials) / ended_trials END AS remaining_s
                FROM searches WHERE search_id = {SEARCH}"""
            ),
            unit=SECONDS,
        ),
    ]


def _values() -> list[Panel]:
    return [
        graph(
            "Best value so far",
            "One line for each objective, of the trials that ended so far.",
            curves(
                f"""SELECT time, metric, CASE direction WHEN 'maximize' THEN max(best) OVER so_far
                    ELSE min(best) OVER so_far END AS value FROM (
                    SELECT {bucket(f"greatest(ended_ms, {FROM_MS})")} AS time, {_OBJECTIVE} AS metric,
                    direction, CASE direction WHEN 'maximize' THEN max(value) ELSE min(value) END AS best
                    FROM objective_values WHERE search_id = {SEARCH} AND ended_ms <= {TO_MS}
                    AND value <> 'NaN' GROUP BY 1, 2, direction
                ) AS ended WINDOW so_far AS (PARTITION BY metric ORDER BY time) ORDER BY time"""
            ),
            style="steps",
            minimum=None,
        ),
        graph(
            "Values of trials",
            "The least and the greatest value of the trials that ended in each interval of the graph.",
            curves(
                f"""SELECT bucketed.time, bucketed.metric || bound.name AS metric, bound.value FROM (
                    SELECT {bucket("ended_ms")} AS time, {_OBJECTIVE} AS metric, min(value) AS least,
                    max(value) AS greatest
                    FROM objective_values WHERE search_id = {SEARCH} AND {within("ended_ms")}
                    AND value NOT IN ('NaN', 'Infinity', '-Infinity') GROUP BY 1, 2
                ) AS bucketed
                CROSS JOIN LATERAL (VALUES (' least', least), (' greatest', greatest)) AS bound (name, value)
                ORDER BY time"""
            ),
            style="points",
            minimum=None,
        ),
    ]


def _curves_and_effects() -> list[Panel]:
    return [
        by_step(
            "Curves of trials",
            f"The curve selected above, of the {CURVES} best and the {CURVES} newest trials: the mean of "
            "each of 200 ranges of steps. A step that a later attempt trained again is left out.",
            rows(
                f"""WITH chosen AS (
                    (SELECT task_id, trial FROM trials WHERE search_id = {SEARCH} ORDER BY trial DESC LIMIT
                    {CURVES})
                    UNION
                    (SELECT task_id, trial FROM ranked_trials WHERE search_id = {SEARCH} AND status =
                    'SUCCEEDED'
                    ORDER BY rank_value LIMIT {CURVES})
                ), width AS (
                    SELECT greatest(1, max(last_step) / 200) AS steps FROM series_totals
                    WHERE tag = ${{tag:sqlstring}} AND task_id IN (SELECT task_id FROM chosen)
                )
                SELECT metrics.step / width.steps * width.steps AS step, 'trial ' || chosen.trial AS metric,
                avg(metrics.value) AS value FROM chosen
                JOIN metrics ON metrics.task_id = chosen.task_id AND metrics.tag = ${{tag:sqlstring}} AND
                metrics.counts
                CROSS JOIN width GROUP BY 1, chosen.trial ORDER BY 1, chosen.trial"""
            ),
        ),
        histogram(
            "What parameters explain",
            "The fraction of the variance of an objective that one parameter explains alone, with the "
            f"number of trials (n). Shown from {MIN_TRIALS} trials that succeeded on; of more than 2,000 "
            "trials a sample is used.",
            rows(
                f"""SELECT CASE objective WHEN 'default' THEN '' ELSE objective || ' ' END || parameter
                || ' (n=' || trials || ')' AS parameter, effect AS effect_share FROM parameter_effects
                WHERE search_id = {SEARCH} AND trials >= {MIN_TRIALS} ORDER BY effect DESC LIMIT 30"""
            ),
            unit=SHARE,
            none=f"Fewer than {MIN_TRIALS} trials have succeeded",
            maximum=1,
        ),
    ]


def _best() -> Panel:
    return table(
        "Best trials",
        "By the value of the first objective, the best first. Click on a number to open the trial.",
        f"""SELECT trial, status, value, last_value, reports, duration_s, ended_at, trace_id,
            parameters::text AS parameters, task_id, {links.span("suggested_at", "ended_at")}
            FROM ranked_trials WHERE search_id = {SEARCH} AND status = 'SUCCEEDED'
            ORDER BY rank_value, trial LIMIT 50""",
        """trial 70 > trial+time | status 120 ! | value 120 | last_value 120 | reports 75 |
        duration_s 90 took | ended_at 165 ended | trace_id | parameters | (task_id) | (from_ms) |
        (to_ms)""",
        none="No trial has succeeded yet",
    )


def _failed() -> Panel:
    return table(
        "Trials that failed",
        "The newest 50, with the error of the last attempt.",
        f"""SELECT failed.*, tried.ending, tried.worker_id, tried.error_type, tried.error_message FROM (
                SELECT trial, status, last_value, reports, duration_s, ended_at, trace_id, task_id,
                {links.span("suggested_at", "ended_at")} FROM trials
                WHERE search_id = {SEARCH} AND status = 'FAILED' ORDER BY ended_at DESC LIMIT 50
            ) AS failed
            LEFT JOIN LATERAL (
                SELECT ending, worker_id, error_type, error_message FROM attempts
                WHERE attempts.task_id = failed.task_id ORDER BY attempt DESC LIMIT 1
            ) AS tried ON true ORDER BY failed.ended_at DESC""",
        """trial 70 > trial+time | status 120 ! | last_value 120 | reports 75 | duration_s 90 took |
        ended_at 165 ended | trace_id | ending 110 ! | worker_id 150 worker > worker |
        error_type 140 | error_message | (task_id) | (from_ms) | (to_ms)""",
        none="No trial has failed",
    )


def _times() -> list[Panel]:
    times = f"""SELECT time, metric, value FROM (
            SELECT {bucket("ended_ms")} AS time, avg(queued_s) AS queued, avg(load_s) AS loading,
            avg(train_s) AS training
            FROM trial_times WHERE search_id = {SEARCH} AND {within("ended_ms")} GROUP BY 1
        ) AS means
        CROSS JOIN LATERAL (VALUES ('queued', queued), ('loading', loading), ('training', training))
        AS part (metric, value) WHERE value IS NOT NULL ORDER BY time"""
    return [
        graph(
            "Ended trials by status",
            "In each interval of the graph.",
            curves(
                f"""SELECT {bucket("ended_ms")} AS time, status AS metric, count(*) AS value FROM trials
                WHERE search_id = {SEARCH} AND {within("ended_ms")} GROUP BY 1, 2 ORDER BY 1"""
            ),
            style="bars",
            statuses=TRIAL_ENDS,
        ),
        graph(
            "Queue, load and training time",
            "The mean of the trials that ended in each interval: waiting for a device, loading, training.",
            curves(times),
            unit=SECONDS,
        ),
        graph(
            "Devices in use by this search",
            "How many devices its tasks held, on average in each interval.",
            curves(held_devices(f"stream_id = {SEARCH}", "greatest($__interval_ms, 1000)")),
            style="area",
        ),
    ]


def _pareto() -> Panel:
    return scatter(
        "Pareto front",
        "The trials that no other one beats, by the first two objectives.",
        rows(
            f"""SELECT first_value AS "first objective", second_value AS "second objective" FROM pareto_front
            WHERE search_id = {SEARCH} AND second_value IS NOT NULL ORDER BY first_value LIMIT 1000"""
        ),
        x="first objective",
        y="second objective",
        names=rows(
            f"""SELECT first_objective AS x_name, second_objective AS y_name FROM pareto_front
            WHERE search_id = {SEARCH} LIMIT 1"""
        ),
        none="The search has one objective",
    )


def _front() -> Panel:
    return table(
        "Trials of the Pareto front",
        "With the names and the values of all objectives.",
        f"""SELECT trial, array_to_string(front.objectives, ', ') AS objectives,
            array_to_string(front.objective_values, ', ') AS objective_values,
            front.parameters::text AS parameters, trials.task_id, trials.trace_id
            FROM pareto_front AS front JOIN trials USING (search_id, trial)
            WHERE search_id = {SEARCH} AND second_value IS NOT NULL ORDER BY first_value LIMIT 200""",
        """trial 70 > trial | objectives 170 | objective_values 260 values | trace_id | parameters |
        (task_id)""",
        none="The search has one objective",
    )


def _further() -> Panel:
    return note(
        "Further",
        "- Lines that a task printed: `trackside logs TASK`; the id of the task is on the board of the "
        "trial.\n"
        "- The chain of causes of a task: `trackside replay why TASK`.\n"
        "- The column *trace* opens the trace of a trial in the data source `trackside-traces`; failed, lost "
        "and out-of-memory attempts have the status *error*. Points in the graphs of the overview with a "
        "diamond are exemplars: they have the id of a trace.",
    )
