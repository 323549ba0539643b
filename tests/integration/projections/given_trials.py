"""Rows of searches and trials that are written as they are, without a log."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.integration.projections.harness import insert
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.writing.migrate import migrate

_SEARCH = """
INSERT INTO trackside.searches (
    search_id, name, status, task_type, tuner, direction, max_trials, concurrency, queue, seed, trials,
    ended_trials, best_trial, started_ms, stop_reason, failure, spec
) VALUES ($1, '', 'RUNNING', 't', 'tpe', $2, 100, 1, 'default', 1, $3, 0, 1, 0, '', '', $4)
"""
_TRIAL = """
INSERT INTO trackside.trials (
    search_id, trial, task_id, status, source, space_version, value, objective_values, outside, parameters,
    suggested_ms, ended_ms, last_value, report_steps, report_values
) VALUES ($1, $2, $3, $4, 'algorithm', 1, $5, $6, $7, $8, $9, $10, $11, '{}', '{}')
"""


@dataclass(frozen=True)
class GivenTrial:
    """A trial; `ended_ms` is None while it runs."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    value: float | None = None
    status: str = "SUCCEEDED"
    ended_ms: int | None = 1_000
    values: Sequence[float | None] | None = None
    outside: Sequence[str] = ()
    last_value: float | None = None


async def write_search(
    dsn: str,
    search_id: str,
    trials: Sequence[GivenTrial],
    direction: str = "minimize",
    objectives: Sequence[Mapping[str, str]] | None = None,
) -> None:
    """Writes a search whose trials have the numbers 0, 1 and so on, into tables that may be missing."""
    async with opened_database(dsn) as opened:
        await opened.transaction(migrate)
    spec = json.dumps({"objectives": objectives} if objectives else {})
    await insert(dsn, _SEARCH, [(search_id, direction, len(trials), spec)])
    await write_trials(dsn, search_id, trials)


async def write_trials(dsn: str, search_id: str, trials: Sequence[GivenTrial], first: int = 0) -> None:
    rows = []
    for at, trial in enumerate(trials, first):
        given = (trial.status, trial.value, trial.values, list(trial.outside), json.dumps(trial.parameters))
        rows.append((search_id, at, f"{search_id}.{at}", *given, at * 10, trial.ended_ms, trial.last_value))
    await insert(dsn, _TRIAL, rows)
