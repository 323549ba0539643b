from pathlib import Path

from tests.unit.aggregates.run.given import step
from tests.unit.domain.given import STREAM
from tests.unit.replay.given import ELSEWHERE
from tests.unit.replay.recorded_runs import ONE, RecordedRun, finished_chain, recorded
from tests.unit.replay.test_transfer import imported, written
from trackside.cli.commands.replay.show import change_lines, show_past
from trackside.eventlog.memory import MemoryLog
from trackside.replay.causality.why import why
from trackside.replay.find_stream import find_stream
from trackside.replay.history.point_in_time import PointInTime
from trackside.replay.history.recorded_stream import PastState, state_at
from trackside.replay.history.state_view import changes, state_view


async def at(log: RecordedRun, offset: int | None = None) -> PastState:
    return await state_at(await find_stream(await log.write(), ONE, STREAM), PointInTime(offset=offset))


def offset_of(log: RecordedRun, task: str, what: str) -> int:
    own = (each for each in log.records if getattr(each.message, "task_id", "") == f"{STREAM}.{task}")
    return next(each.offset for each in own if type(each.message).__name__ == what)


async def test_a_run_is_shown_with_its_steps_as_they_were_and_what_changed_step_by_step() -> None:
    log = finished_chain()
    shown = state_view((await at(log, offset_of(log, "train", "TaskSubmitted"))).stream)
    steps = shown.parts["steps"]
    assert [fields["state"] for fields in steps.values()] == ["succeeded", "queued", "pending"]
    assert steps["train"]["resolved"] == {"${prepare.result.rows}": 3}
    assert steps["report"]["waits_for"] == ["train"]
    assert [each["step"] for each in shown.as_json()["steps"]] == ["prepare", "train", "report"]
    log = finished_chain()
    begun, over = offset_of(log, "train", "TaskSubmitted"), offset_of(log, "train", "AttemptEnded") + 1
    before = state_view((await at(log, begun)).stream)
    found = {each.subject: each for each in changes(before, state_view((await at(log, over)).stream))}
    assert found["step train"].fields["state"] == ("queued", "succeeded")
    assert "    state: queued -> succeeded" in change_lines(found["step train"])


async def test_the_table_of_a_run_names_state_duration_and_values(capsys: object) -> None:
    log = finished_chain()
    recorded_stream = await find_stream(await log.write(), ONE, STREAM)
    show_past(recorded_stream, await at(log, offset_of(log, "train", "TaskSubmitted")))
    out = capsys.readouterr().out  # type: ignore[attr-defined]
    assert "run RUNNING" in out and "waits for train" in out and "prepare.result.rows" in out


async def test_a_run_is_the_same_under_another_name(elsewhere: MemoryLog, tmp_path: Path) -> None:
    log = finished_chain()
    await written(await log.write(), ONE, STREAM, tmp_path / "f")
    assert (await imported(elsewhere, tmp_path / "f", "last-year")).compared
    moved = await find_stream(elsewhere, ELSEWHERE, "last-year")
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
    await written(await log.write(), ONE, STREAM, tmp_path / "f")
    assert (await imported(elsewhere, tmp_path / "f", "last-year")).compared
    shown = state_view((await state_at(await find_stream(elsewhere, ELSEWHERE, "last-year"))).stream)
    assert shown.parts["steps"]["each"]["ends"] == {"succeeded": 1}
    assert shown.tasks["last-year.last"]["parameters"] == {"of": "last-year.a"}
    assert (await at(log)).stream.root.steps["each"].open == {0}
