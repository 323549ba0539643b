"""S22: conditions over jobs are parsed as they read, and what is wrong is refused with its column."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.envelope.refusals import JOB_SEARCH_CODES
from trackside.projections.job_search import expressions, parsing
from trackside.projections.job_search.fields import shown_name
from trackside.projections.job_search.pages import SortOrder, page_statement

NUMBER, TEXT = expressions.GivenValue(Decimal("0.01")), expressions.GivenValue("x")


def test_a_condition_has_params_metrics_and_fields() -> None:
    text = 'params.lr < 0.01 and metrics.loss.min <= 0.2 and state == "ended"'
    text += ' and tag >= 3 and remark contains "baseline"'
    fifth = expressions.GivenValue(Decimal("0.2"))
    tests = (
        expressions.Compared(expressions.ParameterPath(("lr",)), "<", NUMBER),
        expressions.Compared(expressions.MetricName("loss", "min"), "<=", fifth),
        expressions.Compared(expressions.FieldName("state"), "==", expressions.GivenValue("ended")),
        expressions.Compared(expressions.FieldName("tag"), ">=", expressions.GivenValue(Decimal(3))),
        expressions.Contains(expressions.FieldName("remark"), expressions.GivenValue("baseline")),
    )
    assert parsing.parse_condition(text) == expressions.AllOf(tests)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("not tag == 1 or tag == 2 and tag == 3", "((not 1) or (2 and 3))"),
        ("not (tag == 1 or tag == 2) and tag == 3", "((not (1 or 2)) and 3)"),
        ("NOT NOT tag == 1", "(not (not 1))"),
        ("tag == 1 OR tag == 2 OR tag == 3", "(1 or 2 or 3)"),
        ("((tag == 1))", "1"),
    ],
)
def test_not_binds_closer_than_and_and_that_closer_than_or(text: str, parsed: str) -> None:
    assert shown(parsing.parse_condition(text)) == parsed


def shown(condition: object) -> str:
    if isinstance(condition, expressions.Negated):
        return f"(not {shown(condition.condition)})"
    if isinstance(condition, expressions.AllOf | expressions.AnyOf):
        word = " and " if isinstance(condition, expressions.AllOf) else " or "
        return f"({word.join(map(shown, condition.conditions))})"
    assert isinstance(condition, expressions.Compared)
    return str(condition.value.value)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("metrics.train/loss.last == 1", expressions.MetricName("train/loss", "last")),
        ('metrics."train/loss".last == 1', expressions.MetricName("train/loss", "last")),
        ("metrics.val.acc.last == 1", expressions.MetricName("val.acc", "last")),
        ('metrics."a \\"b\\" \\\\".max == 1', expressions.MetricName('a "b" \\', "max")),
        ("metrics.'été'.max == 1", expressions.MetricName("été", "max")),
        ('metrics."\\ud83d\\ude00\\n".max == 1', expressions.MetricName("😀\n", "max")),
        ("metrics.last.last == 1", expressions.MetricName("last", "last")),
        ("params.in == 1", expressions.ParameterPath(("in",))),
        ("params.model.depth == 1", expressions.ParameterPath(("model", "depth"))),
        ('params."model.depth" == 1', expressions.ParameterPath(("model.depth",))),
        ("params.not-a-number == 1", expressions.ParameterPath(("not-a-number",))),
        ('params."nul\\u0000" == 1', expressions.ParameterPath(("nul\ufffd",))),
    ],
)
def test_names_may_be_odd_and_quoted(text: str, parsed: object) -> None:
    test = parsing.parse_condition(text)
    assert isinstance(test, expressions.Compared)
    assert test.name == parsed


def test_values_are_numbers_texts_and_booleans() -> None:
    found = parsing.parse_condition("params.x in (1, -2.5e-3, .5, 'a', \"b\", true, False,)")
    assert isinstance(found, expressions.InList)
    numbers = [Decimal(1), Decimal("-0.0025"), Decimal("0.5")]
    assert [value.value for value in found.values] == [*numbers, "a", "b", True, False]
    assert parsing.parse_condition("params.x not in (1)") == expressions.Negated(
        expressions.InList(expressions.ParameterPath(("x",)), (expressions.GivenValue(Decimal(1)),))
    )
    missing = expressions.Missing(expressions.ParameterPath(("x",)))
    assert parsing.parse_condition("params.x is null") == missing
    assert parsing.parse_condition("params.x is not null") == expressions.Negated(missing)
    assert parsing.parse_condition("tags not contains 'x'") == expressions.Negated(
        expressions.Contains(expressions.FieldName("tags"), TEXT)
    )


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "bad_filter", "column 1: expected a name, 'not' or '(', got the end"),
        ("params.lr 3", "bad_filter", "column 11: expected a comparison such as <=, 'in', 'not', 'is'"),
        ("state = 'x'", "bad_filter", "column 7: expected a comparison such as <=, 'in', 'not', 'is' or "
         "'contains', got '='; did you mean '=='?"),
        ("tag == 1 && tag == 2", "bad_filter", "got '&&'; did you mean 'and'?"),
        ("state == ended", "bad_filter", "column 10: expected a number, a text in quotes, 'true' or 'false', "
         "got 'ended'; a text needs quotes: \"ended\""),
        ("state == 'ended", "bad_filter", "column 10: expected a number, a text in quotes, 'true' or "
         "'false', got \"'\"; the text has no closing quote"),
        ("(tag == 1", "bad_filter", "column 10: expected ')', got the end"),
        ("tag == 1)", "bad_filter", "column 9: expected the end, got ')'"),
        ("1 < tag", "bad_filter", "column 1: expected a name, 'not' or '(', got '1'"),
        ("tag < 1 < 2", "bad_filter", "column 9:"),
        ("params.x == 0x10", "bad_filter", "column 13:"),
        (r"params.x == 'a\q'", "bad_filter", r"column 13: unknown escape \q: a backslash is written \\"),
        (r"params.x == '\ud800'", "bad_unicode", "column 13: the text has a lone surrogate"),
        ("params.x == '\ud800'", "bad_unicode", "column 13: the text has a lone surrogate"),
        ("params.x == 1e999", "out_of_range", "column 13: the number doesn't fit a float of 64 bits"),
        ("stat == 'x'", "unknown_field", "column 1: unknown field 'stat'; did you mean 'state'?"),
        ("tag == 1 and lr < 1", "unknown_field", "column 14: unknown field 'lr'; a parameter is params.lr, "
         "a metric metrics.lr.last, and fields are id, stream, "),
        ("state.x == 1", "unknown_field", "unknown field 'state.x'; did you mean 'state'?"),
        ("metric.loss.min < 1", "unknown_field", "did you mean 'metrics.loss.min'?"),
        ("params == 1", "unknown_field", "column 1: expected params.NAME"),
        ("metrics.loss < 1", "unknown_field", "column 9: expected metrics.TAG.STATISTIC with a "),
        ("metrics.loss.mn < 1", "unknown_field", "column 14:"),
        ("metrics.loss.mn < 1", "unknown_field", "did you mean 'min'?"),
        ("ending == 'finishd'", "unknown_value", "column 11: ending is never 'finishd'; did you mean"),
        ("tag == '3'", "wrong_type", "column 8: tag is a number, got a text"),
        ("name == 3", "wrong_type", "column 9: name is a text, got a number"),
        ("metrics.a.min in (1, true)", "wrong_type", "column 22: metrics.a.min is a number, got true"),
        ("started_at > 'yesterday'", "wrong_type", "column 14: expected a date or a time such as 2026-01-31"),
        ("started_at > 5", "wrong_type", "started_at is a time, got a number"),
        ("params.x < true", "wrong_type", "column 12: true and false have no order"),
        ("tags == 'x'", "wrong_type", "column 1: tags has the names of metrics"),
        ("tags is null", "wrong_type", "column 1: tags has the names of metrics"),
        ("tag contains 'x'", "wrong_type", "column 1: tag has no text"),
        ("name contains 3", "wrong_type", "column 15: expected a text in quotes after contains"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_column(text: str, code: str, message: str) -> None:
    with pytest.raises(expressions.SearchRefused) as refused:
        parsing.parse_condition(text)
    assert (refused.value.code, refused.value.path) == (code, "where")
    assert message in refused.value.message
    assert code in JOB_SEARCH_CODES


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x" * (parsing.MAX_CHARACTERS + 1), "filter_too_long"),
        (" or ".join(["tag == 1"] * (parsing.MAX_TESTS + 1)), "filter_too_long"),
        (f"tag in ({','.join('1' * (parsing.MAX_LISTED + 1))})", "filter_too_long"),
        (" or ".join(f"metrics.m{at}.min < 1" for at in range(parsing.MAX_METRICS + 1)), "filter_too_long"),
        ("not " * parsing.MAX_LEVELS + "tag == 1", "filter_too_deep"),
    ],
    ids=["characters", "tests", "listed", "metrics", "levels"],
)
def test_a_condition_has_limits(text: str, code: str) -> None:
    with pytest.raises(expressions.SearchRefused) as refused:
        parsing.parse_condition(text)
    assert refused.value.code == code
    parsing.parse_condition("(" * 1_900 + "tag == 1" + ")" * 1_900)
    parsing.parse_condition("not " * (parsing.MAX_LEVELS - 1) + "tag == 1")
    parsing.parse_condition(" or ".join(["tag == 1"] * parsing.MAX_TESTS))
    parsing.parse_condition(f"tag in ({','.join('1' * parsing.MAX_LISTED)})")


@given(st.text(max_size=60) | st.text("()'\"\\=<>! andortis.,0123", max_size=60))
def test_any_text_is_parsed_or_refused_with_a_place_in_it(text: str) -> None:
    found: expressions.SearchRefused | None = None
    try:
        parsing.parse_condition(text)
    except expressions.SearchRefused as refused:
        found = refused
    if found is not None:
        assert found.code in JOB_SEARCH_CODES
        assert found.at is None or 1 <= found.at <= len(text) + 1


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=3))
def test_a_name_is_written_so_that_it_is_parsed_again(path: list[str]) -> None:
    stored = tuple(part.replace("\0", "\ufffd") for part in path)
    parameter = expressions.ParameterPath(stored)
    assert parsing.parse_name(shown_name(parameter), "sort") == parameter
    metric = expressions.MetricName(".".join(stored), "last")
    assert parsing.parse_name(shown_name(metric), "sort") == metric


def page_of(name: str, text: expressions.GivenValue) -> tuple[str, list[Any]]:
    parameter, metric = expressions.ParameterPath((name, "deep")), expressions.MetricName(name, "min")
    tests = (
        expressions.Compared(parameter, "==", text),
        expressions.InList(parameter, (text, NUMBER)),
        expressions.Contains(expressions.FieldName("remark"), text),
        expressions.Contains(expressions.FieldName("tags"), text),
        expressions.Compared(metric, "<", NUMBER),
    )
    order = SortOrder(parameter, descending=False, after=None)
    statement, values = page_statement("SELECT 1", expressions.AllOf(tests), order, [parameter], 10)
    return statement, list(values)


@given(st.text(min_size=2, max_size=20), st.text(min_size=2, max_size=20))
def test_no_name_or_text_of_a_user_is_in_the_statement(name: str, text: str) -> None:
    statement, values = page_of(f"<{name}>", expressions.GivenValue(f"<{text}>"))
    assert statement == page_of("p", TEXT)[0]
    assert f"<{text}>" in values
