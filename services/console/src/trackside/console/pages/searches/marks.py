"""What happened to a search while it ran, as marks in its charts: commands of users, and assessor's stops."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.projections.pages.search_verdicts import verdict_times
from trackside.projections.reading.read_pool import SnapshotModels

MOST_STOPS = 40
"""How many marks of the assessor a chart has: where there are more stops, one mark is for those of a span."""
COMMANDS = ("pause", "resume", "stop", "update", "add-trial", "import-trials", "request-trials")
"""What the names of commands begin with whose time is marked in charts of a search."""
Mark = Mapping[str, Any]


async def marks_of_search(models: SnapshotModels, search_id: str) -> list[Mark]:
    """Returns {time, text, kind} of accepted commands and of the assessor's stops, time in ms since 1970."""
    commands = await models.rows("commands", search_id)
    found: list[Mark] = [
        {
            "time": each["received_at"].timestamp() * 1000,
            "text": " by ".join(filter(None, (name, each["publisher"]))),
            "kind": name,
        }
        for each in commands
        if each["status"] == "accepted" and (name := short_command(each["command_type"])).startswith(COMMANDS)
    ]
    return sorted([*found, *_stops(await verdict_times(models, search_id))], key=lambda each: each["time"])


def short_command(command_type: str) -> str:
    """Returns the name of a command without what all of them have: `pause`."""
    return command_type.removeprefix("trackside.").rpartition(".")[0].removesuffix("-search")


def _stops(times: NDArray[np.float64]) -> list[Mark]:
    if not len(times):
        return []
    spans = np.array_split(times, min(MOST_STOPS, len(times)))
    return [
        {
            "time": float(span[0]),
            "text": "the assessor stopped " + ("a trial" if len(span) == 1 else f"{len(span):,} trials"),
            "kind": "early_stopped",
        }
        for span in spans
    ]


def placed(marks: Sequence[Mark], xs: NDArray[Any], times: NDArray[Any]) -> list[Mark]:
    """Returns the marks within the times of a curve, each with the `x` of the first point at or after it."""
    order = np.argsort(times, kind="stable")
    known = times[order]
    within = [each for each in marks if len(known) and known[0] <= each["time"] <= known[-1]]
    return [{**each, "x": float(xs[order[np.searchsorted(known, each["time"])]])} for each in within]
