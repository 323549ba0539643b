"""Whose word counts in a stream: roles, whole decisions, pinned rules, answers, and what a close leaves."""

import copy

import pytest

from tests.unit.domain.given import (
    APPLIED,
    DUPLICATE,
    OVERTAKEN,
    STREAM,
    Told,
    accepted,
    assigned,
    begun,
    ended,
    finish,
    over,
    received,
    record_of,
    report,
    search_running,
    started,
    submitted,
    suggested,
    task_active,
    task_id,
    task_queued,
    token,
)
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchEnded, SearchStatus, SearchStopRequested
from trackside.contracts.envelope.message import Envelope, Message
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.fleet.fleet import SchedulerHeartbeat, WorkerLost
from trackside.contracts.streams.commands import RULES, CommandRefused, Source
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.folding.streams import Streams, dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams import command
from trackside.domain.streams.stream import shrink

ROLES = ("dispatcher", "scheduler", "worker", "replay", "")


def refused(number: int = 1, place: int | None = None, code: str = "wrong_type") -> CommandRefused:
    source = accepted(number, place).source
    return CommandRefused(command_id=f"c-{number}", source=source, code=code, path="$", message="no")


@pytest.mark.parametrize("role", ROLES)
def test_only_the_owner_of_a_decision_may_write_it(role: str) -> None:
    told = Told()
    events: list[tuple[Message, frozenset[str]]] = [
        (received(), frozenset({"dispatcher"})),
        (started(), frozenset({"dispatcher"})),
        (suggested(0), frozenset({"dispatcher"})),
        (submitted(0), frozenset({"dispatcher"})),
        (assigned(), frozenset({"scheduler"})),
        (begun(), frozenset({"worker"})),
        (report(1, 0.5), frozenset({"worker"})),
        (ended(AttemptEnd.LOST), frozenset({"worker", "scheduler"})),
        (accepted(), frozenset({"dispatcher"})),
    ]
    for event, owners in events:
        if role not in owners:
            before = copy.deepcopy(told.streams.by_id)
            assert (told.tell(event, role=role or "x/y"), told.streams.by_id) == (OVERTAKEN, before)
        assert told.tell(event, role=min(owners)) == APPLIED


def test_what_is_no_event_of_a_stream_does_not_count_there() -> None:
    told = task_queued()
    of_worker = {"task_type": "digits", "parameters": {}, "device_ids": ["cpu-0"]}
    for message in (
        SchedulerHeartbeat(instance="1"),
        WorkerLost(worker_id="w1", incarnation="i-1", silent_ms=1),
        RunTask.model_validate({**token(), "stream": STREAM, **of_worker}),
    ):
        assert told.tell(message, role="scheduler") == OVERTAKEN


def test_a_stream_begins_with_a_received_command_and_with_nothing_else() -> None:
    told = Told()
    for event in (started(), submitted(None), suggested(0), assigned(), accepted()):
        assert told.tell(event) == OVERTAKEN
    assert told.streams.by_id == {}
    told.tell(received())
    stream = told.stream
    assert (stream.rules, stream.first_offset, stream.last_offset) == (RULES, 5, 5)
    assert told.streams.overtaken == 5


def test_a_decision_without_effect_has_none_at_all() -> None:
    told = search_running()
    told.tell(suggested(0), submitted(0))
    before = dump(told.stream)
    late = told.tell(suggested(0), submitted(None, task_id="free"), submitted(None, task_id="free-2"))
    assert late == [Outcome.DUPLICATE, Outcome.OVERTAKEN, Outcome.OVERTAKEN]
    early = told.tell(suggested(3), submitted(3), submitted(None, task_id="free"))
    assert early == [Outcome.OVERTAKEN] * 3
    after = load(pack(told.stream), AGGREGATES)
    after.ignored_decision = told.stream.ignored_decision = b""
    assert dump(told.stream) == before


def test_events_of_a_decision_whose_first_one_counts_are_judged_for_themselves() -> None:
    told = Told()
    told.tell(received())
    assert told.tell(accepted(), started(), suggested(0), submitted(0)) == APPLIED * 4
    assert list(told.stream.tasks) == [task_id(0)]
    told = search_running()
    assert told.tell(suggested(1), submitted(1)) == OVERTAKEN * 2
    assert told.tell(suggested(0), submitted(1), submitted(0)) == APPLIED + OVERTAKEN + APPLIED


def test_a_decision_is_ignored_whole_even_across_a_snapshot_and_positions_follow() -> None:
    told = search_running()
    told.streams.fold(record_of(suggested(3), 90, decision=("d", 0, 2)))
    other = Streams(AGGREGATES, {STREAM: load(pack(told.stream), AGGREGATES)})
    for streams in (told.streams, other):
        assert streams.fold(record_of(submitted(None), 91, decision=("d", 1, 2)))[1] is Outcome.OVERTAKEN
        streams.fold(record_of(received(), 4, stream="other", partition=5))
        assert (streams.positions, set(streams.by_id)) == ({3: 92, 5: 5}, {STREAM, "other"})


def test_a_place_in_a_decision_that_cannot_be_read_is_passed_over() -> None:
    indexes = [(b"d", index) for index in (b"one", b"-1", b"", b"1" * 5_000)]
    for decision, index in (*indexes, (b"\xff\xfe", b"0"), (b"\xff", b"1")):
        told = search_running()
        record = record_of(suggested(0), 50)
        place = {"ce_decisionid": decision, "ce_index": index}
        record.envelope = Envelope({**record.envelope.headers, **place})
        assert told.fold(record) is Outcome.OVERTAKEN
        assert load(pack(told.stream), AGGREGATES) == told.stream


def test_a_publication_counts_once_and_is_answered_once() -> None:
    told = Told()
    assert told.each(received(), received()) == APPLIED + DUPLICATE
    assert told.tell(accepted(2)) == told.tell(accepted(1, place=9)) == OVERTAKEN, "nobody has asked that"
    assert told.stream.unanswered
    assert told.tell(accepted()) == APPLIED
    assert told.tell(accepted()) == told.tell(refused()) == DUPLICATE
    assert not told.stream.unanswered
    assert told.tell(received(2, rules=RULES + 1)) == APPLIED
    assert told.stream.rules == RULES, "the first command pins them"


def published_twice() -> tuple[Told, CommandRefused]:
    """Tells of a command that came again with another body, and returns the refusal of that."""
    told = Told()
    told.tell(received(body={"a": 1}))
    again = received(body={"a": 2}, digest="other", source=Source(topic="t", partition=0, offset=2))
    assert told.tell(again) == APPLIED
    problem = {"code": "idempotency_conflict", "path": "$", "message": ""}
    return told, CommandRefused(command_id="c-1", source=again.source, **problem)


def test_a_command_published_twice_keeps_its_first_body_and_its_first_answer() -> None:
    told, conflict = published_twice()
    known = told.stream.commands["c-1"]
    assert (known.body, known.digest, len(known.publications)) == ({"a": 1}, "digest-1", 2)
    told.tell(refused(code="wrong_type"))
    assert (known.decided, known.body, told.tell(conflict)) == (True, None, APPLIED)
    assert known.answer == Problem(code="wrong_type", path="$", message="no")
    told, conflict = published_twice()
    assert told.tell(conflict) == APPLIED
    known = told.stream.commands["c-1"]
    assert not known.decided, "its own body has no answer yet"
    assert told.tell(accepted()) == APPLIED
    assert known.answer is None


def test_a_stream_forgets_its_oldest_answered_command_when_it_knows_too_many() -> None:
    told = Told()
    for number in range(command.REMEMBERED):
        told.tell(received(number))
        if number != 0:
            told.tell(accepted(number))
    told.tell(received(5_000))
    assert len(told.stream.commands) == command.REMEMBERED
    assert "c-0" in told.stream.commands, "what still wants an answer is never forgotten"
    assert "c-1" not in told.stream.commands


def closed() -> Told:
    told = search_running(max_trials=1)
    told.tell(suggested(0), submitted(0))
    finish(told, 0, 0.5)
    told.tell(SearchEnded(status=SearchStatus.DONE, trials=1))
    return told


def test_a_closed_stream_answers_commands_and_nothing_else() -> None:
    told = task_active()
    before = dump(told.stream)
    shrink(told.stream)
    assert dump(told.stream) == before, "an open stream does not shrink"
    told = closed()
    assert told.stream.closed
    assert told.each(received(2), refused(2, code="already_terminal")) == APPLIED * 2
    events = (started(), suggested(1), submitted(None, task_id="free"), over(0), ended(), assigned())
    for event in (*events, SearchStopRequested(command_id="c-2", reason="")):
        assert told.tell(event) == OVERTAKEN


def test_a_shrunk_stream_judges_all_that_comes_as_a_whole_one() -> None:
    whole, small = closed(), closed()
    shrink(small.stream)
    assert (small.stream.tasks, small.search.trials) == ({}, [])
    later: list[list[Message]] = [[record.message] for record in whole.records] + [
        [accepted(), started()],
        [suggested(1), submitted(1)],
        [received(2)],
        [accepted(2), SearchStopRequested(command_id="c-2", reason="")],
        [received(2)],
        [accepted(2)],
    ]
    for messages in later:
        assert whole.tell(*messages) == small.tell(*messages)
    shrink(whole.stream)
    assert whole.stream == small.stream


def test_a_trial_s_task_comes_with_its_suggestion_and_not_later() -> None:
    told = search_running()
    told.each(suggested(0), suggested(1))
    assert told.each(submitted(0), submitted(1)) == OVERTAKEN + APPLIED
