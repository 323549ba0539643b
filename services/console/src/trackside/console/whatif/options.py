"""What a what-if may change of a recorded stream, as the fields of a form: texts that become grids."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

from trackside.replay.history.errors import BadScenarioError
from trackside.whatif.compare import ScenarioGrid, compare, parse_assessor, parse_placement_order
from trackside.whatif.job_comparison import JobGrid, compare_job
from trackside.whatif.job_recording import JobRecording
from trackside.whatif.job_scenario import parse_deploy_trigger
from trackside.whatif.read_stream import AnyRecording
from trackside.whatif.resimulate import PLACEMENT_ORDERS
from trackside.whatif.run_comparison import ON_END, RunGrid, compare_run
from trackside.whatif.run_recording import RunRecording

WhatIfFields = Mapping[str, str]
"""The text of each field; values of a list are separated by commas, those that may have some by lines."""
MAX_TEXT = 4_000
MOST_WORKERS, MOST_SLOTS, MOST_AT_ONCE = 100_000, 64, 10_000
KINDS = ("search", "run", "rounds")
"""The kinds of streams that have a what-if."""
_FLEET = ("workers", "slots", "policies", "concurrency")
FIELDS: Mapping[str, Sequence[str]] = {
    "search": ("assessors", *_FLEET),
    "run": ("on_end", *_FLEET),
    "rounds": ("thresholds", "metric", "train_thresholds", "train_probs", "deploy_triggers"),
}
"""The fields of each kind."""
LABELS: Mapping[str, tuple[str, str]] = {
    "assessors": (
        "Early-stopping rules",
        "one a line, such as median or median:n_warmup_steps=5; empty: as recorded",
    ),
    "on_end": ("What follows a step that fails", f"any of {', '.join(ON_END)}, separated by commas"),
    "workers": ("Workers", "numbers of workers to compare, such as 1, 4, 8; empty: as recorded"),
    "slots": ("Devices of each worker", f"1 to {MOST_SLOTS}"),
    "policies": ("Orders of the queue", f"any of {', '.join(PLACEMENT_ORDERS)}, separated by commas"),
    "concurrency": ("At once", f"how many run at once, 1 to {MOST_AT_ONCE:,}; empty: as recorded"),
    "thresholds": ("Thresholds of the deploy condition", "numbers such as 0.02, 0.05"),
    "metric": ("Metric of the thresholds", "its name, if there are several"),
    "train_thresholds": ("Thresholds of the train trigger", "numbers of samples such as 100, 500"),
    "train_probs": ("Shares of the samples for training", "from 0 to 1, such as 0.8, 0.9"),
    "deploy_triggers": ("Deploy triggers", "one a line, as JSON"),
}
"""Label and help of each field."""
LINES = frozenset({"assessors", "deploy_triggers"})
"""The fields whose values are lines."""
N = TypeVar("N", int, float)


def result_of(recording: AnyRecording, fields: WhatIfFields) -> dict[str, object]:
    """Returns the comparison of a recording with the scenarios of fields as JSON; raises BadScenarioError."""
    if isinstance(recording, RunRecording):
        return compare_run(recording, run_grid(fields)).as_json()
    if isinstance(recording, JobRecording):
        return compare_job(recording, job_grid(fields)).as_json()
    return compare(recording, search_grid(fields)).as_json()


def search_grid(fields: WhatIfFields) -> ScenarioGrid:
    """Returns the scenarios of a search; raises BadScenarioError."""
    return ScenarioGrid(
        [parse_assessor(text) for text in _lines(fields, "assessors")],
        _numbers(fields, "workers", int, 1, MOST_WORKERS),
        _number(fields, "slots", 1, MOST_SLOTS) or 1,
        [parse_placement_order(text) for text in _listed(fields, "policies")],
        _number(fields, "concurrency", 1, MOST_AT_ONCE),
    )


def run_grid(fields: WhatIfFields) -> RunGrid:
    """Returns the scenarios of a run of a pipeline; raises BadScenarioError."""
    ends = _listed(fields, "on_end")
    for text in ends:
        if text not in ON_END:
            raise BadScenarioError(f"{text!r} can't follow a step that fails: expected {', '.join(ON_END)}")
    return RunGrid(
        _numbers(fields, "workers", int, 1, MOST_WORKERS),
        _number(fields, "slots", 1, MOST_SLOTS) or 1,
        [parse_placement_order(text) for text in _listed(fields, "policies")],
        [action for action in ON_END if action in ends],
        _number(fields, "concurrency", 1, MOST_AT_ONCE),
    )


def job_grid(fields: WhatIfFields) -> JobGrid:
    """Returns the scenarios of an incremental job; raises BadScenarioError."""
    return JobGrid(
        _numbers(fields, "thresholds", float, -1e300, 1e300),
        fields.get("metric", "").strip(),
        [parse_deploy_trigger(text) for text in _lines(fields, "deploy_triggers")],
        _numbers(fields, "train_thresholds", float, 0, 1e300),
        _numbers(fields, "train_probs", float, 0, 1),
    )


def _lines(fields: WhatIfFields, name: str) -> list[str]:
    return [line.strip() for line in fields.get(name, "").splitlines() if line.strip()]


def _listed(fields: WhatIfFields, name: str) -> list[str]:
    return [each.strip() for each in fields.get(name, "").split(",") if each.strip()]


def _numbers(fields: WhatIfFields, name: str, kind: type[N], lowest: float, highest: float) -> list[N]:
    found = []
    for text in _listed(fields, name):
        try:
            number = kind(json.loads(text))
        except (ValueError, TypeError):
            raise BadScenarioError(f"{LABELS[name][0]}: {text!r} is not a number") from None
        if not lowest <= number <= highest:
            raise BadScenarioError(f"{LABELS[name][0]}: {text}; expected {lowest:,g} to {highest:,g}")
        found.append(number)
    return found


def _number(fields: WhatIfFields, name: str, lowest: int, highest: int) -> int | None:
    found = _numbers(fields, name, int, lowest, highest)
    if len(found) > 1:
        raise BadScenarioError(f"{LABELS[name][0]}: {len(found)} numbers; expected one")
    return found[0] if found else None
