"""Models from the command line and from Python: from the artifact of a trial to the version in production."""

from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.command_line import answer, said
from tests.integration.projections.harness import all_rows, write_rows
from tests.stack import Servers
from tests.unit.dispatcher import harness
from trackside.aggregates.model.messages import RegisterModel, SetModelStage, TagModel
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.cli.app import call
from trackside.cli.commands.artifacts.resolving import resolve
from trackside.cli.commands.models import changes_of
from trackside.cli.commands.replay.why import drawn, origins_of
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.artifacts import ArtifactReference, ArtifactSaved
from trackside.contracts.tasks.tasks import TaskAccepted, TaskAssigned, TaskSubmitted
from trackside.eventlog.memory import MemoryLog
from trackside.replay.causality.why import why
from trackside.replay.find_stream import find_stream
from trackside.replay.rebuild.rebuild import rebuild
from trackside.sdk.errors import UnsendableError
from trackside.verify.log import verify_topics

SEARCH, MODEL = "digits-1", "digits"
DIGESTS = [f"{number:064x}" for number in range(1, 9)]


def saved(trial: int, version: int, digest: str) -> Event:
    """Returns that the task of a trial has saved its weights."""
    return ArtifactSaved(
        task_id=f"{SEARCH}.{trial}",
        attempt=1,
        placement=1,
        incarnation="i1",
        number=version,
        name="weights.safetensors",
        version=version,
        kind="model",
        uri=f"store:sha256/{digest}",
        sha256=digest,
        size_bytes=5_120,
    )


async def trained() -> MemoryLog:
    """Returns a log with a search of two trials that have saved their weights, the second one twice."""
    log = await harness.new_log()
    async with harness.dispatcher(log):
        space = {"x": {"type": "uniform", "low": 0, "high": 1}}
        await harness.start_search(log, SEARCH, space=space, max_trials=2, concurrency=2)
        for trial in (0, 1):
            task = f"{SEARCH}.{trial}"
            submitted = await harness.until(log, lambda record: _submits(record, task))  # noqa: B023
            await placed(log, task, submitted.offset)
            for version in range(1, trial + 2):
                event = saved(trial, version, DIGESTS[2 * trial + version])
                await harness.append(log, harness.WORKER, SEARCH, event)
            await harness.end(log, SEARCH, task, 0.5 + trial)
        await harness.client_of(log).wait(SEARCH, 60)
    return log


def _submits(record: Record, task: str) -> bool:
    return isinstance(record.message, TaskSubmitted) and record.message.task_id == task


async def placed(log: MemoryLog, task: str, submitted_at: int) -> None:
    """Places a task and accepts it, with the causes that services name."""
    token = {"task_id": task, "attempt": 1, "placement": 1, "incarnation": "i1"}
    assigned = TaskAssigned.model_validate(token | {"worker_id": "w1", "device_ids": ["cpu-0"], "seen": 0})
    cause = f"{SEARCH}@{submitted_at}"
    await log.append(*harness.EVENTS, [harness.SCHEDULER.single(SEARCH, assigned, cause=cause)])
    await harness.append(log, harness.WORKER, SEARCH, TaskAccepted.model_validate(token))


async def published(log: MemoryLog) -> None:
    """Adds versions of both trials to a model, and says which is in production."""
    client = harness.client_of(log)
    async with harness.dispatcher(log):
        await client.send(RegisterModel(description="handwritten digits", tags=["images"]), MODEL)
        for source in (f"{SEARCH}/0/weights.safetensors", f"{SEARCH}/{SEARCH}.1/weights.safetensors@2"):
            await client.send(await client.model_version(source, comment="of a search"), MODEL)
        await client.send(SetModelStage(version=1, stage="production"), MODEL)
        await client.send(SetModelStage(version=2, stage="production"), MODEL)
        await client.send(TagModel(version=2, add=["checked"]), MODEL)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def log() -> MemoryLog:
    made = await trained()
    await published(made)
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(log: MemoryLog, module_tables: str) -> str:
    """Returns a database with the rows of the log, which a rebuild leaves as they are."""
    await write_rows(log, module_tables, harness.TOPICS)
    before = await all_rows(module_tables)
    assert len(before["model_versions"]) == 2
    await rebuild(log, harness.TOPICS, module_tables, swap=True)
    assert await all_rows(module_tables) == before
    return module_tables


@pytest.fixture(autouse=True)
def where(stack: Servers, addresses: None, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", stack.kafka_bootstrap)  # it may have imported streams
    monkeypatch.setenv("TRACKSIDE_TOPIC_PREFIX", topic_prefix)
    monkeypatch.setenv("COLUMNS", "120")


def test_models_are_listed_with_the_version_in_production_and_shown_with_the_attempts_that_trained_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [row] = answer(capsys, "models", "ls")
    assert (row["model_id"], row["versions"], row["production"], row["tags"]) == (MODEL, 2, 2, ["images"])
    assert said(capsys, "models", "ls").splitlines()[1].split()[:3] == [MODEL, "ACTIVE", "2"]
    assert [row["id"] for row in answer(capsys, "ls") if row["kind"] == "model"] == [MODEL]
    found = answer(capsys, "models", "show", f"{MODEL}@2")
    names = ("id", "stage", "sha256", "format", "task_id", "attempt", "metrics", "tags", "comment")
    assert [found[name] for name in names] == [
        *(f"{MODEL}@2", "production", DIGESTS[4], "safetensors", f"{SEARCH}.1", 1),
        *({"value": 1.5}, ["checked"], "of a search"),
    ]
    assert found["parameters"].keys() == {"x"}
    shown = said(capsys, "models", "show", f"{MODEL}@2")
    assert f"{SEARCH}/{SEARCH}.1 attempt 1" in shown and DIGESTS[4] in shown
    versions = answer(capsys, "models", "show", MODEL)["model_versions"]
    assert [(row["version"], row["stage"]) for row in versions] == [(1, "none"), (2, "production")]
    assert said(capsys, "models", "show", MODEL) == said(capsys, "show", MODEL)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["models", "show", "digit"], 1, "there is no model digit; did you mean 'digits'?"),
        (["models", "show", f"{MODEL}@3"], 1, f"model {MODEL} has no version 3; it has 2"),
        (["models", "show", f"{MODEL}@x"], 2, "expected MODEL@VERSION with a number from 1"),
        (["models", "stage", MODEL, "production"], 2, f"expected {MODEL}@VERSION"),
        (["models", "add", MODEL], 2, "--url is missing"),
        (["models", "add", MODEL, "--from", "a/b/c", "--url", "x"], 2, "--from is an artifact of a task"),
        (["models", "tag", MODEL, "--label", "x"], 2, "expected NAME=TEXT"),
    ],
)
def test_what_is_not_there_or_wrong_is_said(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, text: str
) -> None:
    assert call(arguments) == code
    assert text in capsys.readouterr().err


async def test_the_history_of_a_model_has_each_change_with_its_command_and_its_log_no_findings(
    log: MemoryLog,
) -> None:
    changes = await changes_of(harness.client_of(log), MODEL)
    assert [change.what for change in changes] == [
        *("ModelRegistered", "ModelVersionAdded", "ModelVersionAdded"),
        *("ModelStageSet", "ModelStageSet", "ModelTagged"),
    ]
    assert changes[4].said == "version 2 production, which version 1 had"
    assert changes[5].said == "version 2 +checked" and all(change.command_id for change in changes)
    report = await verify_topics(log, harness.TOPICS)
    assert report.findings == [] and report.checked["INV-20"] == 2


async def test_why_goes_back_from_a_version_to_the_command_that_began_the_search(log: MemoryLog) -> None:
    found = await why(await find_stream(log, harness.TOPICS, MODEL), "2")
    assert found.causes[0].what == "CommandReceived"
    assert [step.what for step in found.own] == ["ModelVersionAdded", "ModelStageSet", "ModelTagged"]
    [(origin, before)], missing = await origins_of(log, harness.TOPICS, MODEL, found)
    assert (origin.stream, origin.subject, missing) == (SEARCH, f"{SEARCH}.1/1", [])
    whats = [step.what for step in (*before.causes, *before.own)]
    assert whats[0] == "CommandReceived" and {"SearchStarted", "TrialSuggested"} <= set(whats)
    assert whats.count("ArtifactSaved") == 2
    lines = [line.plain for line in drawn(found)]
    assert any(f"safetensors {SEARCH}/{SEARCH}.1/weights.safetensors@2" in line for line in lines)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (f"{SEARCH}/weights", "expected STREAM/TASK/NAME"),
        ("faces-1/0/weights", "there is no stream faces-1 in the log"),
        (f"{SEARCH}/7/weights", f"stream {SEARCH} has no task 7"),
        (f"{SEARCH}/0/weight.safetensors", "it has saved weights.safetensors; did you mean"),
        (f"{SEARCH}/1/weights.safetensors@3", "has no version 3; it has 1, 2"),
    ],
)
async def test_an_artifact_that_is_not_there_is_said(log: MemoryLog, source: str, text: str) -> None:
    with pytest.raises(UnsendableError, match="unknown_artifact") as raised:
        await harness.client_of(log).model_version(source)
    assert text in str(raised.value)


def test_inputs_of_a_spec_are_resolved_from_the_read_models(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    weights = f"{SEARCH}/{SEARCH}.1/weights.safetensors"
    texts = {f"{SEARCH}/1/weights.safetensors": 4, f"{weights}@1": 3, f"model:{MODEL}@1": 1}
    texts |= {f"model:{MODEL}@production": 4}
    found = resolve(tmp_path, {f"$.inputs.{number}": text for number, text in enumerate(texts)}, quiet=False)
    references = [each for each in found.values() if isinstance(each, ArtifactReference)]
    assert [each.sha256 for each in references] == [DIGESTS[number] for number in texts.values()]
    assert references[0].source == f"{weights}@2" and references[3] == references[0]
    assert f"model:{MODEL}@production: {weights}@2, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("digit-1/0/weights.safetensors", "unknown_artifact", f"did you mean '{SEARCH}'"),
        (f"{SEARCH}/0/weight.safetensors", "unknown_artifact", "did you mean 'weights.safetensors'"),
        ("model:digit", "unknown_artifact", f"there is no model digit; did you mean '{MODEL}'"),
        (f"model:{MODEL}@3", "unknown_artifact", f"model {MODEL} has no version 3; it has 2"),
        ("./nowhere.csv", "bad_artifact", "no such file or folder"),
        ("digits.csv", "bad_artifact", "expected STREAM/TASK/NAME"),
    ],
)
def test_an_input_that_nobody_has_is_refused_with_what_is_there(
    tmp_path: Path, text: str, code: str, reason: str
) -> None:
    found = resolve(tmp_path, {"$.inputs.it": text}, quiet=True)["$.inputs.it"]
    assert isinstance(found, Problem)
    assert (found.code, found.path) == (code, "$.inputs.it")
    assert reason in found.message


def test_inputs_must_be_in_the_store_and_files_are_saved_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "digits.csv").write_text("1,2\n")
    monkeypatch.setenv("TRACKSIDE_STORE", str(tmp_path / "store"))
    lost = f"model:{MODEL}@1"
    found = resolve(tmp_path, {"$.inputs.a": lost, "$.inputs.b": "./digits.csv"}, quiet=True)
    assert isinstance(problem := found["$.inputs.a"], Problem)
    assert (problem.code, problem.path) == ("artifact_missing", "$.inputs.a")
    assert DIGESTS[1] in problem.message
    assert not list((tmp_path / "store").rglob("*")), "nothing is saved for a spec with problems"
    saved = resolve(tmp_path, {"$.inputs.b": "./digits.csv"}, quiet=True)["$.inputs.b"]
    assert isinstance(saved, ArtifactReference)
    assert open_store(StoreSettings(store=str(tmp_path / "store"))).verify(saved) == "ok"
    whole = saved.model_copy(update={"uri": f"store:sha256/{DIGESTS[7]}", "sha256": DIGESTS[7]})
    assert isinstance(resolve(tmp_path, {"$.a": whole, "$.b": saved}, quiet=True)["$.a"], Problem)


async def test_a_program_gets_references_from_the_log(log: MemoryLog) -> None:
    client = harness.client_of(log)
    newest = await client.model_version(f"{SEARCH}/1/weights.safetensors")
    assert newest.artifact.sha256 == DIGESTS[4]
    for text, number in ((f"{SEARCH}/0/weights.safetensors", 1), (f"model:{MODEL}", 4)):
        assert (await client.reference(text)).sha256 == DIGESTS[number]
    for text in ("model:faces", f"model:{MODEL}@staging", f"{SEARCH}/0/other"):
        with pytest.raises(UnsendableError, match="unknown_artifact"):
            await client.reference(text)
