"""The board of one task, of a trial or not: its curves, attempts, placements, resources and result."""

from boards import annotations, links
from boards.board import Board, Place, Section
from boards.panels import Panel, by_step, graph, note
from boards.queries import curves, rows
from boards.selected import TASK, TASK_BOX
from boards.style import BYTES, SHARE
from boards.tables import table

_STREAM = f"(SELECT stream_id FROM tasks WHERE task_id = {TASK} LIMIT 1)"


def board() -> Board:
    """Returns the board."""
    return Board(
        uid=links.TRIAL,
        description="One task. A link opens exactly the task that it names, of however many there are.",
        sections=[
            Section("The task", [Place(_task(), 24, 3), Place(_trial(), 24, 3)]),
            Section("Curves", [Place(panel, 12, 9) for panel in _curves()]),
            Section("Attempts", [Place(_attempts(), 24, 6), Place(_placements(), 24, 5)]),
            Section("Resources", [Place(panel, 12, 8) for panel in _resources()]),
            Section("Output", [Place(panel, 8, 9) for panel in _output()]),
            Section("Lines, causes, traces", [Place(_further(), 24, 5)]),
        ],
        variables=[TASK_BOX],
        annotations=[
            annotations.failures(_STREAM),
            annotations.changes(_STREAM),
            annotations.workers(),
            annotations.restarts(),
        ],
    )


def _task() -> Panel:
    return table(
        "Task",
        "An empty text box selects the newest trial of the newest search.",
        f"""SELECT task_id, stream_id, CASE WHEN trial IS NULL THEN NULL ELSE stream_id END AS search_id,
        task_type, state, ending, attempts, worker_id, array_to_string(device_ids, ', ') AS devices,
        objective, unschedulable, queued_at, ended_at, trace_id, {links.span("queued_at", "ended_at")}
        FROM tasks WHERE task_id = {TASK}""",
        """task_id 180 task > trial+time | stream_id 130 stream | search_id 130 search > search |
        task_type 80 type | state 80 ! | ending 90 ! | attempts 80 | worker_id 100 worker > worker |
        devices 80 | objective 90 | unschedulable | queued_at 155 queued | ended_at 155 ended |
        trace_id | (from_ms) | (to_ms)""",
        none="There is no task with this id",
    )


def _trial() -> Panel:
    return table(
        "Trial",
        "What the search knows about it; empty for a task of another kind.",
        f"""SELECT trials.trial, trials.status, trials.value, trials.reports, trials.last_step,
        trials.last_value, trials.source, trials.from_trial, trials.from_step, parent.task_id
        AS from_task, trials.best, trials.suggested_at, trials.duration_s, trials.parameters::text
        AS parameters FROM tasks JOIN trials ON trials.search_id = tasks.stream_id
        AND trials.trial = tasks.trial LEFT JOIN trials AS parent ON parent.search_id = trials.search_id
        AND parent.trial = trials.from_trial WHERE tasks.task_id = {TASK}""",
        """trial 70 | status 130 ! | value 120 | reports 75 | last_step 80 | last_value 120 |
        source 90 | from_trial 85 > trial:from_task | from_step 80 | (from_task) | best 60 |
        suggested_at 160 suggested | duration_s 90 took | parameters""",
        none="The task is not a trial of a search",
    )


def _curves() -> list[Panel]:
    stepped = f"""WITH width AS (
            SELECT greatest(1, max(last_step) / 200) AS steps FROM series_totals WHERE task_id = {TASK}
        )
        SELECT step / width.steps * width.steps AS step, tag || ' of attempt ' || attempt AS metric,
        avg(value) AS value FROM metrics CROSS JOIN width
        WHERE task_id = {TASK} AND starts_with(tag, 'system/') = false"""
    return [
        by_step(
            "Curves",
            "All that the task reported, by step: the mean of each of 200 ranges of steps, at most 12 "
            "curves.",
            rows(
                f"""{stepped} AND (tag, attempt) IN (
                    SELECT tag, attempt FROM series_totals WHERE task_id = {TASK}
                    AND starts_with(tag, 'system/') = false ORDER BY attempt DESC, tag LIMIT 12
                ) GROUP BY 1, tag, attempt ORDER BY 1, tag, attempt"""
            ),
        ),
        table(
            "Values",
            "Of each curve: how many points, the newest value, the least, the greatest and the mean.",
            f"""SELECT tag, attempt, points, last_step, last_value, min_value, max_value, mean_value,
            non_finite FROM series_totals WHERE task_id = {TASK}
            ORDER BY starts_with(tag, 'system/'), tag, attempt LIMIT 200""",
            """tag | attempt 65 | points 65 | last_step 75 | last_value 80 newest |
            min_value 80 least | max_value 80 greatest | mean_value 80 mean | non_finite 80""",
        ),
    ]


def _attempts() -> Panel:
    return table(
        "Attempts",
        "Each try of the task, with the memory that was reserved and used, and why it ended.",
        f"""SELECT attempt, status, ending, worker_id, array_to_string(device_ids, ', ') AS devices,
        ended_at, load_time_ms, train_time_ms, reserved_memory_bytes, peak_memory_bytes,
        reserved_cuda_memory_bytes, peak_cuda_memory_bytes, resumed_step, exit_code, error_stage,
        error_type, error_message FROM attempts WHERE task_id = {TASK} ORDER BY attempt DESC LIMIT 100""",
        """attempt 65 | status 85 ! | ending 95 ! | worker_id 100 worker > worker | devices 75 |
        ended_at 150 ended | load_time_ms 75 loading | train_time_ms 75 training |
        reserved_memory_bytes 85 reserved | peak_memory_bytes 80 peak |
        reserved_cuda_memory_bytes 110 reserved, GPU | peak_cuda_memory_bytes 85 peak, GPU |
        resumed_step 90 resumed at | exit_code 55 exit | error_stage 60 stage |
        error_type 100 error | error_message message""",
    )


def _placements() -> Panel:
    return table(
        "Placements",
        "Each time that an attempt was assigned to a device; a refused or preempted one is assigned again.",
        f"""SELECT attempt, placement, worker_id, array_to_string(device_ids, ', ') AS devices,
        assigned_at, accepted_at, ended_at, ending, code, message FROM placements WHERE task_id = {TASK}
        ORDER BY attempt DESC, placement DESC LIMIT 100""",
        """attempt 80 | placement 90 | worker_id 180 worker > worker | devices 120 |
        assigned_at 160 assigned | accepted_at 160 accepted | ended_at 160 ended | ending 120 ! |
        code 150 | message""",
    )


def _resources() -> list[Panel]:
    def sampled(values: str) -> str:
        return f"""SELECT $__timeGroup(wall_time, $__interval) AS time, label.metric AS metric,
            max(metrics.value * label.factor) AS value FROM metrics
            JOIN (VALUES {values}) AS label (tag, metric, factor) ON label.tag = metrics.tag
            WHERE task_id = {TASK} AND $__timeFilter(wall_time) GROUP BY 1, 2 ORDER BY 1"""

    memory = "('system/memory_bytes', 'memory', 1.0), ('system/cuda_memory_bytes', 'GPU memory', 1.0)"
    cores = "('system/cpu_percent', 'processor, 1 is a core', 0.01), ('system/gpu_percent', 'GPU', 0.01)"
    none = "No samples: the task ended within a second, or did not start"
    return [
        graph("Memory", "Sampled while the task runs.", curves(sampled(memory)), unit=BYTES, none=none),
        graph(
            "Processor and GPU", "Sampled while the task runs.", curves(sampled(cores)), unit=SHARE, none=none
        ),
    ]


def _output() -> list[Panel]:
    return [
        table(
            "Result and parameters",
            "What the task was given and what it returned.",
            f"""SELECT part, entry.key, entry.value FROM tasks
                CROSS JOIN LATERAL (VALUES ('parameter', parameters), ('result', result)) AS given (part,
                body)
                CROSS JOIN LATERAL jsonb_each_text(
                    CASE jsonb_typeof(body) WHEN 'object' THEN body ELSE jsonb_build_object('value', body) END
                ) AS entry WHERE task_id = {TASK} AND body IS NOT NULL LIMIT 200""",
            "part 90 | key 160 | value",
        ),
        table(
            "Artifacts",
            "Files and checkpoints that the task has saved, newest first.",
            f"""SELECT name, version, size_bytes, step, saved_at FROM artifacts WHERE task_id = {TASK}
            AND stream_id = {_STREAM} ORDER BY saved_at DESC LIMIT 100""",
            "name | version 55 | size_bytes 75 size | step 60 | saved_at 145 saved",
            none="The task has saved no artifact",
        ),
        table(
            "Traceback",
            "Of the newest attempt that failed.",
            f"""SELECT line FROM (SELECT error_traceback FROM attempts WHERE task_id = {TASK}
                AND error_traceback IS NOT NULL ORDER BY attempt DESC LIMIT 1) AS newest,
                regexp_split_to_table(error_traceback, E'\\n') WITH ORDINALITY AS lines (line, number)
                ORDER BY number LIMIT 300""",
            "line",
            none="No attempt has failed with a traceback",
        ),
    ]


def _further() -> Panel:
    return note(
        "Further",
        "- The lines that the task printed, of all attempts: `trackside logs TASK`.\n"
        "- The chain of causes: `trackside replay why TASK`.\n"
        "- The column *trace* opens its trace in the data source `trackside-traces`; a failed, lost or "
        "out-of-memory attempt has the status *error*.",
    )
