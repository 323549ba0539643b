"""The board of the log and the services: appends, hops, throughput, read models, broker, database."""

from boards import annotations, console_panels, links, work_panels
from boards.board import Board, Place, Section, Variable
from boards.panels import Panel, graph, number
from boards.queries import latest, promql, quantile, quantiles
from boards.style import BYTES, GREEN, PER_SECOND, RED, series
from boards.tables import table

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
    return number(
        "Services, with their versions",
        "Each instance that is scraped: whether it is ready, its version and its Python.",
        latest(
            f"trackside.health.ready.services{_SERVICE} * on (instance, service) group_left (version, "
            "python) trackside.build.info",
            "{{service}} {{instance}}: {{version}}, Python {{python}}",
        ),
        steps=((None, RED), (1, GREEN)),
        words={0: "not ready", 1: "ready"},
    )


def _services() -> list[Panel]:
    return [
        graph(
            "Lag of the event loop",
            "How late the event loop of a service woke, 99th percentile.",
            promql(
                quantile(0.99, "trackside.health.loop_lag.seconds", by="service, instance", where=_SERVICE)
            ),
            steps=((None, GREEN), (0.5, RED)),
        ),
        graph(
            "Time of recovery",
            "From the last start of a service to its first decision.",
            promql(
                f"trackside.eventlog.recovery.seconds_sum{_SERVICE} / "
                f"(trackside.eventlog.recovery.seconds_count{_SERVICE} > 0)",
                "{{service}} {{instance}}",
            ),
        ),
        graph(
            "Clock skew",
            "The clock of a service minus that of the log at its last append: positive is ahead.",
            promql(f"trackside.health.clock_skew.seconds{_SERVICE}", "{{service}} {{instance}}"),
            minimum=None,
        ),
        graph(
            "Open streams",
            "Streams in memory that have not ended.",
            promql(f"trackside.eventlog.open.streams{_SERVICE}", "{{service}} {{instance}}"),
        ),
        graph(
            "Disks",
            "Space that is left, and the size of the disk, of each folder that a service watches.",
            promql(f"min by (folder) (trackside.health.disk_available.bytes{_SERVICE})", "{{folder}} left"),
            promql(f"max by (folder) (trackside.health.disk_size.bytes{_SERVICE})", "{{folder}} size"),
        ),
        graph(
            "Spool of artifacts",
            "Bytes that tasks have saved and the store does not have yet.",
            promql("trackside.worker.spool.bytes", "{{instance}}"),
        ),
    ]


def _log() -> list[Panel]:
    return [
        graph(
            "Time of an append",
            "From sending a batch to the acknowledgement of the broker.",
            *quantiles(
                "trackside.eventlog.append.seconds",
                {0.5: "{{topic}} median", 0.99: "{{topic}} p99"},
                by="topic",
                where=_SERVICE,
            ),
        ),
        graph(
            "Time of a hop",
            "From the append of a record, by the clock of the broker, to its fold in a service, 99th "
            "percentile.",
            promql(quantile(0.99, "trackside.eventlog.hop.seconds", by="service, topic", where=_SERVICE)),
        ),
        graph(
            "Time of a decision",
            "From reading a record to the acknowledgement of what was decided, 99th percentile.",
            promql(
                quantile(0.99, "trackside.eventlog.decision.seconds", by="service", where=_SERVICE),
                exemplars=True,
            ),
            steps=((None, GREEN), (0.5, RED)),
        ),
        graph(
            "Time of deciding a command",
            "In which the answer to a command is decided, by its type, 99th percentile. Nothing else is "
            "decided meanwhile.",
            promql(quantile(0.99, "trackside.dispatcher.command_decision.seconds", by="type")),
            steps=((None, GREEN), (0.5, RED)),
        ),
    ]


def _flow() -> list[Panel]:
    return [
        graph(
            "Records read per second",
            "Read and folded, by service and topic.",
            promql(f"sum by (service, topic) (rate(trackside.eventlog.read.records{_SERVICE}[rate]))"),
        ),
        graph(
            "Appends per second",
            "Events and batches that the broker acknowledged, by topic.",
            promql(
                f"sum by (topic) (rate(trackside.eventlog.appended.events{_SERVICE}[rate]))",
                "{{topic}} events",
            ),
            promql(
                f"sum by (topic) (rate(trackside.eventlog.appended.batches{_SERVICE}[rate]))",
                "{{topic}} batches",
            ),
        ),
        graph(
            "Records not folded yet",
            "Between what is folded and the end of the log.",
            promql(f"max by (service, topic) (trackside.health.log_lag.records{_SERVICE})"),
        ),
        graph(
            "Log lag",
            "Age of the oldest record that is not folded yet.",
            promql(f"max by (service, topic) (trackside.health.log_lag.seconds{_SERVICE})"),
            steps=((None, GREEN), (5, RED)),
        ),
    ]


def _faults() -> list[Panel]:
    return [
        graph(
            "Events without effect per minute",
            "Of decisions of the service itself: duplicate, or overtaken by another decision.",
            promql(
                f"sum by (service, verdict) (rate(trackside.eventlog.ignored.events{_SERVICE}[rate])) * 60"
            ),
        ),
        graph(
            "Appends repeated, records dropped",
            "In each interval: batches sent again, batches of workers dropped while the log did not "
            "answer, and dead letters. All should be 0.",
            promql(
                "sum by (service) "
                f"(increase(trackside.eventlog.append_retries.batches{_SERVICE}[$__interval]))",
                "{{service}} sent again",
            ),
            promql(
                "sum by (topic) (increase(trackside.worker.dropped.batches[$__interval]))",
                "{{topic}} dropped",
            ),
            promql(
                f"sum by (topic) (increase(trackside.eventlog.dead_letters.records{_SERVICE}[$__interval]))",
                "{{topic}} dead letters",
            ),
            style="bars",
            interval="30s",
        ),
    ]


def _projections() -> list[Panel]:
    return [
        work_panels.lag_of_read_models(),
        graph(
            "Records not written yet",
            "Read from the log and not in Postgres yet.",
            promql("max by (projection) (trackside.projections.lag.records)"),
        ),
        graph(
            "Rows written per second",
            "By table.",
            promql("sum by (projection) (rate(trackside.projections.written.rows[rate])) > 0"),
        ),
        graph(
            "Time of a transaction",
            "95th percentile of transactions of the read models, and of batches of points.",
            promql(quantile(0.95, "trackside.projections.transaction.seconds", by="projection")),
            promql(quantile(0.95, "trackside.summary_indexer.index.seconds"), "points"),
        ),
        graph(
            "Points written per second",
            "Metric points, and the batches in which they were written.",
            promql("sum(rate(trackside.summary_indexer.indexed.points[rate]))", "points"),
            promql("sum(rate(trackside.summary_indexer.indexed.batches[rate]))", "batches"),
            promql(
                "sum by (cached) (rate(trackside.summary_indexer.read.curves[rate]))",
                "curves read, cached: {{cached}}",
            ),
        ),
    ]


def _failures() -> list[Panel]:
    return [
        graph(
            "Failures of read models",
            "In each interval: transactions, loads of jobs, calls of updaters, and values whose bytes were "
            "not stored.",
            promql(
                "sum by (projection) (increase(trackside.projections.failed.transactions[$__interval]))",
                "{{projection}} transactions",
            ),
            promql("sum(increase(trackside.summary_indexer.failed.loads[$__interval]))", "loads"),
            promql("sum(increase(trackside.summary_indexer.failed.updaters[$__interval]))", "updaters"),
            promql("sum(increase(trackside.worker.dropped.summaries[$__interval]))", "summaries dropped"),
            style="bars",
            interval="30s",
        ),
    ]


def _letters() -> Panel:
    return table(
        "Dead letters",
        "The newest 100 records that could not be decoded or folded, within the range.",
        """SELECT written_at, topic, partition, "offset", code, reader, message FROM dead_letters
            WHERE $__timeFilter(written_at) ORDER BY written_at DESC LIMIT 100""",
        """written_at 155 written | topic 160 | partition 75 | offset 75 | code 130 | reader 110 |
        message""",
        none="There are none within the range",
    )


def _updaters() -> Panel:
    return table(
        "Updaters that failed",
        "Updaters of summaries, within the range.",
        """SELECT failed_at, name, failures, error FROM updater_failures WHERE $__timeFilter(failed_at)
            ORDER BY failed_at DESC LIMIT 100""",
        "failed_at 155 failed | name 150 | failures 75 | error",
        none="No updater has failed within the range",
    )


def _broker() -> list[Panel]:
    none = "Prometheus has no target that is a kafka-exporter"
    return [
        graph(
            "Records appended per second, by topic",
            "By kafka-exporter: the growth of the newest offsets.",
            promql("sum by (topic) (rate(kafka_topic_partition_current_offset[rate]))"),
            unit=PER_SECOND,
            none=none,
        ),
        graph(
            "Records kept by topic",
            "By kafka-exporter: the newest minus the oldest offset.",
            promql(
                "sum by (topic) (kafka_topic_partition_current_offset - kafka_topic_partition_oldest_offset)"
            ),
            none=none,
        ),
        graph(
            "Brokers, partitions without a leader in sync",
            "By kafka-exporter. Under-replicated partitions should be 0.",
            promql("kafka_brokers", "brokers"),
            promql("sum(kafka_topic_partition_under_replicated_partition)", "under-replicated partitions"),
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
            promql(f"rate(pg_stat_database_xact_commit{ours}[rate])", "{{datname}} committed"),
            promql(f"rate(pg_stat_database_xact_rollback{ours}[rate])", "{{datname}} rolled back"),
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
            none=none,
        ),
    ]
