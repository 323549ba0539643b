from typing import Any

import pytest
from pydantic import ValidationError

from trackside.aggregates.summary.messages import CacheTrainJob, RestoreSummaryJob
from trackside.contracts.envelope.message import Message
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, Source
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry
from trackside.summary_indexer.detail import commands as module
from trackside.summary_indexer.detail.commands import CacheCommands
from trackside.summary_indexer.liveness import index_status
from trackside.summary_indexer.settings import SummaryIndexerSettings

SOURCE = Source(topic="commands", partition=0, offset=0)


def entry(message: Message) -> Entry:
    made = RecordWriter("dispatcher", "d1").single("job", message)
    return Entry("events", 0, 0, 0, made.key, made.value, made.headers)


def received(command_id: str, kind: str, body: dict[str, Any] | None = None) -> Entry:
    about: Any = {"body": body, "digest": "", "source": SOURCE, "publisher": "p", "rules": 1}
    return entry(CommandReceived(command_id=command_id, command_type=kind, **about))


def test_only_an_accepted_command_to_cache_a_job_loads_it() -> None:
    commands, cache = CacheCommands(), CacheTrainJob.wire_type()
    accepted = [entry(CommandAccepted(command_id=command_id, source=SOURCE)) for command_id in "ab"]
    assert commands.job_to_load(accepted[0]) is None
    assert commands.job_to_load(received("a", cache)) is None
    assert commands.job_to_load(received("b", RestoreSummaryJob.wire_type())) is None
    assert [commands.job_to_load(each) for each in accepted] == ["job", None]
    assert commands.job_to_load(accepted[0]) is None, "once for each command"
    commands, cache = CacheCommands(), CacheTrainJob.wire_type()
    assert commands.job_to_load(received("a", cache, {"task": {"stream": "s", "task": "s.1"}})) is None
    assert commands.job_to_load(entry(CommandAccepted(command_id="a", source=SOURCE))) == "s.1"


def test_a_body_that_is_no_command_and_a_record_that_can_not_be_read_stop_nothing() -> None:
    bad = received("a", CacheTrainJob.wire_type())
    of_tasks: list[Any] = [3, {}, {"stream": "s", "task": ".."}]
    bodies = [received("a", CacheTrainJob.wire_type(), {"task": task}) for task in of_tasks]
    unread = [Entry("events", 0, 0, 0, b"k", b"{", bad.headers), Entry("events", 0, 0, 0, None, None, [])]
    for each in (bad, *bodies, *unread):
        assert CacheCommands().job_to_load(each) is None


def test_commands_that_are_never_answered_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    commands = CacheCommands()
    for command_id in ("a", "b", "c"):
        commands.job_to_load(received(command_id, CacheTrainJob.wire_type()))
    answers = [CommandAccepted(command_id=command_id, source=SOURCE) for command_id in ("a", "b", "c")]
    assert [commands.job_to_load(entry(answer)) for answer in answers] == [None, "job", "job"]


@pytest.mark.parametrize("name", ["cache_jobs", "cache_loads", "reads", "batch_points", "stuck_s"])
def test_true_is_no_one_in_the_settings(name: str) -> None:
    """S9: bool slipped through."""
    with pytest.raises(ValidationError, match="expected a number"):
        SummaryIndexerSettings(**{name: True})  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        SummaryIndexerSettings(**{name: 0})  # type: ignore[arg-type]


def test_the_state_of_the_index_is_named_as_mindinsight_does() -> None:
    assert index_status({}, is_caught_up=True) == "INIT"
    assert index_status({0: 0, 1: 5}, is_caught_up=False) == "LOADING"
    assert index_status({0: 0, 1: 5}, is_caught_up=True) == "DONE"
    assert index_status({0: 0, 1: 0}, is_caught_up=True) == "INVALID"
