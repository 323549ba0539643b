from pathlib import Path

import pytest

from tests.unit.aggregates.run.given import step
from tests.unit.domain.given import STREAM
from tests.unit.replay.given import ELSEWHERE
from tests.unit.replay.recorded_runs import ONE, RecordedRun, finished_chain, recorded
from tests.unit.replay.test_transfer import imported, written
from tests.unit.replay.test_why import names
from trackside.aggregates.run.messages import AbortStep
from trackside.aggregates.search.messages import SearchStarted
from trackside.cli.commands.replay.show import change_lines, show_past
from trackside.cli.commands.replay.why import drawn, origins_of
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.eventlog.memory import MemoryLog
from trackside.replay.causality.why import Why, why
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import UnknownSubjectError
from trackside.replay.history.recorded_stream import RecordedStream, state_at
from trackside.replay.history.state_view import changes, state_view

SEARCH = {"task_type": "noop", "space": {"x": {"type": "uniform", "low": 0, "high": 1}}, "max_trials": 1}


def offset_of(log: RecordedRun, task: str, what: str) -> int:
    own = (each for each in log.records if getattr(each.message, "task_id", "") == f"{STREAM}.{task}")
    return next(each.offset for each in own if type(each.message).__name__ == what)


async def test_a_run_is_shown_with_its_steps_as_they_were_and_what_changed_step_by_step() -> None:
    log = finished_chain()
    shown = state_view((await log.past(offset_of(log, "train", "TaskSubmitted"))).stream)
    steps = shown.parts["steps"]
    assert [fields["state"] for fields in steps.values()] == ["succeeded", "queued", "pending"]
    assert steps["train"]["resolved"] == {"${prepare.result.rows}": 3}
    assert steps["report"]["waits_for"] == ["train"]
    assert [each["step"] for each in shown.as_json()["steps"]] == ["prepare", "train", "report"]
    log = finished_chain()
    begun, over = offset_of(log, "train", "TaskSubmitted"), offset_of(log, "train", "AttemptEnded") + 1
    before = state_view((await log.past(begun)).stream)
    found = {each.subject: each for each in changes(before, state_view((await log.past(over)).stream))}
    assert found["step train"].fields["state"] == ("queued", "succeeded")
    assert "    state: queued -> succeeded" in change_lines(found["step train"])


async def test_the_table_of_a_run_names_state_duration_and_values(capsys: object) -> None:
    log = finished_chain()
    recorded_stream = await find_stream(await log.write(), ONE, STREAM)
    show_past(recorded_stream, await log.past(offset_of(log, "train", "TaskSubmitted")))
    out = capsys.readouterr().out  # type: ignore[attr-defined]
    assert "run RUNNING" in out and "waits for train" in out and "prepare.result.rows" in out


async def renamed(log: RecordedRun, elsewhere: MemoryLog, path: Path) -> RecordedStream:
    await written(await log.write(), ONE, STREAM, path)
    assert (await imported(elsewhere, path, "last-year")).compared
    return await find_stream(elsewhere, ELSEWHERE, "last-year")


async def test_a_run_is_the_same_under_another_name(elsewhere: MemoryLog, tmp_path: Path) -> None:
    moved = await renamed(finished_chain(), elsewhere, tmp_path / "f")
    shown = state_view((await state_at(moved)).stream)
    assert {fields["state"] for fields in shown.parts["steps"].values()} == {"succeeded"}
    assert list(shown.tasks) == [f"last-year.{name}" for name in ("prepare", "train", "report")]
    found = await why(moved, "train")
    assert [each.what for each in found.own][:2] == ["StepReady", "StepResolved"]
    assert len(found.own[0].also) == 1 and len(found.own[1].also) == 1


async def test_the_items_and_tasks_of_an_imported_run_are_its(elsewhere: MemoryLog, tmp_path: Path) -> None:
    log = recorded(step("each", each=[1, 2]), step("last", "a", parameters={"of": "${a.id}"}), step("a"))
    log.finish("each.1", {"n": 1})
    log.finish("a")
    shown = state_view((await state_at(await renamed(log, elsewhere, tmp_path / "f"))).stream)
    assert shown.parts["steps"]["each"]["ends"] == {"succeeded": 1}
    assert shown.tasks["last-year.last"]["parameters"] == {"of": "last-year.a"}
    assert (await log.past()).stream.root.steps["each"].open == {0}


async def asked(log: RecordedRun, subject: str, stream: str = STREAM) -> Why:
    return await why(await find_stream(await log.write(), ONE, stream), subject)


async def test_the_events_of_a_step_are_those_of_its_tasks_and_rest_on_what_it_needs_and_its_values() -> None:
    log = finished_chain()
    found = await asked(log, "train")
    assert found.subject.name == "step train"
    of_task = ("TaskSubmitted", "TaskAssigned", "TaskAccepted", "AttemptEnded")
    assert names([*found.own]) == ["StepReady", "StepResolved", *of_task, "StepEnded"]
    assert names([*found.causes])[:3] == ["CommandReceived", "CommandAccepted", "RunStarted"]
    assert names([*found.then]) == ["StepReady"]
    ready, resolved = found.own[:2]
    before = {each.offset: each for each in found.causes}
    assert [(before[at].what, before[at].part) for at in ready.also] == [("StepEnded", "step prepare")]
    assert [before[at].what for at in resolved.also] == ["AttemptEnded"]
    assert log.records[resolved.also[0]].message.task_id == f"{STREAM}.prepare"  # type: ignore[attr-defined]
    found = await asked(log, f"{STREAM}.train")
    assert found.subject.task == f"{STREAM}.train"
    assert [each.what for each in found.causes if each.part == "step train"] == ["StepReady", "StepResolved"]


async def test_a_run_that_failed_and_a_step_that_was_omitted_rest_on_the_steps_that_failed() -> None:
    log = recorded(step("a"), step("b"), step("c", "a", "b"))
    log.finish("a", end=AttemptEnd.FAILED)
    log.finish("b")
    offset = next(r.offset for r in log.records if type(r.message).__name__ == "RunEnded")
    found = await asked(log, f"@{offset}")
    before = {each.offset: each for each in found.causes}
    assert [before[at].said for at in found.own[0].also] == ["step a failed"]
    log = recorded(step("a"), step("b", "a"))
    log.finish("a", end=AttemptEnd.FAILED)
    found = await asked(log, "b")
    assert names([*found.own]) == ["StepSkipped"]
    assert any(each.what == "StepEnded" and each.said == "step a failed" for each in found.causes)


async def test_a_search_of_a_step_leads_into_its_stream_and_back() -> None:
    log = recorded(step("tune", kind="search", spec=SEARCH), step("report", "tune"))
    child = f"{STREAM}.tune"
    written = await log.write()
    began = next(each.offset for each in log.records if isinstance(each.message, SearchStarted))
    found = await why(await find_stream(written, ONE, child), f"@{began}")
    [(origin, before)], missing = await origins_of(written, ONE, child, found)
    assert (origin.stream, missing) == (STREAM, [])
    assert names([*before.own]) == ["ChildRequested"] and "StepReady" in names([*before.causes])
    log.command(AbortStep(step="tune"))
    found = await asked(log, "tune")
    begun, ended = ("StepReady", "ChildRequested"), ("StepAbortRequested", "ChildStopRequested")
    assert names([*found.own]) == [*begun, *ended, "ChildEnded", "StepEnded"]
    [(origin, inside)], _ = await origins_of(await log.write(), ONE, STREAM, found)
    assert origin.stream == child and names([*inside.own]) == ["SearchEnded"]


async def test_most_items_of_a_step_with_many_are_counted_and_an_unknown_step_is_named() -> None:
    log = recorded(step("each", each=list(range(9))))
    for index in range(9):
        log.finish(f"each.{index}")
    found = await asked(log, "each")
    lines = [line.plain.strip() for line in drawn(found)]
    assert any("events of 6 tasks" in line for line in lines) and len(lines) < 40
    assert (await asked(log, "each.7")).subject.task == f"{STREAM}.each.7"
    with pytest.raises(UnknownSubjectError, match="step prepare to step report"):
        await asked(finished_chain(), "nothing")
