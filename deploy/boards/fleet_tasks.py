"""The part of the fleet's board about tasks: which failed, how long they took, and services among them."""

from boards.panels import Panel, graph
from boards.queries import promql, quantiles, within
from boards.style import series
from boards.tables import table

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
    return [
        graph(
            "Out of memory",
            "Attempts that ended out of memory, and trainings that were interrupted for it, in each "
            "interval.",
            promql('sum by (status) (increase(trackside.worker.ended.tasks{status=~"oom_.*"}[$__interval]))'),
            promql(
                "sum by (resource) (increase(trackside.worker.interrupted.tasks[$__interval]))",
                "interrupted: {{resource}}",
            ),
            style="bars",
            statuses=("oom_host", "oom_device"),
            interval="30s",
        ),
        graph(
            "Attempts that did not finish",
            "By end, in each interval; out of memory has its own panel.",
            promql(
                "sum by (status) "
                '(increase(trackside.worker.ended.tasks{status!~"oom_.*|finished"}[$__interval]))'
            ),
            style="bars",
            statuses=tuple(end for end in ATTEMPT_ENDS if end != "finished" and not end.startswith("oom_")),
            interval="30s",
        ),
        graph(
            "Tasks queued again, workers lost",
            "In each interval: tasks by cause, assignments that workers refused, and workers whose lease "
            "ran out.",
            promql("sum by (cause) (increase(trackside.scheduler.returned.tasks[$__interval]))"),
            promql(
                "sum by (code) (increase(trackside.worker.refused.tasks[$__interval])) > 0",
                "refused: {{code}}",
            ),
            promql("sum(increase(trackside.scheduler.lost.workers[$__interval]))", "workers lost"),
            style="bars",
            interval="30s",
        ),
    ]


def unfinished() -> Panel:
    """Returns the table of attempts that did not finish."""
    return table(
        "Attempts that did not finish",
        "The newest 100 within the range, without those that were cancelled, as an assessor or a user does.",
        f"""SELECT ended_at, task_id, stream_id, attempt, worker_id, ending, error_stage, error_type,
        peak_memory_bytes, reserved_memory_bytes, (SELECT trace_id FROM tasks
        WHERE tasks.task_id = attempts.task_id AND tasks.stream_id = attempts.stream_id) AS trace_id,
        error_message FROM attempts WHERE ending NOT IN ('finished', 'cancelled') AND {within("ended_ms")}
        AND {WORKERS} ORDER BY ended_ms DESC LIMIT 100""",
        """ended_at 160 ended | task_id 240 task > trial | stream_id 180 stream > search:stream_id |
        attempt 70 | worker_id 160 worker > worker | ending 110 ! | error_stage 75 stage |
        error_type 150 error | peak_memory_bytes 85 peak | reserved_memory_bytes 85 reserved |
        trace_id | error_message message""",
        none="All attempts of the range have finished",
    )


def tasks() -> list[Panel]:
    """Returns graphs of attempts, their times, and artifacts."""
    return [
        graph(
            "Attempts per minute",
            "Assigned, and ended by end.",
            promql("sum(rate(trackside.scheduler.assigned.tasks[rate])) * 60", "assigned"),
            promql("sum by (status) (rate(trackside.worker.ended.tasks[rate])) * 60 > 0"),
            statuses=ATTEMPT_ENDS,
        ),
        graph(
            "Loading and training",
            "The median and the 95th percentile over all workers.",
            *quantiles("trackside.worker.load.seconds", {0.5: "load, median", 0.95: "load, p95"}),
            *quantiles(
                "trackside.worker.train.seconds", {0.5: "train, median", 0.95: "train, p95"}, exemplars=True
            ),
        ),
        graph(
            "Running tasks",
            "Tasks loading or training, by instance.",
            promql(of_instances("trackside.worker.running.tasks"), "{{instance}}"),
            style="area",
        ),
        graph(
            "Artifacts per minute",
            "Artifacts that the store has, and uploads that failed.",
            promql("sum(rate(trackside.worker.saved.artifacts[rate])) * 60", "saved"),
            promql("sum by (code) (rate(trackside.worker.failed.uploads[rate])) * 60 > 0"),
        ),
        graph(
            "Bytes of artifacts",
            "Written to the store per second.",
            promql(f"sum by (instance) (rate({of_instances('trackside.worker.saved.bytes')}[rate]))"),
        ),
        graph(
            "Time of an upload",
            "Of up to 64 artifacts.",
            *quantiles("trackside.worker.upload.seconds", {0.5: "median", 0.95: "p95"}),
        ),
    ]


def types() -> Panel:
    """Returns the table of memory by type of task."""
    return table(
        "Memory by type of task",
        "Of the newest 5,000 attempts of the range: what users requested, what tasks used at most, and "
        "what is reserved for one without a request (10% above the peak of the newest 20 that finished).",
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
            ) AS placed GROUP BY task_type ORDER BY runs DESC LIMIT 100""",
        """task_type type | runs 90 | finished 90 | out_of_memory 120 |
        load_time_p50_ms 110 load, median | train_time_p50_ms 120 train, median |
        estimate_memory_bytes 110 requested | peak_memory_max_bytes 100 peak |
        learned_memory_bytes 100 learned | estimate_cuda_memory_bytes 125 requested, GPU |
        peak_cuda_memory_max_bytes 110 peak, GPU | learned_cuda_memory_bytes 115 learned, GPU""",
    )


def services() -> list[Panel]:
    """Returns graphs of tasks that are services, and their instructions."""
    return [
        graph(
            "Tasks that are services",
            "Ready ones, instructions that none has acknowledged yet, and restarts in each interval.",
            promql("sum(trackside.scheduler.ready_services.tasks)", "ready"),
            promql(
                "sum(trackside.scheduler.unacknowledged.instructions)",
                "unacknowledged instructions",
            ),
            promql("sum(increase(trackside.scheduler.restarted_services.tasks[$__interval]))", "restarts"),
            style="steps",
            interval="30s",
        ),
        graph(
            "Instructions until acknowledged",
            "From the record of an instruction to its acknowledgement by the task.",
            *quantiles("trackside.scheduler.instruction.seconds", {0.5: "median", 0.95: "p95"}),
        ),
    ]


def ready() -> Panel:
    """Returns the table of services."""
    return table(
        "Services",
        "Tasks that run until they are stopped.",
        """SELECT task_id, state, restarts, worker_id, ready_since FROM services WHERE state <> 'ended'
            ORDER BY task_id LIMIT 100""",
        """task_id task > trial | state 75 ! | restarts 60 | worker_id 80 worker > worker |
        ready_since 145""",
        none="No task is a service",
    )
