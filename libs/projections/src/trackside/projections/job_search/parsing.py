"""Parses conditions over jobs, and the names that results are sorted by; refuses what is over a limit."""

import re
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any, cast, get_args

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from trackside.contracts.envelope.refusals import nearest
from trackside.domain.rows.cells import without_nul
from trackside.projections.job_search.expressions import (
    AllOf,
    AnyOf,
    Compared,
    Contains,
    FieldName,
    GivenValue,
    InList,
    JobCondition,
    Literals,
    MetricName,
    Missing,
    Name,
    Negated,
    Operator,
    ParameterPath,
    SearchRefused,
    Statistic,
    parts_of,
    tests_of,
)
from trackside.projections.job_search.fields import FIELDS, check_test

MAX_CHARACTERS = 4_000
MAX_LEVELS = 30
MAX_TESTS = 100
MAX_LISTED = 500
"""How many values `in (...)` may have, of one test."""
MAX_METRICS = 10
"""How many different metrics a condition may name: each is joined."""
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
PARAMETERS, METRICS = "params", "metrics"
_LARGEST, _SMALLEST = 308, -400
"""Powers of ten that a number may have: those of floats, with room for what underflows to 0."""
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_EXPECTED = {
    "NAME": "a name",
    "OPERATOR": "a comparison such as <=",
    "NUMBER": "a number",
    "TEXT": "a text in quotes",
    **{word: repr(word.strip("_").lower()) for word in ("IN", "NULL", "TRUE", "FALSE")},
    **{word: repr(word.strip("_").lower()) for word in ("_OR", "_AND", "_NOT", "_IS", "_CONTAINS")},
    "_OPEN": "'('",
    "_CLOSE": "')'",
    "_COMMA": "','",
    "$END": "the end",
}
_OTHER_LANGUAGES = {"=": "==", "&": "and", "|": "or", "!": "not", "<>": "!=", "~": "contains"}


def parse_condition(text: str) -> JobCondition:
    """Parses a condition. Raises SearchRefused if it is none, over a limit, or has an unknown name."""
    condition = cast("JobCondition", _parse(text, "condition", "where"))
    tests = list(tests_of(condition))
    if len(tests) > MAX_TESTS:
        raise SearchRefused("filter_too_long", f"{len(tests)} comparisons, at most {MAX_TESTS} are allowed")
    if max(level for _, level in parts_of(condition)) > MAX_LEVELS:
        raise SearchRefused("filter_too_deep", f"the condition has more than {MAX_LEVELS} levels")
    metrics = {test.name.tag for test in tests if isinstance(test.name, MetricName)}
    if len(metrics) > MAX_METRICS:
        raise SearchRefused("filter_too_long", f"{len(metrics)} metrics, at most {MAX_METRICS} are allowed")
    for test in tests:
        check_test(test)
    return condition


def parse_name(text: str, path: str) -> Name:
    """Parses one name, such as the column that a result is sorted by. Raises SearchRefused."""
    return cast("Name", _parse(text, "column", path))


def _parse(text: str, start: str, path: str) -> object:
    if len(text) > MAX_CHARACTERS:
        message = f"{len(text):,} characters, at most {MAX_CHARACTERS:,} are allowed"
        raise SearchRefused("filter_too_long", message, path=path)
    try:
        return _parser().parse(text, start=start)
    except VisitError as error:
        if not isinstance(error.orig_exc, SearchRefused):
            raise
        refused: SearchRefused = error.orig_exc
    except UnexpectedInput as error:
        refused = _unexpected(text, error)
    refused.path = path
    raise refused from None


def _unexpected(text: str, error: UnexpectedInput) -> SearchRefused:
    """Describes the place at which a text stops being a condition."""
    place = text.rstrip() if error.pos_in_stream is None else text[: error.pos_in_stream]
    at = min(len(place), len(text)) + 1
    expected: set[str] = set()
    if isinstance(error, UnexpectedToken):
        expected = set(error.accepts or error.expected)
        if error.token.type == "$END":
            at = len(text) + 1
    elif isinstance(error, UnexpectedCharacters):
        expected = set(error.allowed or ())
    names = [shown for name, shown in _EXPECTED.items() if name in expected]
    found = _found(text[at - 1 :])
    hint = ""
    for wrong, right in _OTHER_LANGUAGES.items():
        if found.startswith(wrong):
            hint = f"; did you mean {right!r}?"
    if "TEXT" in expected and "NAME" not in expected and re.match(r"[^\W\d]", found):
        hint = f'; a text needs quotes: "{found}"'
    if found[:1] in ('"', "'") and "TEXT" in expected:
        hint = "; the text has no closing quote"
    what = "the end" if not found else repr(found)
    return SearchRefused("bad_filter", f"expected {_either(names)}, got {what}{hint}", at=at)


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _found(rest: str) -> str:
    """Returns the word, or the other characters, that a rest of a text begins with; at most 30."""
    matched = re.match(r"[\w/.-]+|[^\w\s]+", rest)
    return "" if matched is None else matched[0][:30]


@v_args(inline=True)
class _Tree(Transformer[Token, Any]):
    """Makes the tree while the text is parsed."""

    def condition(self, condition: JobCondition) -> JobCondition:
        return condition

    def column(self, name: Name) -> Name:
        return name

    def any_of(self, *conditions: JobCondition) -> JobCondition:
        return conditions[0] if len(conditions) == 1 else AnyOf(conditions)

    def all_of(self, *conditions: JobCondition) -> JobCondition:
        return conditions[0] if len(conditions) == 1 else AllOf(conditions)

    def negated(self, condition: JobCondition) -> JobCondition:
        return Negated(condition)

    def compared(self, name: Name, operator: Token, value: GivenValue) -> JobCondition:
        return Compared(name, cast("Operator", operator.value), value)

    def listed(self, name: Name, _word: Token, values: tuple[GivenValue, ...]) -> JobCondition:
        return InList(name, values)

    def not_listed(self, name: Name, _word: Token, values: tuple[GivenValue, ...]) -> JobCondition:
        return Negated(InList(name, values))

    def contains(self, name: Name, value: GivenValue) -> JobCondition:
        return Contains(name, value)

    def not_contains(self, name: Name, value: GivenValue) -> JobCondition:
        return Negated(Contains(name, value))

    def missing(self, name: Name, _word: Token) -> JobCondition:
        return Missing(name)

    def present(self, name: Name, _word: Token) -> JobCondition:
        return Negated(Missing(name))

    def values(self, *values: GivenValue | None) -> tuple[GivenValue, ...]:
        found = tuple(value for value in values if value is not None)
        if len(found) > MAX_LISTED:
            message = f"{len(found)} values, at most {MAX_LISTED} are allowed"
            raise SearchRefused("filter_too_long", message, at=found[0].at)
        return found

    def value(self, token: Token) -> GivenValue:
        return GivenValue(_literal(token), _at(token))

    def name(self, *tokens: Token) -> Name:
        return _name([_text_of(token) for token in tokens], [_at(token) for token in tokens])


def _name(parts: list[str], at: list[int]) -> Name:
    """Returns the name that dotted parts have; `at` are their places."""
    first, rest = parts[0], parts[1:]
    if first == METRICS:
        if len(rest) < 2 or rest[-1] not in STATISTICS:
            known = ", ".join(STATISTICS)
            hint = nearest(rest[-1], STATISTICS) if len(rest) > 1 else ""
            message = f"expected metrics.TAG.STATISTIC with a statistic of {known}{hint}"
            raise SearchRefused("unknown_field", message, at=at[-1])
        return MetricName(".".join(rest[:-1]), rest[-1], at[0])
    if first == PARAMETERS:
        if not rest:
            raise SearchRefused("unknown_field", "expected params.NAME", at=at[0])
        return ParameterPath(tuple(rest), at[0])
    if rest or first not in FIELDS:
        shown = ".".join(parts)
        known_names = {*FIELDS, *(f"{begin}.{'.'.join(rest)}" for begin in (PARAMETERS, METRICS))}
        hint = nearest(shown, known_names)
        if not hint:
            named = f"a parameter is params.{shown[:50]}, a metric metrics.{shown[:50]}.last"
            hint = f"; {named}, and fields are {', '.join(FIELDS)}"
        raise SearchRefused("unknown_field", f"unknown field {shown[:200]!r}{hint}", at=at[0])
    return FieldName(first, at[0])


def _literal(token: Token) -> Literals:
    if token.type == "NUMBER":
        number = Decimal(token.value)
        if number and not _SMALLEST <= number.adjusted() <= _LARGEST:
            raise SearchRefused("out_of_range", "the number doesn't fit a float of 64 bits", at=_at(token))
        return number
    return token.type == "TRUE" if token.type in ("TRUE", "FALSE") else _text_of(token)


def _text_of(token: Token) -> str:
    """Returns the text of a token, as Postgres can have it: NUL is replaced in all rows too."""
    if token.type != "TEXT":
        return str(token.value)
    text = _ESCAPE.sub(lambda found: _character(found[1], token), token.value[1:-1])
    try:
        # What is written as two surrogates is one character.
        return without_nul(text.encode("utf-16", "surrogatepass").decode("utf-16"))
    except UnicodeDecodeError:
        raise SearchRefused("bad_unicode", "the text has a lone surrogate", at=_at(token)) from None


def _character(escaped: str, token: Token) -> str:
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    if escaped not in _ESCAPED:
        message = f"unknown escape \\{escaped}: a backslash is written \\\\"
        raise SearchRefused("bad_filter", message, at=_at(token))
    return _ESCAPED[escaped]


def _at(token: Token) -> int:
    return (token.start_pos or 0) + 1


@cache
def _parser() -> Lark:
    """Returns the parser; built on first use, which takes some ms."""
    grammar = (resources.files("trackside.projections.job_search") / "filter.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", start=["condition", "column"], transformer=_Tree())
