"""The models that searches and runs have found: their parents know them once tasks are forgotten (I20)."""

from typing import Any

from tests.unit.aggregates.run.given import DIGEST, RunLog, refusal, started, step
from tests.unit.domain.given import STREAM, Told, assigned, begun, ended, over, search_running, task_id
from tests.unit.domain.given import submitted as task_of_trial
from tests.unit.domain.given import suggested as suggestion
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.rounds.messages import ModelVersionSummary
from trackside.aggregates.run.messages import RunEnded
from trackside.aggregates.search.messages import Objective, SearchEnded, SearchStatus, TrialEnded, TrialStatus
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import ArtifactSaved, artifact_source
from trackside.domain.folding.streams import dump, load
from trackside.domain.streams.stream import Stream, shrink
from trackside.domain.tasks.trained_models import MAX_MODELS, TRAINED_MODELS, models_of_child

METADATA: Json = {"format": "safetensors", "devices": ["cpu"], "metrics": {"accuracy": 0.75, "loss": 1}}


def saved(task: str, **changed: Any) -> ArtifactSaved:
    fields: Json = {"task_id": task, "attempt": 1, "placement": 1, "incarnation": "i-1", "number": 1}
    fields |= {"version": 1, "name": "weights", "kind": "model", "uri": f"store:sha256/{DIGEST}"}
    fields |= {"sha256": DIGEST, "size_bytes": 8, "metadata": METADATA}
    return ArtifactSaved.model_validate(fields | changed)


def train(told: Told, trial: int, value: float, *models: ArtifactSaved, **ending: Any) -> None:
    told.tell(suggestion(trial), task_of_trial(trial))
    told.each(assigned(trial), begun(trial))
    for model in models:
        told.tell(model)
    told.tell(ended(trial=trial))
    end = over(trial, value)
    told.tell(end.model_copy(update=ending))
    shrink(told.stream)
    assert told.stream.tasks == {}


def outcome(stream: Stream) -> Json:
    """Returns what the aggregate of a stream has found, whose models a job takes as they are."""
    aggregate = AGGREGATES.of(stream)
    assert aggregate is not None
    found = aggregate.outcome(stream.root)[1]
    for model in models_of_child(found):
        ModelVersionSummary.model_validate(model)
    return found


def test_a_search_knows_the_newest_model_of_its_best_trial_after_its_task_is_forgotten() -> None:
    told = search_running(max_trials=3, concurrency=1, direction="maximize")
    train(told, 0, 0.25, saved(task_id(0)))
    more: tuple[Json, ...] = ({}, {"number": 2, "name": "last"}, {"number": 3, "version": 2})
    train(told, 1, 0.75, *(saved(task_id(1), **changed) for changed in more))
    train(told, 2, 0.5, saved(task_id(2)))
    found = outcome(told.stream)
    source = artifact_source(STREAM, task_id(1), "weights", 2)
    [model] = models_of_child(found)
    assert (model["stream"], model["task"], model["attempt"]) == (STREAM, task_id(1), 1)
    assert (model["artifact"]["source"], model["artifact"]["sha256"]) == (source, DIGEST)
    assert {name: model[name] for name in METADATA} == METADATA
    assert (found["best"][0]["model"], list(told.search.models)) == (model["artifact"], [1])
    told.tell(SearchEnded(status=SearchStatus.DONE, trials=3))
    shrink(told.stream)
    assert outcome(told.stream) == found
    told.streams.by_id[STREAM] = load(dump(told.stream), AGGREGATES)
    assert outcome(told.stream) == found


def test_a_better_trial_without_a_model_leaves_none_and_a_worse_one_changes_nothing() -> None:
    told = search_running(max_trials=3, concurrency=1)
    train(told, 0, 0.5, saved(task_id(0)))
    train(told, 1, 0.25, saved(task_id(1)))
    assert models_of_child(outcome(told.stream))[0]["task"] == task_id(0)
    train(told, 2, 0.75)
    assert models_of_child(outcome(told.stream)) == []
    assert "model" not in outcome(told.stream)["best"][0]


def test_a_search_of_two_objectives_keeps_the_models_of_its_front_only() -> None:
    told = search_running(
        max_trials=40,
        concurrency=1,
        objectives=[Objective(name=name, direction="minimize") for name in ("a", "b")],
    )
    for trial in range(15):
        values = [float(trial), float(20 - trial)]
        train(told, trial, values[0], saved(task_id(trial)), values=values)
    assert len(told.search.models) == 15
    assert [each["task"] for each in models_of_child(outcome(told.stream))] == [
        task_id(trial) for trial in range(MAX_MODELS)
    ]
    train(told, 15, -1.0, saved(task_id(15)), values=[-1.0, -1.0])
    assert list(told.search.models) == [15]


def test_metadata_of_another_form_are_left_out_and_a_model_is_of_the_trial_that_has_saved_it() -> None:
    told = search_running(max_trials=1, concurrency=1)
    odd = {"format": 7, "devices": ["cpu", 1, "a b"], "metrics": {"x": "high", "y": True, "z": 2}}
    train(told, 0, 0.5, saved(task_id(0), metadata=odd))
    [model] = models_of_child(outcome(told.stream))
    assert (model["format"], model["devices"], model["metrics"]) == ("", ["cpu"], {"z": 2})
    told = search_running(max_trials=1, concurrency=1)
    told.tell(suggestion(0), task_of_trial(0))
    for event in (assigned(), begun(), saved(task_id(0))):
        told.tell(event)
    told.search.trials[0].suggested_at = told.next_offset  # as if it was the next one in this task
    told.each(ended(), TrialEnded(trial=0, status=TrialStatus.SUCCEEDED, value=0.5))
    assert models_of_child(outcome(told.stream)) == []


def finish_with(log: RunLog, name: str, **changed: Any) -> None:
    token = log.place(name)
    log.tell(saved(token["task_id"], **changed), role="worker")
    log.finish(name)


def test_a_run_knows_the_models_among_its_outputs_the_output_model_first() -> None:
    outputs = {"extra": "${first.artifacts.weights}", "model": "${second.artifacts.weights}", "n": 1}
    log = started(step("first"), step("second", "first"), outputs=outputs)
    finish_with(log, "first")
    finish_with(log, "second", sha256="cd" * 32, uri=f"store:sha256/{'cd' * 32}")
    found = outcome(log.stream)
    models = models_of_child(found)
    assert [each["task"] for each in models] == [f"{STREAM}.second", f"{STREAM}.first"]
    assert {each["format"] for each in models} == {"safetensors"}
    assert (models[0]["artifact"], found["n"]) == (found["model"], 1)


def test_a_run_whose_model_is_that_of_a_search_in_it_names_the_task_of_the_trial() -> None:
    spec = {"task_type": "digits", "space": {"lr": {"type": "uniform", "low": 0.0, "high": 1.0}}}
    log = started(
        step("sweep", kind="search", spec={**spec, "max_trials": 1}),
        outputs={"model": "${sweep.result.best.0.model}"},
    )
    child = f"{STREAM}.sweep"
    task = f"{child}.0"
    search = log.streams.by_id[child].root
    suggested = suggestion(0).model_copy(update={"seen": search.opened[0]})
    log.tell(suggested, task_of_trial(0, task_id=task), role="dispatcher", stream=child)
    for event in (assigned(), begun(), saved(task), ended()):
        log.tell(event.model_copy(update={"task_id": task}), stream=child)
    log.tell(TrialEnded(trial=0, status=TrialStatus.SUCCEEDED, value=0.5), stream=child)
    log.settle()
    [model] = models_of_child(outcome(log.stream))
    assert (model["stream"], model["task"], model["metrics"]) == (child, task, METADATA["metrics"])


def test_what_a_task_returns_under_the_same_name_is_no_model() -> None:
    forged = {TRAINED_MODELS: [{"artifact": {"source": "a/b/c@1"}}]}
    log = started(step("a"), outputs={"model": {"source": "a/b/c@1"}, TRAINED_MODELS: "${a.result}"})
    log.finish("a", forged)
    assert models_of_child(outcome(log.stream)) == []
    assert [event.models for event in log.written if isinstance(event, RunEnded)] == [[]]


def test_a_pipeline_gets_samples_and_models_as_parameters_that_are_inputs_of_its_steps() -> None:
    given = {"uri": f"store:sha256/{DIGEST}", "sha256": DIGEST, "size_bytes": 8}
    train_step = step("train", inputs={"samples": "${pipeline.samples}", "model": "${pipeline.model}"})
    schemas: Json = {"samples": {"type": "object"}, "model": {"type": "object"}, "round": {"type": "object"}}
    parameters: Json = {"samples": given, "model": given, "round": {"number": 3}}
    log = started(train_step, parameters=parameters, schemas=schemas)
    inputs = log.stream.tasks[f"{STREAM}.train"].inputs
    assert {name: (each.uri, each.sha256) for name, each in inputs.items()} == dict.fromkeys(
        ("samples", "model"), (given["uri"], DIGEST)
    )
    del schemas["round"]
    assert refusal(train_step, parameters=parameters, schemas=schemas) == [
        ("unknown_parameter", "$.parameters.round")
    ]
