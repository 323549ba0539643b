"""Logs recorded once still fold to the same state: what a release decided, every later one decides.

Each file holds the records of one partition, a line each, and at its end the outcomes and the digest of what
the state means. `TRACKSIDE_WRITE_HISTORIES=1` records logs that are missing.
"""

import hashlib
import json
import os
from collections.abc import Callable
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
    "changed_at",
    "asked_at",
    "reported_at",
    "control_at",
    "failed_at",
    "started_at",
    "stopped_at",
    "unended",  # kept for speed: it follows from the rest
    "settled",  # the same, and empty once a reader has forgotten these tasks
    "trimmed",
    "unfinished",
    "commands_at",
    "incarnations",  # to show who had a placement: histories of older releases lack it
}
MORE_CAUSES = {
    "answered": {"offset", "answered_at"},
    "tell_tuner": {"at"},
}  # of a publication, and of parameters to try
ADDED: dict[str, Any] = {
    "limit": None,
    "limit_bytes": 0,
    "largest_limit_bytes": 0,
    "at_memory_limit": False,
    "inputs": {},
    "checkpoint": None,
    "step_limit": None,
    "artifacts": {},
    "models": {},
    "saved": 0,
    "checkpoints": [],
    "checkpoint_version": 0,
    "earlier": [],
    "earlier_beside": None,
    "resumed": None,
    "ready_ms": 0,
    "ready_number": 0,
    "ready": {},
    "instruction": None,
    "acknowledged": 0,
    "acknowledgement": None,
    "crowded": {},
    "from_trial": None,
    "from_checkpoint": None,
    "watches": {},
    "labels": None,
    "carried_out": False,
    "drained": {},
    "parked": None,
    "postponed": None,
    "skipped": [],
    "next_digest": "",
    "trust": None,
    "counted": {},
    "public_key": "",
    "forgotten": None,
}
"""Fields of later releases, and their values in logs of older ones."""
RENAMED = {"assessor_failures": "verdictless"}  # what a field was called when the digests were written
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
    told.tell(assigned(attempt=2))
    told.tell(begun(attempt=2))
    told.tell(report(0, 0.75, attempt=2))
    for event in (asked(attempt=2), over(1, 0.75), within(2), taken(attempt=2)):
        told.tell(event)
    told.tell(report(0, 0.625, attempt=2, requests=1))
    told.tell(ended(attempt=2))
    told.tell(over(2, 0.625))
    told.tell(SearchEnded(status=SearchStatus.DONE, trials=3))
    return told


def troubled(seed: int) -> Told:
    """Tells a search with much that is late, doubled or wrong."""
    return Chance(Random(seed)).history(250)


RECORDED: dict[str, Callable[[], Told]] = {
    "rules-1-whole-search": whole_search,
    "rules-1-one-task": one_task,
    **{f"rules-1-troubled-{seed}": partial(troubled, seed) for seed in range(1, 11)},
}


def lines(told: Told) -> list[Any]:
    records = [
        {
            "offset": record.offset,
            "append_time_ms": record.append_time_ms,
            "headers": {name: octets.decode() for name, octets in record.envelope.headers.items()},
            "value": json.loads(record.message.model_dump_json()),
        }
        for record in told.records
    ]
    return [*records, summary(told.streams, [outcome.value for outcome in told.outcomes])]


def summary(streams: Streams, outcomes: list[str]) -> dict[str, Any]:
    state = json.dumps(meaning(as_it_was(json.loads(dump(streams.by_id[STREAM])))), sort_keys=True)
    return {"outcomes": outcomes, "state_sha256": hashlib.sha256(state.encode()).hexdigest()}


def as_it_was(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a stream's state in the layout that it had when the digests were written."""
    kind, root = state.pop("kind"), state.pop("root") or {}
    del state["closed"]  # followed from the root
    del state["publisher"]  # was not kept
    assert state.pop("children") == {}
    assert [root.pop(name, None) or None for name in ("result", "begun", "open_children")] == [None] * 3
    for command in state["commands"].values():
        problems, refusal, _ = command.pop("problems"), command.pop("refusal"), command.pop("publisher")
        command |= {"problem": next(iter(problems), None), "answer": next(iter(refusal), None)}
        for publication in command["publications"]:
            publication["answered"] = publication["answered_at"] >= 0
    for task in state["tasks"].values():
        part, _ = task.pop("part"), task.pop("continued")
        kind_of_part, number = ("", None) if part is None else (part["kind"], part["number"])
        task |= {each: number if each == kind_of_part else None for each in ("trial", "group")}
        task["name"] = "" if part is None else part["name"]
    assert all(trial.pop("outside") == [] for trial in root.get("trials", ()))
    assert not any(added.pop("partial") for added in root.get("added", ()))
    of_root = {"past": root.pop("assessor_feed", []), "asking": root.pop("asking", [])}
    return state | of_root | {each: root if each == kind else None for each in ("search", "batch")}


def meaning(state: Any) -> Any:
    """Returns what a state means, whatever its classes are like: offsets of causes are left out.

    They say why something was decided, not what is so.
    """
    if isinstance(state, list):
        return [meaning(each) for each in state]
    if not isinstance(state, dict):
        return state
    assert {name: state[name] for name in ADDED if name in state}.items() <= ADDED.items()
    left_out = (
        ADDED.keys() | CAUSES | next((more for mark, more in MORE_CAUSES.items() if mark in state), set())
    )
    return {RENAMED.get(name, name): meaning(value) for name, value in state.items() if name not in left_out}


def recorded(name: str) -> list[Any]:
    path = FOLDER / f"{name}.jsonl"
    if WRITE and not path.exists():
        _write(path, lines(RECORDED[name]()))
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _write(path: Path, written: list[Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in written), "utf-8")


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_recorded_log_folds_to_the_state_it_had(name: str) -> None:
    *records, expected = recorded(name)
    streams, outcomes = Streams(AGGREGATES), []
    for line in records:
        envelope = CODEC.envelope((header, text.encode()) for header, text in line["headers"].items())
        message = CODEC.decode(envelope, json.dumps(line["value"]).encode())
        record = Record("trackside.events", 3, line["offset"], line["append_time_ms"], envelope, message)
        outcomes.append(streams.fold(record)[1].value)
    assert outcomes == expected["outcomes"]
    found = summary(streams, outcomes)
    assert found == expected


def test_the_recorded_logs_hold_what_is_worth_holding() -> None:
    seen = {line["headers"]["ce_type"] for name in RECORDED for line in recorded(name)[:-1]}
    outcomes = {outcome for name in RECORDED for outcome in recorded(name)[-1]["outcomes"]}
    assert len(seen) >= 17
    assert outcomes == {"applied", "duplicate", "overtaken"}
    assert sorted(path.stem for path in FOLDER.glob("*.jsonl")) == sorted(RECORDED)
