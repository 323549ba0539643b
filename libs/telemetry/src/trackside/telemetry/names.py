"""Every metric of Trackside: `trackside.<service>.<noun>.<unit>`, its kind, labels and one line of help.

`docs/reference/metrics.md` is generated from `METRICS`. The literals let mypy refuse a name that isn't here.
Prometheus writes a name with underscores, a counter with `_total` at its end. No metric has a label for tasks
or trials: they would be too many series.
"""

from typing import Final, Literal

from trackside.telemetry import labels
from trackside.telemetry.labels import CALLS, DAYS, HOPS, MINUTES, Metric, MetricLabel

CounterName = Literal[
    "trackside.eventlog.read.records",
    "trackside.eventlog.appended.batches",
    "trackside.eventlog.appended.events",
    "trackside.eventlog.append_retries.batches",
    "trackside.eventlog.ignored.events",
    "trackside.eventlog.dead_letters.records",
    "trackside.dispatcher.received.commands",
    "trackside.dispatcher.accepted.commands",
    "trackside.dispatcher.refused.commands",
    "trackside.dispatcher.started.searches",
    "trackside.dispatcher.ended.searches",
    "trackside.dispatcher.suggested.trials",
    "trackside.dispatcher.ended.trials",
    "trackside.dispatcher.uncounted.metrics",
    "trackside.dispatcher.distrusted.events",
    "trackside.dispatcher.stuck.decisions",
    "trackside.scheduler.assigned.tasks",
    "trackside.scheduler.returned.tasks",
    "trackside.scheduler.lost.workers",
    "trackside.scheduler.restarted_services.tasks",
    "trackside.worker.ended.tasks",
    "trackside.worker.refused.tasks",
    "trackside.worker.dropped.batches",
    "trackside.worker.dropped.summaries",
    "trackside.worker.interrupted.tasks",
    "trackside.worker.device_busy.seconds",
    "trackside.worker.device_processor.seconds",
    "trackside.worker.saved.artifacts",
    "trackside.worker.saved.bytes",
    "trackside.worker.failed.uploads",
    "trackside.projections.written.rows",
    "trackside.projections.failed.transactions",
    "trackside.projections.ended.sessions",
    "trackside.summary_indexer.indexed.points",
    "trackside.summary_indexer.indexed.batches",
    "trackside.summary_indexer.read.curves",
    "trackside.summary_indexer.failed.loads",
    "trackside.summary_indexer.failed.updaters",
    "trackside.console.pushed.fragments",
    "trackside.console.published.commands",
]
GaugeName = Literal[
    "trackside.build.info",
    "trackside.health.ready.services",
    "trackside.health.disk_low.services",
    "trackside.health.disk_available.bytes",
    "trackside.health.disk_size.bytes",
    "trackside.health.log_lag.seconds",
    "trackside.health.log_lag.records",
    "trackside.health.clock_skew.seconds",
    "trackside.eventlog.open.streams",
    "trackside.dispatcher.running.searches",
    "trackside.dispatcher.parked.streams",
    "trackside.dispatcher.waiting_slots.trials",
    "trackside.dispatcher.oldest_progress.seconds",
    "trackside.dispatcher.lane_backlog.requests",
    "trackside.dispatcher.job_training.samples",
    "trackside.dispatcher.job_evaluation.samples",
    "trackside.dispatcher.job_begun.rounds",
    "trackside.dispatcher.job_failed.rounds",
    "trackside.dispatcher.job_stage.jobs",
    "trackside.dispatcher.job_blocked.stages",
    "trackside.dispatcher.job_metric.values",
    "trackside.dispatcher.job_live.versions",
    "trackside.dispatcher.job_updating.targets",
    "trackside.dispatcher.job_inferences.requests",
    "trackside.dispatcher.job_hard.requests",
    "trackside.scheduler.queue.tasks",
    "trackside.scheduler.fleet.workers",
    "trackside.scheduler.busy.devices",
    "trackside.scheduler.free.devices",
    "trackside.scheduler.ready_services.tasks",
    "trackside.scheduler.unacknowledged.instructions",
    "trackside.worker.running.tasks",
    "trackside.worker.host_memory.bytes",
    "trackside.worker.host_available.bytes",
    "trackside.worker.host_processor.ratio",
    "trackside.worker.device_total.bytes",
    "trackside.worker.device_memory.bytes",
    "trackside.worker.device_reserved.bytes",
    "trackside.worker.device_utilisation.ratio",
    "trackside.worker.device.tasks",
    "trackside.worker.spool.bytes",
    "trackside.projections.lag.records",
    "trackside.projections.lag.seconds",
    "trackside.summary_indexer.lag.seconds",
    "trackside.console.open.pages",
]
HistogramName = Literal[
    "trackside.health.loop_lag.seconds",
    "trackside.eventlog.append.seconds",
    "trackside.eventlog.decision.seconds",
    "trackside.eventlog.hop.seconds",
    "trackside.eventlog.recovery.seconds",
    "trackside.dispatcher.command.seconds",
    "trackside.dispatcher.command_decision.seconds",
    "trackside.dispatcher.suggestion.seconds",
    "trackside.dispatcher.trial.seconds",
    "trackside.scheduler.queue_wait.seconds",
    "trackside.scheduler.instruction.seconds",
    "trackside.worker.load.seconds",
    "trackside.worker.train.seconds",
    "trackside.worker.upload.seconds",
    "trackside.projections.transaction.seconds",
    "trackside.summary_indexer.index.seconds",
    "trackside.console.render.seconds",
]


def _counter(name: CounterName, text: str, *of: MetricLabel) -> Metric:
    return Metric(name, "counter", text, of)


def _gauge(name: GaugeName, text: str, *of: MetricLabel) -> Metric:
    return Metric(name, "gauge", text, of)


def _histogram(name: HistogramName, text: str, buckets: tuple[float, ...], *of: MetricLabel) -> Metric:
    return Metric(name, "histogram", text, of, buckets)


METRICS: Final[tuple[Metric, ...]] = (
    _gauge(
        "trackside.build.info", "1, with what runs as labels.", labels.SERVICE, labels.VERSION, labels.PYTHON
    ),
    _gauge("trackside.health.ready.services", "1 while this process says it is ready, else 0."),
    _gauge(
        "trackside.health.disk_low.services",
        "1 while this process starts no new task because a disk is nearly full.",
    ),
    _gauge(
        "trackside.health.disk_available.bytes", "Space that is left on the disk of a folder.", labels.FOLDER
    ),
    _gauge("trackside.health.disk_size.bytes", "Size of the disk of a folder.", labels.FOLDER),
    _gauge("trackside.health.log_lag.seconds", "Age of the oldest record not folded yet.", labels.TOPIC),
    _gauge(
        "trackside.health.log_lag.records",
        "Records between what is folded and the end of the log.",
        labels.TOPIC,
    ),
    _histogram("trackside.health.loop_lag.seconds", "How late the event loop woke.", HOPS),
    _gauge(
        "trackside.health.clock_skew.seconds",
        "Own clock minus that of the log, at the last append of this process: positive is ahead.",
    ),
    _counter("trackside.eventlog.read.records", "Records read and folded.", labels.TOPIC),
    _counter(
        "trackside.eventlog.appended.batches", "Batches of events the broker acknowledged.", labels.TOPIC
    ),
    _counter("trackside.eventlog.appended.events", "Events in the acknowledged batches.", labels.TOPIC),
    _counter(
        "trackside.eventlog.append_retries.batches", "Batches proposed again after a timeout.", labels.TOPIC
    ),
    _histogram(
        "trackside.eventlog.append.seconds", "From send to acknowledgement of a batch.", CALLS, labels.TOPIC
    ),
    _histogram(
        "trackside.eventlog.decision.seconds",
        "From reading the record that led to a decision to the acknowledgement of the decision.",
        HOPS,
    ),
    _histogram(
        "trackside.eventlog.hop.seconds",
        "From the append of a record, by the clock of the log, to its fold here; not of those of the start.",
        HOPS,
        labels.TOPIC,
    ),
    _counter(
        "trackside.eventlog.ignored.events",
        "Events of decisions of this process that had no effect.",
        labels.VERDICT,
    ),
    _counter(
        "trackside.eventlog.dead_letters.records",
        "Records sent to the dead letters.",
        labels.TOPIC,
        labels.DEAD_LETTER_CODE,
    ),
    _gauge("trackside.eventlog.open.streams", "Streams in memory that have not ended."),
    _histogram("trackside.eventlog.recovery.seconds", "From start to the first decision.", MINUTES),
    _counter(
        "trackside.dispatcher.received.commands", "Commands recorded on their stream.", labels.COMMAND_TYPE
    ),
    _counter("trackside.dispatcher.accepted.commands", "Commands accepted.", labels.COMMAND_TYPE),
    _counter("trackside.dispatcher.refused.commands", "Commands refused.", labels.REFUSAL_CODE),
    _histogram(
        "trackside.dispatcher.command.seconds", "From the record of a command to that of its answer.", HOPS
    ),
    _histogram(
        "trackside.dispatcher.command_decision.seconds",
        "Time in which the answer to a command is decided; nothing else is decided meanwhile.",
        CALLS,
        labels.COMMAND_TYPE,
    ),
    _counter("trackside.dispatcher.started.searches", "Searches started."),
    _counter("trackside.dispatcher.ended.searches", "Searches ended.", labels.SEARCH_END),
    _counter("trackside.dispatcher.suggested.trials", "Trials suggested."),
    _counter("trackside.dispatcher.ended.trials", "Trials ended.", labels.TRIAL_END),
    _histogram(
        "trackside.dispatcher.trial.seconds",
        "From the suggestion of a trial to its end.",
        DAYS,
        labels.TRIAL_END,
    ),
    _gauge("trackside.dispatcher.running.searches", "Searches that have not ended and are not paused."),
    _gauge(
        "trackside.dispatcher.parked.streams",
        "Streams of which nothing is decided: a record needs a newer release, or deciding took too long.",
    ),
    _counter(
        "trackside.dispatcher.stuck.decisions",
        "Decisions that took so long that the process before ended itself for them.",
    ),
    _gauge(
        "trackside.dispatcher.waiting_slots.trials", "Open slots of running searches without a suggestion."
    ),
    _gauge(
        "trackside.dispatcher.oldest_progress.seconds",
        "Longest time since the newest event of a running search; 0 if none runs.",
    ),
    _counter("trackside.dispatcher.uncounted.metrics", "Reports that had no effect.", labels.IGNORED_REASON),
    _counter(
        "trackside.dispatcher.distrusted.events",
        "Events without effect, because their signature does not count.",
        labels.DISTRUST_REASON,
    ),
    _gauge(
        "trackside.dispatcher.lane_backlog.requests",
        "Requests waiting for tuners or assessors.",
        labels.LANE,
    ),
    _gauge(
        "trackside.dispatcher.job_training.samples",
        "Samples of an incremental job that wait for its next round.",
        labels.JOB,
    ),
    _gauge(
        "trackside.dispatcher.job_evaluation.samples",
        "Samples that an incremental job evaluates with.",
        labels.JOB,
    ),
    _gauge(
        "trackside.dispatcher.job_begun.rounds",
        "Rounds that an incremental job has begun: the number of the newest.",
        labels.JOB,
    ),
    _gauge(
        "trackside.dispatcher.job_failed.rounds",
        "Rounds of an incremental job that have failed one after another, up to now.",
        labels.JOB,
    ),
    _gauge(
        "trackside.dispatcher.job_stage.jobs",
        "1 for the stage that an incremental job is in, and its state.",
        labels.JOB,
        labels.STAGE,
        labels.STAGE_STATE,
    ),
    _gauge(
        "trackside.dispatcher.job_blocked.stages",
        "1 if the stage of an incremental job is blocked.",
        labels.JOB,
    ),
    _gauge(
        "trackside.dispatcher.job_metric.values",
        "Newest metrics of the trained and the deployed model; the mean of a list.",
        labels.JOB,
        labels.MODEL,
        labels.METRIC,
    ),
    _gauge("trackside.dispatcher.job_live.versions", "Version of the model that is live.", labels.JOB),
    _gauge(
        "trackside.dispatcher.job_updating.targets",
        "Targets that have not confirmed the model that is deployed now.",
        labels.JOB,
    ),
    _gauge(
        "trackside.dispatcher.job_inferences.requests",
        "Inferences that the services of a job have counted.",
        labels.JOB,
    ),
    _gauge(
        "trackside.dispatcher.job_hard.requests",
        "Hard examples that the services of a job have counted.",
        labels.JOB,
    ),
    _histogram(
        "trackside.dispatcher.suggestion.seconds", "Time a tuner took to suggest.", CALLS, labels.TUNER
    ),
    _gauge("trackside.scheduler.queue.tasks", "Tasks waiting for a device.", labels.WAIT_REASON),
    _gauge("trackside.scheduler.fleet.workers", "Workers.", labels.WORKER_STATE),
    _gauge("trackside.scheduler.busy.devices", "Devices with a task placed on them."),
    _gauge(
        "trackside.scheduler.free.devices",
        "Devices of live workers with no task, neither failed nor drained.",
    ),
    _counter("trackside.scheduler.assigned.tasks", "Assignments of tasks to devices."),
    _counter("trackside.scheduler.returned.tasks", "Tasks queued again.", labels.RETURN_CAUSE),
    _counter("trackside.scheduler.lost.workers", "Workers whose lease ran out."),
    _histogram("trackside.scheduler.queue_wait.seconds", "From queued to assigned.", DAYS),
    _gauge("trackside.scheduler.ready_services.tasks", "Tasks that are services, and are ready."),
    _counter("trackside.scheduler.restarted_services.tasks", "Services placed again after an attempt."),
    _gauge("trackside.scheduler.unacknowledged.instructions", "Instructions not yet acknowledged."),
    _histogram("trackside.scheduler.instruction.seconds", "From instruction to acknowledgement.", HOPS),
    _gauge("trackside.worker.running.tasks", "Tasks loading or training here."),
    _counter("trackside.worker.ended.tasks", "Attempts ended here.", labels.ATTEMPT_END),
    _counter("trackside.worker.interrupted.tasks", "Trainings out of memory.", labels.RESOURCE),
    _counter("trackside.worker.device_busy.seconds", "Time that tasks held a device.", labels.DEVICE),
    _counter(
        "trackside.worker.device_processor.seconds",
        "Processor time of the tasks on a CPU slot, as sampled once a second.",
        labels.DEVICE,
    ),
    _gauge("trackside.worker.host_memory.bytes", "Memory of this host, or of this container."),
    _gauge("trackside.worker.host_available.bytes", "Memory of this host that processes could still get."),
    _gauge("trackside.worker.host_processor.ratio", "Use of this host's processors: 1 is all cores."),
    _gauge(
        "trackside.worker.device_total.bytes", "Memory of a device; a CPU slot has its share.", labels.DEVICE
    ),
    _gauge(
        "trackside.worker.device_memory.bytes", "Memory in use; of a CPU slot by its task.", labels.DEVICE
    ),
    _gauge(
        "trackside.worker.device_reserved.bytes", "Memory that the ledger holds for tasks.", labels.DEVICE
    ),
    _gauge(
        "trackside.worker.device_utilisation.ratio",
        "Sampled use of a GPU's cores; of a CPU slot by its task, where 1 is one core.",
        labels.DEVICE,
    ),
    _gauge("trackside.worker.device.tasks", "Tasks that have a process and this device.", labels.DEVICE),
    _counter("trackside.worker.refused.tasks", "Assignments refused here.", labels.TASK_REFUSAL_CODE),
    _counter(
        "trackside.worker.dropped.batches",
        "Points and lines dropped while the log did not answer.",
        labels.TOPIC,
    ),
    _counter(
        "trackside.worker.dropped.summaries",
        "Images and other values whose bytes were not stored.",
        labels.SUMMARY_CODE,
    ),
    _counter("trackside.worker.saved.artifacts", "Artifacts of tasks that the store has."),
    _counter("trackside.worker.saved.bytes", "Bytes of these artifacts."),
    _counter(
        "trackside.worker.failed.uploads", "Uploads that failed, and may be tried again.", labels.UPLOAD_CODE
    ),
    _gauge("trackside.worker.spool.bytes", "Bytes that tasks have saved and the store doesn't have yet."),
    _histogram("trackside.worker.upload.seconds", "Time of one upload, of up to 64 artifacts.", MINUTES),
    _histogram("trackside.worker.load.seconds", "Time a task took to load.", DAYS),
    _histogram("trackside.worker.train.seconds", "Time a task took to train.", DAYS),
    _counter("trackside.projections.written.rows", "Rows written to Postgres.", labels.TABLE),
    _counter(
        "trackside.projections.failed.transactions",
        "Transactions that failed, and are tried again.",
        labels.OWNER,
    ),
    _counter(
        "trackside.projections.ended.sessions",
        "Sessions of the login of dashboards that were ended, most as their transaction lasted over 15 s.",
    ),
    _gauge(
        "trackside.projections.lag.records", "Records read from the log and not written yet.", labels.OWNER
    ),
    _gauge("trackside.projections.lag.seconds", "Age of the oldest record not written yet.", labels.OWNER),
    _histogram("trackside.projections.transaction.seconds", "Time of one transaction.", CALLS, labels.OWNER),
    _gauge("trackside.summary_indexer.lag.seconds", "Age of the oldest batch of points not written yet."),
    _counter("trackside.summary_indexer.indexed.points", "Metric points written to Postgres."),
    _counter("trackside.summary_indexer.indexed.batches", "Batches of points written to Postgres."),
    _counter("trackside.summary_indexer.read.curves", "Curves read over HTTP.", labels.CACHED),
    _counter("trackside.summary_indexer.failed.loads", "Loads of jobs into memory that failed."),
    _counter("trackside.summary_indexer.failed.updaters", "Calls of updaters that failed."),
    _histogram("trackside.summary_indexer.index.seconds", "Time of one batch of points.", CALLS),
    _gauge("trackside.console.open.pages", "Open pages that get changes."),
    _histogram(
        "trackside.console.render.seconds",
        "Time to read and render a page, or its content when that has changed.",
        CALLS,
    ),
    _counter("trackside.console.pushed.fragments", "Contents sent to open pages, one for each page."),
    _counter("trackside.console.published.commands", "Commands of forms.", labels.COMMAND_ANSWER),
)
