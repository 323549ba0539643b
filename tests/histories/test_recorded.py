"""Logs recorded once still fold to the same state: what a release decided, every later one decides.

A type of events that is new wants a history in which it has an effect: `python -m tests.histories.record`
records the logs of tests.
"""

import json

import pytest

from tests.histories.recorded import differences, fold, names, read
from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Event, Message
from trackside.contracts.fleet.fleet import LaneBacklogged, LaneCleared

WITHOUT_EFFECT: set[type[Message]] = {LaneBacklogged, LaneCleared}
"""Events of older releases on which no state depends."""


@pytest.mark.parametrize("name", names())
async def test_a_recorded_log_folds_to_the_state_it_had(name: str) -> None:
    history = read(name)
    folded = await fold(history)
    assert list(differences(history.end, json.loads(json.dumps(folded.end())))) == []


async def test_every_type_of_events_has_an_effect_in_a_recorded_log() -> None:
    effective: set[type[Message]] = {kind for name in names() for kind in (await fold(read(name))).effective}
    missing = {kind for kind in CODEC.messages if issubclass(kind, Event)} - effective - WITHOUT_EFFECT
    assert missing == set(), "record a history with them, see tests/histories/record.py"
    written = {dict(entry.headers)["ce_type"] for name in names() for entry in read(name).entries}
    assert {kind.wire_type().encode() for kind in WITHOUT_EFFECT} <= written


def test_the_recorded_logs_have_every_outcome() -> None:
    outcomes = {outcome for name in names() for outcome in read(name).end["outcomes"]}
    assert outcomes == {"applied", "duplicate", "overtaken", "parked", "unreadable"}
