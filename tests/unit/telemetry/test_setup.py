import asyncio
import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.otlp_receiver import otlp_receiver
from trackside.contracts.envelope.trace_context import trace_id
from trackside.telemetry import context, setup
from trackside.telemetry.logs import configure_logs, logger

DSN = "postgresql://trackside:" + "hunter2@127.0.0.1:5432/trackside"


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    context.set_recorder(None)


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_has_time_level_logger_and_what_is_bound_around_it() -> None:
    configure_logs(out=(out := io.StringIO()))
    bound = {"stream": "s-1", "task": "t-1"}
    with structlog.contextvars.bound_contextvars(**bound), context.start("decide") as traceparent:
        logger("trackside.dispatcher").info("suggested", trial=7)
    (line,) = lines(out)
    assert line.pop("time").endswith("Z")
    span = {"span_id": traceparent.split("-")[2], "trace_id": trace_id(traceparent)}
    said = {"event": "suggested", "level": "info", "logger": "trackside.dispatcher", "trial": 7}
    assert line == {**said, **bound, **span}


def test_lines_of_the_standard_library_have_the_same_form_and_are_written_once() -> None:
    configure_logs(out=io.StringIO())
    configure_logs(out=(out := io.StringIO()))
    logging.getLogger("asyncio").warning("lost %s", "broker-1")
    logging.getLogger("aiokafka.conn").error("no broker")  # it would flood the logs
    try:
        raise ValueError("broken")
    except ValueError:
        logger("trackside.worker").exception("task failed")
    first, second = lines(out)
    assert (first["event"], first["level"], first["logger"]) == ("lost broker-1", "warning", "asyncio")
    assert second["exception"][0]["exc_type"] == "ValueError"


def test_lines_below_the_level_are_not_written_and_for_people_they_are_not_json() -> None:
    configure_logs(out=(out := io.StringIO()), level="warning")
    logger("trackside.worker").info("small talk")
    logging.getLogger("faust").info("small talk")
    assert out.getvalue() == ""
    configure_logs(out=(out := io.StringIO()), json_logs=False)
    logger("trackside.worker").info("started", port=1)
    assert "started" in out.getvalue() and not out.getvalue().startswith("{")
    with pytest.raises(ValueError, match=r"'loud': expected debug, info"):
        configure_logs(level="loud")


def test_without_an_endpoint_nothing_is_exported_or_imported() -> None:
    code = (
        "import sys; from trackside.telemetry import setup\n"
        "made = setup.configure('worker', instance='one')\n"
        "assert made.close is None and made.shutdown()\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def share(sampler: str, argument: str) -> float:
    variables = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    return setup.sampled_share(variables)


def test_the_share_of_sampled_traces_is_that_of_opentelemetrys_variables_and_no_other() -> None:
    assert share("", "") == share("parentbased_always_on", "0.5") == 1.0
    assert share("parentbased_traceidratio", "") == 1.0
    assert (share("always_off", ""), share("traceidratio", "0.1")) == (0.0, 0.1)
    for sampler, argument, complaint in (
        ("jaeger_remote", "", r"'jaeger_remote' is not a sampler: expected one of \[parentbased_\]always_on"),
        ("traceidratio", "10%", "'10%' is not a ratio: expected a number from 0 to 1"),
        ("traceidratio", "2", "'2' is not a ratio"),
    ):
        with pytest.raises(ValueError, match=complaint):
            share(sampler, argument)


def test_lines_go_to_a_collector_if_asked_with_span_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_LOGS_EXPORTER", "otlp")
        made = setup.configure("worker", instance="one")
        with context.start("run task") as traceparent:
            logger("trackside.worker").warning("no store", uri=DSN, tries=2, ids=["a", "b"])
        assert made.close is not None and made.shutdown(60)
    (received,) = receiver.lines
    assert (received.service, received.text) == ("trackside.worker", "no store")
    assert received.line.severity_text == "WARNING"
    assert [received.line.trace_id.hex(), received.line.span_id.hex()] == traceparent.split("-")[1:3]
    assert (received.attributes["tries"], received.attributes["ids"]) == (2, '["a", "b"]')
    assert "[redacted]" in received.attributes["uri"]
    (span,) = receiver.spans
    assert (span.trace, span.id, span.name) == (*traceparent.split("-")[1:3], "run task")


async def test_a_collector_that_never_answers_holds_no_shutdown_back(monkeypatch: pytest.MonkeyPatch) -> None:
    released = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as collector:
        host, port = collector.sockets[0].getsockname()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://{host}:{port}/v1/traces")
        made = setup.configure("scheduler", instance="one")
        with context.start("assign task"):
            pass
        assert not await asyncio.to_thread(made.shutdown, 0.1)
        released.set()
        # A thread left behind would try again for 10 s, drawing random waits amid the tests after this one.
        [closing] = [thread for thread in threading.enumerate() if thread.name == "trackside-telemetry-flush"]
        await asyncio.to_thread(closing.join)


def fail_with(dsn: str) -> None:
    password = dsn.split(":")[2].split("@")[0]
    raise ValueError(f"no database at {dsn}, length {len(password)}")


@pytest.mark.parametrize("json_logs", [True, False])
def test_a_line_with_a_traceback_has_no_local_variable_and_no_password(json_logs: bool) -> None:
    configure_logs(out=(out := io.StringIO()), json_logs=json_logs)
    try:
        fail_with(DSN)
    except ValueError as error:
        logger("trackside.dispatcher").error("service stopped", reason=str(error), exc_info=error)
        logging.getLogger("asyncio").exception("never retrieved")
    assert out.getvalue().count("fail_with") >= 2
    assert "no database at postgresql://" in out.getvalue()
    assert "hunter2" not in out.getvalue()


class Settings:
    def __str__(self) -> str:
        return f"Settings(dsn={DSN})"

    __repr__ = __str__


@pytest.mark.parametrize("json_logs", [True, False])
def test_a_secret_is_redacted_wherever_it_is_in_a_line(json_logs: bool) -> None:
    configure_logs(out=(out := io.StringIO()), json_logs=json_logs)
    with structlog.contextvars.bound_contextvars(address=DSN):
        all_of = [{"dsn": DSN}, (DSN,)]
        logger("trackside.worker").info(f"connects to {DSN}", to=DSN, all=all_of, given=Settings())
        logging.getLogger("asyncpg").warning("lost %s of %s", DSN, Settings())
    log = logger("trackside.test")
    log.info("connected", db_password="hunter2", options={"api_key": "hunter2"}, attempts=3, token=(1, 2))
    log.warning("failed with PASSWORD: hunter2", password=["hunter2"], reason="login --password hunter2")
    logging.getLogger("other").warning("password=hunter2")
    assert "[redacted]" in out.getvalue()
    assert "hunter2" not in out.getvalue()
    if json_logs:
        found = lines(out)[2]
        assert (found["attempts"], found["token"], found["db_password"]) == (3, [1, 2], "[redacted]")


NOISY = """
from trackside.telemetry.logs import configure_logs, logger

configure_logs()
for number in range(2_000):
    logger("trackside.test").warning("a line that can't be written", number=number)
print("lives")
"""


@pytest.mark.thorough
def test_a_service_whose_log_is_on_a_full_disk_lives_on() -> None:
    with Path("/dev/full").open("w") as full:  # every write to it fails: there is no room
        ended = subprocess.run(
            [sys.executable, "-c", NOISY],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},  # as the stack and the image start services
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (0, "lives\n")
