import pytest
from structlog.testing import capture_logs

from trackside.summary_indexer import rate_limited_warnings as rate_limited_warnings
from trackside.summary_indexer.rate_limited_warnings import RateLimitedWarning


def test_a_long_wait_is_logged_every_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(rate_limited_warnings, "monotonic_s", lambda: now[0])
    warn = RateLimitedWarning("it waits")
    with capture_logs() as logs:
        for number in range(151):
            now[0] = 100.0 + number * 0.2
            warn(f"reason {number}")
        warn(None)
        warn("another")
    assert [each["reason"] for each in logs] == ["reason 0", "reason 150", "another"]
