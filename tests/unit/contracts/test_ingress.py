"""Bad input row by row (BI of the reliability notes): each gives exactly its code and path."""

import json
from typing import Any

import pytest

from tests.secret_samples import SECRETS
from trackside.contracts.envelope import refusals
from trackside.contracts.wire.codec import UndecodableError
from trackside.contracts.wire.ingress import MAX_ITEMS, MAX_TEXT, Arrival, read_command

TRACEPARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
HEADERS = {"ce_specversion": b"1.0", "ce_id": b"c-1", "ce_type": b"trackside.stop-search.v1"}
HEADERS |= {"ce_source": b"https://example.org/notebook", "ce_partitionkey": b"digits-1"}
HEADERS["content-type"] = b"application/json"
STRUCTURED = {"content-type": b"application/cloudevents+json; charset=utf-8"}
EVENT: dict[str, Any] = {"specversion": "1.0", "id": "c-1", "type": "trackside.stop-search.v1"}
EVENT |= {"source": "https://example.org/notebook", "partitionkey": "digits-1"}
EVENT |= {"datacontenttype": "application/json", "data": {"reason": "enough"}}


def read(value: bytes | None, key: bytes | None = b"digits-1", **changed: bytes | None) -> Arrival:
    headers = {**HEADERS, **{name.replace("content_type", "content-type"): o for name, o in changed.items()}}
    return read_command({name: octets for name, octets in headers.items() if octets is not None}, key, value)


def structured(**changed: Any) -> Arrival:
    event = {name: value for name, value in {**EVENT, **changed}.items() if value is not None}
    return read_command(STRUCTURED, None, json.dumps(event).encode())


def problem(arrival: Arrival) -> tuple[str, str]:
    assert arrival.problem is not None
    assert arrival.body is None
    assert arrival.problem.code in refusals.REFUSAL_CODES
    return arrival.problem.code, arrival.problem.path


def test_a_command_in_binary_mode_is_read() -> None:
    arrival = read(b'{"reason":"enough"}', traceparent=TRACEPARENT.encode())
    assert arrival.problem is None
    assert arrival.body == {"reason": "enough"}
    assert (arrival.command_id, arrival.command_type) == ("c-1", "trackside.stop-search.v1")
    assert (arrival.stream, arrival.publisher) == ("digits-1", "https://example.org/notebook")
    assert arrival.traceparent == TRACEPARENT
    body = {"specversion": "1.0", "data": {}}
    assert read(json.dumps(body).encode()).body == body, "fields of an envelope are fields of a body"
    for none in (b"", b"\xff", b"00-abc", b"a\x00" * 30, TRACEPARENT.upper().encode()):
        arrival = read(b"{}", traceparent=none)
        assert (arrival.traceparent, arrival.problem) == ("", None)


def test_a_command_in_structured_mode_says_the_same() -> None:
    assert structured() == read(b'{"reason":"enough"}')
    assert structured(traceparent=TRACEPARENT).traceparent == TRACEPARENT
    event = json.dumps(EVENT).encode()
    enveloped = read_command(STRUCTURED | {"traceparent": TRACEPARENT.encode()}, None, event)
    assert enveloped.traceparent == TRACEPARENT
    for content_type in (None, b"", b"text/plain", b"application/json"):
        headers = {"kafka_x": b"1"} | ({} if content_type is None else {"content-type": content_type})
        assert read_command(headers, None, event) == structured(), "its attributes are in its value"


@pytest.mark.parametrize("content_type", [None, b"", b"text/plain", b"application/json; charset=utf-8"])
def test_without_a_structured_content_type_it_is_binary_mode(content_type: bytes | None) -> None:
    assert read(b"{}", content_type=content_type) == read(b"{}")
    backwards = dict(reversed(HEADERS.items())) | {"ce_team": b"vision", "kafka_x": b"\xff"}
    assert read_command(backwards, b"digits-1", b"{}") == read(b"{}")


@pytest.mark.parametrize(
    ("partitionkey", "key", "stream"),
    [
        (b"digits-1", b"digits-1", "digits-1"),
        (b"digits-1", None, "digits-1"),
        (None, b"digits-1", "digits-1"),
        (None, None, "c-1"),
        (None, b"", "c-1"),
    ],
)
def test_the_stream_is_the_attribute_else_the_key_else_the_command(
    partitionkey: bytes | None, key: bytes | None, stream: str
) -> None:
    assert read(b"{}", key, ce_partitionkey=partitionkey).stream == stream


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [
        (None, "empty_payload", "no value"),
        (b"\xff\xfe{\x00}\x00", "not_utf8", "byte 0"),
        (b'{"reason":"enough"', "not_json", "line 1"),
        (b"\xef\xbb\xbf{}", "not_json", "BOM"),
        (b'{"reason":"a\nb"}', "not_json", "control character"),
        (b'"stop"', "not_object", "got str"),
        (b"null", "not_object", "got NoneType"),
    ],
)
def test_what_holds_no_json_object_is_for_the_dead_letters(value: bytes | None, code: str, said: str) -> None:
    for headers in (HEADERS, STRUCTURED):
        with pytest.raises(UndecodableError) as caught:
            read_command(headers, b"digits-1", value)
        assert caught.value.code == code
        assert code in refusals.DEAD_LETTER_CODES
        assert said in str(caught.value)


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        (b'{"space":{"lr":1,"lr":2}}', "duplicate_key", "$"),
        (b'{"space":{"lr":[-Infinity]}}', "not_finite", "$.space.lr[0]"),
        (b'{"lr":1e999}', "not_finite", "$.lr"),
        (nested(500), "too_deep", "$" + ".a" * 33),
        (b'{"v":[' + b"1," * MAX_ITEMS + b"1]}", "too_long", "$.v"),
        (b'{"v":{"' + b"x" * 257 + b'":1}}', "too_long", "$.v"),
        (b'{"v":1' + b"0" * 400 + b"}", "out_of_range", "$.v"),
        (b'{"v":-9223372036854775809}', "out_of_range", "$.v"),
        (b'{"v":1' + b"0" * 5000 + b"}", "out_of_range", "$"),
        (b'{"v":{"a\\u0000":1}}', "nul_character", "$.v"),
        (b'{"v":{"\\udfff":1}}', "bad_unicode", "$.v"),
        (b'{"v":[{"k":"AKIAABCDEFGHIJKLMNOP"}]}', "secret_suspected", "$.v[0].k"),
        (b'{"v":[{"db_password":"hunter2"}]}', "secret_suspected", "$.v[0].db_password"),
        (b'{"tags":{"secret":"hunter2"}}', "secret_suspected", "$.tags.secret"),
        (b'{"parameters":{"secret":"hunter2"}}', "secret_suspected", "$.parameters.secret"),
        (b'{"AKIAABCDEFGHIJKLMNOP":{"a":1e999}}', "secret_suspected", "$"),
    ],
    ids=range(16),
)
def test_a_body_beyond_the_limits_is_refused_at_its_path(value: bytes, code: str, path: str) -> None:
    arrival = read(value)
    assert problem(arrival) == (code, path)
    assert [found.code for found in arrival.problems] == [code]
    assert (arrival.command_id, arrival.stream) == ("c-1", "digits-1")


def test_a_body_just_within_the_limits_is_kept() -> None:
    for value in (
        nested(32),
        b'{"v":[' + b"1," * (MAX_ITEMS - 1) + b"1]}",
        b'{"v":9223372036854775807,"w":-9223372036854775807}',
        b'{"v":"' + b"x" * MAX_TEXT + b'"}',
        b'{"v":"\\ud83d\\ude00 \xf0\x9f\x98\x80"}',
        b'{"v":1.7976931348623157e308,"w":5e-324}',
    ):
        assert read(value).problem is None, value[:50]


@pytest.mark.parametrize("name", SECRETS)
def test_what_looks_like_a_secret_is_refused_without_an_echo(name: str) -> None:
    text = SECRETS[name]
    arrival = read(json.dumps({"space": {"lr": [1, {"note": text}]}}).encode())
    assert problem(arrival) == ("secret_suspected", "$.space.lr[1].note")
    quoted = json.dumps(text)
    twice = read(f"{{{quoted}:1,{quoted}:2}}".encode())
    assert problem(twice) == ("duplicate_key", "$")
    for found in (arrival, twice):
        assert text not in repr(found)


def test_a_secret_below_a_key_that_cannot_be_kept_is_refused_above_it() -> None:
    for key in ("\x00", "\ud800", "x" * 257):
        arrival = read(json.dumps({"a": {key: {"password": "hunter2"}}}).encode())
        assert {found.path for found in arrival.problems} == {"$.a"}
        assert "secret_suspected" in {found.code for found in arrival.problems}
    deep = read(b'{"a":' * 900 + b'{"password":"hunter2"}' + b"}" * 900)
    assert {len(found.path) for found in deep.problems} <= {len("$" + ".a" * 32), len("$" + ".a" * 33)}


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        ({"ce_id": None}, "missing_header", "$id"),
        ({"ce_id": b""}, "missing_header", "$id"),
        ({"ce_id": b"a/b"}, "bad_identifier", "$id"),
        ({"ce_id": b"\xff"}, "bad_identifier", "$id"),
        ({"ce_partitionkey": b"a b"}, "key_mismatch", "$key"),
        ({"ce_partitionkey": b"other"}, "key_mismatch", "$key"),
        ({"ce_type": b"a\x00b"}, "nul_character", "$type"),
        ({"ce_source": b"a\x00b"}, "nul_character", "$source"),
    ],
)
def test_bad_or_no_attributes_are_refused(changed: dict[str, bytes | None], code: str, path: str) -> None:
    assert problem(read(b"{}", **changed)) == (code, path)


def test_a_bad_key_without_an_attribute_is_no_stream() -> None:
    arrival = read(b"{}", b"a/../b", ce_partitionkey=None)
    assert problem(arrival) == ("bad_identifier", "$partitionkey")
    assert (arrival.stream, arrival.command_id) == ("", "c-1")


def test_a_structured_command_with_bad_attributes_is_refused() -> None:
    for changed, code, path in (
        ({"id": 5}, "wrong_type", "$id"),
        ({"id": {"a": [1]}}, "wrong_type", "$id"),
        ({"id": None}, "missing_header", "$id"),
        ({"type": ["x"]}, "wrong_type", "$type"),
        ({"type": "\ud800"}, "bad_unicode", "$type"),
        ({"source": "\udfff"}, "bad_unicode", "$source"),
        ({"source": False}, "wrong_type", "$source"),
        ({"partitionkey": "a\x00"}, "nul_character", "$partitionkey"),
        ({"data": None}, "wrong_type", "$.data"),
        ({"data": []}, "wrong_type", "$.data"),
        ({"data": "{}"}, "wrong_type", "$.data"),
        ({"data": {"reason": "\x00"}}, "nul_character", "$.reason"),
    ):
        given: dict[str, Any] = changed
        assert problem(structured(**given)) == (code, path)
    value = json.dumps(EVENT).replace('"id": "c-1"', '"id": "c-1", "id": "c-2"').encode()
    arrival = read_command(STRUCTURED, b"digits-1", value)
    assert problem(arrival) == ("duplicate_key", "$"), "it could not be parsed"
    assert (arrival.command_id, arrival.stream) == ("", "digits-1")


@pytest.mark.parametrize(
    ("key", "code"), [(b"AKIAABCDEFGHIJKLMNOP", "secret_suspected"), (b"a\0b", "nul_character")]
)
def test_a_key_that_cannot_be_kept_is_refused_without_an_echo(key: bytes, code: str) -> None:
    for partitionkey, stream in ((None, "c-1"), (b"digits-1", "digits-1")):
        arrival = read(b"{}", key, ce_partitionkey=partitionkey)
        assert problem(arrival) == (code, "$key")
        assert arrival.stream == stream
        assert key.decode() not in repr(arrival)


def test_the_digest_is_of_what_is_said_and_not_of_how() -> None:
    first = read(b'{"reason":"a", "n": [1, 2]}')
    assert read(b'{"n":[1,2],"reason":"\\u0061"}').digest == first.digest
    assert read(b'{"n":[2,1],"reason":"a"}').digest != first.digest
    assert read(b'{"n":[1,2],"reason":"a"}', ce_type=b"trackside.start-search.v1").digest != first.digest
    assert structured(data={"reason": "a", "n": [1, 2]}).digest == first.digest
    unreadable = read(b'{"a":1,"a":2}').digest
    assert unreadable == read(b'{"a":1,"a":2}').digest
    assert unreadable != read(b'{"a":1,"a":3}').digest != read(b"{}").digest


def test_all_that_is_unfit_in_a_record_is_named_once() -> None:
    value = json.dumps({"a": "x\0", "b": {"c": 2**70, "d\0": 1}, "e": [1]}).encode()
    arrival = read(value, ce_id=b"not an id", ce_partitionkey=b"s-1", key=b"s-2")
    assert [problem.code for problem in arrival.problems[:2]] == ["key_mismatch", "bad_identifier"]
    found = {(problem.code, problem.path) for problem in arrival.problems[2:]}
    assert found == {("nul_character", "$.a"), ("out_of_range", "$.b.c"), ("nul_character", "$.b")}
    wrong = structured(id=5, type=7)
    assert [(p.code, p.path) for p in wrong.problems] == [("wrong_type", "$id"), ("wrong_type", "$type")]


def test_a_list_of_problems_is_within_limits() -> None:
    text: Any = {"code": "too_long", "message": "m" * 900}
    long = [refusals.Problem(path=f"$.{at}" + "p" * 900, **text) for at in range(500)]
    listed = refusals.limit_problems(long)
    assert 0 < len(listed) <= refusals.MAX_PROBLEMS
    assert all(len(found.path) <= refusals.MAX_PROBLEM_TEXT for found in listed)
    assert all(len(found.message) <= refusals.MAX_PROBLEM_TEXT for found in listed)
    assert sum(len(found.path) + len(found.message) for found in listed) <= refusals.MAX_PROBLEMS_TEXT
    short = [refusals.Problem(code="too_long", path=f"$.{at}", message="m") for at in range(500)]
    assert refusals.limit_problems([*short, *short]) == short[: refusals.MAX_PROBLEMS]
