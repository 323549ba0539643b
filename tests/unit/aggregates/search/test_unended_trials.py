"""Trials whose task has ended are known from event to event, as if one had looked for them."""

from random import Random

import pytest

from tests.unit.domain.plausible import Chance
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.state import search_of
from trackside.domain.streams import Streams
from trackside.domain.task import TaskState

HISTORIES = 12


@pytest.mark.thorough
def test_what_is_kept_from_event_to_event_is_what_a_look_at_all_open_trials_finds() -> None:
    found_some = 0
    for number in range(HISTORIES):
        streams = Streams(AGGREGATES)
        for record in Chance(Random(number)).history(120).records:
            stream, _ = streams.fold(record)
            search = search_of(stream)
            if search is not None and not search.closed:
                named = ((trial, stream.tasks.get(search.task_of(trial))) for trial in search.active)
                ended = {trial for trial, task in named if task is not None and task.state is TaskState.ENDED}
                assert search.unended == ended
                found_some += bool(ended)
    assert found_some > 2
