from pathlib import Path

from tests.unit.domain.given import STREAM, Told, accepted, received
from tests.unit.replay.given import ELSEWHERE, TOPICS, after, empty, name_causes, tell
from tests.unit.replay.test_transfer import imported, written
from trackside.aggregates.batch.messages import BatchSpec, BatchStarted
from trackside.contracts.children import ChildEnded, ChildRequested
from trackside.eventlog.memory import MemoryLog
from trackside.replay.causality.why import why
from trackside.replay.find_stream import find_stream
from trackside.replay.history.recorded_stream import state_at
from trackside.replay.history.state_view import state_view

GROUPS = [{"children": [{"name": "lr", "kind": "search", "spec": {}}]}]


def batch_with_child() -> Told:
    told = after(Told(), received())
    told.tell(accepted(), BatchStarted(command_id="c-1", batch=BatchSpec.model_validate({"groups": GROUPS})))
    told.tell(ChildRequested(child_id=f"{STREAM}.1.lr", kind="search", body={}))
    told.tell(ChildEnded(child_id=f"{STREAM}.1.lr", status="DONE", result={"trials": 3}))
    causes = (f"{STREAM}@0", f"{STREAM}@0", f"{STREAM}@2", f"{STREAM}.1.lr@70")
    name_causes(told.records[1:], *causes)
    return told


async def log_with_child() -> MemoryLog:
    log = await empty()
    await tell(log, STREAM, batch_with_child())
    return log


async def test_why_shows_the_request_for_a_child_and_the_event_of_its_stream_that_ended_it() -> None:
    found = await why(await find_stream(await log_with_child(), TOPICS, STREAM), "1.lr")
    assert [step.what for step in found.causes] == ["CommandReceived", "CommandAccepted", "BatchStarted"]
    said = [(step.what, step.said, step.follows) for step in found.own]
    assert said == [("ChildRequested", "search", 2), ("ChildEnded", "DONE", -1)]
    assert found.own[1].outside == f"event {STREAM}.1.lr@70"


async def test_a_batch_keeps_its_children_under_another_name(elsewhere: MemoryLog, tmp_path: Path) -> None:
    log = await log_with_child()
    await written(log, TOPICS, STREAM, tmp_path / "f")
    assert (await imported(elsewhere, tmp_path / "f", "last-year")).compared
    after = (await state_at(await find_stream(elsewhere, ELSEWHERE, "last-year"))).stream
    assert after.children["last-year.1.lr"].result == {"trials": 3}
    assert after.root.ends == {"done": 1}
    assert state_view(after).root["children"] == {"1.lr": "DONE"}
