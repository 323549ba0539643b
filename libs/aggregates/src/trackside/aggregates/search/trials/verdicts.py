"""Ends of trials that wait for their assessor: its verdict on each report counts, however late. Pure."""

import math
from collections.abc import Iterable
from itertools import islice

from trackside.aggregates.search.messages import TrialEnded, TrialStatus
from trackside.aggregates.search.state import RESUMED, Search
from trackside.aggregates.search.trials.trial_results import NON_FINITE, awaits_verdict, trial_ended
from trackside.aggregates.search.trials.trial_reuse import asking_trials
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task


def awaiting_verdicts(stream: Stream[Search]) -> Iterable[tuple[int, Task]]:
    """Yields the trials that would have ended but for their assessor, with their tasks."""
    search = stream.root
    over = ((number, stream.tasks[search.task_of(number)]) for number in sorted(search.unended))
    for number, task in [*over, *asking_trials(stream)]:
        if awaits_verdict(search, task):
            yield number, task


def last_row_of(search: Search, trial: int, rows: int | None = None) -> int:
    """Returns the index of a trial's last row, of the first `rows` that an assessor reads; -1 for none."""
    feed = search.assessor_feed
    end = len(feed) if rows is None else rows
    return next((row for row in range(end - 1, -1, -1) if feed[row][0] == trial), -1)


def last_report_of(search: Search, trial: int, rows: int) -> int:
    """Returns the index of a trial's last report that counts after the first `rows` rows; -1 for none."""
    below: float = math.inf
    has_resumed = False
    for row in range(rows - 1, -1, -1):
        number, kind, value = search.assessor_feed[row]
        if number != trial:
            continue
        if isinstance(kind, int):
            if kind < below:
                return row
        elif kind == RESUMED:
            below, has_resumed = min(below, float(value or 0)), True
        elif not has_resumed:
            return -1
        else:
            has_resumed = False
    return -1


def still_counts(search: Search, row: int) -> bool:
    """Returns whether the report of a row counts: its trial has not begun again, or has resumed above it."""
    feed = search.assessor_feed
    trial, step, _ = feed[row]
    waits = False
    for number, kind, value in islice(feed, row + 1, None):
        if number != trial:
            continue
        if kind is None:
            waits = True
        elif kind == RESUMED and float(value or 0) > float(step or 0):
            waits = False
        elif waits:
            return False
    return not waits


def assessed_end(search: Search, number: int, task: Task, row: int | None) -> TrialEnded:
    """Returns the event of a trial that its assessor stopped at a row, None: at none of its reports.

    One that was stopped has the value of that report, whatever it reported until it could be ended.
    """
    if row is None:
        return trial_ended(search.spec, number, task)
    value = search.assessor_feed[row][2]
    if isinstance(value, str):
        non_finite = NON_FINITE.validate_python(value)
        return TrialEnded(trial=number, status=TrialStatus.EARLY_STOPPED, non_finite=non_finite)
    return TrialEnded(trial=number, status=TrialStatus.EARLY_STOPPED, value=value)
