"""Turns a condition over jobs into SQL. Names and values are bound: the text has our columns only. Pure."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, assert_never

from trackside.projections.job_search.expressions import (
    AllOf,
    AnyOf,
    Compared,
    Contains,
    FieldName,
    GivenValue,
    InList,
    JobCondition,
    JobTest,
    MetricName,
    Missing,
    Name,
    Negated,
    Operator,
    ParameterPath,
    Statistic,
)
from trackside.projections.job_search.fields import FIELDS, FieldType, column_of, moment_ms

SqlType = Literal["text", "text[]", "numeric", "numeric[]", "float8", "float8[]", "bigint", "bigint[]"]
_OPERATORS: dict[Operator, str] = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
STATISTIC_COLUMNS: dict[Statistic, str] = {
    "last": "last",
    "min": "min_value",
    "max": "max_value",
    "mean": "mean_value",
    "count": "points",
    "first_step": "first_step",
    "last_step": "last_step",
    "non_finite": "non_finite",
}
_JSON_COLUMNS: dict[str, FieldType] = {"number": "integer", "string": "text", "boolean": "text"}
_JSON_TYPES: dict[type, str] = {Decimal: "number", str: "string", bool: "boolean"}
# A tag is found by its hash: an index can't hold texts of any length. The newest session of a tag counts.
_OF_TAG = """hashtextextended(metric_totals.tag, 0) = hashtextextended({tag}, 0) AND metric_totals.tag = {tag}
        AND metric_totals.kind = 'scalar' AND metric_totals.newest"""
_METRIC = """
LEFT JOIN (
    SELECT metric_totals.task_id, {columns}
    FROM metric_totals
    WHERE {of_tag}
) AS {alias} ON {alias}.task_id = job.id"""
# The same for few jobs, one after another.
_METRIC_OF_FEW = """
LEFT JOIN LATERAL (
    SELECT {columns}
    FROM metric_totals
    WHERE {of_tag} AND metric_totals.task_id = job.id
    LIMIT 1
) AS {alias} ON true"""
_LIKELY = """
    SELECT totals.task_id
    FROM (SELECT metric_totals.task_id, {columns} FROM metric_totals WHERE {of_tag}) AS totals
    WHERE {test}"""
TOTALS = """
        CASE metric_totals.last_non_finite
            WHEN 2 THEN 'Infinity' WHEN 3 THEN '-Infinity' ELSE metric_totals.last_value
        END AS last,
        metric_totals.min_value, metric_totals.max_value, metric_totals.mean_value, metric_totals.points,
        metric_totals.first_step, metric_totals.last_step, metric_totals.non_finite"""
"""What is selected of the totals of a metric; a last value that is NaN is null."""
_TAGGED = """job.id IN (
    SELECT task_id FROM metric_series
    WHERE hashtextextended(tag, 0) = hashtextextended({tag}, 0) AND tag = {tag}
)"""
BRIEF = "\nLEFT JOIN summary_briefs AS brief ON brief.job_id = job.id"
REPORTED = """
    SELECT
        metric_series.task_id,
        jsonb_object_agg(
            parameter.key, parameter.value
            ORDER BY metric_series.attempt, summary_items.step, summary_items.wall_time_ms, summary_items.item
        ) AS reported
    FROM metric_series
    JOIN summary_items ON summary_items.series = metric_series.series
    CROSS JOIN LATERAL jsonb_each(
        CASE jsonb_typeof(summary_items.body -> 'value' -> 'values')
            WHEN 'object' THEN summary_items.body -> 'value' -> 'values'
        END
    ) AS parameter
    WHERE metric_series.kind = 'hparams'{more}
    GROUP BY metric_series.task_id"""
"""Selects the parameters that jobs have reported: of several values of one, the newest."""
PARAMETERS = f"""
LEFT JOIN ({REPORTED.format(more="")}
) AS hparams ON hparams.task_id = job.id
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN hparams.reported IS NULL THEN job.parameters
        WHEN job.parameters IS NULL THEN hparams.reported
        ELSE hparams.reported || job.parameters
    END AS parameters
) AS given"""
"""Joins the parameters of each job, as `given.parameters`: those of a task, and those that it reports."""


@dataclass(slots=True)
class SqlParts:
    """The parts of a statement about jobs that grow while conditions are translated.

    `joins` are in the order in which they are needed; `values` are those of $1, $2... `few`: the
    statement is about few jobs, so that the metrics of each are looked up.
    """

    joins: list[str] = field(default_factory=list)
    values: list[object] = field(default_factory=list)
    few: bool = False
    _aliases: dict[object, str] = field(default_factory=dict)

    def bind(self, value: object, kind: SqlType) -> str:
        """Adds a value; returns its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}::{kind}"

    def column(self, name: Name) -> str:
        """Returns the column of a name, which is joined: jsonb of a parameter, else of its SQL type."""
        if isinstance(name, FieldName):
            found = FIELDS[name.name].sql
            if "brief." in found:
                self.join(BRIEF)
            return found
        if isinstance(name, ParameterPath):
            return f"{self._parameter(name)}.value"
        return _statistic(name, self._metric(name.tag))

    def join(self, statement: str) -> None:
        """Adds a join, once."""
        if statement not in self.joins:
            self.joins.append(statement)

    def _parameter(self, name: ParameterPath) -> str:
        """Returns the alias of a parameter; OFFSET 0 has it looked up once per job, not at each use."""
        alias = self._aliases.get(name.path)
        if alias is None:
            self.join(PARAMETERS)
            alias = self._aliases[name.path] = f"p{len(self._aliases)}"
            found = f"given.parameters #> {self.bind(list(name.path), 'text[]')}"
            if len(name.path) > 1:
                found = f"coalesce({found}, given.parameters -> {self.bind('.'.join(name.path), 'text')})"
            self.joins.append(f"\nCROSS JOIN LATERAL (SELECT {found} AS value OFFSET 0) AS {alias}")
        return alias

    def _metric(self, tag: str) -> str:
        alias = self._aliases.get(tag)
        if alias is None:
            alias = self._aliases[tag] = f"m{len(self._aliases)}"
            of_tag = _OF_TAG.format(tag=self.bind(tag, "text"))
            metric = _METRIC_OF_FEW if self.few else _METRIC
            self.joins.append(metric.format(columns=TOTALS, of_tag=of_tag, alias=alias))
        return alias

    def likely_jobs(self, condition: JobCondition) -> str:
        """Returns what selects the jobs that have a value of a metric that is required.

        No other job matches. A job may be selected more than once. `requires_metric(condition)` must be true.
        """
        match condition:
            case AllOf():
                found = [each for each in condition.conditions if requires_metric(each)]
                return "\n    INTERSECT".join(f"({self.likely_jobs(each)})" for each in found)
            case AnyOf():
                return "\n    UNION".join(f"({self.likely_jobs(each)})" for each in condition.conditions)
            case Compared(name=MetricName() as name) | InList(name=MetricName() as name):
                of_tag = _OF_TAG.format(tag=self.bind(name.tag, "text"))
                tested = self._test_of(condition, _statistic(name, "totals"))
                return _LIKELY.format(columns=TOTALS, of_tag=of_tag, test=tested)
            case _:
                raise AssertionError(f"{condition} requires no metric")

    def condition(self, condition: JobCondition) -> str:
        """Returns a condition in SQL, with the same three values: true, false and NULL."""
        match condition:
            case AllOf():
                return "(" + " AND ".join(map(self.condition, condition.conditions)) + ")"
            case AnyOf():
                return "(" + " OR ".join(map(self.condition, condition.conditions)) + ")"
            case Negated():
                return f"(NOT {self.condition(condition.condition)})"
            case Compared() | InList() | Contains() | Missing():
                return f"({self._test(condition)})"
            case _:
                assert_never(condition)

    def _test(self, test: JobTest) -> str:
        kind = column_of(test.name)
        if kind == "tags" and isinstance(test, Contains):
            return _TAGGED.format(tag=self.bind(test.value.value, "text"))
        column = self.column(test.name)
        return self._parameter_test(test, column) if kind == "json" else self._test_of(test, column)

    def _test_of(self, test: JobTest, column: str) -> str:
        """Returns a test of a column that isn't JSON."""
        kind = column_of(test.name)
        match test:
            case Missing():
                return f"{column} IS NULL"
            case Contains():
                return f"strpos({column}, {self.bind(test.value.value, 'text')}) > 0"
            case Compared():
                right = self.bind(_bindable(test.value, kind), _type_of(kind))
                return f"{_comparable(column, kind)} {_OPERATORS[test.operator]} {right}"
            case InList():
                values = [_bindable(value, kind) for value in test.values]
                return f"{column} = ANY({self.bind(values, _list_of(_type_of(kind)))})"
            case _:
                assert_never(test)

    def _parameter_test(self, test: JobTest, column: str) -> str:
        """Returns a test of a JSON value: it is compared with values of its own type, else it is unknown."""
        match test:
            case Missing():
                return f"coalesce(jsonb_typeof({column}), 'null') = 'null'"
            case Contains():
                found = f"strpos({column} #>> '{{}}', {self.bind(test.value.value, 'text')}) > 0"
                return _by_type(column, {"string": found})
            case Compared():
                name = _JSON_TYPES[type(test.value.value)]
                right = self.bind(_json_literal(test.value), _type_of(_JSON_COLUMNS[name]))
                compared = f"{_cast(column, name)} {_OPERATORS[test.operator]} {right}"
                return _by_type(column, {name: compared})
            case InList():
                lists: dict[str, list[object]] = {}
                for value in test.values:
                    lists.setdefault(_JSON_TYPES[type(value.value)], []).append(_json_literal(value))
                tests = {}
                for name, values in lists.items():
                    right = self.bind(values, _list_of(_type_of(_JSON_COLUMNS[name])))
                    tests[name] = f"{_cast(column, name)} = ANY({right})"
                return _by_type(column, tests)
            case _:
                assert_never(test)


def requires_metric(condition: JobCondition) -> bool:
    """Returns whether each job that matches has a value of a metric that is tested."""
    match condition:
        case AllOf():
            return any(map(requires_metric, condition.conditions))
        case AnyOf():
            return all(map(requires_metric, condition.conditions))
        case Compared() | InList():
            return isinstance(condition.name, MetricName)
        case _:
            return False


def _statistic(name: MetricName, table: str) -> str:
    return f"{table}.{STATISTIC_COLUMNS[name.statistic]}"


def _json_literal(value: GivenValue) -> object:
    return str(value.value).lower() if isinstance(value.value, bool) else value.value


def _cast(column: str, json_type: str) -> str:
    return f"{column}::numeric" if json_type == "number" else f"({column} #>> '{{}}') COLLATE \"C\""


def _comparable(column: str, kind: FieldType) -> str:
    """Returns a column that is ordered as Python orders its values: texts by their code points."""
    return f'({column} COLLATE "C")' if kind == "text" else column


def _by_type(column: str, tests: dict[str, str]) -> str:
    cases = " ".join(f"WHEN '{name}' THEN {test}" for name, test in tests.items())
    return f"CASE jsonb_typeof({column}) {cases} END"


def _type_of(kind: FieldType) -> SqlType:
    types: dict[FieldType, SqlType] = {
        "integer": "numeric",
        "float": "float8",
        "time": "bigint",
        "text": "text",
    }
    return types[kind]


def _list_of(kind: SqlType) -> SqlType:
    lists: dict[SqlType, SqlType] = {"numeric": "numeric[]", "float8": "float8[]", "bigint": "bigint[]"}
    return lists.get(kind, "text[]")


def _bindable(value: GivenValue, kind: FieldType) -> object:
    if kind == "time":
        return moment_ms(value)
    return float(value.value) if kind == "float" else value.value
