import json
from typing import Any

import pytest

from tests.unit.compat.sedna_documents import (
    CANARY,
    DATASET,
    FILE,
    MODELS,
    SECRET,
    content_of,
    job,
    joined,
    whole,
)
from trackside.aggregates.dataset.messages import RegisterDataset
from trackside.aggregates.model.messages import RegisterModel
from trackside.aggregates.rounds.messages import CreateIncrementalJob
from trackside.aggregates.rounds.stages.triggers import Known, holds
from trackside.compat.sedna.conversion import SednaConversion, convert
from trackside.compat.sedna.documents import UnreadableError
from trackside.contracts.envelope.message import Command
from trackside.contracts.wire.codec import validate_command


def job_of(**changes: str) -> Any:
    return content_of(convert(whole(**changes)).files, "sorter.job.yaml")


def command_of(kind: type[Command], content: dict[str, Any]) -> Any:
    """Returns the command that a file is submitted as."""
    body = {name: value for name, value in content.items() if name != "kind"}
    found = validate_command(kind.wire_type(), json.loads(json.dumps(body)), (kind,))
    assert isinstance(found, kind), found
    return found


def notes(made: SednaConversion) -> dict[str, str]:
    return {each.place.path: each.why for each in made.left_out}


def problems(files: dict[str, bytes]) -> list[tuple[int, str, str]]:
    with pytest.raises(UnreadableError) as caught:
        convert(files)
    return [(place.line, place.path, problem.code) for place, problem in caught.value.problems]


def test_i6_every_field_of_a_job_has_its_place_in_ours() -> None:
    made = convert(whole(eval="    initialEvalModel: {name: judge}"))
    command = command_of(CreateIncrementalJob, content_of(made.files, "sorter.job.yaml"))
    assert (command.dataset.name, command.dataset.train_prob) == ("parts", 0.8)
    assert (command.model, command.initial_model.model, command.initial_model.version) == ("live", "first", 1)
    assert command.eval.initial_model.model == "judge"
    sent = {"epochs": "3", "lr": "1e-4", "ORIGINAL_DATASET_URL": "/feed/parts.txt"}
    assert command.train.parameters == sent
    assert (command.train.needs.resources.kind, command.train.needs.resources.devices) == ("gpu", 1)
    assert command.train.needs.resources.estimate_memory == 2 * 1024**3
    assert (command.output.url, command.output.credential) == ("/output", "store-login")
    copy = command.deploy.copy_to
    assert (copy.url, copy.credential) == ("s3://models/live.pth", "store-login")
    assert command.deploy.config.url == "/output/model-hot-update"
    [service] = command.deploy.services
    assert service.task_type == "sorter-inference"
    assert service.hard_examples.miner == "IBT"
    assert service.hard_examples.parameters == {"threshold_img": 0.9, "names": "a b"}
    found = job_of(hot="false")
    assert "config" not in found["deploy"] and "copy_to" in found["deploy"], "without hot updates"
    assert found["eval"]["initial_model"] == "live@1", "I24: without initialEvalModel the deployed one"


def test_datasets_and_models_are_specifications_and_the_programs_of_templates_a_catalogue() -> None:
    made = convert(whole())
    dataset = command_of(RegisterDataset, content_of(made.files, "parts.dataset.yaml"))
    assert (dataset.url, dataset.format) == ("/feed/parts.txt", "txt")
    command_of(RegisterModel, content_of(made.files, "live.model.yaml"))
    beginnings = [" ".join(command.split()[1:4]) for command in made.commands]
    first = ["submit first.model.yaml --id", "artifacts put /models/first.pth", "models add first"]
    live = ["submit live.model.yaml --id", "models add live"]
    rest = [f"submit {name}.yaml --id" for name in ("parts.dataset", "sorter.job")]
    assert beginnings == [*first, *live, *rest]
    assert "--format torch --device cpu" in made.commands[2]
    assert "--credential store-login" in made.commands[4]
    tasks = content_of(convert(whole()).files, "catalogue.yaml")["tasks"]
    run = ["python", "-m", "trackside.compat.sedna"]
    assert tasks["sorter-train"] == {"program": [*run, "./train.py"], "path": "."}
    assert tasks["sorter-eval"]["program"] == [*run, "src/eval.py", "--quick"]
    assert tasks["sorter-inference"] == {"program": [*run, "./serve.py"], "path": ".", "runner": "service"}


def test_what_has_no_counterpart_is_listed_with_its_place() -> None:
    made = convert(whole())
    found = notes(made)
    template = "$.spec.trainSpec.template.spec"
    container = f"{template}.containers[0]"
    lost = {"$.spec.nodeName", f"{template}.nodeName", "$.spec.deploySpec.model.pollPeriodSeconds"}
    assert lost | {f"{container}.image", f"{container}.resources.limits"} <= set(found)
    assert "$.metadata.uid" not in found, "it is of the cluster"
    line = next(each.place.line for each in made.left_out if each.place.path == f"{template}.nodeName")
    assert joined(DATASET, MODELS, job()).decode().splitlines()[line - 1].strip() == "nodeName: edge-7"
    assert notes(convert(whole(metadata="  labels: {team: sorting}")))["$.metadata.labels"]


def test_i7_a_timer_and_a_condition_must_both_hold_and_the_check_period_counts() -> None:
    assert job_of()["train"]["check_period_s"] == 30
    command = command_of(CreateIncrementalJob, job_of())
    trigger = command.train.trigger
    assert trigger.type == "all_of"
    noon, night, enough = 12 * 3_600_000, 0, {"num_of_samples": 500}
    assert holds(trigger, Known(enough), noon)
    assert not holds(trigger, Known(enough), night)
    assert not holds(trigger, Known({"num_of_samples": 499}), noon)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="), ("le", "<="), ("lt", "<"),
        ('">"', ">"), ('"="', "=="), ('"!="', "!="),
    ],
)  # fmt: skip
def test_i8_operators_are_converted_by_their_names_and_signs(theirs: str, ours: str) -> None:
    trigger = f"{{condition: {{operator: {theirs}, threshold: 1, metric: num_of_samples}}}}"
    assert job_of(train_trigger=trigger)["train"]["trigger"]["operator"] == ours


def test_i9_a_timer_alone_begins_a_stage_which_it_never_does_in_sedna() -> None:
    empty = '{operator: "", threshold: 0, metric: ""}'
    for trigger in (
        "{timer: {start: 01:00, end: 02:00}}",
        f"{{timer: {{start: 01:00, end: 02:00}}, condition: {empty}}}",
    ):
        made = convert(whole(train_trigger=trigger))
        found = content_of(made.files, "sorter.job.yaml")["train"]["trigger"]
        assert found == {"type": "daily", "start": "01:00", "end": "02:00", "timezone": "UTC"}
        assert any("never begins" in each.why for each in made.left_out)
    made = convert(whole(train_trigger="{}"))
    assert "trigger" not in content_of(made.files, "sorter.job.yaml")["train"]
    assert "begins at once" in notes(made)["$.spec.trainSpec.trigger"]


def test_i10_the_hours_of_a_timer_are_of_the_zone_that_is_asked_for() -> None:
    trigger = "{timer: {start: 9:05, end: 24:00}, "
    trigger += "condition: {operator: gt, threshold: 1, metric: num_of_samples}}"
    made = convert(whole(train_trigger=trigger), "Europe/Berlin")
    daily = content_of(made.files, "sorter.job.yaml")["train"]["trigger"]["triggers"][0]
    assert daily == {"type": "daily", "start": "09:05", "end": "24:00", "timezone": "Europe/Berlin"}
    assert "compares texts" in notes(made)["$.spec.trainSpec.trigger.timer.start"]


@pytest.mark.parametrize(
    ("metric", "ours"),
    [("accuracy_delta", "mean(accuracy_delta)")]
    + [(each, each) for each in ("accuracy_delta[2]", "accuracy_delta[-1]", "max(accuracy)")],
)
def test_i11_i12_the_metric_of_a_deployment_is_an_item_of_a_list_or_the_mean(metric: str, ours: str) -> None:
    condition = f'{{condition: {{operator: gt, threshold: "0.1", metric: "{metric}"}}}}'
    made = convert(whole(deploy_trigger=condition))
    trigger = content_of(made.files, "sorter.job.yaml")["deploy"]["trigger"]
    assert (trigger["metric"], trigger["threshold"]) == (ours, 0.1)
    assert ("$.spec.deploySpec.trigger.condition.metric" in notes(made)) == (metric != ours)


def test_i34_no_value_of_a_secret_is_in_what_is_made() -> None:
    variables = f"- {{name: API_TOKEN, value: {CANARY}}}"
    metadata = f'  annotations: {{sedna.io/credential: \'{{"SECRET_ACCESS_KEY": "{CANARY}"}}\'}}'
    files = {FILE: joined(SECRET, DATASET, MODELS, job(variable=variables, metadata=metadata))}
    made = convert(files)
    assert CANARY not in repr(made)
    whys = "\n".join(each.why for each in made.left_out)
    assert "store-login" in whys and "API_TOKEN" in whys and "sedna.io/credential" in whys
    assert CANARY not in repr(convert(whole(args=f'train.py, "--url=s3://me:{CANARY}@host/x"')))
    with pytest.raises(UnreadableError) as caught:
        convert(whole(output=f"s3://me:{CANARY}@bucket/out"))
    assert "credentials_in_url" in str(caught.value) and CANARY not in str(caught.value)


def test_documents_of_another_namespace_have_it_in_their_ids_and_may_be_a_list() -> None:
    others = (DATASET, *MODELS.split("---\n"))
    moved = [each.replace("{name: ", "{namespace: lab, name: ") for each in others]
    moved[0] = moved[0].replace("  uid: 6f1c", "  namespace: lab")
    made = convert({FILE: joined(*moved, job(namespace="lab"))})
    assert {file.name for file in made.files} >= {"lab.parts.dataset.yaml", "lab.sorter.job.yaml"}
    found = content_of(made.files, "lab.sorter.job.yaml")
    names = (found["dataset"]["name"], found["initial_model"], found["model"])
    assert names == ("lab.parts", "lab.first@1", "lab.live")
    items = "".join(f"- {json.dumps(each)}\n" for each in _objects(DATASET, MODELS))
    listed = f"apiVersion: v1\nkind: List\nitems:\n{items}".encode()
    made = convert({"list.yaml": listed, "job.yaml": job().encode()})
    assert [file.name for file in made.files] == [file.name for file in convert(whole()).files]


def _objects(*texts: str) -> list[Any]:
    from trackside.sdk.definitions.yaml_core import read_yaml

    return [read_yaml(part.encode()).value for text in texts for part in text.split("---\n")]


@pytest.mark.parametrize(
    ("changes", "path", "code", "text"),
    [
        ({"train_prob": "1.5"}, "$.spec.dataset.trainProb", "train_prob_range", "trainProb"),
        ({"train_prob": "many"}, "$.spec.dataset.trainProb", "wrong_type", "trainProb"),
        (
            {"deploy_trigger": "{condition: {operator: above, threshold: 1, metric: x}}"},
            "$.spec.deploySpec.trigger", "unknown_value", "operator: above",
        ),
        (
            {"train_trigger": "{condition: {operator: gt, threshold: lots, metric: num_of_samples}}"},
            "$.spec.trainSpec.trigger.condition.threshold", "wrong_type", "lots",
        ),
        (
            {"train_trigger": "{condition: {operator: gt, threshold: 1}}"},
            "$.spec.trainSpec.trigger.condition.metric", "missing_field", "threshold: 1",
        ),
        (
            {"train_trigger": "{timer: {start: 05:00, end: 05:00}}"},
            "$.spec.trainSpec.trigger", "empty_window", "05:00",
        ),
        (
            {"deploy_trigger": '{condition: {operator: gt, threshold: 1, metric: "median(x)"}}'},
            "$.spec.deploySpec.trigger", "unknown_value", "median(x)",
        ),
        ({"name": "a..b"}, "$.metadata.name", "bad_identifier", "name: a..b"),
    ],
)  # fmt: skip
def test_a_bad_job_is_refused_at_its_line(changes: dict[str, str], path: str, code: str, text: str) -> None:
    files = whole(**changes)
    [(line, at, found)] = problems(files)
    assert (at, found) == (path, code)
    assert text in files[FILE].decode().splitlines()[line - 1]


def test_a_missing_field_an_unknown_zone_and_a_deployed_model_in_no_file_are_named_and_all_at_once() -> None:
    files = {FILE: job().replace("  initialModel: {name: first}\n", "").encode()}
    assert [(path, code) for _, path, code in problems(files)] == [("$.spec.initialModel", "missing_field")]
    with pytest.raises(UnreadableError, match="Mars/Base"):
        convert(whole(), "Mars/Base")
    with pytest.raises(UnreadableError, match="the Model live is in none of the files"):
        convert({"job.yaml": job().encode()})
    several = {"a.yaml": b"kind: Pod", "b.yaml": b"[", FILE: b"kind: Dataset\napiVersion: sedna.io/v1alpha1"}
    assert len(problems(several)) == 4


def test_documents_that_no_file_has_are_listed_and_two_jobs_of_one_name_are_refused() -> None:
    found = notes(convert({FILE: joined(MODELS.split("---\n")[1], job())}))
    assert "the Model first is in none of the files" in found["$.spec.initialModel.name"]
    assert "ORIGINAL_DATASET_URL is not set" in found["$.spec.dataset.name"]
    files = {FILE: joined(DATASET, MODELS, job()), "again.yaml": job().encode()}
    assert [(path, code) for _, path, code in problems(files)] == [("$.metadata.name", "already_exists")]
    made = convert({FILE: joined(DATASET, MODELS, job(), job(name="other"))})
    assert [file.name for file in made.files if "job" in file.name] == ["sorter.job.yaml", "other.job.yaml"]


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (b"", "missing_field", "no document"),
        (b"# only words\n---\n", "missing_field", "no document"),
        (b"a: [1", "wrong_type", "YAML"),
        (b"\xff\xfe", "wrong_type", "UTF-8"),
        (b"- 1", "wrong_type", "not a mapping"),
        (b"name: x", "missing_field", "IncrementalLearningJob"),
        (b"apiVersion: apps/v1\nkind: Deployment", "unknown_value", "'Deployment' can't be converted"),
        (b"apiVersion: sedna.io/v1alpha1\nkind: LifelongLearningJob", "unknown_value", "LifelongLearningJob"),
        (b"apiVersion: sedna.io/v2\nkind: Dataset", "unknown_value", "sedna.io/v1alpha1"),
        (b"x: &a 1\ny: *a", "wrong_type", "aliases"),
    ],
)
def test_what_is_no_document_of_sedna_is_refused(text: bytes, code: str, says: str) -> None:
    with pytest.raises(UnreadableError, match=says) as caught:
        convert({FILE: text})
    assert [problem.code for _, problem in caught.value.problems] == [code]
