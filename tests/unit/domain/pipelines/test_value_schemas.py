"""JSON Schemas of parameters and forms: what is refused in them, and that no check takes long (P31)."""

import time
from typing import Any

import pytest
from hypothesis import given

from tests.unit.domain.pipelines.given import TEMPLATES, step
from tests.unit.domain.pipelines.given import problems as problems_of_pipeline
from trackside.domain.pipelines.value_schemas import (
    MAX_PATTERNS,
    SchemaCheck,
    SchemaCosts,
    schema_problem,
    violation,
)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "int"}, 'at $.type: "int" is not one of "array"'),
        ({"type": "object", "properties": {"x": {"minimum": "1"}}}, "at $.properties.x.minimum"),
        ({"items": 1}, "at $.items"),
        ({"$ref": "#"}, "at $: '$ref' is not available"),
        ({"items": {"$ref": "http://localhost:1/x.json"}}, "at $.items: '$ref' is not available"),
        ({"allOf": [{"$dynamicRef": "#x"}]}, "at $.allOf[0]: '$dynamicRef' is not available"),
        ({"not": {"$schema": "http://json-schema.org/draft-04/schema#"}}, "at $.not: '$schema'"),
        ({"uniqueItems": True}, "'uniqueItems' is not available: it can take too long"),
        ({"$defs": {"x": {"unevaluatedItems": False}}}, "at $.$defs.x: 'unevaluatedItems'"),
        ({"patternProperties": {"(a+)+$": {}}}, "'patternProperties' is not available"),
        ({"pattern": "("}, 'at $.pattern: "(" is not a "regex" of Rust\'s syntax'),
        ({"pattern": "(?=x)"}, 'at $.pattern: "(?=x)" is not a "regex" of Rust\'s syntax'),
        ({"default": 2**60}, "at $.default: beyond"),
    ],
)
def test_a_schema_that_cannot_be_used_is_named(schema: dict[str, Any], expected: str) -> None:
    found = schema_problem(schema)
    assert found is not None
    assert expected in found
    [problem] = problems_of_pipeline(step("a"), parameters={"x": schema})
    assert problem.path.startswith("$.parameters.x")


def test_other_schemas_are_usable() -> None:
    for schema in (
        {},
        {"type": ["string", "null"], "title": "x", "x-own": {"$ref": 1}},
        {"properties": {"$ref": {"type": "string"}, "uniqueItems": {}}, "required": ["$ref"]},
        {"enum": [{"$ref": "x"}], "default": {"pattern": "("}, "const": {"uniqueItems": 1}},
        {"if": {"type": "string"}, "then": {"pattern": "^[a-z]+$"}, "else": {"minimum": 0}},
        {"additionalProperties": False, "dependentSchemas": {"a": {"minProperties": 2}}, "items": True},
    ):
        assert schema_problem(schema) is None, schema


def test_a_value_that_does_not_fit_is_named_with_its_path() -> None:
    schema = {"type": "object", "properties": {"x": {"items": {"type": "integer"}}}}
    assert violation(schema, {"x": [1, 2]}) is None
    assert violation(schema, {"x": [1, "2"]}) == ("$.x[1]", '"2" is not of type "integer"')
    assert violation({"pattern": "^a+$"}, "aab") == ("$", '"aab" does not match "^a+$"')
    assert violation({"pattern": "^a+$"}, "aa") is None
    assert violation({"pattern": "^a+$"}, 5) is None
    found = violation({"type": "integer"}, "x" * 10_000)
    assert found is not None
    assert len(found[1]) < 400


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "(a+)+$"}, "a" * 50_000 + "b"),
        pytest.param({"items": {"enum": list(range(10_000))}}, [9_999] * 10_000, marks=pytest.mark.thorough),
        pytest.param(
            {"items": {"anyOf": [{"const": at} for at in range(5_000)]}},
            [4_999] * 10_000,
            marks=pytest.mark.thorough,
        ),
        ({"items": {"type": "integer"}}, list(range(10_000))),
        ({"multipleOf": 5e-324}, 10**15),
        ({"multipleOf": 1e-300}, 1e300),
    ],
    ids=range(6),
)
def test_no_check_takes_long(schema: dict[str, Any], value: Any) -> None:
    before = time.process_time()
    assert schema_problem(schema) is None
    violation(schema, value)
    assert time.process_time() - before < 20  # one that is not limited takes hours


def test_the_cost_of_all_checks_of_a_command_is_counted_together_and_the_place_is_named() -> None:
    patterns = {"properties": {str(at): {"pattern": "a"} for at in range(MAX_PATTERNS // 2)}}
    costs = SchemaCosts()
    assert costs.add([SchemaCheck("$.a", patterns, ()), SchemaCheck("$.b", patterns, ())]) is None
    problem = costs.add([SchemaCheck("$.c", {"anyOf": [{"not": {"pattern": "b"}}]}, ())])
    assert problem is not None
    assert (problem.code, problem.path) == ("too_costly", "$.c")
    assert "101 patterns, 100 are allowed" in problem.message
    branches = {"items": {"anyOf": [{"const": at} for at in range(500)]}}
    values = list(range(600))
    assert SchemaCosts().add([SchemaCheck("$.a", branches, (values,))]) is None
    problem = SchemaCosts().add([SchemaCheck("$.a", branches, (values, values))])
    assert problem is not None
    assert "compared 1,205,606 times" in problem.message


@pytest.mark.thorough
@given(TEMPLATES, TEMPLATES)
def test_any_json_is_a_schema_or_none_and_a_value_fits_it_or_not(schema: Any, value: Any) -> None:
    if isinstance(schema, dict) and schema_problem(schema) is None:
        found = violation(schema, value)
        assert found is None or found[0].startswith("$")
