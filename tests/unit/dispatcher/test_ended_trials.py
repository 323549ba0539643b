"""Trials that are over are known from event to event, exactly as if one had looked for them."""

from random import Random

import pytest

from tests.unit.domain.plausible import Chance
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.state import search_of
from trackside.dispatcher.decisions.ended_trials import Over, over_in
from trackside.domain.outcome import Outcome
from trackside.domain.streams import Streams

HISTORIES = 12


@pytest.mark.thorough
def test_what_is_noted_of_each_event_is_what_a_look_at_all_open_trials_finds() -> None:
    found_some = 0
    for number in range(HISTORIES):
        streams, over, random = Streams(AGGREGATES), Over(), Random(number)
        for record in Chance(Random(number)).history(120).records:
            stream, outcome = streams.fold(record)
            if outcome is Outcome.APPLIED:
                over.note(stream, record.message)
            if random.random() < 0.5:  # as a dispatcher that looks after some events only
                continue
            noted = over.of(stream)
            if search_of(stream) is None or stream.closed:
                assert noted is None
            else:
                assert noted == over_in(stream.root, stream.tasks)
                found_some += bool(noted)
    assert found_some > 2
