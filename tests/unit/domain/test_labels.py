"""The labels of a stream: what a command may change, and what the log makes of it, also after the end."""

from tests.unit.domain.given import Told, finish, received, search_running, started, submitted, suggested
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchEnded, SearchStatus
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.streams.labels import MAX_NOTE, MAX_TAG, MAX_TAGS, AnnotateStream, StreamAnnotated
from trackside.contracts.wire.codec import validate_command
from trackside.domain.commands.label_commands import decide
from trackside.domain.folding.streams import load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.labels import StreamLabels
from trackside.domain.streams.stream import shrink


def annotate(told: Told, command: AnnotateStream) -> list[Outcome]:
    number = told.next_offset
    told.tell(received(number))
    events = decide(told.stream, command, f"c-{number}")
    assert isinstance(events, list)
    return told.tell(*events)


def problems(decided: list[Event] | tuple[Problem, ...]) -> list[tuple[str, str]]:
    return [(each.code, each.path) for each in decided if isinstance(each, Problem)]


def labels(told: Told) -> tuple[tuple[str, ...], str, bool]:
    known = told.stream.labels or StreamLabels()
    return known.tags, known.note, known.archived


def test_what_a_command_leaves_out_stays() -> None:
    told = search_running()
    assert decide(told.stream, AnnotateStream(), "c-9") == [], "it asks for nothing"
    steps = (
        ({"add_tags": ["paper", "draft"], "note": "for table 2"}, ("draft", "paper"), "for table 2", False),
        ({"add_tags": ["baseline"], "remove_tags": ["draft"]}, ("baseline", "paper"), "for table 2", False),
        ({"archived": True}, ("baseline", "paper"), "for table 2", True),
        ({"note": "", "archived": False}, ("baseline", "paper"), "", False),
        ({"add_tags": ["paper", "paper"], "remove_tags": ["x"]}, ("baseline", "paper"), "", False),
        ({"add_tags": ["paper"], "remove_tags": ["paper"]}, ("baseline", "paper"), "", False),
    )
    for changed, *expected in steps:
        assert annotate(told, AnnotateStream.model_validate(changed)) == [Outcome.APPLIED]
        assert labels(told) == tuple(expected)
        assert told.stream.labels is not None and told.stream.labels.changed_ms == told.now_ms - 1


def test_a_stream_that_has_ended_is_annotated_and_keeps_its_labels() -> None:
    told = search_running(max_trials=1)
    annotate(told, AnnotateStream(add_tags=["paper"]))
    told.tell(suggested(0), submitted(0))
    finish(told, 0, 0.5)
    told.tell(SearchEnded(status=SearchStatus.DONE, trials=1))
    assert told.stream.closed
    shrink(told.stream)
    assert annotate(told, AnnotateStream(add_tags=["old"], archived=True)) == [Outcome.APPLIED]
    assert told.stream.last_offset == told.next_offset - 1
    assert labels(told) == (("old", "paper"), "", True)
    assert load(pack(told.stream), AGGREGATES).labels == told.stream.labels


def test_a_stream_in_which_nothing_has_begun_is_not_annotated() -> None:
    told = Told()
    told.tell(received())
    decided = decide(told.stream, AnnotateStream(note="new"), "c-1")
    assert problems(decided) == [("unknown_stream", "$partitionkey")]
    event = StreamAnnotated(command_id="c-1", note="new")
    assert told.tell(event) == [Outcome.OVERTAKEN]
    told.tell(started())
    assert told.stream.labels is None
    assert told.tell(event) == [Outcome.APPLIED]


def test_a_stream_has_so_many_tags_at_most() -> None:
    told = search_running()
    full = [f"t{number}" for number in range(MAX_TAGS)]
    annotate(told, AnnotateStream(add_tags=full))
    one_more = decide(told.stream, AnnotateStream(add_tags=["one-more"]), "c-9")
    assert problems(one_more) == [("bad_length", "$.add_tags")]
    assert annotate(told, AnnotateStream(add_tags=["one-more"], remove_tags=["t0"])) == [Outcome.APPLIED]


def test_changes_that_were_decided_at_the_same_time_are_all_kept() -> None:
    told = search_running()
    commands = (AnnotateStream(add_tags=["a"]), AnnotateStream(add_tags=["b"]), AnnotateStream(note="n"))
    told.tell(*(received(number) for number in range(2, 5)))
    decided = [decide(told.stream, command, f"c-{number}") for number, command in enumerate(commands, 2)]
    for events in decided:
        assert isinstance(events, list)
        told.tell(*events)
    assert labels(told) == (("a", "b"), "n", False)


def test_a_command_changes_labels_once_and_only_if_the_stream_has_received_it() -> None:
    told = search_running()
    one = StreamAnnotated(command_id="c-1", note="one")
    assert told.tell(one, role="worker") == [Outcome.OVERTAKEN], "only the dispatcher annotates"
    assert told.stream.labels is None
    assert told.tell(one) == [Outcome.APPLIED]
    assert told.tell(StreamAnnotated(command_id="c-1", note="two")) == [Outcome.DUPLICATE]
    assert told.tell(StreamAnnotated(command_id="c-2", note="two")) == [Outcome.OVERTAKEN]
    assert labels(told) == ((), "one", False)


def test_a_command_with_a_wrong_field_is_refused() -> None:
    cases: list[tuple[dict[str, object], str, str]] = [
        ({"add_tags": ["two words"]}, "bad_identifier", "$.add_tags[0]"),
        ({"add_tags": ["good", "x" * (MAX_TAG + 1)]}, "bad_length", "$.add_tags[1]"),
        ({"remove_tags": [""]}, "bad_length", "$.remove_tags[0]"),
        ({"add_tags": [f"t{number}" for number in range(MAX_TAGS + 1)]}, "bad_length", "$.add_tags"),
        ({"note": "x" * (MAX_NOTE + 1)}, "bad_length", "$.note"),
        ({"archived": "yes"}, "wrong_type", "$.archived"),
        ({"tags": ["paper"]}, "unknown_field", "$.tags"),
    ]
    for body, code, path in cases:
        found = validate_command(AnnotateStream.wire_type(), body, (AnnotateStream,))
        assert isinstance(found, tuple)
        assert [(each.code, each.path) for each in found] == [(code, path)]
