"""Every metric of Trackside: `trackside.<service>.<noun>.<unit>`, its kind, labels and one line of help.

`docs/reference/metrics.md` is generated from `METRICS`. The literals let mypy refuse a name that isn't here.
Prometheus writes a name with underscores, a counter with `_total` at its end.
"""

from dataclasses import dataclass
from typing import Final, Literal

CounterName = Literal[
    "trackside.eventlog.read.records",
    "trackside.eventlog.appended.batches",
    "trackside.eventlog.appended.events",
    "trackside.eventlog.append_retries.batches",
    "trackside.eventlog.ignored.events",
    "trackside.eventlog.dead_letters.records",
    "trackside.dispatcher.received.commands",
    "trackside.dispatcher.refused.commands",
    "trackside.dispatcher.ended.trials",
    "trackside.dispatcher.uncounted.metrics",
    "trackside.scheduler.assigned.tasks",
    "trackside.scheduler.returned.tasks",
    "trackside.scheduler.lost.workers",
    "trackside.scheduler.restarted_services.tasks",
    "trackside.worker.ended.tasks",
    "trackside.worker.refused.tasks",
    "trackside.worker.dropped.batches",
    "trackside.worker.dropped.summaries",
    "trackside.worker.interrupted.tasks",
    "trackside.worker.saved.artifacts",
    "trackside.worker.saved.bytes",
    "trackside.worker.failed.uploads",
    "trackside.projections.written.rows",
    "trackside.summary_indexer.indexed.points",
    "trackside.summary_indexer.indexed.batches",
    "trackside.summary_indexer.read.curves",
    "trackside.summary_indexer.failed.loads",
    "trackside.summary_indexer.failed.updaters",
]
GaugeName = Literal[
    "trackside.health.ready.services",
    "trackside.health.disk_low.services",
    "trackside.health.log_lag.seconds",
    "trackside.health.loop_lag.seconds",
    "trackside.eventlog.open.streams",
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
    "trackside.scheduler.busy.devices",
    "trackside.scheduler.free.devices",
    "trackside.scheduler.ready_services.tasks",
    "trackside.scheduler.unacknowledged.instructions",
    "trackside.worker.running.tasks",
    "trackside.worker.host_memory.bytes",
    "trackside.worker.host_available.bytes",
    "trackside.worker.host_processor.percent",
    "trackside.worker.device_total.bytes",
    "trackside.worker.device_memory.bytes",
    "trackside.worker.device_reserved.bytes",
    "trackside.worker.device_utilisation.percent",
    "trackside.worker.device.tasks",
    "trackside.worker.spool.bytes",
    "trackside.projections.lag.records",
]
HistogramName = Literal[
    "trackside.eventlog.append.seconds",
    "trackside.eventlog.recovery.seconds",
    "trackside.dispatcher.suggestion.seconds",
    "trackside.scheduler.queue_wait.seconds",
    "trackside.scheduler.instruction.seconds",
    "trackside.worker.load.seconds",
    "trackside.worker.train.seconds",
    "trackside.worker.upload.seconds",
    "trackside.projections.transaction.seconds",
    "trackside.summary_indexer.index.seconds",
]
MetricKind = Literal["counter", "gauge", "histogram"]

_FAST: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_SLOW: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `buckets` are the upper bounds of a histogram, in the unit that the name ends with."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """Returns the name as Prometheus has it, without the `_total` that it adds to a counter."""
        return self.name.replace(".", "_")


def _counter(name: CounterName, text: str, *labels: str) -> Metric:
    return Metric(name, "counter", text, labels)


def _gauge(name: GaugeName, text: str, *labels: str) -> Metric:
    return Metric(name, "gauge", text, labels)


def _histogram(name: HistogramName, text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name, "histogram", text, labels, buckets)


METRICS: Final[tuple[Metric, ...]] = (
    _gauge("trackside.health.ready.services", "1 while this process says it is ready, else 0."),
    _gauge(
        "trackside.health.disk_low.services",
        "1 while this process starts no new task because a disk is nearly full.",
    ),
    _gauge("trackside.health.log_lag.seconds", "Age of the oldest record not folded yet.", "topic"),
    _gauge("trackside.health.loop_lag.seconds", "How late the event loop woke when it last had to."),
    _counter("trackside.eventlog.read.records", "Records read and folded.", "topic"),
    _counter("trackside.eventlog.appended.batches", "Batches of events the broker acknowledged.", "topic"),
    _counter("trackside.eventlog.appended.events", "Events in the acknowledged batches.", "topic"),
    _counter("trackside.eventlog.append_retries.batches", "Batches proposed again after a timeout.", "topic"),
    _histogram(
        "trackside.eventlog.append.seconds", "From send to acknowledgement of a batch.", _FAST, "topic"
    ),
    _counter("trackside.eventlog.ignored.events", "Events that evolve ignored, by verdict.", "verdict"),
    _counter(
        "trackside.eventlog.dead_letters.records", "Records sent to the dead letters.", "topic", "reason"
    ),
    _gauge("trackside.eventlog.open.streams", "Streams in memory that have not ended."),
    _histogram("trackside.eventlog.recovery.seconds", "From start to the first decision.", _SLOW),
    _counter("trackside.dispatcher.received.commands", "Commands recorded on their stream.", "type"),
    _counter("trackside.dispatcher.refused.commands", "Commands refused, by code.", "code"),
    _counter("trackside.dispatcher.ended.trials", "Trials ended, by status.", "status"),
    _counter("trackside.dispatcher.uncounted.metrics", "Reports that had no effect, by reason.", "reason"),
    _gauge("trackside.dispatcher.lane_backlog.requests", "Requests waiting for tuners or assessors.", "lane"),
    _gauge(
        "trackside.dispatcher.job_training.samples",
        "Samples of an incremental job that wait for its next round.",
        "job",
    ),
    _gauge(
        "trackside.dispatcher.job_evaluation.samples",
        "Samples that an incremental job evaluates with.",
        "job",
    ),
    _gauge(
        "trackside.dispatcher.job_begun.rounds",
        "Rounds that an incremental job has begun: the number of the newest.",
        "job",
    ),
    _gauge(
        "trackside.dispatcher.job_failed.rounds",
        "Rounds of an incremental job that have failed one after another, up to now.",
        "job",
    ),
    _gauge(
        "trackside.dispatcher.job_stage.jobs",
        "1 for the stage that an incremental job is in, and its state.",
        "job",
        "stage",
        "state",
    ),
    _gauge(
        "trackside.dispatcher.job_blocked.stages", "1 if the stage of an incremental job is blocked.", "job"
    ),
    _gauge(
        "trackside.dispatcher.job_metric.values",
        "Newest metrics of the trained and the deployed model; the mean of a list.",
        "job",
        "model",
        "metric",
    ),
    _gauge("trackside.dispatcher.job_live.versions", "Version of the model that is live.", "job"),
    _gauge(
        "trackside.dispatcher.job_updating.targets",
        "Targets that have not confirmed the model that is deployed now.",
        "job",
    ),
    _gauge(
        "trackside.dispatcher.job_inferences.requests",
        "Inferences that the services of a job have counted.",
        "job",
    ),
    _gauge(
        "trackside.dispatcher.job_hard.requests",
        "Hard examples that the services of a job have counted.",
        "job",
    ),
    _histogram("trackside.dispatcher.suggestion.seconds", "Time a tuner took to suggest.", _FAST, "tuner"),
    _gauge("trackside.scheduler.queue.tasks", "Tasks waiting for a device."),
    _gauge("trackside.scheduler.busy.devices", "Devices with a task placed on them."),
    _gauge("trackside.scheduler.free.devices", "Devices of live workers with no task."),
    _counter("trackside.scheduler.assigned.tasks", "Assignments of tasks to devices."),
    _counter("trackside.scheduler.returned.tasks", "Tasks queued again, by cause.", "cause"),
    _counter("trackside.scheduler.lost.workers", "Workers whose lease ran out."),
    _histogram("trackside.scheduler.queue_wait.seconds", "From queued to assigned.", _SLOW),
    _gauge("trackside.scheduler.ready_services.tasks", "Tasks that are services, and are ready."),
    _counter("trackside.scheduler.restarted_services.tasks", "Services placed again after an attempt."),
    _gauge("trackside.scheduler.unacknowledged.instructions", "Instructions not yet acknowledged."),
    _histogram("trackside.scheduler.instruction.seconds", "From instruction to acknowledgement.", _FAST),
    _gauge("trackside.worker.running.tasks", "Tasks loading or training here."),
    _counter("trackside.worker.ended.tasks", "Attempts ended here, by status.", "status"),
    _counter("trackside.worker.interrupted.tasks", "Trainings out of memory, by resource.", "resource"),
    _gauge("trackside.worker.host_memory.bytes", "Memory of this host, or of this container."),
    _gauge("trackside.worker.host_available.bytes", "Memory of this host that processes could still get."),
    _gauge("trackside.worker.host_processor.percent", "Use of this host's processors, 100 for all cores."),
    _gauge("trackside.worker.device_total.bytes", "Memory of a device; a CPU slot has its share.", "device"),
    _gauge(
        "trackside.worker.device_memory.bytes",
        "Memory in use; of a CPU slot by its task.",
        "device",
    ),
    _gauge(
        "trackside.worker.device_reserved.bytes",
        "Memory that the ledger holds for tasks.",
        "device",
    ),
    _gauge(
        "trackside.worker.device_utilisation.percent",
        "Use of a GPU's cores; of a CPU slot, by its task, 100 for one core.",
        "device",
    ),
    _gauge("trackside.worker.device.tasks", "Tasks that have a process and this device.", "device"),
    _counter("trackside.worker.refused.tasks", "Assignments refused here, by code.", "code"),
    _counter(
        "trackside.worker.dropped.batches", "Points and lines dropped while the log did not answer.", "topic"
    ),
    _counter(
        "trackside.worker.dropped.summaries", "Images and other values whose bytes were not stored.", "code"
    ),
    _counter("trackside.worker.saved.artifacts", "Artifacts of tasks that the store has."),
    _counter("trackside.worker.saved.bytes", "Bytes of these artifacts."),
    _counter("trackside.worker.failed.uploads", "Uploads that failed, and may be tried again.", "code"),
    _gauge("trackside.worker.spool.bytes", "Bytes that tasks have saved and the store doesn't have yet."),
    _histogram("trackside.worker.upload.seconds", "Time of one upload, of up to 64 artifacts.", _SLOW),
    _histogram("trackside.worker.load.seconds", "Time a task took to load.", _SLOW),
    _histogram("trackside.worker.train.seconds", "Time a task took to train.", _SLOW),
    _counter("trackside.projections.written.rows", "Rows written to Postgres.", "projection"),
    _gauge(
        "trackside.projections.lag.records", "Records read from the log and not written yet.", "projection"
    ),
    _histogram("trackside.projections.transaction.seconds", "Time of one transaction.", _FAST, "projection"),
    _counter("trackside.summary_indexer.indexed.points", "Metric points written to Postgres."),
    _counter("trackside.summary_indexer.indexed.batches", "Batches of points written to Postgres."),
    _counter("trackside.summary_indexer.read.curves", "Curves read over HTTP.", "cached"),
    _counter("trackside.summary_indexer.failed.loads", "Loads of jobs into memory that failed."),
    _counter("trackside.summary_indexer.failed.updaters", "Calls of updaters that failed."),
    _histogram("trackside.summary_indexer.index.seconds", "Time of one batch of points.", _FAST),
)
