"""Commands that run one service in the foreground, as a container or the supervisor does."""

from importlib import import_module


def dispatcher() -> None:
    """Run the dispatcher: decides searches and their trials.

    Settings come from TRACKSIDE_KAFKA_BOOTSTRAP and TRACKSIDE_DISPATCHER_...; bad ones exit 2.

    \b
    Examples:
      TRACKSIDE_KAFKA_BOOTSTRAP=kafka:9092 trackside dispatcher
    """
    _serve("dispatcher")


def scheduler() -> None:
    """Run the scheduler: gives queued tasks to free devices.

    Settings come from TRACKSIDE_KAFKA_BOOTSTRAP and TRACKSIDE_SCHEDULER_...; bad ones exit 2.

    \b
    Examples:
      TRACKSIDE_KAFKA_BOOTSTRAP=kafka:9092 trackside scheduler
    """
    _serve("scheduler")


def worker() -> None:
    """Run a worker: runs tasks of its catalogue on the devices of this machine.

    Settings come from TRACKSIDE_KAFKA_BOOTSTRAP and TRACKSIDE_WORKER_...; bad ones exit 2.

    \b
    Examples:
      TRACKSIDE_KAFKA_BOOTSTRAP=kafka:9092 TRACKSIDE_WORKER_CATALOGUE=catalogue.yaml trackside worker
    """
    _serve("worker")


def summary_indexer() -> None:
    """Run the summary-indexer: metrics and dead letters into Postgres.

    Settings come from TRACKSIDE_POSTGRES_DSN and TRACKSIDE_SUMMARY_INDEXER_...; bad ones exit 2.

    \b
    Examples:
      TRACKSIDE_KAFKA_BOOTSTRAP=kafka:9092 trackside summary-indexer
    """
    _serve("summary_indexer")


def _serve(name: str) -> None:
    """Runs a service; imported only now, so that no other command loads it."""
    import_module(f"trackside.{name}.app").main()
