"""The board of the log and the services: appends, hops, throughput, read models, broker, database."""

from boards import annotations, console_panels, links, work_panels
from boards.board import Board, Place, Section, Variable
from boards.panels import Panel, graph, number
from boards.queries import RATE, latest, promql, quantile, rows
from boards.style import BYTES, COUNT, GREEN, PER_MINUTE, PER_SECOND, RED, SECONDS, series
from boards.tables import Column, table

_SERVICE = '{service=~"$service"}'


def board() -> Board:
    """Returns the board."""
    return Board(
        uid=links.LOG,
        description="The log and the services. The last sections need exporters of Kafka and Postgres.",
        sections=[
            Section("Services", [Place(_versions(), 24, 4), *(Place(panel, 8, 8) for panel in _services())]),
            Section("Log", [Place(panel, 8, 8) for panel in [*_log(), *_flow(), *_faults()]]),
            Section(
                "Read models and points", [Place(panel, 8, 8) for panel in [*_projections(), *_failures()]]
            ),
            Section("Dead letters and updaters", [Place(_letters(), 14, 8), Place(_updaters(), 10, 8)]),
            Section("Console", [Place(panel, 8, 7) for panel in console_panels.panels()]),
            Section("Broker (kafka-exporter)", [Place(panel, 8, 7) for panel in _broker()]),
            Section("Database (postgres-exporter)", [Place(panel, 8, 7) for panel in _database()]),
        ],
        variables=[
            Variable(
                "service",
                "Service",
                f"label_values({series('trackside.health.ready.services')}, service)",
                all_values=True,
                prometheus=True,
            )
        ],
        annotations=[annotations.restarts(), annotations.workers()],
        span="now-6h",
        refresh="10s",
    )


def _versions() -> Panel:
    info, ready = series("trackside.build.info"), series("trackside.health.ready.services")
    return number(
        "Services, with their versions",
        "Each instance that is scraped: whether it is ready, its version and its Python.",
        latest(
            f"{ready}{_SERVICE} * on (instance, service) group_left (version, python) {info}",
            "{{service}} {{instance}}: {{version}}, Python {{python}}",
        ),
        unit=COUNT,
        steps=((None, RED), (1, GREEN)),
        words={0: "not ready", 1: "ready"},
    )


def _services() -> list[Panel]:
    loop, recovery = "trackside.health.loop_lag.seconds", "trackside.eventlog.recovery.seconds"
    available, size = (
        series("trackside.health.disk_available.bytes"),
        series("trackside.health.disk_size.bytes"),
    )
    return [
        graph(
            "Lag of the event loop",
            "How late the event loop of a service woke, 99th percentile.",
            promql(quantile(0.99, loop, by="service, instance", where=_SERVICE), "{{service}} {{instance}}"),
            unit=SECONDS,
            steps=((None, GREEN), (0.5, RED)),
        ),
        graph(
            "Time of recovery",
            "From the last start of a service to its first decision.",
            promql(
                f"{series(recovery)}_sum{_SERVICE} / ({series(recovery)}_count{_SERVICE} > 0)",
                "{{service}} {{instance}}",
            ),
            unit=SECONDS,
        ),
        graph(
            "Clock skew",
            "The clock of a service minus that of the log at its last append: positive is ahead.",
            promql(f"{series('trackside.health.clock_skew.seconds')}{_SERVICE}", "{{service}} {{instance}}"),
            unit=SECONDS,
            minimum=None,
        ),
        graph(
            "Open streams",
            "Streams in memory that have not ended.",
            promql(f"{series('trackside.eventlog.open.streams')}{_SERVICE}", "{{service}} {{instance}}"),
            unit=COUNT,
        ),
        graph(
            "Disks",
            "Space that is left, and the size of the disk, of each folder that a service watches.",
            promql(f"min by (folder) ({available}{_SERVICE})", "{{folder}} left"),
            promql(f"max by (folder) ({size}{_SERVICE})", "{{folder}} size"),
            unit=BYTES,
        ),
        graph(
            "Spool of artifacts",
            "Bytes that tasks have saved and the store does not have yet.",
            promql(series("trackside.worker.spool.bytes"), "{{instance}}"),
            unit=BYTES,
        ),
    ]


def _log() -> list[Panel]:
    append, hop = "trackside.eventlog.append.seconds", "trackside.eventlog.hop.seconds"
    return [
        graph(
            "Time of an append",
            "From sending a batch to the acknowledgement of the broker.",
            promql(quantile(0.5, append, by="topic", where=_SERVICE), "{{topic}} median"),
            promql(quantile(0.99, append, by="topic", where=_SERVICE), "{{topic}} p99"),
            unit=SECONDS,
        ),
        graph(
            "Time of a hop",
            "From the append of a record, by the clock of the broker, to its fold in a service, 99th "
            "percentile.",
            promql(quantile(0.99, hop, by="service, topic", where=_SERVICE), "{{service}} {{topic}}"),
            unit=SECONDS,
        ),
        graph(
            "Time of a decision",
            "From reading a record to the acknowledgement of what was decided, 99th percentile.",
            promql(
                quantile(0.99, "trackside.eventlog.decision.seconds", by="service", where=_SERVICE),
                "{{service}}",
                exemplars=True,
            ),
            unit=SECONDS,
            steps=((None, GREEN), (0.5, RED)),
        ),
        graph(
            "Time of deciding a command",
            "In which the answer to a command is decided, by its type, 99th percentile. Nothing else is "
            "decided meanwhile.",
            promql(quantile(0.99, "trackside.dispatcher.command_decision.seconds", by="type"), "{{type}}"),
            unit=SECONDS,
            steps=((None, GREEN), (0.5, RED)),
        ),
    ]


def _flow() -> list[Panel]:
    return [
        graph(
            "Records read per second",
            "Read and folded, by service and topic.",
            promql(
                f"sum by (service, topic) "
                f"(rate({series('trackside.eventlog.read.records')}{_SERVICE}{RATE}))",
                "{{service}} {{topic}}",
            ),
            unit=PER_SECOND,
        ),
        graph(
            "Appends per second",
            "Events and batches that the broker acknowledged, by topic.",
            promql(
                f"sum by (topic) (rate({series('trackside.eventlog.appended.events')}{_SERVICE}{RATE}))",
                "{{topic}} events",
            ),
            promql(
                f"sum by (topic) (rate({series('trackside.eventlog.appended.batches')}{_SERVICE}{RATE}))",
                "{{topic}} batches",
            ),
            unit=PER_SECOND,
        ),
        graph(
            "Records not folded yet",
            "Between what is folded and the end of the log.",
            promql(
                f"max by (service, topic) ({series('trackside.health.log_lag.records')}{_SERVICE})",
                "{{service}} {{topic}}",
            ),
            unit=COUNT,
        ),
        graph(
            "Log lag",
            "Age of the oldest record that is not folded yet.",
            promql(
                f"max by (service, topic) ({series('trackside.health.log_lag.seconds')}{_SERVICE})",
                "{{service}} {{topic}}",
            ),
            unit=SECONDS,
            steps=((None, GREEN), (5, RED)),
        ),
    ]


def _faults() -> list[Panel]:
    retries = series("trackside.eventlog.append_retries.batches")
    dropped = series("trackside.worker.dropped.batches")
    letters = series("trackside.eventlog.dead_letters.records")
    return [
        graph(
            "Events without effect per minute",
            "Of decisions of the service itself: duplicate, or overtaken by another decision.",
            promql(
                f"sum by (service, verdict) "
                f"(rate({series('trackside.eventlog.ignored.events')}{_SERVICE}{RATE})) * 60",
                "{{service}} {{verdict}}",
            ),
            unit=PER_MINUTE,
        ),
        graph(
            "Appends repeated, records dropped",
            "In each interval: batches sent again, batches of workers dropped while the log did not "
            "answer, and dead "
            "letters. All should be 0.",
            promql(
                f"sum by (service) (increase({retries}{_SERVICE}[$__interval]))", "{{service}} sent again"
            ),
            promql(f"sum by (topic) (increase({dropped}[$__interval]))", "{{topic}} dropped"),
            promql(f"sum by (topic) (increase({letters}{_SERVICE}[$__interval]))", "{{topic}} dead letters"),
            unit=COUNT,
            style="bars",
            interval="30s",
        ),
    ]


def _projections() -> list[Panel]:
    transaction = "trackside.projections.transaction.seconds"
    index = "trackside.summary_indexer.index.seconds"
    return [
        work_panels.lag_of_read_models(),
        graph(
            "Records not written yet",
            "Read from the log and not in Postgres yet.",
            promql(f"max by (projection) ({series('trackside.projections.lag.records')})", "{{projection}}"),
            unit=COUNT,
        ),
        graph(
            "Rows written per second",
            "By table.",
            promql(
                f"sum by (projection) (rate({series('trackside.projections.written.rows')}{RATE})) > 0",
                "{{projection}}",
            ),
            unit=PER_SECOND,
        ),
        graph(
            "Time of a transaction",
            "95th percentile of transactions of the read models, and of batches of points.",
            promql(quantile(0.95, transaction, by="projection"), "{{projection}}"),
            promql(quantile(0.95, index), "points"),
            unit=SECONDS,
        ),
        graph(
            "Points written per second",
            "Metric points, and the batches in which they were written.",
            promql(f"sum(rate({series('trackside.summary_indexer.indexed.points')}{RATE}))", "points"),
            promql(f"sum(rate({series('trackside.summary_indexer.indexed.batches')}{RATE}))", "batches"),
            promql(
                f"sum by (cached) (rate({series('trackside.summary_indexer.read.curves')}{RATE}))",
                "curves read, cached: {{cached}}",
            ),
            unit=PER_SECOND,
        ),
    ]


def _failures() -> list[Panel]:
    failed = series("trackside.projections.failed.transactions")
    loads = series("trackside.summary_indexer.failed.loads")
    updaters = series("trackside.summary_indexer.failed.updaters")
    dropped = series("trackside.worker.dropped.summaries")
    return [
        graph(
            "Failures of read models",
            "In each interval: transactions, loads of jobs, calls of updaters, and values whose bytes were "
            "not stored.",
            promql(f"sum by (projection) (increase({failed}[$__interval]))", "{{projection}} transactions"),
            promql(f"sum(increase({loads}[$__interval]))", "loads"),
            promql(f"sum(increase({updaters}[$__interval]))", "updaters"),
            promql(f"sum(increase({dropped}[$__interval]))", "summaries dropped"),
            unit=COUNT,
            style="bars",
            interval="30s",
        ),
    ]


def _letters() -> Panel:
    return table(
        "Dead letters",
        "The newest 100 records that could not be decoded or folded, within the range.",
        rows(
            """SELECT written_at, topic, partition, "offset", code, reader, message FROM dead_letters
            WHERE $__timeFilter(written_at) ORDER BY written_at DESC LIMIT 100"""
        ),
        [
            Column("written_at", 155, "written"),
            Column("topic", 160),
            Column("partition", 75),
            Column("offset", 75),
            Column("code", 130),
            Column("reader", 110),
            Column("message"),
        ],
        none="There are none within the range",
    )


def _updaters() -> Panel:
    return table(
        "Updaters that failed",
        "Updaters of summaries, within the range.",
        rows(
            """SELECT failed_at, name, failures, error FROM updater_failures WHERE $__timeFilter(failed_at)
            ORDER BY failed_at DESC LIMIT 100"""
        ),
        [Column("failed_at", 155, "failed"), Column("name", 150), Column("failures", 75), Column("error")],
        none="No updater has failed within the range",
    )


def _broker() -> list[Panel]:
    none = "Prometheus has no target that is a kafka-exporter"
    return [
        graph(
            "Records appended per second, by topic",
            "By kafka-exporter: the growth of the newest offsets.",
            promql(f"sum by (topic) (rate(kafka_topic_partition_current_offset{RATE}))", "{{topic}}"),
            unit=PER_SECOND,
            none=none,
        ),
        graph(
            "Records kept by topic",
            "By kafka-exporter: the newest minus the oldest offset.",
            promql(
                "sum by (topic) (kafka_topic_partition_current_offset - kafka_topic_partition_oldest_offset)",
                "{{topic}}",
            ),
            unit=COUNT,
            none=none,
        ),
        graph(
            "Brokers, partitions without a leader in sync",
            "By kafka-exporter. Under-replicated partitions should be 0.",
            promql("kafka_brokers", "brokers"),
            promql("sum(kafka_topic_partition_under_replicated_partition)", "under-replicated partitions"),
            unit=COUNT,
            none=none,
            style="steps",
        ),
    ]


def _database() -> list[Panel]:
    ours = '{datname!~"template.*|postgres|"}'
    none = "Prometheus has no target that is a postgres-exporter"
    return [
        graph(
            "Transactions per second",
            "By postgres-exporter: committed and rolled back, by database.",
            promql(f"rate(pg_stat_database_xact_commit{ours}{RATE})", "{{datname}} committed"),
            promql(f"rate(pg_stat_database_xact_rollback{ours}{RATE})", "{{datname}} rolled back"),
            unit=PER_SECOND,
            none=none,
        ),
        graph(
            "Size of databases",
            "By postgres-exporter.",
            promql(f"pg_database_size_bytes{ours}", "{{datname}}"),
            unit=BYTES,
            none=none,
        ),
        graph(
            "Connections",
            "By postgres-exporter: sessions by state, and the limit of the server.",
            promql(f"sum by (state) (pg_stat_activity_count{ours})", "{{state}}"),
            promql("max(pg_settings_max_connections)", "limit"),
            unit=COUNT,
            none=none,
        ),
    ]
