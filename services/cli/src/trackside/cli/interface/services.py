"""Commands that run one service in the foreground, as a container or the supervisor does."""

from importlib import import_module


def dispatcher() -> None:
    """Run the dispatcher, which decides searches and their trials.

    Settings are read from TRACKSIDE_KAFKA_BOOTSTRAP and TRACKSIDE_DISPATCHER_...; exit 2 if one is bad.

    \b
    Examples:
      TRACKSIDE_KAFKA_BOOTSTRAP=kafka:9092 trackside dispatcher
    """
    _serve("dispatcher")


def scheduler() -> None:
    """Run the scheduler, which assigns queued tasks to free devices.

    Settings are read from TRACKSIDE_KAFKA_BOOTSTRAP and TRACKSIDE_SCHEDULER_...; exit 2 if one is bad.

    \b
    Examples:
      TRACKSIDE_KAFKA_BOOTSTRAP=kafka:9092 trackside scheduler
    """
    _serve("scheduler")


def worker() -> None:
    """Run a worker, which runs the tasks of its catalogue on the devices of this machine.

    Settings are read from TRACKSIDE_KAFKA_BOOTSTRAP and TRACKSIDE_WORKER_...; exit 2 if one is bad.

    \b
    Examples:
      TRACKSIDE_KAFKA_BOOTSTRAP=kafka:9092 TRACKSIDE_WORKER_CATALOGUE=catalogue.yaml trackside worker
    """
    _serve("worker")


def summary_indexer() -> None:
    """Run the summary-indexer, which writes metrics and dead letters to Postgres.

    Settings are read from TRACKSIDE_POSTGRES_DSN and TRACKSIDE_SUMMARY_INDEXER_...; exit 2 if one is bad.

    \b
    Examples:
      TRACKSIDE_KAFKA_BOOTSTRAP=kafka:9092 trackside summary-indexer
    """
    _serve("summary_indexer")


def console() -> None:
    """Serve the console: pages that show all experiments, and publish commands.

    Settings are read from TRACKSIDE_KAFKA_BOOTSTRAP, TRACKSIDE_POSTGRES_DSN and TRACKSIDE_CONSOLE_...; exit 2
    if one is bad. It is served on 127.0.0.1:8470. `trackside up` starts one with the stack.

    \b
    Examples:
      TRACKSIDE_KAFKA_BOOTSTRAP=kafka:9092 trackside console
      TRACKSIDE_CONSOLE_HOST=0.0.0.0 TRACKSIDE_CONSOLE_TOKENS_FILE=users.yaml trackside console
    """
    _serve("console")


def _serve(name: str) -> None:
    """Runs a service in this process until it is stopped."""
    import_module(f"trackside.{name}.app").main()
