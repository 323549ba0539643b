from typing import Any

from trackside.console.pages.runs.parameter_sources import ParameterRow, parameter_rows


def rows(
    spec: dict[str, Any], resolved: Any, events: dict[str, str] | None = None
) -> dict[str, ParameterRow]:
    step = {"spec": {"name": "train", **spec}, "resolved": resolved, "parameters": {}}
    return {each.name: each for each in parameter_rows("r", step, events or {})}


def test_a_literal_comes_from_the_definition_and_a_reference_has_its_value_the_step_and_the_event() -> None:
    found = rows({"parameters": {"lr": 0.5}}, None)["lr"]
    assert (found.value, found.is_known, found.sources[0].words) == (0.5, True, "the definition")
    text = "${data.result.rows}"
    found = rows({"parameters": {"rows": text}}, {text: 7}, {text: "r@12"})["rows"]
    (source,) = found.sources
    assert found.value == 7
    assert (source.words, source.address) == ("the result of step data", "/experiments/r/steps/data")
    assert (source.event, source.offset) == ("/experiments/r/past?at=12", 12)


def test_a_text_with_several_references_has_several_sources() -> None:
    template = "${pipeline.a} of ${run:other.data.artifacts.x}"
    values = {"${pipeline.a}": 1, "${run:other.data.artifacts.x}": "u"}
    found = rows({"inputs": {"x": template}}, values)["input x"]
    assert found.value == "1 of u"
    assert [each.address for each in found.sources] == ["/experiments/r", "/experiments/other/steps/data"]


def test_a_value_that_is_not_known_is_its_template_or_default_and_that_of_each_item_no_single_one() -> None:
    found = rows({"parameters": {"rows": "${data.result}"}}, None)["rows"]
    assert (found.is_known, found.template) == (False, "${data.result}")
    found = rows({"parameters": {"rows": "${data.result.n:-10}"}}, {})["rows"]
    assert (found.is_known, found.value) == (True, "10")
    found = rows({"each": [1, 2], "parameters": {"n": "${item}"}}, {})["n"]
    assert not found.is_known and found.sources[0].words == "each item of the step has its own"
