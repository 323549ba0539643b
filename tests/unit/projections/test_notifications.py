import json

import pytest

from trackside.projections.database.notifications import (
    MAX_BYTES,
    MAX_STREAMS_WAITING,
    Changes,
    changes_of,
    notification,
)

TOPIC = "trackside.events"


def test_a_notification_names_positions_and_streams() -> None:
    payload = notification("trackside", "dispatcher", {(TOPIC, 2): 9}, {"b", "a"})
    assert json.loads(payload)["positions"] == {"trackside.events-2": 9}
    expected = Changes(frozenset({"dispatcher"}), {("dispatcher", TOPIC, 2): 9}, frozenset({"a", "b"}))
    assert changes_of(payload, "trackside") == expected


def test_streams_that_are_many_or_have_long_ids_are_left_out_first_and_then_the_positions() -> None:
    for streams in ([f"s{at}" for at in range(101)], [f"{at:04}" + "ü" * 200 for at in range(50)]):
        payload = notification("trackside", "dispatcher", {(TOPIC, 0): 1}, streams)
        assert len(payload.encode()) <= MAX_BYTES
        found = changes_of(payload, "trackside")
        assert found is not None and found.streams is None and found.positions
    many = {(TOPIC, partition): 10**9 for partition in range(1_000)}
    payload = notification("trackside", "dispatcher", many, ["a"])
    assert len(payload.encode()) <= MAX_BYTES
    assert changes_of(payload, "trackside") == Changes(frozenset({"dispatcher"}), {}, None)
    assert changes_of(payload, "other") is None


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "x",
        "[" * 7_000,
        "null",
        "[]",
        '{"schema": "trackside"}',
        '{"schema": "trackside", "owner": "x", "positions": {"x-y": 1}, "streams": null}',
        '{"schema": "trackside", "owner": "x", "positions": {"x-1": []}, "streams": null}',
        '{"schema": "trackside", "owner": "x", "positions": {}, "streams": 1}',
    ],
)
def test_a_notification_that_somebody_else_sent_is_ignored(payload: str) -> None:
    assert changes_of(payload, "trackside") is None


def test_changes_that_wait_are_one_with_the_newest_positions() -> None:
    first = Changes(frozenset("x"), {("x", TOPIC, 0): 5, ("x", TOPIC, 1): 5}, frozenset("a"))
    later = Changes(frozenset("y"), {("x", TOPIC, 0): 7}, frozenset("b"))
    positions = {("x", TOPIC, 0): 7, ("x", TOPIC, 1): 5}
    assert first.followed_by(later) == Changes(frozenset("xy"), positions, frozenset("ab"))
    assert first.followed_by(Changes()).streams is None
    assert Changes().followed_by(first).streams is None
    full = Changes(streams=frozenset(str(at) for at in range(MAX_STREAMS_WAITING)))
    assert full.followed_by(Changes(streams=frozenset("0"))).streams is not None
    assert full.followed_by(Changes(streams=frozenset(("new",)))).streams is None
