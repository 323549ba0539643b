"""The board of all searches: which there are, how they go, and what tuners and assessors take."""

from boards import annotations, links
from boards.board import Board, Place, Section, Variable
from boards.panels import Panel, graph, histogram
from boards.queries import FROM_MS, TO_MS, bucket, curves, promql, quantile, rows
from boards.style import COUNT, TRIAL_ENDS
from boards.tables import table

_NAMED = (
    "(search_id ILIKE '%' || ${contains:sqlstring} || '%' OR name ILIKE '%' || ${contains:sqlstring} || '%')"
)


def board() -> Board:
    """Returns the board."""
    return Board(
        uid=links.SEARCHES,
        description="Searches, newest first: click on one to open its board at the time when it ran.",
        sections=[
            Section("Searches", [Place(_list(), 24, 12), *(Place(panel, 12, 8) for panel in _compared())]),
            Section("Trials and tuners", [Place(panel, 8, 8) for panel in _tuners()]),
        ],
        variables=[Variable("contains", "Id or name contains")],
        annotations=[annotations.searches(), annotations.workers(), annotations.restarts()],
        span="now-7d",
    )


def _list() -> Panel:
    return table(
        "Searches",
        "The newest 200 of those that ran within the range. Best value: of the first objective.",
        f"""SELECT search_id, name, status, ended_trials, running_trials, max_trials, best_value,
        best_trial, tuner, assessor, started_at, duration_s, trace_id, failure,
        {links.span("started_at", "ended_at")} FROM searches WHERE started_at <= $__timeTo()
        AND coalesce(ended_at, now()) >= $__timeFrom() AND {_NAMED} ORDER BY started_at DESC LIMIT 200""",
        """search_id 200 search > search+time | name 130 | status 120 ! | ended_trials 70 ended |
        running_trials 75 running | max_trials 70 limit | best_value 110 best | best_trial 80 |
        tuner 90 | assessor 100 | started_at 160 started | duration_s 90 took | trace_id | failure |
        (from_ms) | (to_ms)""",
    )


def _compared() -> list[Panel]:
    return [
        graph(
            "Running trials",
            "Trials that have been suggested and have not ended, of the 20 newest searches of the range.",
            curves(
                f"""WITH chosen AS (
                    SELECT search_id FROM searches WHERE started_at <= $__timeTo()
                    AND coalesce(ended_at, now()) >= $__timeFrom() AND {_NAMED} ORDER BY started_at DESC
                    LIMIT 20
                ), changed AS (
                    SELECT search_id, {bucket("first")} AS began, {bucket("last")} AS ended,
                    count(*) AS change FROM (
                        SELECT search_id, greatest(suggested_ms, {FROM_MS}) AS first,
                        least(greatest(coalesce(ended_ms, {TO_MS} + $__interval_ms), {FROM_MS}),
                        {TO_MS} + $__interval_ms) AS last
                        FROM trials WHERE search_id IN (SELECT * FROM chosen) AND suggested_ms <= {TO_MS}
                    ) AS limited GROUP BY 1, 2, 3
                ), bucketed AS (
                    SELECT search_id, edge.time, sum(edge.change) AS change FROM changed
                    CROSS JOIN LATERAL (VALUES (began, change), (ended, -change)) AS edge (time, change)
                    WHERE edge.time <= {TO_MS} GROUP BY 1, 2
                )
                SELECT time, search_id AS metric, sum(change) OVER (PARTITION BY search_id ORDER BY time) AS
                value
                FROM bucketed ORDER BY time"""
            ),
            style="steps",
        ),
        histogram(
            "Trials by status",
            "Of the 20 newest searches of the range: how the trials ended, and how many still run.",
            rows(
                f"""SELECT search_id, {_counted()} FROM trials WHERE search_id IN (
                    SELECT search_id FROM searches WHERE started_at <= $__timeTo()
                    AND coalesce(ended_at, now()) >= $__timeFrom() AND {_NAMED} ORDER BY started_at DESC
                    LIMIT 20
                ) GROUP BY search_id ORDER BY min(suggested_at) DESC"""
            ),
            unit=COUNT,
            statuses=(*TRIAL_ENDS, "RUNNING", "WAITING"),
            stacked=True,
        ),
    ]


def _counted() -> str:
    return ", ".join(
        f"count(*) FILTER (WHERE status = '{status}') AS \"{status}\""
        for status in (*TRIAL_ENDS, "RUNNING", "WAITING")
    )


def _tuners() -> list[Panel]:
    return [
        graph(
            "Trials per minute",
            "Suggested by tuners, and ended.",
            promql("sum(rate(trackside.dispatcher.suggested.trials[rate])) * 60", "suggested"),
            promql("sum(rate(trackside.dispatcher.ended.trials[rate])) * 60", "ended"),
        ),
        graph(
            "Early-stopped share",
            "Of the trials that ended in each interval, those that an assessor stopped.",
            promql(
                'sum(rate(trackside.dispatcher.ended.trials{status="EARLY_STOPPED"}[rate])) / '
                "(sum(rate(trackside.dispatcher.ended.trials[rate])) > 0)",
                "early-stopped share",
            ),
            maximum=1,
        ),
        graph(
            "Time of a trial",
            "From its suggestion to its end, by status.",
            promql(
                f"{quantile(0.5, 'trackside.dispatcher.trial.seconds', by='status')} >= 0",
                exemplars=True,
            ),
            statuses=TRIAL_ENDS,
        ),
        graph(
            "Time of a suggestion",
            "What a tuner took to suggest parameters, 95th percentile.",
            promql(f"{quantile(0.95, 'trackside.dispatcher.suggestion.seconds', by='tuner')} >= 0"),
        ),
        graph(
            "Requests waiting for tuners and assessors",
            "Each tuner and assessor runs in a process of its own.",
            promql("sum by (lane) (trackside.dispatcher.lane_backlog.requests)"),
        ),
        graph(
            "Reports without effect per minute",
            "Reports of metrics that did not count, by reason.",
            promql("sum by (reason) (rate(trackside.dispatcher.uncounted.metrics[rate])) * 60"),
        ),
    ]
