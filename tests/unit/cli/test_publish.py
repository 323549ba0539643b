from dataclasses import replace

import pytest

from trackside.cli.commands.publish import PublishResult, as_object, as_row, exit_code, parse_commands, why
from trackside.cli.runtime.failures import BadUsage
from trackside.contracts.envelope.refusals import Problem
from trackside.sdk.connection.publication import Accepted, PublishedCommand, Refused

PUBLISHED = PublishedCommand("trackside.commands", 2, 17, "c1", "s1")
REFUSED = Refused("c1", 5, "unknown_tuner", "$.tuner.name", "no tuner 'tpee'")


def results(*answers: Accepted | Refused | None) -> list[PublishResult]:
    (command,) = parse_commands(b'{"id": "c1", "stream": "s1"}', "f")
    return [PublishResult(command, PUBLISHED, answer) for answer in answers]


def test_a_published_file_names_its_stream_by_either_word() -> None:
    (command,) = parse_commands(b'{"type": "t", "stream": "s1", "id": "c1", "data": {}}', "f")
    found = (command.stream_id, command.command_id, "stream" in command.event, command.line)
    assert found == ("s1", "c1", False, 0)
    assert parse_commands(b'{"partitionkey": "s2", "id": "c"}', "f")[0].stream_id == "s2"
    assert parse_commands(b'{"id": "c3"}', "f")[0].stream_id == "c3"


def test_a_published_file_holds_one_command_in_many_lines_or_one_a_line() -> None:
    separator = "\u2028".encode()  # JSON may hold it as it is, and it ends no line
    text = b'{"id": "c1", "data": {"a": "' + separator + b'"}}\n\n  {"id": "c2", "stream": "s"}\r\n'
    commands = parse_commands(text, "f")
    assert [(command.line, command.command_id) for command in commands] == [(1, "c1"), (3, "c2")]
    assert [command.stream_id for command in commands] == ["c1", "s"]
    (command,) = parse_commands(b'{\n  "id": "c1",\n  "data": {}\n}\n', "f")
    assert (command.line, command.event) == (0, {"id": "c1", "data": {}})


@pytest.mark.parametrize(
    "octets", [b"", b"\xff", b"{", b"[]", b'{"stream": 5}', b'{"stream": "s", "id": 7}', b"[" * 100_000]
)
def test_a_published_file_that_is_no_wish_is_named(octets: bytes) -> None:
    with pytest.raises(BadUsage, match=r"f\.json: "):
        parse_commands(octets, "f.json")


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"id": 7}', b"{} {}"])
def test_a_bad_line_is_named(line: bytes) -> None:
    with pytest.raises(BadUsage, match=r"f\.jsonl:3: "):
        parse_commands(b'{"id": "c1"}\n\n' + line + b"\n", "f.jsonl")


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([Accepted("c1", 1)], 0),
        ([Accepted("c1", 1), REFUSED], 2),
        ([REFUSED, None], 1),
        ([None, Accepted("c1", 1)], 1),
    ],
)
def test_the_exit_code_is_of_the_worst_answer(answers: list[Accepted | Refused | None], code: int) -> None:
    assert exit_code(results(*answers)) == code


def test_a_result_is_told_as_json_and_as_a_row_with_all_problems_of_a_refusal() -> None:
    accepted, refused, silent = results(Accepted("c1", 4), REFUSED, None)
    silent.problem = "nobody answered"
    place = {"topic": "trackside.commands", "partition": 2, "offset": 17}
    common = {"line": 0, "stream": "s1", "command_id": "c1", "published": place}
    assert as_object(accepted) == {**common, "answer": "accepted", "answer_offset": 4}
    why_not = {"code": "unknown_tuner", "path": "$.tuner.name", "message": "no tuner 'tpee'"}
    assert as_object(refused) == {**common, "answer": "refused", "answer_offset": 5, **why_not}
    assert as_object(silent) == {**common, "answer": "no answer", "message": "nobody answered"}
    assert as_row(refused) == (0, "s1", "refused", "unknown_tuner", "$.tuner.name")
    assert as_row(accepted) == (0, "s1", "accepted", "", "")
    assert why(accepted) == ""
    assert why(refused) == "line 0: s1 refused: unknown_tuner at $.tuner.name: no tuner 'tpee'"
    assert why(silent) == "line 0: s1 no answer: nobody answered"
    silent.publication = None
    assert as_row(silent)[2] == "not published"
    second = Problem(code="unknown_task_type", path="$.task_type", message="no type 'x'")
    problems = (Problem(code="unknown_tuner", path="$.tuner.name", message="no tuner 'tpee'"), second)
    (refused,) = results(replace(REFUSED, problems=problems))
    assert as_object(refused)["problems"] == [problem.model_dump() for problem in problems]
    assert why(refused).splitlines() == [
        "line 0: s1 refused: unknown_tuner at $.tuner.name: no tuner 'tpee'",
        "  unknown_task_type at $.task_type: no type 'x'",
    ]
