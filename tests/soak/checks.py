"""What is checked of a run: passed, failed, or not judged, with the value and the limit. Pure."""

from enum import StrEnum
from typing import NamedTuple


class CheckResult(StrEnum):
    """How a check ended; one that had too little to go by is not judged."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


class Check(NamedTuple):
    """A check: what it is about, its result, the value that was found, its limit, and the reason of that."""

    name: str
    result: CheckResult
    value: str
    limit: str
    reason: str = ""


def counted(name: str, found: int, reason: str = "", *, limit: int = 0) -> Check:
    """Returns the check that a count is not above its limit."""
    result = CheckResult.FAILED if found > limit else CheckResult.PASSED
    return Check(name, result, f"{found:,}", f"{limit:,}", reason)


def held(name: str, wrong: str, reason: str = "") -> Check:
    """Returns the check of something that holds or not; `wrong` says what was found instead, if anything."""
    result = CheckResult.FAILED if wrong else CheckResult.PASSED
    return Check(name, result, wrong or "holds", "holds", reason)


def has_failed(checks: list[Check]) -> bool:
    """Returns whether one of the checks failed."""
    return any(check.result is CheckResult.FAILED for check in checks)
