"""A search as the child of a batch: begun, stopped and awaited by what the log says, whoever writes it."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.aggregates.given import CAPABILITIES, SPEC, answered, end_attempt, place, problems, published
from tests.unit.aggregates.run.given import EVENTS, RunLog
from tests.unit.domain.given import STREAM, Told, submitted
from trackside.aggregates.batch.aggregate import BATCH
from trackside.aggregates.batch.messages import BatchEnded, BatchStatus, GroupEnded, StopTasks, SubmitTasks
from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import messages
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.streams.children import ChildEnded, ChildRequested, ChildStopRequested
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.commands import stream_commands
from trackside.domain.folding.streams import dump, load
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.child import REFUSED
from trackside.domain.streams.command import REMEMBERED
from trackside.domain.streams.stream import Stream, shrink

SUBMIT, STOP = SubmitTasks.wire_type(), StopTasks.wire_type()
CHILD = f"{STREAM}.1.lr"
TASK: Json = {"name": "prepare", "task_type": "digits"}


def search_child(name: str = "lr", **changed: Any) -> Json:
    return {"name": name, "kind": "search", "spec": {**SPEC, **changed}}


def body(**more: Any) -> Json:
    first = {"tasks": [TASK], "children": [search_child()]}
    return {"groups": [first, {"tasks": [{"name": "report", "task_type": "digits"}]}], **more}


def begun(**more: Any) -> RunLog:
    told = RunLog(capabilities=CAPABILITIES)
    accepted, _ = answered(told, published(1, SUBMIT, body(**more)))
    assert isinstance(accepted, CommandAccepted)
    return told


def pending(told: Told) -> list[tuple[str, Proposal]]:
    return list(stream_commands.pending(told.stream, told.streams.find, AGGREGATES, EVENTS))


def running(**more: Any) -> RunLog:
    told = begun(**more)
    told.settle()
    return told


def child_stream(told: Told) -> Stream:
    return told.streams.by_id[CHILD]


def finish_task(told: Told, task_id: str, stream: str = STREAM) -> None:
    end_attempt(told, place(told, task_id, stream), stream=stream)


def end_search(told: Told) -> None:
    search = search_of(child_stream(told))
    assert search is not None
    told.tell(messages.SearchStopRequested(command_id="c-9", reason=""), stream=CHILD)
    told.tell(messages.SearchEnded(status=messages.SearchStatus.STOPPED, trials=0), stream=CHILD)
    assert search.over


def ended(events: Iterable[Event]) -> list[tuple[str, str]]:
    return [(event.child_id, event.status) for event in events if isinstance(event, ChildEnded)]


def test_a_child_is_requested_before_the_tasks_of_its_group_and_begun_by_a_command() -> None:
    told = begun()
    requested, *others = told.settle()
    assert requested == ChildRequested(child_id=CHILD, kind="search", body=SPEC)
    (command,) = [event for event in others if isinstance(event, CommandReceived)]
    assert (command.command_type, command.body) == (messages.StartSearch.wire_type(), SPEC)
    at = told.stream.children[CHILD].requested_at
    assert command.source == Source(topic=EVENTS, partition=told.stream.partition, offset=at)
    search = search_of(child_stream(told))
    assert search is not None and search.spec.task_type == "digits"
    assert list(told.stream.tasks) == [f"{STREAM}.1.prepare"]


def test_the_group_goes_on_until_its_child_has_ended() -> None:
    told = running()
    finish_task(told, f"{STREAM}.1.prepare")
    assert told.settle() == []
    end_search(told)
    first, over, *_ = told.settle()
    assert first == ChildEnded(child_id=CHILD, status="STOPPED", result={"trials": 0, "best": []})
    assert over == GroupEnded(group=0, ends={"finished": 1, "stopped": 1})
    finish_task(told, f"{STREAM}.2.report")
    assert told.settle()[-1] == BatchEnded(status=BatchStatus.DONE)


def test_the_result_of_a_child_is_its_best_trial_also_once_it_is_shrunk() -> None:
    told = running()
    search = search_of(child_stream(told))
    assert search is not None
    seen = search.opened[0]
    suggested = messages.TrialSuggested(trial=0, parameters={"lr": 0.5}, seen=seen, space_version=1)
    told.tell(suggested, submitted(0).model_copy(update={"task_id": f"{CHILD}.0"}), stream=CHILD)
    finish_task(told, f"{CHILD}.0", CHILD)
    told.tell(messages.TrialEnded(trial=0, status=messages.TrialStatus.SUCCEEDED, value=0.75), stream=CHILD)
    end_search(told)
    expected = {"trials": 1, "best": [{"trial": 0, "parameters": {"lr": 0.5}, "value": 0.75}]}
    before = [proposal.events for _, proposal in pending(told)]
    shrink(child_stream(told))
    told.streams.by_id[CHILD] = load(dump(child_stream(told)), AGGREGATES)
    shrink(child_stream(told))
    assert before == [proposal.events for _, proposal in pending(told)]
    assert before == [[ChildEnded(child_id=CHILD, status="STOPPED", result=expected)]]


def test_decisions_about_children_name_their_cause_in_the_other_stream() -> None:
    told = begun()
    told.tell(ChildRequested(child_id=CHILD, kind="search", body=SPEC))
    [(_, begins)] = pending(told)
    assert (begins.follows_in, begins.follows) == (STREAM, told.stream.children[CHILD].requested_at)
    told.settle()
    end_search(told)
    [(stream, ends)] = pending(told)
    assert (stream, ends.follows_in, ends.follows) == (STREAM, CHILD, told.next_offset - 1)


@pytest.mark.parametrize(
    ("kind", "spec"), [("trackside.start-search.v1", SPEC), (SUBMIT, {"groups": [{"tasks": [TASK]}]})]
)
def test_a_child_whose_stream_is_taken_has_ended_refused_and_is_never_stopped(kind: str, spec: Json) -> None:
    told = begun()
    told.tell(published(5, kind, spec), stream=CHILD)
    events = told.settle()
    assert ended(events) == [(CHILD, REFUSED)]
    refused = told.stream.children[CHILD]
    assert [problem["code"] for problem in refused.result["problems"]] == ["already_exists"]
    told.tell(published(6, STOP, {}))
    assert not any(isinstance(event, ChildStopRequested) for event in told.settle())
    assert not child_stream(told).root.over


def test_a_batch_that_is_stopped_stops_its_children_and_waits_for_their_ends() -> None:
    told = running()
    told.tell(published(6, STOP, {"reason": "too dear"}))
    events = told.settle()
    stops = [event for event in events if isinstance(event, CommandReceived)]
    assert [(event.command_type, event.body) for event in stops] == [
        (messages.StopSearch.wire_type(), {"reason": "too dear"})
    ]
    assert ChildStopRequested(child_id=CHILD, reason="too dear") in events
    assert (ended(events), events[-1]) == ([(CHILD, "STOPPED")], BatchEnded(status=BatchStatus.STOPPED))


def test_a_child_is_not_stopped_before_the_command_that_begins_it_is_accepted() -> None:
    told = begun()
    told.tell(ChildRequested(child_id=CHILD, kind="search", body=SPEC))
    told.tell(ChildStopRequested(child_id=CHILD, reason="user"))
    [(_, begins)] = pending(told)
    assert [event.command_type for event in begins.events if isinstance(event, CommandReceived)] == [
        messages.StartSearch.wire_type()
    ]
    told.tell(*begins.events, role="dispatcher", stream=CHILD)
    assert (pending(told), ended(told.settle())) == ([], [(CHILD, "STOPPED")])


@pytest.mark.parametrize("name", ["lr", CHILD])
def test_one_child_is_stopped_by_its_name_in_the_batch_and_the_batch_goes_on(name: str) -> None:
    told = running()
    told.tell(published(6, STOP, {"task": name}))
    assert ended(told.settle()) == [(CHILD, "STOPPED")]
    batch = batch_of(told.stream)
    assert batch is not None
    assert batch.status is BatchStatus.RUNNING
    told.tell(published(7, STOP, {"task": name}))
    refusals = [event for event in told.settle() if isinstance(event, CommandRefused)]
    assert [event.code for event in refusals] == ["already_terminal"]


def test_children_take_part_in_the_limit_of_what_is_open_at_once() -> None:
    told = running(concurrency=1)
    assert (list(told.stream.children), told.stream.tasks) == ([CHILD], {})
    end_search(told)
    told.settle()
    assert list(told.stream.tasks) == [f"{STREAM}.1.prepare"]


def test_a_group_may_have_children_only() -> None:
    told = RunLog(capabilities=CAPABILITIES)
    answered(told, published(1, SUBMIT, {"groups": [{"children": [search_child()]}]}))
    told.settle()
    end_search(told)
    assert told.settle()[-1] == BatchEnded(status=BatchStatus.DONE)


def test_all_that_is_wrong_with_children_is_said_when_the_batch_is_submitted() -> None:
    unlike = {"name": "b", "kind": "serach", "spec": {}}
    wrong = search_child("a", task_type="nothing", tuner={"name": "tpee"}, max_trials=0)
    unknown = search_child("c", task_type="nothing", tuner={"name": "tpee"})
    inner = {"name": "d", "kind": "batch", "spec": {"groups": [{"children": [unlike]}]}}
    events = answered(
        Told(), published(1, SUBMIT, {"groups": [{"children": [unlike, wrong, unknown, inner]}]})
    )
    assert problems(events) == [
        ("unknown_kind", "$.groups[0].children[0].kind"),
        ("max_trials_range", "$.groups[0].children[1].spec.max_trials"),
        ("unknown_task_type", "$.groups[0].children[2].spec.task_type"),
        ("unknown_tuner", "$.groups[0].children[2].spec.tuner.name"),
        ("unknown_kind", "$.groups[0].children[3].spec.groups[0].children[0].kind"),
    ]
    assert isinstance(events[0], CommandRefused)
    assert "known: batch, run, search; did you mean 'search'?" in events[0].message


def test_a_group_has_something_and_a_child_a_name_of_its_own_that_its_stream_may_have() -> None:
    long = [{"children": [search_child("x" * 128)]}]
    for groups, problem in (
        ([{"name": "empty"}], ("bad_length", "$.groups[0]")),
        ([{"tasks": [TASK], "children": [search_child("prepare")]}], ("duplicate_task", "$.groups[0]")),
        (long, ("bad_identifier", "$.groups[0].children[0].name")),
    ):
        assert problems(answered(Told(), published(1, SUBMIT, {"groups": groups}))) == [problem]


def test_the_fold_admits_no_child_but_the_next_one_and_no_end_that_nobody_waits_for() -> None:
    told = begun()
    wanted = ChildRequested(child_id=CHILD, kind="search", body=SPEC)
    done = ChildEnded(child_id=CHILD, status="DONE", result={})
    stop = ChildStopRequested(child_id=CHILD, reason="")
    assert told.tell(wanted, role="scheduler") == [Outcome.OVERTAKEN]
    for event, outcome in (
        *((done, Outcome.OVERTAKEN), (stop, Outcome.OVERTAKEN)),
        (wanted.model_copy(update={"child_id": f"{STREAM}.1.other"}), Outcome.OVERTAKEN),
        (wanted.model_copy(update={"kind": "batch"}), Outcome.OVERTAKEN),
        *((wanted, Outcome.APPLIED), (wanted, Outcome.DUPLICATE)),
        (GroupEnded(group=0, ends={}), Outcome.OVERTAKEN),
        *((stop, Outcome.APPLIED), (stop, Outcome.DUPLICATE)),
        *((done, Outcome.APPLIED), (stop, Outcome.OVERTAKEN)),
        (done.model_copy(update={"status": "ERROR"}), Outcome.DUPLICATE),
    ):
        assert told.tell(event) == [outcome], event
    search = Told()
    answered(search, published(1))
    assert search.tell(wanted) == [Outcome.OVERTAKEN], "a search has no children"


def test_the_command_of_a_parent_is_remembered_however_many_commands_follow() -> None:
    told = running()
    first = next(iter(child_stream(told).commands))
    for number in range(REMEMBERED + 5):
        command = published(number + 10, "trackside.ping.v1", {})
        told.tell(command, stream=CHILD)
        told.tell(CommandAccepted(command_id=command.command_id, source=command.source), stream=CHILD)
    assert first in child_stream(told).commands
    assert (len(child_stream(told).commands), pending(told)) == (REMEMBERED, [])


def test_a_view_of_a_batch_counts_its_children_and_names_those_that_were_not_done() -> None:
    told = running()
    finish_task(told, f"{STREAM}.1.prepare")
    assert BATCH.view.progress(told.stream).count == "1/3 tasks and children"
    state = BATCH.view.state(told.stream)
    assert state["children"] == {"1.lr": "RUNNING"}
    assert BATCH.view.state_lines(state)[-1] == "children: 1.lr=RUNNING"
    end_search(told)
    told.settle()
    finish_task(told, f"{STREAM}.2.report")
    told.each(GroupEnded(group=1, ends={"finished": 1}), BatchEnded(status=BatchStatus.DONE))
    accepted = [AttemptEnd.FINISHED]
    end = BATCH.view.end(told.stream, accepted)
    assert "3 tasks and children in" in end.lines[0]
    assert end.lines[1:] == ["  1.lr STOPPED"]
    assert end.failure == f"{STREAM}: 1 of its tasks and children did not finish"
    assert BATCH.view.end(told.stream, [*accepted, AttemptEnd.CANCELLED]).failure == ""


def test_the_page_of_a_batch_has_a_table_of_its_children() -> None:
    told = running()
    row: Json = dict.fromkeys(("name", "queue", "started_at", "ended_at", "stop_reason"))
    row |= {"batch_id": STREAM, "status": "RUNNING", "groups": 2, "tasks": 2, "concurrency": 10}
    row |= dict.fromkeys(("finished_tasks", "unfinished_tasks", "open_tasks", "groups_over"), 0)
    row["spec"] = told.stream.root.spec.model_dump(mode="json")
    child = {"child_id": CHILD, "kind": "search", "status": "RUNNING", "ended_at": None, "duration_s": None}
    queried: dict[str, list[Json]] = {"groups": [], "tasks": [], "last_attempts": [], "children": [child]}
    *_, table = BATCH.view.tables(row, queried)
    [cells] = table.rows
    assert list(cells)[:3] == ["1.lr", "search", "RUNNING"]
    assert len(BATCH.view.tables(row, {**queried, "children": []})) == 2
