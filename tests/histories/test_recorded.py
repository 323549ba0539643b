"""Logs recorded once still fold to the same state: what a release decided, every later one decides.

Each file holds the records of one partition, a line each, and at its end the outcomes and the state, without
the offsets of causes. `TRACKSIDE_WRITE_HISTORIES=1` records logs that are missing.
"""

import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.unit.domain.given import (
    STREAM,
    Told,
    assigned,
    begun,
    ended,
    finish,
    over,
    report,
    search_running,
    submitted,
    suggested,
)
from tests.unit.domain.plausible import Chance
from tests.unit.domain.test_task_reuse import asked, going_on, taken, within
from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.aggregates.search.messages import SearchEnded, SearchStatus
from trackside.contracts.message import Record
from trackside.contracts.tasks import AttemptEnd
from trackside.domain.streams import Streams, dump

CAUSES = {
    *("changed_at", "asked_at", "reported_at", "control_at", "failed_at", "started_at", "stopped_at"),
    *("unended", "settled", "trimmed", "unfinished", "commands_at", "incarnations"),
}
"""Fields that say why something was decided, not what is so, or that are kept for speed or to be shown."""
FOLDER = Path(__file__).parent
WRITE = bool(os.environ.get("TRACKSIDE_WRITE_HISTORIES"))


def whole_search() -> Told:
    """Tells a search without any trouble from its command to its end."""
    told = search_running(max_trials=3)
    for trial, value in enumerate((0.5, 0.75, 0.625)):
        told.tell(suggested(trial), submitted(trial))
        finish(told, trial, value)
    told.tell(SearchEnded(status=SearchStatus.DONE, trials=3))
    return told


def one_task() -> Told:
    """Tells a search whose trials go on in one task, which is lost in the middle."""
    told = going_on(max_trials=3)
    told.tell(ended(AttemptEnd.LOST), role="scheduler")
    again = [assigned(attempt=2), begun(attempt=2), report(0, 0.75, attempt=2), asked(attempt=2)]
    last = [over(1, 0.75), within(2), taken(attempt=2), report(0, 0.625, attempt=2, requests=1)]
    end = [ended(attempt=2), over(2, 0.625), SearchEnded(status=SearchStatus.DONE, trials=3)]
    for event in (*again, *last, *end):
        told.tell(event)
    return told


def troubled(seed: int) -> Told:
    """Tells a search with much that is late, doubled or wrong."""
    return Chance(Random(seed)).history(250)


RECORDED: dict[str, Callable[[], Told]] = {
    "rules-1-whole-search": whole_search,
    "rules-1-one-task": one_task,
    **{f"rules-1-troubled-{seed}": partial(troubled, seed) for seed in range(1, 11)},
}


def meaning(state: Any) -> Any:
    """Returns what a state says, without causes."""
    if isinstance(state, list):
        return [meaning(each) for each in state]
    if not isinstance(state, dict):
        return state
    return {name: meaning(value) for name, value in state.items() if name not in CAUSES}


def differences(was: Any, now: Any, path: str = "$") -> Iterable[str]:
    """Yields where a state is another one than it was; a later release may have more fields."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name, value in was.items():
            yield from differences(value, now.get(name, "nothing"), f"{path}.{name}")
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for at, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from differences(one, other, f"{path}[{at}]")
    elif was != now:
        yield f"{path} was {was}, is {now}"


def end(streams: Streams, outcomes: list[str]) -> dict[str, Any]:
    return {"outcomes": outcomes, "state": meaning(json.loads(dump(streams.by_id[STREAM])))}


def recorded(name: str) -> list[Any]:
    path = FOLDER / f"{name}.jsonl"
    if WRITE and not path.exists():
        told = RECORDED[name]()
        records = [
            {
                "offset": record.offset,
                "append_time_ms": record.append_time_ms,
                "headers": {header: octets.decode() for header, octets in record.envelope.headers.items()},
                "value": json.loads(record.message.model_dump_json()),
            }
            for record in told.records
        ]
        lines = [*records, end(told.streams, [outcome.value for outcome in told.outcomes])]
        path.write_text("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines), "utf-8")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_recorded_log_folds_to_the_state_it_had(name: str) -> None:
    *records, expected = recorded(name)
    streams, outcomes = Streams(AGGREGATES), []
    for line in records:
        envelope = CODEC.envelope((header, text.encode()) for header, text in line["headers"].items())
        message = CODEC.decode(envelope, json.dumps(line["value"]).encode())
        record = Record("trackside.events", 3, line["offset"], line["append_time_ms"], envelope, message)
        outcomes.append(streams.fold(record)[1].value)
    assert list(differences(expected, end(streams, outcomes))) == []


def test_the_recorded_logs_hold_what_is_worth_holding() -> None:
    seen = {line["headers"]["ce_type"] for name in RECORDED for line in recorded(name)[:-1]}
    outcomes = {outcome for name in RECORDED for outcome in recorded(name)[-1]["outcomes"]}
    assert len(seen) >= 17
    assert outcomes == {"applied", "duplicate", "overtaken"}
    assert sorted(path.stem for path in FOLDER.glob("*.jsonl")) == sorted(RECORDED)
