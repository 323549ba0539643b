"""Which test holds which promise: the table in CONTRIBUTING.md, and what a run says of skipped ones."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REQUIRED_VARIABLE = "TRACKSIDE_TEST_REQUIRED"
"""If it is set, a skipped promise fails the run, unless CONTRIBUTING.md says why it may be."""
TESTS_TITLE = "### Which test holds what"
SKIPS_TITLE = "### What CI may skip"
LONG = "(long)"
TEST_ID = re.compile(r"`(tests/[^`]+)`( \(long\))?")


@dataclass(frozen=True)
class Holder:
    """A test that holds a promise; `is_long`: only `make long` runs it."""

    id: str
    is_long: bool


@dataclass(frozen=True)
class Promise:
    """A promise in the words of the page that makes it, and the tests that hold it."""

    words: str
    holders: tuple[Holder, ...]


def promises(text: str) -> list[Promise]:
    """Returns the rows of the table of promises."""
    return [
        Promise(words, tuple(Holder(found, bool(mark)) for found, mark in TEST_ID.findall(tests)))
        for words, tests in _rows(text, TESTS_TITLE)
    ]


def may_be_skipped(text: str) -> dict[str, str]:
    """Returns the ids of tests, or beginnings of ids, that CI may skip, with the reasons."""
    return {TEST_ID.findall(test)[0][0]: reason for test, reason in _rows(text, SKIPS_TITLE)}


def _rows(text: str, title: str) -> Iterator[tuple[str, str]]:
    """Yields the cells of the first table after a title, which has two columns."""
    lines = iter(text[text.index(title) :].splitlines())
    for line in lines:
        if line.startswith("| --- "):
            break
    for line in lines:
        if not line.startswith("|"):
            break
        first, second = (cell.strip() for cell in line.strip("|").split(" | "))
        yield first, second


def skipped_promises(text: str, skipped: Sequence[str]) -> list[tuple[Promise, str]]:
    """Returns promises and the ids of their skipped tests; a whole file counts for its tests."""
    return [
        (promise, holder.id)
        for promise in promises(text)
        for holder in promise.holders
        if any(test.startswith(holder.id) or holder.id.startswith(f"{test}::") for test in skipped)
    ]


class Skips:
    """The plugin that ends a run with the promises whose test was skipped."""

    def __init__(self, required: bool) -> None:
        self._required = required
        self._skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a skipped test."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes a skipped module."""
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped[report.nodeid] = (
                str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""
            )

    def _not_held(self) -> list[tuple[Promise, str, bool]]:
        """Returns promises, their skipped tests, and whether the run fails for that."""
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        allowed = tuple(may_be_skipped(text))
        found = skipped_promises(text, list(self._skipped))
        return [(promise, test, self._required and not test.startswith(allowed)) for promise, test in found]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fails a run that had to hold all promises."""
        missing = any(fails for _, _, fails in self._not_held())
        if missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Lists them."""
        for promise, test, fails in self._not_held():
            reason = next(why for name, why in self._skipped.items() if name.startswith(test.split("::")[0]))
            words = "NOT HELD" if fails else "not held here"
            terminalreporter.write_line(f"{words}: {promise.words}; {test} was skipped: {reason}")
