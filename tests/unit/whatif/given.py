"""Recordings of a few trials, made up for the tests of what-if."""

from typing import Any

from trackside.aggregates.search.messages import TrialStatus
from trackside.whatif.recording import Recording, TrialTrace

MEDIAN = {"name": "median", "options": {"n_startup_trials": 2}}


def trace(number: int, values: list[float], **changed: Any) -> TrialTrace:
    """Returns a trial that reports each of its values after 1 s, and ends 1 s after the last one."""
    fields: dict[str, Any] = {"number": number, "parameters": {"x": number}}
    fields |= {"status": TrialStatus.SUCCEEDED, "value": values[-1] if values else None, "devices": 1}
    fields |= {"began_ms": 0, "busy_ms": 1000 * (len(values) + 1), "suggestion_delay_ms": 0}
    fields |= {"placement_delay_ms": 0, "release_delay_ms": 0}
    fields |= {"points": tuple((1000 * (at + 1), at, value) for at, value in enumerate(values))}
    return TrialTrace(**{**fields, **changed})


def recorded(*traces: TrialTrace, **changed: Any) -> Recording:
    began_ms, placed = 0, []
    for one in traces:
        values: dict[str, Any] = {name: getattr(one, name) for name in TrialTrace.__dataclass_fields__}
        placed.append(TrialTrace(**{**values, "began_ms": began_ms}))
        began_ms += one.busy_ms
    fields: dict[str, Any] = {"stream_id": "digits-1", "direction": "maximize", "seed": 7, "assessor": None}
    fields |= {"concurrency": 1, "traces": tuple(placed), "makespan_ms": began_ms, "devices": 1}
    fields |= {"stop_delay_ms": 100, "stops_recorded": 0, "omitted_trials": 0}
    return Recording(**{**fields, **changed})


GOOD, BAD = [0.5, 0.6, 0.7, 0.8], [0.1, 0.1, 0.1, 0.1]
