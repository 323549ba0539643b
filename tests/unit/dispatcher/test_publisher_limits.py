"""Limits of publishers: what is within them, what is postponed and until when, and that little is kept."""

import json
from pathlib import Path

import pytest

from tests.unit.dispatcher.test_refused_streams import codes
from tests.unit.domain.given import FIRST_MS, record_of
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchEnded, SearchStatus
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.dispatcher.app import main
from trackside.dispatcher.intake.command_admission import CommandAdmission
from trackside.dispatcher.intake.command_rates import MAX_WINDOWS, WINDOW_MS, CommandRates, RateKey
from trackside.dispatcher.intake.intake import Intake
from trackside.dispatcher.intake.publisher_limits import PublisherLimit, PublisherLimits, read_limits
from trackside.dispatcher.intake.receipts import ReceiptRequest, find_answer
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.streams import Streams, dump, load
from trackside.domain.streams.command import REMEMBERED
from trackside.eventlog.log import Entry

TOPIC = Topics().commands.name
START, STOP = "trackside.start-search.v1", "trackside.stop-search.v1"
ADA = RateKey("source:ada", opens=True)
AT_MS = FIRST_MS // WINDOW_MS * WINDOW_MS


def test_what_is_beyond_a_window_is_admitted_at_the_time_that_it_is_given_in_any_order() -> None:
    rates = CommandRates()
    retries = [rates.take(ADA, AT_MS + 9 * at, per_s=10) for at in range(1_000)]
    assert retries[:100] == [None] * 100
    waiting = [each for each in retries if each is not None]
    assert len(waiting) == 900 and waiting[0] == AT_MS + WINDOW_MS
    assert [rates.take(ADA, each, per_s=10) for each in waiting] == [None] * 900
    steady = [AT_MS + at * 100 for at in range(1_000)]
    in_order, by_partition = CommandRates(), CommandRates()
    read_late = [each for partition in range(4) for each in steady[partition::4]]
    assert [in_order.take(ADA, each, per_s=10) for each in steady] == [None] * 1_000
    assert [by_partition.take(ADA, each, per_s=10) for each in read_late] == [None] * 1_000
    rates = CommandRates()
    assert rates.take(ADA, AT_MS, per_s=0.01) is None
    assert rates.take(ADA, AT_MS, per_s=0.01) == AT_MS + WINDOW_MS


@pytest.mark.thorough
def test_100_000_commands_of_10_000_sources_leave_nothing_but_the_newest_windows() -> None:
    admission = CommandAdmission(PublisherLimits(PublisherLimit(1, 1)), AGGREGATES.opened_by)
    intake, streams = Intake(admission=admission), Streams(AGGREGATES)
    for at in range(100_000):
        intake.receive(entry(at, source=f"p-{at % 10_000}", at_ms=AT_MS + at))
        for _, event, _ in intake.unrecorded(streams):
            intake.recorded(event)
    assert len(admission._rates) == MAX_WINDOWS
    assert (len(admission._admitted), len(admission._opening), len(intake)) == (0, 0, 0)
    assert not admission._open._counts


def entry(
    offset: int,
    *,
    wire_type: str = START,
    source: str = "ada",
    stream: str = "",
    command_id: str = "",
    at_ms: int = AT_MS,
) -> Entry:
    body = {"task_type": "noop", "space": {"x": {"type": "uniform", "low": 0, "high": 1}}, "max_trials": 1}
    headers = {"ce_id": command_id or f"c-{offset}", "ce_type": wire_type, "ce_source": source}
    headers["ce_partitionkey"] = stream or f"s-{offset}"
    value = json.dumps(body if wire_type == START else {"reason": "enough"}).encode()
    octets = [(name, text.encode()) for name, text in headers.items()]
    return Entry(TOPIC, 0, offset, at_ms, None, value, octets)


class Desk:
    def __init__(self, default: PublisherLimit, **named: PublisherLimit) -> None:
        self.streams = Streams(AGGREGATES)
        limits = PublisherLimits(default, {f"source:{name}": limit for name, limit in named.items()})
        self.admission = CommandAdmission(limits, AGGREGATES.opened_by)
        self.intake = Intake(admission=self.admission)
        self.ends: dict[str, int] = {}

    def fold(self, stream: str, *events: Event) -> None:
        for event in events:
            offset = self.ends.get(stream, 0)
            self.ends[stream] = offset + 1
            found, _ = self.streams.fold(record_of(event, offset, stream=stream))
            if isinstance(event, CommandReceived):
                self.intake.recorded(event)
            self.admission.update(found)

    def received(self, *entries: Entry) -> list[tuple[str, CommandReceived]]:
        for each in entries:
            self.intake.receive(each)
        return [(stream, event) for stream, event, _ in self.intake.unrecorded(self.streams)]

    def answers(self, *entries: Entry) -> list[str]:
        found = []
        for stream, event in self.received(*entries):
            self.fold(stream, event)
            for proposal in react(self.streams.by_id[stream], CAPABILITIES, AGGREGATES):
                self.fold(stream, *proposal.events)
                found += codes(proposal.events)
        return found


CAPABILITIES = Capabilities(frozenset({"noop"}))


def test_a_command_beyond_the_rate_is_answered_with_a_time_and_accepted_again_under_its_id() -> None:
    desk = Desk(PublisherLimit(max_commands_per_s=0.2))
    assert desk.answers(entry(0), entry(1)) == ["accepted", "accepted"]
    ((stream, event),) = desk.received(entry(2))
    assert event.problem is not None and event.body is None and event.digest
    assert event.problem == Problem(
        code="too_many",
        path="$source",
        message="source:ada: the limit is 2 in 10 s (0.2 a second) of the commands that open streams; "
        "publish it again from 2023-11-14T22:13:30.000Z on",
        retry_at_ms=AT_MS + WINDOW_MS,
    )
    assert (event.command_id, stream) == ("c-2", "s-2")
    assert desk.answers() == ["too_many"]
    later = entry(3, command_id="c-2", stream="s-2", at_ms=AT_MS + WINDOW_MS)
    assert desk.answers(later) == ["accepted"]
    assert desk.answers(entry(4, command_id="c-2", stream="s-2", at_ms=AT_MS + 2 * WINDOW_MS)) == ["accepted"]


def test_a_command_that_was_postponed_is_decided_after_those_that_came_since() -> None:
    desk = Desk(PublisherLimit(max_commands_per_s=0.1))
    assert desk.answers(entry(0), entry(1, stream="s-1")) == ["accepted", "too_many"]
    first = entry(2, stream="s-1", source="bob")
    again = entry(3, command_id="c-1", stream="s-1", at_ms=AT_MS + WINDOW_MS)
    for stream, event in desk.received(first, again):
        desk.fold(stream, event)
    (proposal,) = react(desk.streams.by_id["s-1"], CAPABILITIES, AGGREGATES)
    assert isinstance(proposal.events[0], CommandAccepted) and proposal.events[0].command_id == "c-2"


def test_the_row_and_the_receipt_of_a_postponed_command_have_the_refusal_until_it_is_decided() -> None:
    desk = Desk(PublisherLimit(max_commands_per_s=0.1))
    assert desk.answers(entry(0), entry(1)) == ["accepted", "too_many"]
    stream = desk.streams.by_id["s-1"]
    refused, source = stream.commands["c-1"], Source(topic=TOPIC, partition=0, offset=1)
    assert refused.answer is not None and refused.answer.code == "too_many" and not refused.decided
    request = ReceiptRequest("inbox", "s-1", "c-1", source)
    receipt = find_answer(desk.streams, request)
    assert isinstance(receipt, CommandRefused) and receipt.problems[0].retry_at_ms == AT_MS + WINDOW_MS
    assert desk.answers(entry(2, command_id="c-1", stream="s-1", at_ms=AT_MS + WINDOW_MS)) == ["accepted"]
    assert stream.commands["c-1"].answer is None and stream.commands["c-1"].decided
    assert find_answer(desk.streams, request) == receipt, "the answer to that publication stays what it was"
    later = ReceiptRequest("inbox", "s-1", "c-1", source.model_copy(update={"offset": 2}))
    assert isinstance(find_answer(desk.streams, later), CommandAccepted)


@pytest.mark.thorough
def test_a_stream_forgets_postponed_commands_as_others() -> None:
    desk = Desk(PublisherLimit(max_commands_per_s=0.1))
    flood = [entry(at, stream="s-0", wire_type=STOP) for at in range(REMEMBERED + 50)]
    codes = [code for at in range(0, len(flood), 50) for code in desk.answers(*flood[at : at + 50])]
    assert codes == ["unknown_search", *["too_many"] * (REMEMBERED + 49)]
    assert len(desk.streams.by_id["s-0"].commands) == REMEMBERED


def test_another_publisher_one_that_is_named_and_what_opens_no_stream_have_rates_of_their_own() -> None:
    desk = Desk(PublisherLimit(max_commands_per_s=0.1))
    assert desk.answers(entry(0), entry(1), entry(2, source="bob")) == ["accepted", "too_many", "accepted"]
    assert desk.answers(entry(3, wire_type=STOP, stream="s-0")) == ["accepted"]
    assert desk.answers(entry(4, wire_type=STOP, stream="s-2")) == ["too_many"]
    desk = Desk(PublisherLimit(max_commands_per_s=0.1), ci=PublisherLimit())
    assert desk.answers(*(entry(at, source="ci") for at in range(50))) == ["accepted"] * 50


def test_what_the_log_says_counts_also_for_commands_that_are_read_again_after_a_restart() -> None:
    desk, other = (Desk(PublisherLimit(max_commands_per_s=0.1)) for _ in range(2))
    ours, theirs = desk.received(entry(0), entry(1)), other.received(entry(1), entry(0))
    assert [event.problem is None for _, event in ours] == [True, False]
    assert [event.problem is None for _, event in theirs] == [True, False]
    for stream, event in (*theirs, *ours):
        desk.fold(stream, event)
    known = [desk.streams.by_id[f"s-{at}"].commands[f"c-{at}"].publications for at in (0, 1)]
    assert [[each.postponed is None for each in found] for found in known] == [[False], [True]]
    assert desk.answers(entry(2)) == ["too_many"]
    assert desk.answers(entry(3, at_ms=AT_MS + WINDOW_MS)) == ["accepted"]
    before = Desk(PublisherLimit(max_commands_per_s=0.2))
    assert before.answers(entry(0), entry(1), entry(2)) == ["accepted", "accepted", "too_many"]
    after = Desk(PublisherLimit(max_commands_per_s=0.2))
    after.streams = before.streams
    assert after.received(entry(2), entry(1), entry(0)) == []
    after.ends = before.ends
    assert after.answers(entry(3)) == ["too_many"]


def test_as_many_streams_are_open_as_may_until_one_is_over() -> None:
    desk = Desk(PublisherLimit(max_open_streams=2))
    assert desk.answers(*map(entry, range(3))) == ["accepted", "accepted", "too_many"]
    refusal = desk.streams.by_id["s-2"].commands["c-2"].answer
    assert refusal == Problem(
        code="too_many",
        path="$source",
        message="source:ada: the limit of open streams is 2, and it has 2; publish it again when one of them "
        "is over",
    )
    assert desk.answers(entry(3, source="bob")) == ["accepted"]
    assert desk.answers(entry(4, wire_type=STOP, stream="s-0")) == ["accepted"]
    desk.fold("s-0", SearchEnded(status=SearchStatus.STOPPED, trials=0))
    assert desk.answers(entry(5, command_id="c-2", stream="s-2")) == ["accepted"]
    assert desk.answers(entry(6)) == ["too_many"]


def test_open_streams_are_known_from_a_snapshot_and_a_command_that_is_refused_opens_none() -> None:
    desk = Desk(PublisherLimit(max_open_streams=1))
    assert desk.answers(entry(0, wire_type="trackside.submit-tasks.v1")) == ["missing_field"]
    assert desk.answers(entry(1)) == ["accepted"]
    before = Desk(PublisherLimit(max_open_streams=1))
    assert before.answers(entry(0)) == ["accepted"]
    after = Desk(PublisherLimit(max_open_streams=1))
    after.streams.adopt(load(dump(before.streams.by_id["s-0"]), AGGREGATES))
    after.ends = before.ends
    after.admission.update(after.streams.by_id["s-0"])
    assert after.answers(entry(1)) == ["too_many"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object of limits by id, got list"),
        ('{"ci-1": {}}', "publisher 'ci-1': expected key:ID (of a verified signature) or source:URI"),
        ('{"key:ci-1": 5}', "publisher 'key:ci-1': expected an object of limits, got int"),
        ('{"key:ci-1": {"max_open_stream": 5}}', "did you mean 'max_open_streams'?"),
        ('{"key:ci-1": {"max_open_streams": 0.5}}', "expected a whole number, 0 (no limit) or more, got 0.5"),
        ('{"key:ci-1": {"max_commands_per_s": -1}}', "expected a number, 0 (no limit) or more, got -1"),
        ('{"key:ci-1": {"max_commands_per_s": true}}', "got True"),
    ],
)
def test_a_bad_file_of_limits_stops_the_start_and_is_named_with_publisher_and_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = tmp_path / "limits.json"
    path.write_text(text)
    monkeypatch.setenv("TRACKSIDE_DISPATCHER_LIMITS_FILE", str(path))
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert f"TRACKSIDE_DISPATCHER_LIMITS_FILE: {path}: " in error and said in error


def test_what_a_file_does_not_say_is_as_for_all(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_text('{"key:ci-1": {"max_open_streams": 3}, "source:urn:x": {"max_commands_per_s": 0}}')
    found = read_limits(path, PublisherLimit(5, 7))
    assert found == {"key:ci-1": PublisherLimit(5, 3), "source:urn:x": PublisherLimit(0, 7)}
