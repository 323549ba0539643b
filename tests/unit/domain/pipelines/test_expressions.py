"""Expressions: what they can compute, what they can't reach, and what they can't cost."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.domain.pipelines.given import TEMPLATES
from trackside.domain.pipelines import expressions
from trackside.domain.pipelines.references import MissingValueError

NAMES: dict[str, Any] = {
    "a": {"result": {"x": 3, "list": [1, 2, 3], "text": "abc", "get": 7, "a-b": 5, "flag": True}},
    "steps": {"a-b": {"result": {"x": 1}}},
    "n": None,
    "big": 2**62,
    "wide": list(range(10_000)),
    "long": "x" * 65_536,
    "lists": [[1] * 100] * 100,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("a.result.x + 1", 4), ("a.result.x - 1.5", 1.5), ("a.result.x * 2", 6), ("a.result.x / 2", 1.5)),
        *(
            ("a.result.x // 2", 1),
            ("-a.result.x % 2", 1),
            ("+a.result.x", 3),
            ("'x' + a.result.text", "xabc"),
        ),
        *(("a.result.x == 3.0", True), ("a.result.x != 3", False), ("a.result.x < 4 <= 4", True)),
        *(("a.result.x > 3 or a.result.x >= 3", True), ("2 in a.result.list", True)),
        *(("'z' not in a.result.text", True), ("'x' in a.result", True), ("n is None", True)),
        *(("n is not null", False), ("a.result.x is 3.0", False), ("a.result.x + 1000 is 1003", True)),
        *(("not a.result.flag", False), ("a.result.flag == true and not false", True)),
        *(("a.result.x if n is None else 0", 3), ("a.result.list[0]", 1), ("a.result.list[-1]", 3)),
        *(("a.result['a-b']", 5), ("a.result[a.result.text[0] + '-b']", 5), ("a.result.get", 7)),
        *(("steps['a-b'].result.x", 1), ("len(a.result.list) + len(a.result.text) + len(a.result)", 12)),
        *(("min(a.result.list)", 1), ("max(1, a.result.x)", 3), ("sum(a.result.list)", 6)),
        *(("abs(-a.result.x)", 3), ("  a.result.x  ", 3), ("false and a.result.none", False)),
    ],
)
def test_an_expression_has_its_value(text: str, value: object) -> None:
    found = expressions.evaluate(text, NAMES)
    assert found == value
    assert type(found) is type(value)


def test_only_keys_of_objects_and_indexes_of_lists_are_attributes() -> None:
    for text in (
        *(
            "a.__class__",
            "a.result.text.upper",
            "a.result.keys",
            "a.result.list.append",
            "a.result['__len__']",
        ),
        *("a.result.list['0']", "a.result.list[true]", "a.result.x.real", "n.x", "steps['a']"),
        *("a.result.list[3]", "a.result.text[-4]", "a.result[0]"),
    ):
        with pytest.raises(MissingValueError):
            expressions.evaluate(text, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        *("a.result.text.upper()", "a.result.text.format(1)", "a['result'].keys()", "open('x')", "eval('1')"),
        *("getattr(a, 'x')", "len.__self__()", "(lambda: 1)()", "lambda: 1", "[1, 2]", "[x for x in a]"),
        *("{x for x in a}", "{1: 2}", "{1}", "(1, 2)", "f'{a}'", "(x := 1)", "a.result.list[0:1]"),
        *("a.result.list[:]", "2 ** 3", "1 << 2", "1 | 2", "~1", "a @ a", "b'x'", "1j", "..."),
        *("max(*a.result.list)", "max(**a)", "max(a.result.list, key=len)", "await a", "yield 1", "x = 1"),
        *("import os", "1; 2", "1\n2", "", " ", "1 +", "a b", "\x00", "\ud800", "# nothing"),
        *("(" * 400 + "1" + ")" * 400, "-" * 999 + "1", "(lambda:" * 90 + "1" + ")()" * 90),
    ],
)
def test_what_python_has_besides_is_not_available_and_no_nesting_overflows_the_stack(text: str) -> None:
    with pytest.raises(expressions.ExpressionError) as caught:
        expressions.check_expression(text)
    assert caught.value.code == "bad_expression" or len(text) > 100
    with pytest.raises(expressions.ExpressionError):
        expressions.evaluate(text, NAMES)
    with pytest.raises(expressions.ExpressionError):
        expressions.paths_of(text)


def test_values_that_do_not_go_with_each_other_are_an_error_of_the_expression() -> None:
    for text in (
        *(
            "nothing",
            "__builtins__",
            "len",
            "1 / 0",
            "1 % 0",
            "a.result.x < 'b'",
            "n > 1",
            "'%s' % 'a'",
            "-'a'",
        ),
        *("1 in 2", "len(1)", "len()", "max()", "min(n)", "sum(a.result.text)", "a.result.list in a.result"),
        *("1e999", "1e308 * 10", "1e999 - 1e999", "a.result", "a.result.list", "big * 2"),
    ):
        with pytest.raises(expressions.ExpressionError) as caught:
            expressions.evaluate(text, NAMES)
        assert caught.value.code == "bad_expression"


def test_an_expression_has_at_most_a_thousand_characters_and_thirty_levels() -> None:
    assert expressions.evaluate("1" + " " * (expressions.MAX_CHARACTERS - 1), {}) == 1
    assert expressions.evaluate("-" * (expressions.MAX_DEPTH - 1) + "1", {}) == -1
    with pytest.raises(expressions.ExpressionError, match="1,001 characters") as caught:
        expressions.check_expression("1" + " " * expressions.MAX_CHARACTERS)
    assert caught.value.code == "expression_too_long"
    deep = expressions.MAX_DEPTH
    for text in (
        *("-" * deep + "1", "a" + ".b" * deep, "1" + "+1" * deep, "not " * 240 + "1", "a" + "[0]" * deep),
        "max(" * deep + "1" + ")" * deep,
    ):
        with pytest.raises(expressions.ExpressionError) as caught:
            expressions.check_expression(text)
        assert caught.value.code == "expression_too_deep", text


def test_a_costly_expression_is_refused_before_it_costs_anything() -> None:
    for text in (
        *("'x' * 1000000000", "wide * 1000000", "long * wide", "wide * long", "wide + wide"),
        *("len(sum(lists, wide)) > 0", "big" + " * big" * 25 + " > 0", "long" + " + long" * 25),
        "max(" + ("big" + "*big" * 8 + ", ") * 20 + "big" + "*big" * 17 + ")",
    ):
        before = time.process_time()
        with pytest.raises(expressions.ExpressionError):
            expressions.evaluate(text, NAMES)
        assert time.process_time() - before < 0.2


def test_the_costliest_expressions_over_long_lists_take_little_time() -> None:
    before = time.process_time()
    assert expressions.evaluate("max(" + ", ".join(["sum(wide)"] * 90) + ")", NAMES) == 49_995_000
    assert expressions.evaluate(" or ".join(["-1 in wide"] * 70), NAMES) is False
    assert time.process_time() - before < 2


def test_the_paths_of_an_expression_end_where_they_are_not_constant() -> None:
    for text, paths in (
        ("a.result.x > 0 and b.id == a.result.x", "a.result.x b.id"),
        ("a['result'][0].x", "a.result.0.x"),
        ("a.models.output[-1].name", "a.models.output.-1.name"),
        ("a.result[pipeline.i].x", "pipeline.i a.result"),
        ("a.result[b.id][0].x[c.id].y", "c.id b.id a.result"),
        ("a.result[true].x", "a.result"),
        ("steps['a-b'].result", "steps.a-b.result"),
        ("steps[0].result", "steps"),
        ("steps[-1].result", "steps"),
        ("len(a.result) + max(b.id, c.id)", "a.result b.id c.id"),
        ("(a if b else c).result.x", "b a c"),
        ("'text'[0] == true and null is None", ""),
        ("len", "len"),
        ("-a.x + (not b)", "a.x b"),
    ):
        assert expressions.paths_of(text) == [tuple(path.split(".")) for path in paths.split()], text


@given(st.text(alphabet="abx.[]()'\"0+-*/%<>=! \\\nnotrueiflsd,:{}", max_size=60))
def test_any_text_is_evaluated_or_refused_and_nothing_else(text: str) -> None:
    names = {"a": {"b": [1, {"x": "t"}]}, "b": 2, "x": [], "n": None}
    try:
        value = expressions.evaluate(text, names)
    except (expressions.ExpressionError, MissingValueError):
        return
    assert value is None or isinstance(value, str | int | float)


OPERATORS = ["+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "in", "is", "and", "or"]


@pytest.mark.thorough
@given(TEMPLATES, TEMPLATES, st.sampled_from(OPERATORS))
def test_any_values_are_computed_or_refused_and_nothing_else(left: Any, right: Any, operator: str) -> None:
    try:
        value = expressions.evaluate(f"left {operator} right", {"left": left, "right": right})
    except expressions.ExpressionError:
        return
    assert value is None or isinstance(value, str | int | float)
