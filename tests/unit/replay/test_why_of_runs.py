import pytest

from tests.unit.aggregates.run.given import step
from tests.unit.domain.given import STREAM
from tests.unit.replay.recorded_runs import ONE, RecordedRun, finished_chain, recorded
from trackside.aggregates.run.messages import AbortStep
from trackside.aggregates.search.messages import SearchStarted
from trackside.cli.commands.replay.why import drawn, origins_of
from trackside.contracts.tasks import AttemptEnd
from trackside.replay.causality.causes import Step
from trackside.replay.causality.why import Why, why
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import UnknownSubjectError

SEARCH = {"task_type": "noop", "space": {"x": {"type": "uniform", "low": 0, "high": 1}}, "max_trials": 1}


async def asked(log: RecordedRun, subject: str, stream: str = STREAM) -> Why:
    return await why(await find_stream(await log.write(), ONE, stream), subject)


def whats(steps: list[Step]) -> list[str]:
    return [each.what for each in steps]


async def test_the_events_of_a_step_are_those_of_its_tasks_and_rest_on_what_it_needs_and_its_values() -> None:
    log = finished_chain()
    found = await asked(log, "train")
    assert found.subject.name == "step train"
    of_task = ("TaskSubmitted", "TaskAssigned", "TaskAccepted", "AttemptEnded")
    assert whats([*found.own]) == ["StepReady", "StepResolved", *of_task, "StepEnded"]
    assert whats([*found.causes])[:3] == ["CommandReceived", "CommandAccepted", "RunStarted"]
    assert whats([*found.then]) == ["StepReady"]
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
    assert whats([*found.own]) == ["StepSkipped"]
    assert any(each.what == "StepEnded" and each.said == "step a failed" for each in found.causes)


async def test_a_search_of_a_step_leads_into_its_stream_and_back() -> None:
    log = recorded(step("tune", kind="search", spec=SEARCH), step("report", "tune"))
    child = f"{STREAM}.tune"
    written = await log.write()
    began = next(each.offset for each in log.records if isinstance(each.message, SearchStarted))
    found = await why(await find_stream(written, ONE, child), f"@{began}")
    [(origin, before)], missing = await origins_of(written, ONE, child, found)
    assert (origin.stream, missing) == (STREAM, [])
    assert whats([*before.own]) == ["ChildRequested"] and "StepReady" in whats([*before.causes])
    log.command(AbortStep(step="tune"))
    found = await asked(log, "tune")
    begun, ended = ("StepReady", "ChildRequested"), ("StepAbortRequested", "ChildStopRequested")
    assert whats([*found.own]) == [*begun, *ended, "ChildEnded", "StepEnded"]
    [(origin, inside)], _ = await origins_of(await log.write(), ONE, STREAM, found)
    assert origin.stream == child and whats([*inside.own]) == ["SearchEnded"]


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
