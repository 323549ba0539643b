"""Lineage of a job: the datasets and models that it was given, what it saved, and what came of that."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trackside.domain.rows.table import ViewRow
from trackside.projections.database.postgres import Connection, Database, fetch_within, sql

MAX_LEVELS = 20
"""How many jobs away from a job its lineage is followed."""
MAX_ROWS = 1_000
"""How many rows of each kind a lineage has."""
LIMIT_S = 10.0
"""How long Postgres may take for one query of a lineage, in s."""
_TAGS = "lineage/"


@dataclass(frozen=True, slots=True)
class JobLineage:
    """The lineage of a job; lists of rows are empty where nothing is known.

    `inputs` are the artifacts that it was given (`use`: input or checkpoint; `name`, `uri`, `sha256`,
    `source`), `artifacts` those that it saved, and `models` the versions of models with the bytes of these.
    `upstream` has the jobs that its inputs come from and `downstream` those that were given what it saved:
    `job_id`, `stream`, the artifact's name in `via`, and `level`, 1 for the nearest. `reported` is what
    lineage files of MindSpore have: parameters under `train`, `evaluation` and `user_defined`, and the
    pipeline of the dataset under `dataset`.
    """

    job_id: str
    inputs: list[ViewRow] = field(default_factory=list)
    artifacts: list[ViewRow] = field(default_factory=list)
    models: list[ViewRow] = field(default_factory=list)
    upstream: list[ViewRow] = field(default_factory=list)
    downstream: list[ViewRow] = field(default_factory=list)
    reported: dict[str, Any] = field(default_factory=dict)


async def lineage(database: Database, job_id: str, *, limit_s: float = LIMIT_S) -> JobLineage:
    """Returns the lineage of a job, empty for an unknown one. `database` is opened on the live schema.

    Raises StatementTimeoutError if a query takes longer than `limit_s` seconds; PostgresGoneError and
    SchemaMissingError as all reads do.
    """
    return await database.transaction(partial(_lineage, job_id, limit_s), repeatable_read=True)


async def _lineage(job_id: str, limit_s: float, connection: Connection) -> JobLineage:
    async def fetch(query: str, *values: object) -> list[ViewRow]:
        rows = await fetch_within(connection, sql("queries", query), values, limit_s)
        return [dict(row) for row in rows]

    if "\0" in job_id:
        return JobLineage(job_id)
    return JobLineage(
        job_id,
        await fetch("lineage_inputs", job_id, MAX_ROWS),
        await fetch("lineage_artifacts", job_id, MAX_ROWS),
        [_parsed(row, "metrics") for row in await fetch("lineage_models", job_id, MAX_ROWS)],
        await fetch("lineage_upstream", job_id, MAX_LEVELS, MAX_ROWS),
        await fetch("lineage_downstream", job_id, MAX_LEVELS, MAX_ROWS),
        _reported(await fetch("lineage_reported", job_id)),
    )


def _parsed(row: ViewRow, column: str) -> ViewRow:
    return {**row, column: json.loads(row[column])}


def _reported(rows: Iterable[ViewRow]) -> dict[str, Any]:
    """Returns what lineage files say, by the tag; what is no JSON of its kind is left out."""
    found: dict[str, Any] = {}
    for row in rows:
        value = json.loads(row["body"]).get("value")
        if not isinstance(value, dict):
            continue
        name = row["tag"].removeprefix(_TAGS)
        if row["kind"] == "hparams":
            found[name] = value.get("values")
        elif isinstance(texts := value.get("texts"), list) and texts:
            found[name] = _json(texts[0])
    return found


def _json(text: object) -> Any:
    try:
        return json.loads(str(text))
    except (ValueError, RecursionError):
        return text
