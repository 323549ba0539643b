"""Bad input, row by row (BI-1 to BI-57): each is met by exactly the code that docs/publishing.md has for it.

Commands go the each of any publication, through the pure parts of the dispatcher: read, folded, decided.
"""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.contract.bad_input_table import (
    BATCH,
    COMMANDS,
    PIPELINE,
    RUN,
    SEARCH,
    SECRET,
    STOP,
    STOP_TASKS,
    SUBMIT,
    Input,
    Row,
)
from tests.unit.aggregates.given import CAPABILITIES
from tests.unit.domain import given as told_of
from tests.unit.domain.given import Told
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.refusals import (
    ARTIFACT_CODES,
    DEAD_LETTER_CODES,
    REFUSAL_CODES,
    TASK_REFUSAL_CODES,
    Problem,
)
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused
from trackside.contracts.streams.labels import StreamAnnotated
from trackside.contracts.streams.parking import UnknownRecord
from trackside.contracts.tasks.summaries import MetricPointsReported, Series
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.contracts.wire.codec import UndecodableError
from trackside.dispatcher.intake.intake import Intake
from trackside.domain.commands.react import react
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry
from trackside.summary_indexer.validation import decode_summaries

ROOT = Path(__file__).parents[2]
HERE = "contract/test_bad_input.py::test_a_row_gives_its_code_path_and_reason"
PAGE = ROOT / "docs" / "publishing.md"
HEADERS: dict[str, bytes | None] = {
    "ce_specversion": b"1.0",
    "ce_id": b"c-1",
    "ce_source": b"https://example.org/notebook",
    "ce_partitionkey": b"s-1",
    "content-type": b"application/json",
}
NOT_IN_ANSWERS = {"accepted", "too_large", "bad_range", "replay_target_live"}


class InMemoryPublisher:
    """Publishes to the pure parts of a dispatcher, over a log in memory."""

    def __init__(self) -> None:
        self.told = Told()
        self.repeated = ""
        self._offset = 0

    def publish(self, given: Input) -> Problem:
        """Publishes a record and returns its answer, with the code `accepted` if it was accepted."""
        headers = {**HEADERS, "ce_type": given.wire_type.encode(), **given.headers}
        entry = Entry(
            "trackside.commands", 0, self._offset, 1, given.key, given.octets, list(headers.items())
        )
        self._offset += 1
        intake = Intake()
        intake.receive(entry)
        if intake.dead_letters:
            [letter] = intake.dead_letters
            self.repeated = letter.model_dump_json()
            return Problem(code=letter.code, message=letter.message)
        [(stream, event, _)] = intake.unrecorded(Streams(AGGREGATES))
        self.told.tell(event, stream=stream, role="dispatcher")
        [answer] = react(self.told.streams.by_id[stream], CAPABILITIES, AGGREGATES)
        self.told.tell(*answer.events, stream=stream, role="dispatcher")
        first = answer.events[0]
        self.repeated = event.model_dump_json() + first.model_dump_json()
        if isinstance(first, CommandRefused):
            return Problem(code=first.code, path=first.path, message=first.message)
        assert isinstance(first, CommandAccepted)
        return Problem(code="accepted", message="")


def inputs() -> list[ParameterSet]:
    return [
        pytest.param(each, each.code or row.code, id=f"BI-{row.number}-{at}")
        for row in COMMANDS
        for at, each in enumerate(row.inputs, 1)
    ]


@pytest.mark.parametrize(("given", "code"), inputs())
def test_a_row_gives_its_code_path_and_reason(given: Input, code: str) -> None:
    publisher = InMemoryPublisher()
    answer = publisher.publish(given)
    assert (answer.code, answer.path) == (code, given.path), answer.message
    assert given.message in answer.message
    assert answer.message or code == "accepted"
    assert SECRET not in publisher.repeated
    assert InMemoryPublisher().publish(Input(SEARCH)).code == "accepted", "the next good command is obeyed"


def test_the_commands_that_rows_change_are_good() -> None:
    for given in (Input(SEARCH), Input(BATCH, wire_type=SUBMIT), Input(PIPELINE, wire_type=RUN)):
        assert InMemoryPublisher().publish(given).code == "accepted"


def page_rows() -> list[str]:
    """Returns the rows of the page."""
    return [text for text in PAGE.read_text("utf-8").splitlines() if text.startswith("| BI-")]


def test_the_page_has_every_row_with_codes_of_the_reference() -> None:
    known = {*REFUSAL_CODES, *DEAD_LETTER_CODES, *TASK_REFUSAL_CODES, *ARTIFACT_CODES, *NOT_IN_ANSWERS}
    cells = [row.split(" | ") for row in page_rows()]
    numbers = [int(row[0].removeprefix("| BI-")) for row in cells]
    assert set(numbers) == set(range(1, 58))
    codes = {code for row in cells for code in re.findall(r"`(\w+)`", row[2])}
    assert {code for code in codes if code not in known and not code.endswith("_range")} == set()
    wanted = [line(row) for row in COMMANDS]
    assert [row for row in wanted if row not in page_rows()] == [], "write them into docs/publishing.md so"


def test_every_test_that_the_page_names_is_there() -> None:
    named = {test for row in page_rows() for test in re.findall(r"`(\w+(?:/\w+)*\.py::\w+)", row)}
    here = {param.id for param in inputs()}
    assert {test for row in page_rows() for test in re.findall(r"\[(BI-\d+-\d+)\]", row)} <= here
    assert len(named) > 10
    assert all(".py::" in row for row in page_rows())
    for test in named:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in names, test


def line(row: Row) -> str:
    """Returns a row as the page has it."""
    codes = dict.fromkeys((row.code, *(each.code for each in row.inputs)))
    named = ", ".join(f"`{code}`" for code in codes if code)
    return f"| BI-{row.number} | {row.what} | {named or '-'} | `{HERE}[BI-{row.number}-1]` |"


def test_bi_21_and_22_an_id_counts_once() -> None:
    publisher = InMemoryPublisher()
    assert publisher.publish(Input(SEARCH)).code == "accepted"
    assert publisher.publish(Input(SEARCH)).code == "accepted"
    other = publisher.publish(Input({**SEARCH, "max_trials": 21}))
    assert (other.code, "offset 0" in other.message) == ("idempotency_conflict", True)
    assert publisher.publish(Input(SEARCH, headers={"ce_id": b"c-2"})).code == "already_exists"


def test_bi_38_to_40_reports_that_come_wrong_are_counted_and_ignored() -> None:
    told = told_of.task_active()
    assert told.tell(told_of.report(3, 0.5)) == [Outcome.APPLIED]
    assert told.tell(told_of.report(2, 0.9)) == [Outcome.DUPLICATE]
    assert told.tell(told_of.report(3, 0.9)) == [Outcome.DUPLICATE]
    assert told.tell(told_of.report(1, 0.9, trial=7)) == [Outcome.OVERTAKEN]
    told.tell(told_of.ended(AttemptEnd.FINISHED))
    assert told.tell(told_of.report(4, 0.9)) == [Outcome.OVERTAKEN]
    assert told.streams.overtaken == 4


def stopped(start: Input, stop: str) -> InMemoryPublisher:
    """Returns a publisher whose stream was stopped; nothing of it ran, so that it is over."""
    publisher = InMemoryPublisher()
    publisher.publish(start)
    assert publisher.publish(Input({}, wire_type=stop, headers={"ce_id": b"c-2"})).code == "accepted"
    for _ in range(2):
        for due in react(publisher.told.streams.by_id["s-1"], CAPABILITIES, AGGREGATES):
            publisher.told.tell(*due.events, stream="s-1", role="dispatcher")
    return publisher


def test_bi_45_what_is_over_can_not_be_stopped() -> None:
    for start, stop in ((Input(SEARCH), STOP), (Input(BATCH, wire_type=SUBMIT), STOP_TASKS)):
        answer = stopped(start, stop).publish(Input({}, wire_type=stop, headers={"ce_id": b"c-3"}))
        assert (answer.code, answer.path) == ("already_terminal", "$partitionkey")
        assert "STOPPED" in answer.message


def test_bi_46_a_task_that_a_batch_does_not_have_can_not_be_stopped() -> None:
    publisher = InMemoryPublisher()
    publisher.publish(Input(BATCH, wire_type=SUBMIT))
    answer = publisher.publish(Input({"task": "nope"}, wire_type=STOP_TASKS, headers={"ce_id": b"c-2"}))
    assert (answer.code, answer.path) == ("unknown_task", "$.task")


def test_bi_48_what_is_over_can_not_be_changed() -> None:
    publisher = stopped(Input(SEARCH), STOP)
    space = {"space": SEARCH["space"]}
    bodies = {"update-search-space": space, "pause-search": {}, "update-search": {"goal": 0.9}}
    for number, (name, body) in enumerate(bodies.items(), 3):
        headers: dict[str, bytes | None] = {"ce_id": f"c-{number}".encode()}
        answer = publisher.publish(Input(body, wire_type=f"trackside.{name}.v1", headers=headers))
        assert (answer.code, answer.path) == ("already_terminal", "$partitionkey"), answer


def test_bi_49_bytes_that_look_like_a_secret_are_not_kept_in_a_dead_letter_either() -> None:
    publisher = InMemoryPublisher()
    answer = publisher.publish(Input(b'{"token": "' + SECRET.encode() + b'", nope}'))
    assert answer.code == "not_json"
    assert '"head_base64":""' in publisher.repeated
    assert "secret" in answer.message


def points(tag: str) -> Entry:
    series = [Series(tag=tag, steps=[1], times_ms=[1], values=[0.5])]
    record = RecordWriter("worker", "w1").single(
        "s-1", MetricPointsReported(stream="s-1", task_id="s-1.0", attempt=1, series=series)
    )
    return Entry("trackside.metrics", 0, 0, 1, record.key, record.value, record.headers)


@pytest.mark.parametrize("tag", ["x" * 1_001, "x" * 10_240, "a\nb", "a\x7f", "a\0", ""])
def test_bi_53_a_tag_that_is_none_is_a_dead_letter(tag: str) -> None:
    with pytest.raises(UndecodableError) as caught:
        decode_summaries(points(tag))
    assert caught.value.code == "bad_tag"
    assert len(str(caught.value)) < 200
    good = decode_summaries(points("loss/träin 😀"))
    assert isinstance(good, MetricPointsReported)
    assert good.series[0].tag == "loss/träin 😀"


def event(value: bytes | None = None, **changed: bytes | None) -> Entry:
    """Returns a record of the events as the dispatcher writes it, with another value or other headers."""
    record = RecordWriter("dispatcher", "1").single("s-1", StreamAnnotated(command_id="c-1"))
    headers = {**dict(record.headers), **{f"ce_{name}": octets for name, octets in changed.items()}}
    value = record.value if value is None else value or None
    return Entry("trackside.events", 3, 17, 1, b"s-1", value, list(headers.items()))


UNREADABLE = {
    "a tombstone": (event(b""), "tombstone"),
    "not UTF-8": (event(b'{"command_id": "\xff"}'), "not_valid"),
    "not JSON": (event(b"command_id"), "not_valid"),
    "deep JSON": (event(b'{"command_id": ' + b"[" * 500_000 + b"]" * 500_000 + b"}"), "not_valid"),
    "a wrong type": (event(b'{"command_id": 5}'), "not_valid"),
    "no type": (event(type=None), "unknown_type"),
    "of somebody else": (event(type=b"com.example.thing"), "unknown_type"),
    "of no role": (event(type=b"trackside.task-cloned.v1", source=b"trackside/cook/1"), "unknown_type"),
    "no stream": (event(partitionkey=None), "missing_header"),
    "an empty stream": (event(partitionkey=b""), "missing_header"),
    "no id": (event(id=None), "missing_header"),
    "no source": (event(source=None), "missing_header"),
}


def test_bi_54_what_cannot_be_read_is_told_and_stops_no_reader() -> None:
    told: dict[str, str] = {}
    for name, (record, _) in UNREADABLE.items():

        def note(_: object, error: Any, name: str = name) -> None:
            told[name] = error.code

        assert decode(record, note) is None, name
    assert told == {name: code for name, (_, code) in UNREADABLE.items()}


@pytest.mark.parametrize("wire", [b"trackside.task-cloned.v1", b"trackside.stream-annotated.v2"])
def test_an_event_of_a_newer_release_is_read_as_one_of_unknown_type(wire: bytes) -> None:
    record = decode(event(b"\x00 not even JSON", type=wire))
    assert record is not None
    assert record.message == UnknownRecord(unknown_type=wire.decode())
