"""A refusal lists all problems of a command: those of its record, of its body, and of what it asks for."""

from tests.unit.aggregates.given import SPEC, answered, problems, published
from tests.unit.domain.given import Told
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem
from trackside.contracts.streams.commands import CommandRefused


def test_a_refusal_lists_all_that_is_wrong_with_a_search() -> None:
    body = {
        "task_type": "nope",
        "resources": {"device": "gpu-7"},
        "space": SPEC["space"],
        "max_trials": 1,
        "tuner": {"name": "tpee"},
        "assessor": {"name": "medain"},
        "objectives": [{"name": "a"}, {"name": "a"}],
        "goal": 0.5,
        "past": [{"parameters": {"lr": 5}, "value": 1}, {"parameters": {"x": 1}, "value": 1}],
        "first": [{"lr": 0.01}, {"lr": 0.02}],
    }
    named = {
        "task_type": "task_type",
        "device": "resources.device",
        "tuner": "tuner.name",
        "assessor": "assessor.name",
    }
    objectives = ("objectives[1].name", "tuner.name", "assessor", "goal", "past")
    past = ("[0].parameters.lr", "[1].parameters.x", "[1].parameters.lr")
    assert problems(answered(Told(), published(1, body=body))) == [
        *((f"unknown_{name}", f"$.{path}") for name, path in named.items()),
        *(("bad_objectives", f"$.{path}") for path in objectives),
        *(("bad_parameters", f"$.past{path}") for path in past),
        ("no_more_trials", "$.first"),
    ]


def test_a_refusal_lists_every_wrong_option_parameter_and_value_of_the_past() -> None:
    body = {
        **SPEC,
        "space": {name: {"type": "uniform", "low": 0, "high": 1} for name in ("a", "b")},
        "tuner": {"name": "grid", "options": {"seed": 1, "step": 2}},
        "assessor": {"name": "median", "options": {"interval_steps": 0, "steps": 1}},
        "past": [{"parameters": {"a": 2, "b": 3}, "value": 1}, {"parameters": {"c": 1}, "value": 1}],
    }
    past = ("[0].parameters.a", "[0].parameters.b", *(f"[1].parameters.{name}" for name in "cab"))
    assert problems(answered(Told(), published(1, body=body))) == [
        ("bad_option", "$.tuner.options.seed"),
        ("bad_option", "$.tuner.options.step"),
        ("bad_search_space", "$.space.a"),
        ("bad_search_space", "$.space.b"),
        ("bad_option", "$.assessor.options.interval_steps"),
        ("bad_option", "$.assessor.options.steps"),
        *(("bad_parameters", f"$.past{path}") for path in past),
    ]


def test_a_refusal_lists_all_wrong_fields_of_a_body_but_no_more_problems_than_its_limit() -> None:
    body = {**SPEC, "max_trails": 3, "concurrency": 0, "tuner": {"nme": "tpe"}}
    unknown = {("unknown_field", "$.max_trails"), ("unknown_field", "$.tuner.nme")}
    found = set(problems(answered(Told(), published(1, body=body))))
    assert found == unknown | {("concurrency_range", "$.concurrency")}
    past = [{"parameters": {}, "value": 1} for _ in range(1_000)]
    (refusal,) = answered(Told(), published(1, body={**SPEC, "past": past}))
    assert isinstance(refusal, CommandRefused) and len(refusal.problems) == MAX_PROBLEMS


def test_the_problems_of_a_record_are_the_answer_also_to_a_repeated_publication() -> None:
    listed = [Problem(code=code, path="$", message="no") for code in ("too_deep", "too_long")]
    told = Told()
    (first,) = answered(told, published(1, body=None, problem=listed[0], problems=listed))
    assert isinstance(first, CommandRefused) and first.problems == listed
    again = published(7, body=None, command_id="c-1", digest="digest-1")
    assert answered(told, again) == [first.model_copy(update={"source": again.source})]
    told = Told()
    told.tell(published(1))
    said = {"code": "too_deep", "path": "$.a", "message": "no"}
    old = CommandRefused(command_id="c-1", source=published(1).source, **said)
    told.tell(old, role="dispatcher")
    again = published(7, command_id="c-1", digest="digest-1")
    assert problems(answered(told, again)) == [("too_deep", "$.a")]
