import json

from tests.unit.domain import given
from tests.unit.projections.given_batches import eventful_batch
from tests.unit.replay.given import TOPICS, after, empty, write
from trackside.contracts.streams.labels import StreamAnnotated
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.replay.causality.event_text import brief
from trackside.replay.find_stream import find_stream
from trackside.replay.history.point_in_time import PointInTime
from trackside.replay.history.recorded_stream import state_at
from trackside.replay.history.state_view import SubjectChange, changes, state_view


def named(found: list[SubjectChange]) -> dict[str, SubjectChange]:
    return {change.subject: change for change in found}


def test_a_picture_of_a_search_has_its_trials_and_tasks_and_is_json() -> None:
    told = given.search_running(max_trials=3, concurrency=1, retry={"failed": 1})
    told.tell(given.suggested(0), given.submitted(0, needs=told.search.spec.needs))
    given.finish(told, 0, 0.5)
    told.tell(given.suggested(1), given.submitted(1, needs=told.search.spec.needs))
    after(told, given.assigned(1), given.begun(1), given.ended(AttemptEnd.FAILED, 1))
    taken = state_view(told.stream)
    assert taken.root["status"] == "RUNNING"
    assert (taken.root["best_trial"], taken.root["best_value"]) == (0, 0.5)
    assert [trial["status"] for trial in taken.parts["trials"].values()] == ["SUCCEEDED", "WAITING"]
    assert [a["end"] for a in taken.tasks["digits-1.1"]["attempts"]] == ["failed", None]
    assert json.loads(json.dumps(taken.as_json()))["trials"][1]["trial"] == 1


def test_changes_name_each_subject_with_the_fields_that_differ() -> None:
    told = given.search_running()
    told.tell(given.suggested(0), given.submitted(0))
    after(told, given.assigned(), given.begun())
    before = state_view(told.stream)
    text = json.dumps(before.as_json())
    first = named(changes(None, before))
    assert all(change.before is None for change in first.values())
    assert first["search"].as_json()["changed"]["status"] == {"from": None, "to": "RUNNING"}
    told.tell(given.report(0, 0.25))
    told.tell(given.suggested(1), given.submitted(1))
    found = named(changes(before, state_view(told.stream)))
    tasks = {"task digits-1.0", "task digits-1.1", "task digits-1.1 attempt 1"}
    assert set(found) == {"search", "trial 0", "trial 1"} | tasks
    assert found["trial 0"].fields == {"reports": (0, 1), "last_step": (None, 0), "last_value": (None, 0.25)}
    assert found["trial 1"].before is None
    assert found["search"].fields["suggested_trials"] == (1, 2)
    assert changes(before, before) == []
    assert json.dumps(before.as_json()) == text, "a picture does not change with its stream"


async def test_a_picture_of_a_batch_has_its_groups_at_any_offset() -> None:
    log = await empty()
    await write(log, "tasks", eventful_batch("tasks"))
    history = await find_stream(log, TOPICS, "tasks")
    end = state_view((await state_at(history)).stream)
    assert end.root["status"] == "DONE"
    assert [group["state"] for group in end.parts["groups"].values()] == ["ended", "ended"]
    attempts = end.tasks["tasks.1.a"]["attempts"]
    assert attempts[0]["given_up_placements"] == ["1: refused", "2: returned", "3: preempted"]
    assert attempts[0]["error"].startswith("TRAIN: OutOfMemoryError")
    for offset in range(history.begin, history.end):
        taken = state_view((await state_at(history, PointInTime(offset=offset))).stream)
        json.dumps(taken.as_json())
    assert taken == end


def test_labels_are_in_a_picture_once_the_stream_was_annotated_and_a_change_of_them_is_a_short_line() -> None:
    told = given.search_running()
    before = state_view(told.stream)
    assert "stream_labels" not in before.root
    told.tell(StreamAnnotated(command_id="c-1", added_tags=["paper"], note="for table 2", archived=True))
    after = {"tags": ["paper"], "note": "for table 2", "archived": True}
    (change,) = changes(before, state_view(told.stream))
    assert change.fields == {"stream_labels": (None, after)}
    for event, text in (
        ({"added_tags": ["a", "b"], "removed_tags": ["c"]}, "+a +b -c"),
        ({"note": "for table 2", "archived": True}, "archived, note: for table 2"),
        ({"note": "", "archived": False, "added_tags": ["a"]}, "+a, no longer archived, no note"),
    ):
        assert brief(StreamAnnotated.model_validate({"command_id": "c-1", **event})) == text
