"""The ledger of costs: what a piece of each kind of work may cost, in counts that hold on any machine."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.costs.counting import BATCH, IDLE, PROCESS, STEP, WARM, Counts

PATH = Path(__file__).parent / "ledger.json"
COMMAND = ".venv/bin/python -m tests.costs --write"
STEADY = {WARM: 0.05, BATCH: 0.05, PROCESS: 0.1, STEP: 0.15}
"""How far a count that is the same in each run may be from the ledger, up or down; few pieces: less exact."""
LOOSE = 0.3
"""How far one that depends on time may be above it."""
BUSY = 0.75
"""How far wake-ups may be above it: on a busy machine less is ready at once."""
LEAST = {WARM: 0.1, BATCH: 0.1, PROCESS: 0.4, STEP: 1.0, IDLE: 0.3}
"""A difference that is smaller never counts: it is a few occurrences in all."""
TIMES = {"function calls": 500.0, "bytes": 100.0, "wake-ups": 3.0}
"""How many times as many of these one occurrence may be, such as a heartbeat that came in between."""
_BY_TIME = ("SQL", "synced", "list_offsets", "metadata", "heartbeats", "wake-ups")
"""What depends on how long the work takes, or on what happens at once meanwhile."""
_BYSTANDERS = tuple(
    f"{what} of {each}" for what in ("calls", "wake-ups") for each in ("console", "summary_indexer")
)
"""What services do that have no part in the work: its difference to an idle second is chance."""
_IN_A_BATCH = ("records", "bytes", "made", "removed")
"""What does not depend on that where much is done at once."""


def allowed(work: str, what: str) -> tuple[float, float] | None:
    """Returns by which shares a count may be below and above the ledger; None if it is only shown."""
    by_time = any(each in what for each in _BY_TIME)
    if work != IDLE and what.endswith(_BYSTANDERS):
        return None
    if work == IDLE or (work == WARM and by_time):
        return 1.0, BUSY if "wake-ups" in what else LOOSE
    if by_time or (work == BATCH and not any(each in what for each in _IN_A_BATCH)):
        return None
    return STEADY[work], STEADY[work]


def read() -> dict[str, Counts]:
    """Returns the ledger, by work."""
    return json.loads(PATH.read_text())  # type: ignore[no-any-return]


def write(table: Mapping[str, Counts]) -> None:
    """Replaces the ledger; what is only shown, or nearly nothing, is left out."""
    rounded = {
        work: {
            what: round(count, 2)
            for what, count in sorted(counts.items())
            if count >= LEAST[WARM] / 2 and allowed(work, what)
        }
        for work, counts in table.items()
    }
    PATH.write_text(json.dumps(rounded, indent=2) + "\n")


def differences(known: Mapping[str, Counts], found: Mapping[str, Counts]) -> list[str]:
    """Returns a sentence for each count that is not the one of the ledger."""
    return [
        f"{work}: {what}: {count:.2f}, the ledger has {before:.2f}"
        for work in sorted(known.keys() | found.keys())
        for what in sorted(known.get(work, {}).keys() | found.get(work, {}).keys())
        if _differ(
            work,
            what,
            before := known.get(work, {}).get(what, 0.0),
            count := found.get(work, {}).get(what, 0.0),
        )
    ]


def _differ(work: str, what: str, before: float, count: float) -> bool:
    shares = allowed(work, what)
    if shares is None:
        return False
    least = LEAST[work] * next((times for kind, times in TIMES.items() if kind in what), 1.0)
    below, above = (max(least, share * before) for share in shares)
    return not before - below <= count <= before + above
