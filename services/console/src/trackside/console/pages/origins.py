"""Reruns and forks next to what they were made from: what changed, and trials or steps side by side."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from trackside.console.web.page import PageRequest
from trackside.domain.rows.table import ViewRow
from trackside.eventlog.errors import TransientError
from trackside.projections.pages.run_steps import StepFilter, read_steps
from trackside.projections.pages.trials_page import TrialFilter, read_trials_page
from trackside.replay.history.errors import SilentLogError
from trackside.replay.history.origins import RecordedOrigin, read_origin

MOST = 200
"""How many trials or steps of each are shown."""
LOG_LIMIT_S = 3.0
"""How long the log may take to say what a stream was made from: the rest of the page needs no log."""
KINDS = ("search", "run")


@dataclass(frozen=True, slots=True)
class Side:
    """A trial or step on one side: its value (of a step: how long it took, s), status and address."""

    value: float | None
    status: str
    address: str


@dataclass(frozen=True, slots=True)
class SidePair:
    """A trial or step with the same number, or name, on both sides; None where a side has none."""

    name: str
    before: Side | None
    after: Side | None
    same_parameters: bool

    @property
    def difference(self) -> float | None:
        """Its value after, minus that before."""
        if self.before is None or self.after is None:
            return None
        if self.before.value is None or self.after.value is None:
            return None
        return self.after.value - self.before.value


@dataclass(frozen=True, slots=True)
class Derivation:
    """A rerun or fork, what it was made from, what changed in the definition, and the parts of both."""

    id: str
    kind: str
    origin: RecordedOrigin
    changed: Sequence[tuple[str, Any, Any]]
    pairs: Sequence[SidePair]
    is_cut: bool


async def read_derivations(
    request: PageRequest, kinds: Mapping[str, str], definitions: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Derivation], str]:
    """Returns which of the compared were made from another of them, and why that is not known, if so."""
    found: list[Derivation] = []
    try:
        async with asyncio.timeout(LOG_LIMIT_S):
            origins = {each: await _origin(request, each) for each in kinds if kinds[each] in KINDS}
    except (TransientError, SilentLogError, TimeoutError):
        return [], "Kafka does not answer, so it is not known which of them is a rerun or fork of another"
    for each, origin in origins.items():
        if origin is None or kinds.get(origin.stream) != kinds[each]:
            continue
        before, after = definitions[origin.stream], definitions[each]
        names = dict.fromkeys([*before, *after])
        changed = [(name, before.get(name), after.get(name)) for name in names]
        read = _trials if kinds[each] == "search" else _steps
        pairs = _paired(await read(request, origin.stream), await read(request, each))
        found.append(
            Derivation(
                each,
                kinds[each],
                origin,
                [(name, old, new) for name, old, new in changed if old != new],
                pairs[:MOST],
                len(pairs) >= MOST,
            )
        )
    return found, ""


async def _origin(request: PageRequest, stream_id: str) -> RecordedOrigin | None:
    place = await request.models.row("stream_place", stream_id)
    if place is None:
        return None
    at = (place["partition"], place["first_offset"], place["last_offset"])
    return await read_origin(request.log, request.topics, stream_id, *at)


Sides = Mapping[str, tuple[Side, Any]]
"""Sides by the number or name of the part, with what its parameters are."""


async def _trials(request: PageRequest, search_id: str) -> Sides:
    found = await read_trials_page(request.models, search_id, TrialFilter(limit=MOST))
    return {
        str(each["trial"]): (
            Side(each["value"], str(each["status"]), _address(search_id, each["task_id"])),
            each["parameters"],
        )
        for each in found.rows
    }


async def _steps(request: PageRequest, run_id: str) -> Sides:
    rows: list[ViewRow] = await read_steps(request.models, StepFilter(run_id, limit=MOST))
    base = f"/experiments/{quote(run_id, safe='')}/steps"
    return {
        str(each["step"]): (
            Side(each["took_s"], str(each["state"]), f"{base}/{quote(each['step'], safe='')}"),
            each["resolved"],
        )
        for each in rows
    }


def _address(stream_id: str, task_id: str) -> str:
    return f"/tasks/{quote(stream_id, safe='')}/{quote(task_id, safe='')}"


def _paired(before: Sides, after: Sides) -> list[SidePair]:
    """Returns the parts of both, in the order of the first, then those that only the second has."""
    pairs = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        is_same = old is not None and new is not None and old[1] == new[1]
        pairs.append(SidePair(name, old and old[0], new and new[0], is_same))
    return pairs
