"""The times of cron expressions around the days that are shorter and longer, as Debian's cron has them."""

import os
import subprocess
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from trackside.domain.times.cron import newest, next_ms

BERLIN = "Europe/Berlin"
ZONE = ZoneInfo(BERLIN)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def times(cron: str, after: str, count: int) -> list[str]:
    found, last_ms = [], ms(after)
    for _ in range(count):
        following = next_ms(cron, BERLIN, last_ms)
        assert following is not None
        last_ms = following
        found.append(datetime.fromtimestamp(last_ms / 1000, ZONE).strftime("%d %H:%M%z"))
    return found


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        # 2026-03-29: the clock goes from 02:00 to 03:00.
        ("30 2 * * *", "2026-03-28T12:00+01:00", ["29 03:00+0200", "30 02:30+0200"]),
        ("15,45 2 * * *", "2026-03-28T12:00+01:00", ["29 03:00+0200", "30 02:15+0200"]),
        ("0 * * * *", "2026-03-29T00:30+01:00", ["29 01:00+0100", "29 03:00+0200"]),
        # 2026-10-25: the clock goes from 03:00 to 02:00.
        ("30 2 * * *", "2026-10-24T12:00+02:00", ["25 02:30+0200", "26 02:30+0100"]),
        ("45 2 * * *", "2026-10-25T02:30+01:00", ["26 02:45+0100", "27 02:45+0100"]),
        ("*/30 * * * *", "2026-10-25T02:00+02:00", ["25 02:30+0200", "25 02:00+0100", "25 02:30+0100"]),
        # The first of a month or a Monday; with a star in one of both, each must fit.
        ("0 9 1 * MON", "2026-05-28T00:00+02:00", ["01 09:00+0200", "08 09:00+0200"]),
        ("0 9 */2 * MON", "2026-06-01T12:00+02:00", ["15 09:00+0200", "29 09:00+0200"]),
        ("0 0 29 2 *", "2026-06-01T00:00+02:00", ["29 00:00+0100"]),
    ],
)
def test_the_times_are_those_of_debian(cron: str, after: str, expected: list[str]) -> None:
    assert times(cron, after, len(expected)) == expected


@pytest.mark.parametrize("cron", ["* * * * *", "0 * * * *", "30 3 * * *", "0 0 * * MON", "0 0 29 2 *"])
def test_the_newest_times_are_the_last_of_all(cron: str) -> None:
    now_ms = ms("2026-06-01T10:07+02:00")
    for years in (0, 1, 10):
        first_ms = next_ms(cron, BERLIN, now_ms - years * 366 * 86_400_000 - 40 * 60_000)
        assert first_ms is not None
        found = newest(cron, BERLIN, first_ms, now_ms, 100)
        assert found[0] >= first_ms
        assert found[-1] <= now_ms or found == [first_ms]
        following = next_ms(cron, BERLIN, found[-1])
        assert following is not None and following > now_ms
        assert found == sorted(set(found))
        assert len(found) == 100 or found[0] == first_ms


@pytest.mark.thorough
def test_zones_are_known_on_a_host_without_a_database_of_them() -> None:
    """P41: of slim images, for example; Python then reads the package tzdata."""
    assert next_ms("0 * * * *", "Europe/Nowhere", 0) is None
    called = f"print(next_ms('30 2 * * *', {BERLIN!r}, 0))"
    code = f"from trackside.domain.times.cron import next_ms; {called}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == ms("1970-01-01T02:30+01:00")
