"""A mutant of the decisions about runs that the simulator and the verifier both have to find."""

import pytest

from trackside.aggregates.run import decide
from trackside.aggregates.run.state import Run
from trackside.aggregates.run.steps.begin import Room


def any_number_is_open(patch: pytest.MonkeyPatch) -> None:
    may_begin = Run.may_begin

    def lax(run: Run, name: str) -> int | None:
        limit, run.concurrency = run.concurrency, 10_000
        try:
            return may_begin(run, name)
        finally:
            run.concurrency = limit

    patch.setattr(Run, "may_begin", lax)
    patch.setattr(decide, "Room", lambda *_: Room(10_000))
