"""Fixtures of all tests: servers, a topic prefix, an empty database, a leash, the run's seed."""

import gc
import logging
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.nvml.standin import FakeNvml, build
from tests.promises import REQUIRED_VARIABLE, Skips
from tests.stack import (
    RUN_VARIABLE,
    SEED_VARIABLE,
    Run,
    SecureServers,
    Servers,
    database_with_tables,
    fresh_database,
    open_run,
    run_folder,
    secure_servers,
    servers,
)
from tests.times import FOLDER_VARIABLE as TIMES_VARIABLE
from tests.times import Recorder, speed
from trackside.eventlog.kafka import kafka_log as kafka

RUN = pytest.StashKey[Run]()
THOROUGH_S = 600
PATIENCE_S = 60.0
"""How long a test waits for a response of the log, in s: unlike a service, it doesn't retry."""
SCREEN = ("COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[RUN] = open_run()
        config.pluginmanager.register(Skips(required=bool(os.environ.get(REQUIRED_VARIABLE))))
    for name in SCREEN:  # tests don't print to a terminal
        os.environ.pop(name, None)
    os.environ.setdefault("TRACKSIDE_SPARES", "false")  # what they import takes seconds of a processor
    if folder := os.environ.get(TIMES_VARIABLE):
        config.pluginmanager.register(Recorder(Path(folder)))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell starts what it runs in the background; what the tests start would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = os.environ[SEED_VARIABLE]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("thorough") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(THOROUGH_S))


def pytest_collection_finish() -> None:
    # What is imported stays; collections of garbage that looked at it took a sixth of the time of unit tests.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_report_header() -> str:
    said = f"seed: {os.environ[SEED_VARIABLE]} (set {SEED_VARIABLE} to draw the same again)"
    return f"{said}\n{speed()}" if os.environ.get(TIMES_VARIABLE) else said


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if run := config.stash.get(RUN, None):
        for line in filter(None, (run.note, *run.restarts())):
            terminalreporter.write_line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    if run := config.stash.get(RUN, None):
        del config.stash[RUN]
        run.close()
        os.environ.pop(RUN_VARIABLE, None)


@pytest.fixture(scope="session")
def seed() -> int:
    """Returns the run's seed, printed in the header; all random values are drawn from it."""
    return int(os.environ[SEED_VARIABLE])


@pytest.fixture(scope="session")
def stack() -> Servers:
    """Returns the Kafka and the Postgres of the run, shared by all its workers."""
    kafka.ANSWER_S = PATIENCE_S
    return servers()


@pytest.fixture(scope="session")
def secure_stack() -> SecureServers:
    """Returns a Kafka that takes only users, over TLS, shared by all workers of the run, and its Postgres."""
    kafka.ANSWER_S = PATIENCE_S
    return secure_servers()


@pytest.fixture(scope="session")
def leash() -> Path:
    """Returns a leash for stacks that a test starts itself: they stop when the run ends or is killed."""
    return run_folder() / "leash"


@pytest.fixture
def topic_prefix() -> str:
    """Returns a prefix that no other test's topics have."""
    return f"t{secrets.token_hex(4)}."


@pytest.fixture
def database(stack: Servers) -> Iterator[str]:
    """Yields the DSN of an empty database, dropped after the test."""
    with fresh_database(stack.postgres_dsn) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def module_database(stack: Servers) -> Iterator[str]:
    """Yields the DSN of an empty database, dropped after the module's last test."""
    with fresh_database(stack.postgres_dsn) as dsn:
        yield dsn


@pytest.fixture
def tables(stack: Servers) -> Iterator[str]:
    """Yields the DSN of a database with the tables of this release, without rows; dropped after the test."""
    with fresh_database(stack.postgres_dsn, database_with_tables()) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def module_tables(stack: Servers) -> Iterator[str]:
    """Yields the DSN of a database like that of `tables`, dropped after the module's last test."""
    with fresh_database(stack.postgres_dsn, database_with_tables()) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the path of a fake NVIDIA library, compiled."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def fake_nvml(nvml_library: Path, tmp_path: Path) -> FakeNvml:
    """Returns four fake GPUs that a test may change while a process uses them."""
    return FakeNvml(nvml_library, tmp_path)


@pytest.fixture(autouse=True)
def _log_settings() -> None:
    """Puts the settings of the log back: a command that was called before has set a level for its process."""
    structlog.reset_defaults()


@pytest.fixture
def quiet_services() -> None:
    """Keeps what simulated services log of their faults out of the output."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
