"""Fields of log lines with the name of a secret, and what messages call one."""

import io
import json
import logging

import pytest
import structlog

from trackside.telemetry.logs import configure_logs, logger


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def test_neither_fields_nor_messages_show_a_password(out: io.StringIO) -> None:
    configure_logs(json_logs=True, out=out)
    try:
        log = logger("trackside.test")
        log.info("connected", db_password="hunter2", options={"api_key": "hunter2"}, attempts=3, token=(1, 2))
        log.warning("failed with PASSWORD: hunter2", password=["hunter2"], reason="login --password hunter2")
        logging.getLogger("other").warning("password=hunter2")
    finally:
        logging.getLogger().handlers.clear()
        structlog.reset_defaults()
    assert "hunter2" not in out.getvalue()
    first = json.loads(out.getvalue().splitlines()[0])
    assert (first["attempts"], first["token"], first["db_password"]) == (3, [1, 2], "[redacted]")
