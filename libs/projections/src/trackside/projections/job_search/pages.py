"""The statement that finds one page of jobs, sorted, with the number and types of all that match. Pure."""

from dataclasses import dataclass
from typing import Literal

from trackside.projections.job_search.cursors import JobSortKey
from trackside.projections.job_search.expressions import JobCondition, Name, ParameterPath, SearchRefused
from trackside.projections.job_search.fields import FieldType, column_of
from trackside.projections.job_search.statements import SqlParts, requires_metric

MISSING_RANK = 9
"""The rank of jobs without a value: they are last in both orders."""
ColumnType = Literal["int", "float", "text", "bool", "time", "mixed", "missing"]
"""The type of a column over all jobs that were found; `mixed`: of several types, or lists and objects."""
_INT, _FLOAT, _TEXT, _BOOL, _OTHER = 1, 2, 4, 8, 16
_TYPES: dict[int, ColumnType] = {0: "missing", _INT: "int", _FLOAT: "float", _INT | _FLOAT: "float"}
_TYPES |= {_TEXT: "text", _BOOL: "bool"}
_OF_COLUMN: dict[FieldType, ColumnType] = {"integer": "int", "float": "float", "text": "text", "time": "time"}


@dataclass(frozen=True, slots=True)
class SortOrder:
    """What jobs are sorted by; `after`: the row that a page begins after."""

    name: Name
    descending: bool
    after: JobSortKey | None


def sorts_floats(name: Name) -> bool:
    """Returns whether the numbers of a sort key are floats; else they are exact."""
    return column_of(name) == "float"


def likely_statement(condition: JobCondition, limit: int) -> tuple[str, list[object]] | None:
    """Returns the statement that finds up to `limit` jobs that may match, and its values.

    None if the condition requires no value of a metric.
    """
    if not requires_metric(condition):
        return None
    parts = SqlParts()
    likely = parts.likely_jobs(condition)
    return f"{likely}\nLIMIT {parts.bind(limit, 'bigint')}", parts.values


def page_statement(
    jobs: str,
    condition: JobCondition | None,
    order: SortOrder,
    typed: list[ParameterPath],
    limit: int,
    likely: list[str] | None = None,
) -> tuple[str, list[object]]:
    """Returns the statement and its values.

    `jobs` selects all jobs; no other ones than `likely`, which are few, match if it isn't None. The rows have
    the total in `total`, the types of the parameters `typed` in `types_0` and so on, and the sort key of a
    job; a single row without a job if the page is empty.
    """
    parts = SqlParts(few=likely is not None)
    only = "" if likely is None else f"job.id = ANY({parts.bind(likely, 'text[]')}) AND "
    where = "true" if condition is None else parts.condition(condition)
    rank, number, text = _sort_columns(parts, order.name)
    bits = [_type_bits(parts.column(name)) for name in typed]
    selected = "".join(f", {sql} AS bits_{at}" for at, sql in enumerate(bits))
    types = "".join(f", bit_or(bits_{at}) AS types_{at}" for at in range(len(bits)))
    direction = "DESC" if order.descending else "ASC"
    sort = f"sort_rank, sort_number {direction}, sort_text {direction}, id, stream"
    after = "" if order.after is None else _after(parts, order.after, order)
    statement = f"""
WITH found AS MATERIALIZED (
SELECT
    job.id, job.stream, {rank} AS sort_rank, {number} AS sort_number,
    ({text}) COLLATE "C" AS sort_text{selected}
FROM (
{jobs}) AS job{"".join(parts.joins)}
WHERE {only}{where}
)
SELECT summary.*, page.*
FROM (SELECT count(*) AS total{types} FROM found) AS summary
LEFT JOIN (
    SELECT id, stream, sort_rank, sort_number, sort_text FROM found{after}
    ORDER BY {sort} LIMIT {parts.bind(limit, "bigint")}
) AS page ON true
ORDER BY {sort}"""  # noqa: S608 - our columns; names and values are bound
    return statement, parts.values


def column_type(name: Name, bits: int) -> ColumnType:
    """Returns the type of a column; `bits` are those of a parameter."""
    kind = column_of(name)
    return _TYPES.get(bits, "mixed") if kind == "json" else _OF_COLUMN[kind]


def _sort_columns(parts: SqlParts, name: Name) -> tuple[str, str, str]:
    """Returns the parts of a sort key, none of which is null: rank, number, text."""
    kind = column_of(name)
    if kind == "tags":
        raise SearchRefused("wrong_type", "jobs can't be sorted by tags", path="sort")
    column = parts.column(name)
    if kind == "json":
        ranks = "WHEN 'number' THEN 0 WHEN 'string' THEN 1 WHEN 'boolean' THEN 2 WHEN 'null' THEN 9"
        rank = f"CASE coalesce(jsonb_typeof({column}), 'null') {ranks} ELSE 3 END"
        numbers = f"WHEN 'number' THEN {column}::numeric WHEN 'boolean' THEN {column}::boolean::integer"
        number = f"CASE jsonb_typeof({column}) {numbers} ELSE 0::numeric END"
        return rank, number, f"CASE jsonb_typeof({column}) WHEN 'string' THEN {column} #>> '{{}}' ELSE '' END"
    rank = f"CASE WHEN {column} IS NULL THEN {MISSING_RANK} ELSE 0 END"
    if kind == "text":
        return rank, "0::numeric", f"coalesce({column}, '')"
    return rank, f"coalesce({column}, 0)::{'float8' if kind == 'float' else 'numeric'}", "''"


def _type_bits(column: str) -> str:
    """Returns the bit of a JSON value's type; 0 for none. A number without a fraction is an int."""
    number = f"CASE WHEN scale({column}::numeric) = 0 THEN {_INT} ELSE {_FLOAT} END"
    texts = f"WHEN 'string' THEN {_TEXT} WHEN 'boolean' THEN {_BOOL} WHEN 'null' THEN 0"
    cases = f"WHEN 'number' THEN {number} {texts} ELSE {_OTHER}"
    return f"CASE coalesce(jsonb_typeof({column}), 'null') {cases} END"


def _after(parts: SqlParts, key: JobSortKey, order: SortOrder) -> str:
    """Returns the condition of the rows that come after one."""
    beyond = "<" if order.descending else ">"
    rank = parts.bind(key.rank, "bigint")
    number = parts.bind(key.number, "float8" if sorts_floats(order.name) else "numeric")
    text, job, stream = (parts.bind(each, "text") for each in (key.text, key.job_id, key.stream))
    later = f'(sort_text = {text} AND (id, stream) > ({job} COLLATE "C", {stream} COLLATE "C"))'
    later = f"(sort_number = {number} AND (sort_text {beyond} {text} OR {later}))"
    later = f"(sort_rank = {rank} AND (sort_number {beyond} {number} OR {later}))"
    return f"\n    WHERE sort_rank > {rank} OR {later}"
