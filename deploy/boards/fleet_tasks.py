"""The part of the fleet's board about tasks: which failed, how long they took, and services among them."""

from boards import links
from boards.panels import Panel, graph
from boards.queries import RATE, promql, quantile, rows, within
from boards.style import COUNT, PER_MINUTE, SECONDS, series
from boards.tables import Column, table, trace_column

ATTEMPT_ENDS = (
    *("finished", "failed", "lost", "preempted", "timed_out_queue", "timed_out_run"),
    *("cancelled", "refused", "oom_host", "oom_device"),
)
WORKERS = "worker_id = ANY (ARRAY[${worker:sqlstring}]::text[])"
_INSTANCE = '{instance=~"$instance"}'


def of_instances(name: str) -> str:
    """Returns the series of a metric of the chosen instances."""
    return series(name) + _INSTANCE


def failures() -> list[Panel]:
    """Returns graphs of what went wrong with tasks."""
    ended, interrupted = series("trackside.worker.ended.tasks"), series("trackside.worker.interrupted.tasks")
    returned, refused = series("trackside.scheduler.returned.tasks"), series("trackside.worker.refused.tasks")
    lost = series("trackside.scheduler.lost.workers")
    return [
        graph(
            "Out of memory",
            "Attempts that ended out of memory, and trainings that were interrupted for it, in each "
            "interval.",
            promql(f'sum by (status) (increase({ended}{{status=~"oom_.*"}}[$__interval]))', "{{status}}"),
            promql(f"sum by (resource) (increase({interrupted}[$__interval]))", "interrupted: {{resource}}"),
            unit=COUNT,
            style="bars",
            statuses=("oom_host", "oom_device"),
            interval="30s",
        ),
        graph(
            "Attempts that did not finish",
            "By end, in each interval; out of memory has its own panel.",
            promql(
                f'sum by (status) (increase({ended}{{status!~"oom_.*|finished"}}[$__interval]))', "{{status}}"
            ),
            unit=COUNT,
            style="bars",
            statuses=tuple(end for end in ATTEMPT_ENDS if end != "finished" and not end.startswith("oom_")),
            interval="30s",
        ),
        graph(
            "Tasks queued again, workers lost",
            "In each interval: tasks by cause, assignments that workers refused, and workers whose lease "
            "ran out.",
            promql(f"sum by (cause) (increase({returned}[$__interval]))", "{{cause}}"),
            promql(f"sum by (code) (increase({refused}[$__interval])) > 0", "refused: {{code}}"),
            promql(f"sum(increase({lost}[$__interval]))", "workers lost"),
            unit=COUNT,
            style="bars",
            interval="30s",
        ),
    ]


def unfinished() -> Panel:
    """Returns the table of attempts that did not finish."""
    return table(
        "Attempts that did not finish",
        "The newest 100 within the range, without those that were cancelled, as an assessor or a user does.",
        rows(
            f"""SELECT ended_at, task_id, stream_id, attempt, worker_id, ending, error_stage, error_type,
            peak_memory_bytes, reserved_memory_bytes, (SELECT trace_id FROM tasks
            WHERE tasks.task_id = attempts.task_id AND tasks.stream_id = attempts.stream_id) AS trace_id,
            error_message FROM attempts
            WHERE ending NOT IN ('finished', 'cancelled') AND {within("ended_ms")} AND {WORKERS}
            ORDER BY ended_ms DESC LIMIT 100"""
        ),
        [
            Column("ended_at", 160, "ended"),
            Column("task_id", 240, "task", links.to_trial()),
            Column("stream_id", 180, "stream", links.to_search("stream_id")),
            Column("attempt", 70),
            Column("worker_id", 160, "worker", links.to_worker()),
            Column("ending", 110, status=True),
            Column("error_stage", 75, "stage"),
            Column("error_type", 150, "error"),
            Column("peak_memory_bytes", 85, "peak"),
            Column("reserved_memory_bytes", 85, "reserved"),
            trace_column(),
            Column("error_message", title="message"),
        ],
        none="All attempts of the range have finished",
    )


def tasks() -> list[Panel]:
    """Returns graphs of attempts, their times, and artifacts."""
    ended, assigned = series("trackside.worker.ended.tasks"), series("trackside.scheduler.assigned.tasks")
    load, train = "trackside.worker.load.seconds", "trackside.worker.train.seconds"
    return [
        graph(
            "Attempts per minute",
            "Assigned, and ended by end.",
            promql(f"sum(rate({assigned}{RATE})) * 60", "assigned"),
            promql(f"sum by (status) (rate({ended}{RATE})) * 60 > 0", "{{status}}"),
            unit=PER_MINUTE,
            statuses=ATTEMPT_ENDS,
        ),
        graph(
            "Loading and training",
            "The median and the 95th percentile over all workers.",
            promql(quantile(0.5, load), "load, median"),
            promql(quantile(0.95, load), "load, p95"),
            promql(quantile(0.5, train), "train, median", exemplars=True),
            promql(quantile(0.95, train), "train, p95", exemplars=True),
            unit=SECONDS,
        ),
        graph(
            "Running tasks",
            "Tasks loading or training, by instance.",
            promql(of_instances("trackside.worker.running.tasks"), "{{instance}}"),
            unit=COUNT,
            style="area",
        ),
        graph(
            "Artifacts per minute",
            "Artifacts that the store has, and uploads that failed.",
            promql(f"sum(rate({series('trackside.worker.saved.artifacts')}{RATE})) * 60", "saved"),
            promql(
                f"sum by (code) (rate({series('trackside.worker.failed.uploads')}{RATE})) * 60 > 0",
                "{{code}}",
            ),
            unit=PER_MINUTE,
        ),
        graph(
            "Bytes of artifacts",
            "Written to the store per second.",
            promql(
                f"sum by (instance) (rate({of_instances('trackside.worker.saved.bytes')}{RATE}))",
                "{{instance}}",
            ),
            unit="Bps",
        ),
        graph(
            "Time of an upload",
            "Of up to 64 artifacts.",
            promql(quantile(0.5, "trackside.worker.upload.seconds"), "median"),
            promql(quantile(0.95, "trackside.worker.upload.seconds"), "p95"),
            unit=SECONDS,
        ),
    ]


def types() -> Panel:
    """Returns the table of memory by type of task."""
    return table(
        "Memory by type of task",
        "Of the newest 5,000 attempts of the range: what users requested, what tasks used at most, and "
        "what is reserved "
        "for one without a request (10% above the peak of the newest 20 that finished).",
        rows(
            f"""SELECT task_type, count(*) AS runs, count(*) FILTER (WHERE ending = 'finished') AS finished,
            count(*) FILTER (WHERE ending IN ('oom_host', 'oom_device')) AS out_of_memory,
            percentile_disc(0.5) WITHIN GROUP (ORDER BY load_time_ms) AS load_time_p50_ms,
            percentile_disc(0.5) WITHIN GROUP (ORDER BY train_time_ms) AS train_time_p50_ms,
            max(estimate_memory_bytes) AS estimate_memory_bytes, max(peak_memory_bytes) AS
            peak_memory_max_bytes,
            trunc(1.1 * max(peak_memory_bytes) FILTER (WHERE ending = 'finished' AND place <= 20)) AS
            learned_memory_bytes,
            max(estimate_cuda_memory_bytes) AS estimate_cuda_memory_bytes,
            max(peak_cuda_memory_bytes) AS peak_cuda_memory_max_bytes,
            trunc(1.1 * max(peak_cuda_memory_bytes) FILTER (WHERE ending = 'finished' AND place <= 20))
            AS learned_cuda_memory_bytes FROM (
                SELECT newest.*, tasks.task_type, tasks.estimate_memory_bytes,
                tasks.estimate_cuda_memory_bytes,
                row_number() OVER (PARTITION BY tasks.task_type, newest.ending ORDER BY newest.ended_ms
                DESC) AS place
                FROM (
                    SELECT task_id, stream_id, ending, ended_ms, load_time_ms, train_time_ms,
                    peak_memory_bytes, peak_cuda_memory_bytes FROM attempts WHERE {within("ended_ms")}
                    ORDER BY ended_ms DESC LIMIT 5000
                ) AS newest JOIN tasks ON tasks.task_id = newest.task_id AND tasks.stream_id =
                newest.stream_id
            ) AS placed GROUP BY task_type ORDER BY runs DESC LIMIT 100"""
        ),
        [
            Column("task_type", title="type"),
            Column("runs", 90),
            Column("finished", 90),
            Column("out_of_memory", 120),
            Column("load_time_p50_ms", 110, "load, median"),
            Column("train_time_p50_ms", 120, "train, median"),
            Column("estimate_memory_bytes", 110, "requested"),
            Column("peak_memory_max_bytes", 100, "peak"),
            Column("learned_memory_bytes", 100, "learned"),
            Column("estimate_cuda_memory_bytes", 125, "requested, GPU"),
            Column("peak_cuda_memory_max_bytes", 110, "peak, GPU"),
            Column("learned_cuda_memory_bytes", 115, "learned, GPU"),
        ],
    )


def services() -> list[Panel]:
    """Returns graphs of tasks that are services, and their instructions."""
    restarted = series("trackside.scheduler.restarted_services.tasks")
    instruction = "trackside.scheduler.instruction.seconds"
    return [
        graph(
            "Tasks that are services",
            "Ready ones, instructions that none has acknowledged yet, and restarts in each interval.",
            promql(f"sum({series('trackside.scheduler.ready_services.tasks')})", "ready"),
            promql(
                f"sum({series('trackside.scheduler.unacknowledged.instructions')})",
                "unacknowledged instructions",
            ),
            promql(f"sum(increase({restarted}[$__interval]))", "restarts"),
            unit=COUNT,
            style="steps",
            interval="30s",
        ),
        graph(
            "Instructions until acknowledged",
            "From the record of an instruction to its acknowledgement by the task.",
            promql(quantile(0.5, instruction), "median"),
            promql(quantile(0.95, instruction), "p95"),
            unit=SECONDS,
        ),
    ]


def ready() -> Panel:
    """Returns the table of services."""
    return table(
        "Services",
        "Tasks that run until they are stopped.",
        rows(
            """SELECT task_id, state, restarts, worker_id, ready_since FROM services WHERE state <> 'ended'
            ORDER BY task_id LIMIT 100"""
        ),
        [
            Column("task_id", title="task", link=links.to_trial()),
            Column("state", 75, status=True),
            Column("restarts", 60),
            Column("worker_id", 80, "worker", links.to_worker()),
            Column("ready_since", 145),
        ],
        none="No task is a service",
    )
