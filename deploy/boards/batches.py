"""The board of runs of pipelines, with the graph of a run, its steps, gates and metrics; and of batches."""

from boards import annotations, links
from boards.board import Board, Place, Section
from boards.panels import Panel, bars, graph, node_graph
from boards.queries import curves, rows
from boards.selected import BATCH, BATCH_BOX, RUN, RUN_BOX
from boards.style import BLUE, GREEN, RED, SHARE
from boards.tables import table


def board() -> Board:
    """Returns the board."""
    return Board(
        uid=links.BATCHES,
        description="Runs of pipelines and batches of tasks: click on one in the lists to select it.",
        sections=[
            Section("Run", [Place(_graph(), 14, 14), Place(_runs(), 10, 14)]),
            Section("Its steps", [Place(_steps(), 24, 9), Place(_metrics(), 12, 8), Place(_gates(), 12, 8)]),
            Section("Batches", [Place(_batches(), 14, 9), Place(_groups(), 10, 9), Place(_tasks(), 24, 8)]),
            Section("Schedules", [Place(_schedules(), 24, 6)]),
        ],
        variables=[RUN_BOX, BATCH_BOX],
        annotations=[annotations.changes(RUN), annotations.failures(RUN), annotations.workers()],
        span="now-7d",
    )


def _graph() -> Panel:
    return node_graph(
        "Steps of the run",
        "A node for each step, with its state; an arrow to each step that needs it.",
        rows(
            f"""SELECT id, title, subtitle, mainstat, secondarystat, arc__succeeded, arc__failed,
            arc__running, arc__waiting, detail__parameters::text AS detail__parameters FROM run_nodes
            WHERE run_id = {RUN}"""
        ),
        rows(f"SELECT id, source, target, mainstat FROM run_edges WHERE run_id = {RUN}"),
        {"arc__succeeded": GREEN, "arc__failed": RED, "arc__running": BLUE, "arc__waiting": "#b0c4de"},
    )


def _runs() -> Panel:
    return table(
        "Runs",
        "Runs of pipelines within the range, newest first.",
        f"""SELECT run_id, status, progress, ended_steps || '/' || steps AS ended_steps, started_at,
        duration_s, {links.span("started_at", "ended_at")} FROM runs WHERE started_at <= $__timeTo()
        AND coalesce(ended_at, now()) >= $__timeFrom() ORDER BY started_at DESC LIMIT 100""",
        """run_id run > run+time | status 105 ! | progress 70 | ended_steps 55 steps |
        started_at 150 started | duration_s 75 took | (from_ms) | (to_ms)""",
    )


def _steps() -> Panel:
    return table(
        "Steps",
        "In the order of the definition. `waited` is from ready to started on a worker, `took` from there "
        "on.",
        f"""SELECT step, what, state, items, waited_s, took_s, end_kind, reason, started_at, ended_at,
            parameters::text AS parameters, (SELECT max(task_id) FROM tasks
            WHERE tasks.stream_id = steps.run_id AND tasks.name = steps.step) AS task_id
            FROM steps WHERE run_id = {RUN} ORDER BY number LIMIT 500""",
        """step 150 > trial | what 120 | state 90 ! | items 60 | waited_s 80 waited | took_s 80 took |
        end_kind 100 ! end | reason 150 | started_at 160 started | ended_at 160 ended | parameters |
        (task_id)""",
    )


def _metrics() -> Panel:
    return graph(
        "Metrics of the run",
        "Those that its definition shows as its own: the mean of each interval.",
        curves(
            f"""SELECT $__timeGroup(wall_time, $__interval) AS time, name || ' ' || step AS metric,
            avg(value) AS value FROM run_metrics
            WHERE run_id = {RUN} AND $__timeFilter(wall_time) GROUP BY 1, 2 ORDER BY 1"""
        ),
        minimum=None,
        none="The definition of the run mirrors no metric, or none has a point within the range",
    )


def _gates() -> Panel:
    return table(
        "Gates",
        "Those of the selected run, and all that are open.",
        f"""SELECT run_id, step, state, message, opened_at, due_at FROM gates
            WHERE run_id = {RUN} OR state = 'open' ORDER BY state <> 'open', opened_at DESC LIMIT 100""",
        "run_id 120 run > run | step 80 | state 75 ! | message | opened_at 150 opened | due_at 150 due",
        none="The run has no gate, and none is open",
    )


def _batches() -> Panel:
    return table(
        "Batches",
        "Batches within the range, newest first.",
        f"""SELECT batch_id, name, status, groups_over || '/' || groups AS groups_over, tasks, open_tasks,
            finished_tasks, unfinished_tasks, started_at, duration_s, {links.span("started_at", "ended_at")}
            FROM batches WHERE started_at <= $__timeTo() AND coalesce(ended_at, now()) >= $__timeFrom()
            ORDER BY started_at DESC LIMIT 100""",
        """batch_id batch > batch+time | name 90 | status 80 ! | groups_over 65 groups | tasks 50 |
        open_tasks 50 open | finished_tasks 70 finished | unfinished_tasks 55 failed |
        started_at 150 started | duration_s 70 took | (from_ms) | (to_ms)""",
    )


def _groups() -> Panel:
    return bars(
        "Groups of the batch",
        "The share of the tasks of each group that have ended.",
        rows(
            f"""SELECT group_number || ' ' || name AS name,
            (submitted - open)::float8 / nullif(tasks + children, 0) AS ended_share
            FROM groups WHERE batch_id = {BATCH} ORDER BY group_number LIMIT 30"""
        ),
        unit=SHARE,
        steps=((None, BLUE), (1, GREEN)),
        maximum=1,
    )


def _tasks() -> Panel:
    return table(
        "Tasks of the batch that did not finish",
        "The newest 100: those that still run first, then those that ended otherwise than finished.",
        f"""SELECT task_id, name, state, ending, attempts, worker_id, unschedulable, queued_at, ended_at,
        stop_reason FROM tasks WHERE stream_id = {BATCH} AND (ended_at IS NULL OR ending <> 'finished')
        ORDER BY ended_at DESC NULLS FIRST, queued_at DESC LIMIT 100""",
        """task_id 260 task > trial | name 130 | state 90 ! | ending 110 ! | attempts 80 |
        worker_id 150 worker > worker | unschedulable 200 | queued_at 160 queued |
        ended_at 160 ended | stop_reason""",
        none="All tasks of the batch have finished",
    )


def _schedules() -> Panel:
    return table(
        "Schedules of pipelines",
        "When each is next, and what the last time led to.",
        """SELECT pipeline_id, schedule, status, cron, timezone, fires, skips, next_at, fired_at,
        last_run, last_skip, last_message FROM schedules ORDER BY next_at NULLS LAST LIMIT 100""",
        """pipeline_id 170 pipeline | schedule 130 | status 90 ! | cron 110 | timezone 90 | fires 60 |
        skips 60 | next_at 160 next | fired_at 160 last time | last_run 220 > run:last_run |
        last_skip 120 skipped | last_message""",
        none="No pipeline has a schedule",
    )
