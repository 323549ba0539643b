"""A log with a dataset and a model, for the tests of jobs."""

import pytest

from tests.unit.aggregates.rounds.given import JobLog


@pytest.fixture
def log() -> JobLog:
    return JobLog()
