import pytest

from tests.unit.domain.given import (
    STREAM,
    Told,
    assigned,
    begun,
    ended,
    finish,
    over,
    report,
    search_running,
    submitted,
    suggested,
)
from tests.unit.replay.given import TOPICS, after, log_of, name_causes
from trackside.aggregates.search.messages import SearchEnded, SearchStatus, TrialStatus
from trackside.contracts.envelope.standing import Standing
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested
from trackside.domain.proposal import cause_of
from trackside.eventlog.memory import MemoryLog
from trackside.replay.causality.causes import Step
from trackside.replay.causality.why import Why, why
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import UnknownSubjectError


async def asked(log: MemoryLog, stream: str, subject: str) -> Why:
    return await why(await find_stream(log, TOPICS, stream), subject)


async def asked_of(told: Told, subject: str) -> Why:
    return await asked(await log_of(told), STREAM, subject)


def waiting_trial() -> Told:
    told = search_running(max_trials=1, concurrency=1)
    told.tell(suggested(0), submitted(0))
    return told


def names(steps: list[Step]) -> list[str]:
    return [step.what for step in steps]


SUBJECTS = [
    *(("one", text) for text in ("0", "1", "2", "one.1", "1/1", "1/2", "one-start")),
    *(("two", text) for text in ("0", "3", "late")),
    *(("tasks", text) for text in ("1.a", "1.a/2", "1.2", "1.c", "2.1", "tasks.2.1")),
    *(("halted", text) for text in ("1.a", "1.2", "1.c")),
    *(("going", text) for text in ("1.a", "1.2")),
]


@pytest.mark.parametrize(("stream", "subject"), SUBJECTS)
async def test_every_chain_has_no_gap_from_its_command(log: MemoryLog, stream: str, subject: str) -> None:
    found = await asked(log, stream, subject)
    known = {step.offset: step for step in (*found.causes, *found.own)}
    for step in (*found.causes, *found.own, *found.then):
        assert step.standing is Standing.APPLIED
        if step.what == "CommandReceived":
            assert (step.follows, step.outside.startswith("cli at trackside.commands-")) == (-1, True)
        elif step.what == "BatchStopRequested":
            assert step.follows == -1  # this history leaves its command out
        elif step not in found.then:
            assert known[step.follows].offset < step.offset
    assert known[min(known)].what == "CommandReceived"


async def test_a_trial_rests_on_the_end_that_opened_its_slot() -> None:
    told = search_running(max_trials=3, concurrency=2)
    told.tell(suggested(0), submitted(0))
    told.tell(suggested(1), submitted(1))
    finish(told, 1, 0.5)
    opened = told.next_offset - 1
    told.tell(suggested(2), submitted(2))
    found = await asked_of(told, "2")
    assert found.own[0].follows == opened
    chain = names([step for step in found.causes if step.task == f"{STREAM}.1"])
    assert (chain[0], chain[-1]) == ("TrialSuggested", "TrialEnded")
    assert not any(step.task == f"{STREAM}.0" for step in found.causes)
    first = await asked_of(told, "1")
    assert names(list(first.causes)) == ["CommandReceived", "CommandAccepted", "SearchStarted"]
    assert names(list(first.then)) == ["TrialSuggested"]


async def test_what_had_no_effect_is_there_and_rests_on_nothing() -> None:
    told = after(waiting_trial(), assigned(), assigned(), begun(), ended(), report(3, 0.5), over(0))
    found = await asked_of(told, "0")
    void = [(step.what, step.standing) for step in found.own if step.standing is not Standing.APPLIED]
    assert void == [("TaskAssigned", Standing.DUPLICATE), ("MetricReported", Standing.OVERTAKEN)]
    assert all(step.follows == -1 for step in found.own if step.standing is not Standing.APPLIED)


async def test_an_early_stop_rests_on_the_report_that_the_assessor_saw() -> None:
    told = after(waiting_trial(), assigned(), begun(), report(1, 0.5))
    seen = told.next_offset - 1
    stopped = TaskStopRequested(task_id=f"{STREAM}.0", reason="assessor")
    after(told, stopped, ended(AttemptEnd.CANCELLED), over(0, how=TrialStatus.EARLY_STOPPED))
    told.tell(SearchEnded(status=SearchStatus.DONE, trials=1))
    found = await asked_of(told, "0")
    by_name = {step.what: step for step in found.own}
    assert by_name["TaskStopRequested"].follows == seen
    assert by_name["AttemptEnded"].follows == by_name["TaskStopRequested"].offset
    assert names(list(found.then)) == ["SearchEnded"]


async def test_a_second_attempt_and_a_stopped_task_rest_on_what_ended_them(log: MemoryLog) -> None:
    found = await asked(log, "one", "1/2")
    assert {step.attempt for step in found.own} == {2}
    assert found.own[0].what == "TaskAssigned"
    before = next(step for step in found.causes if step.offset == found.own[0].follows)
    assert (before.what, before.said, before.role) == ("AttemptEnded", "lost", "scheduler")
    found = await asked(log, "halted", "1.2")
    assert [step.what for step in found.causes][-1] == "BatchStopRequested"
    assert found.own[-1].follows == found.causes[-1].offset


async def test_a_command_leads_to_the_end_of_what_it_began(log: MemoryLog) -> None:
    found = await asked(log, "one", "one-start")
    assert names(list(found.own)) == ["CommandReceived", "CommandAccepted", "SearchStarted"]
    assert names(list(found.then)) == ["SearchEnded"]
    late = await asked(log, "two", "late")
    assert (names(list(late.own)), list(late.then)) == (["CommandReceived", "CommandRefused"], [])


async def test_a_cause_that_an_event_names_itself_counts_and_one_that_is_not_there_is_shown() -> None:
    told = after(waiting_trial(), assigned(), begun())
    causes = (f"{STREAM}@0", f"{STREAM}@900", "other@4", "no@offset")
    name_causes(told.records[-4:], *causes)
    found = await asked_of(told, "0")
    said = [(step.cause, step.follows, step.outside) for step in found.own]
    outside = ["", f"event {STREAM}@900", "event other@4", "message no@offset"]
    assert said == list(zip(causes, (0, -1, -1, -1), outside, strict=True))


async def test_the_causes_of_a_log_that_names_none_are_guessed_and_that_is_said(log: MemoryLog) -> None:
    found = await asked(log, "one", "1")
    assert all(step.guessed and not step.cause for step in found.own)
    assert found.guessed == "all"
    assert found.as_json()["guessed"] == "all"
    assert found.as_json()["own"][0] | {"cause": None, "guessed": True} == found.as_json()["own"][0]


async def test_a_log_that_names_causes_is_never_guessed_about() -> None:
    told = after(waiting_trial(), assigned(), assigned(), begun(), report(1, 0.5))
    causes = [cause_of(STREAM, at) for at in (0, 0, 2, 2, 4, 4, 5)]
    name_causes(told.records[1:], *causes, "")
    found = await asked_of(told, "0")
    assert found.guessed == "none"
    assert [step.offset for step in found.own] == [3, 4, 5, 6, 7, 8]
    assert [step.follows for step in found.own] == [2, 2, 4, 4, 5, -1]
    assert [step.offset for step in found.causes] == [0, 1, 2]
    assert not any(step.guessed for step in (*found.causes, *found.own))
    assert found.own[3].standing is Standing.DUPLICATE


async def test_only_what_comes_before_the_first_named_cause_is_guessed() -> None:
    told = after(waiting_trial(), assigned())
    name_causes(told.records[-1:], cause_of(STREAM, 4))
    told.tell(begun())
    found = await asked_of(told, "0")
    follows = [(step.follows, step.guessed) for step in found.own]
    assert follows == [(2, True), (3, True), (4, False), (-1, False)]
    assert found.guessed == "some"


async def test_an_unknown_subject_is_told_what_there_is(log: MemoryLog) -> None:
    with pytest.raises(UnknownSubjectError, match=r"tasks 0 to 2.*one-start"):
        await asked(log, "one", "9")
    with pytest.raises(UnknownSubjectError, match="it has task 0, attempts such as 0/1"):
        await asked_of(waiting_trial(), "9")
    with pytest.raises(UnknownSubjectError):
        await asked(log, "one", "1/7")
