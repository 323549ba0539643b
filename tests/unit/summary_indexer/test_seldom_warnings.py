import pytest
from structlog.testing import capture_logs

from trackside.summary_indexer import seldom_warnings
from trackside.summary_indexer.seldom_warnings import SeldomWarning


def test_a_long_wait_is_logged_every_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(seldom_warnings, "monotonic_s", lambda: now[0])
    warn = SeldomWarning("it waits")
    with capture_logs() as logs:
        for number in range(151):
            now[0] = 100.0 + number * 0.2
            warn(f"reason {number}")
        warn(None)
        warn("another")
    assert [each["reason"] for each in logs] == ["reason 0", "reason 150", "another"]
