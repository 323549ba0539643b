"""A user's tuner that thinks for seconds delays no status event, of its own search or of another.

The delays are read off the log: from the end of an attempt to the end of its trial, which is what the
dispatcher makes of it.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.dispatcher.users_package import laid
from tests.unit.dispatcher import playing
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchEnded, TrialEnded, TrialSuggested
from trackside.contracts.tasks import AttemptEnded
from trackside.dispatcher.lanes import Lane
from trackside.eventlog.decode import decode

THINKS_S = 5.0
QUICK = 60
"""Trials of the other search."""
PACKAGE = f"""
import random
import threading


class Slow:
    def __init__(self, space, options, direction):
        pass

    def suggest(self, history, number, seed):
        threading.Event().wait({THINKS_S})
        return {{"x": random.Random(seed).random()}}
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs the package for this process and its children."""
    with laid(tmp_path, monkeypatch, "slow", PACKAGE, "[trackside.tuners]\nslow = slow:Slow\n"):
        yield


def ends(stream: str, record: Record) -> bool:
    """Says whether an event is the end of a search."""
    return isinstance(record.message, SearchEnded) and record.envelope.stream == stream


@pytest.mark.thorough
async def test_d03_a_tuner_that_thinks_for_five_seconds_delays_no_end_of_any_trial() -> None:
    log = await playing.new_log()
    space = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
    await playing.publish(log, "slow", space=space, tuner={"name": "slow"}, max_trials=3, concurrency=3)
    await playing.publish(log, "quick", space=space, tuner={"name": "random"}, max_trials=QUICK)
    own = Lane("own-tuner", timeout_s=playing.LIMIT_S)
    async with playing.dispatcher(log, own), playing.fleet(log, lambda parameters: parameters["x"]):
        for stream in ("quick", "slow"):
            await playing.until(log, partial(ends, stream))
    attempts, delays = dict[str, int](), defaultdict[str, list[int]](list)
    suggested: list[int] = []
    for record in map(decode, await playing.written(log)):
        assert record is not None
        stream, message = record.envelope.stream, record.message
        if isinstance(message, AttemptEnded):
            attempts[message.task_id] = record.append_time_ms
        elif isinstance(message, TrialEnded):
            delays[stream].append(record.append_time_ms - attempts[f"{stream}.{message.trial}"])
        elif isinstance(message, TrialSuggested) and stream == "slow":
            suggested.append(record.append_time_ms)
    assert {stream: len(found) for stream, found in delays.items()} == {"slow": 3, "quick": QUICK}
    gaps = [later - earlier for earlier, later in pairwise(suggested)]
    assert min(gaps) >= THINKS_S * 1000, "the tuner was busy all the time"
    assert max(delays["slow"] + delays["quick"]) < THINKS_S * 1000 / 2
