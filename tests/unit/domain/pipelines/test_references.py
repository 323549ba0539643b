"""References in templates: their grammar, their values, and the way back to the text (P6, P7, P13, P32)."""

from typing import Any

import pytest
from hypothesis import given

from tests.unit.domain.pipelines.given import TEMPLATES
from trackside.domain.pipelines.references import (
    MissingValueError,
    Reference,
    is_object,
    is_reference,
    located,
    parse,
    references,
    resolve,
    source,
    step_into,
)

VALUES: dict[str, Any] = {
    "rows": 150,
    "rate": 0.1,
    "name": "digits",
    "flag": True,
    "nothing": None,
    "list": [1, "two"],
    "object": {"a.b": {"c": 1}},
    "looks": "${a.result.name}",
}


def value_of(reference: Reference) -> Any:
    base, kind, *path = reference.path
    assert (base, kind) == ("a", "result")
    return step_into(VALUES, tuple(path), "a.result")


def test_a_reference_has_the_parts_between_its_dots() -> None:
    """P7: `\\.` is a dot within a name."""
    for text, path in (
        ("${a.artifacts.model}", ("a", "artifacts", "model")),
        ("${a.artifacts.model\\.onnx.uri}", ("a", "artifacts", "model.onnx", "uri")),
        ("${a.parameters.General/lr}", ("a", "parameters", "General/lr")),
        ("${a.models.output.-1.sha256}", ("a", "models", "output", "-1", "sha256")),
        ("${pipeline.rows}", ("pipeline", "rows")),
        ("${run:nightly\\.3.a.id}", ("run:nightly.3", "a", "id")),
        ("${a.b\\c}", ("a", "b\\c")),
        ("${a.b\\}", ("a", "b\\")),
        ("${a..b.}", ("a", "", "b", "")),
        ("${}", ("",)),
    ):
        tree = parse(text)
        assert is_reference(tree)
        assert [reference.path for reference in references(tree)] == [path]
        assert next(references(tree)).text == text == source(tree)


def test_several_references_in_one_text_are_all_filled_in() -> None:
    """P6. In the original, a value with `${` in it shifted the next one into its own place."""
    tree = parse("${a.result.name}-${a.result.rows}, ${a.result.rows}")
    assert [reference.path[2] for reference in references(tree)] == ["name", "rows", "rows"]
    assert resolve(tree, value_of) == "digits-150, 150"
    tree = parse(["${a.result.looks}", "${a.result.looks} ${a.result.rows}"])
    assert resolve(tree, value_of) == ["${a.result.name}", "${a.result.name} 150"]


def test_a_text_that_is_one_reference_keeps_the_type_of_its_value_and_others_have_json_or_stay() -> None:
    """P13, P31: a value that is no text is never an error."""
    for name, value in VALUES.items():
        found = resolve(parse(f"${{a.result.{name}}}"), value_of)
        assert found == value
        assert type(found) is type(value)
    texts = {"rows": "150", "rate": "0.1", "flag": "true", "nothing": "null", "list": '[1,"two"]'}
    for name, text in {**texts, "object": '{"a.b":{"c":1}}'}.items():
        assert resolve(parse(f"<${{a.result.{name}}}>"), value_of) == f"<{text}>"
    for text in ("", "$", "${", "$a", "{a}", "$ {a.id}", "}${", "a$}"):
        assert parse(text) == text == resolve(parse(text), value_of)


def test_references_are_found_at_any_depth_with_their_paths() -> None:
    """P32: recursion into lists and objects is the default."""
    tree = parse({"x": [1, {"$y": "${a.id}"}], "z": "${b.id} ${c.id}"})
    assert [(path, reference.base) for path, reference in located(tree, "$.p")] == [
        ("$.p.x[1].$y", "a"),
        ("$.p.z", "b"),
        ("$.p.z", "c"),
    ]
    assert is_object(tree)
    assert is_object(parse({"$ref": ["a", "id"]}))
    assert not is_object(parse("${a.id}"))
    assert not is_object(parse("a ${a.id}"))


def test_what_looks_like_a_parsed_reference_is_an_object() -> None:
    given_: dict[str, Any] = {"$ref": ["a", "result", "rows"], "n": "${a.result.rows}"}
    assert not list(references(parse({"$ref": ["a", "id"], "$text": [], "$object": 1})))
    assert resolve(parse(given_), value_of) == {"$ref": ["a", "result", "rows"], "n": 150}


def test_a_missing_value_is_an_error_and_never_a_text() -> None:
    """A missing key became the text "None" in the original."""
    for path in ("none", "rows.x", "list.2", "list.-3", "list.x", "name.0", "object.a.b"):
        for text in (f"${{a.result.{path}}}", f"<${{a.result.{path}}}>"):
            with pytest.raises(MissingValueError, match=r"^a\.result"):
                resolve(parse(text), value_of)


@pytest.mark.parametrize(
    ("value", "path", "name", "said"),
    [
        ({"b": 1}, ("x",), "a", r"^a has no 'x': it has b$"),
        ({"b": None}, ("b", "0"), "a", r"^a\.b has no '0': it is null$"),
        ([["x"]], ("0", "1"), "a", r"^a\.0 has 1 items, none at 1$"),
        ({f"{at}" * 10_000: 1 for at in range(100)}, ("x",), "a", r"^a has no 'x': it has .{,1900}$"),
    ],
    ids=["key", "null", "index", "long"],
)
def test_a_missing_value_is_named_with_what_is_there(value: Any, path: Any, name: str, said: str) -> None:
    with pytest.raises(MissingValueError, match=said):
        step_into(value, path, name)


def test_keys_of_objects_and_indexes_of_lists_are_followed_and_nothing_else() -> None:
    """P7, P12: attributes and methods of values are not reachable."""
    value = {"l": [{"0": "a"}, 2], "get": 1}
    assert (step_into(value, ("l", "0", "0"), ""), step_into(value, ("l", "-1"), "")) == ("a", 2)
    assert step_into(value, ("get",), "") == 1
    for path in (("keys",), ("__class__",), ("l", "append"), ("l", "__len__"), ("l", " 1"), ("l", "1.0")):
        with pytest.raises(MissingValueError):
            step_into(value, path, "")


def test_a_default_is_the_text_where_there_is_no_value_and_hides_no_other_error() -> None:
    for text, value in (
        *(("${a.result.none:-x}", "x"), ("${a.result.none:-}", ""), ("${a.result.none:-10}", "10")),
        *(("${a.result.none:-a.b:-c}", "a.b:-c"), ("<${a.result.none:-x}>", "<x>")),
        *(("${a.result.rows:-x}", 150), ("${a.result.nothing:-x}", None)),
    ):
        assert (resolve(parse(text), value_of), source(parse(text))) == (value, text)

    def failing(_: Reference) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        resolve(parse("${a.result.x:-1}"), failing)


@pytest.mark.thorough
@given(TEMPLATES, TEMPLATES)
def test_values_are_filled_in_where_references_are_and_nowhere_else(template: Any, value: Any) -> None:
    tree = parse(template)
    seen: list[Reference] = []

    def fill(reference: Reference) -> Any:
        seen.append(reference)
        return value

    found = resolve(tree, fill)
    assert seen == list(references(tree)) == [reference for _, reference in located(tree, "$")]
    assert source(tree) == template
    if not seen:
        assert found == template
