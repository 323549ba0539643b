"""The times of cron expressions, with a time zone: as Debian's cron finds them.

An expression at fixed hours has one time on a day that is shorter or longer: a time that the clock leaves
out is the first one after the gap, one that comes twice is the first. Others count hours as they pass.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import takewhile

from cronsim import CronSim, CronSimError

from trackside.contracts.envelope.refusals import Problem
from trackside.domain.times.time_zones import check_zone, find_zone

FIELDS = 5
_CHECKED_FROM_MS = 1_767_225_600_000
"""2026: an expression without a time in the 50 years after that never comes."""
_HOUR_MS = 3_600_000
_WINDOWS_MS = (_HOUR_MS, 24 * _HOUR_MS, 31 * 24 * _HOUR_MS, 366 * 24 * _HOUR_MS)


def check_cron(cron: str, timezone: str, path: str) -> list[Problem]:
    """Returns what is wrong with an expression and its time zone, at `path`."""
    problems = check_zone(timezone, f"{path}.timezone")
    expected = "expected minute, hour, day of month, month and day of week, such as `30 2 * * MON-FRI`"
    if len(cron.split()) != FIELDS:
        message = f"{cron!r} has {len(cron.split())} fields, not {FIELDS}: {expected}"
        return [*problems, Problem(code="bad_cron", path=f"{path}.cron", message=message)]
    try:
        next(_times(cron, UTC, _CHECKED_FROM_MS))
    except CronSimError as error:
        message = f"{cron!r}: {error}; {expected}"
        problems.append(Problem(code="bad_cron", path=f"{path}.cron", message=message))
    except StopIteration:
        message = f"{cron!r} never comes: no such day is in the next 50 years"
        problems.append(Problem(code="bad_cron", path=f"{path}.cron", message=message))
    return problems


def next_ms(cron: str, timezone: str, after_ms: int) -> int | None:
    """Returns the first time of an expression after another time, in ms since 1970; None if none comes."""
    return next(_all_times(cron, timezone, after_ms), None)


def newest(cron: str, timezone: str, first_ms: int, now_ms: int, count: int) -> list[int]:
    """Returns the newest times from one time to now, at most so many, the oldest first.

    `first_ms` is such a time itself. Looks at the last hour first, then further back: however long ago the
    first one was, at most a few thousand times are looked at.
    """
    for window_ms in _WINDOWS_MS:
        since_ms = now_ms - window_ms
        if since_ms <= first_ms:
            break
        found = _until(cron, timezone, since_ms, now_ms)
        if len(found) >= count:
            return found[-count:]
    return [first_ms, *_until(cron, timezone, first_ms, now_ms)][-count:]


def _until(cron: str, timezone: str, after_ms: int, now_ms: int) -> list[int]:
    return list(takewhile(lambda ms: ms <= now_ms, _all_times(cron, timezone, after_ms)))


def _all_times(cron: str, timezone: str, after_ms: int) -> Iterator[int]:
    zone = find_zone(timezone)
    if zone is None:  # this host has no such zone; the one that accepted it had
        return
    last_ms = after_ms
    for ms in _times(cron, zone, after_ms):
        if ms > last_ms:  # an hour that comes twice: the expression's time in it has passed already
            yield ms
            last_ms = ms


def _times(cron: str, zone: tzinfo, after_ms: int) -> Iterator[int]:
    for moment in CronSim(cron, datetime.fromtimestamp(after_ms // 1000, zone)):
        yield int(moment.timestamp()) * 1000
