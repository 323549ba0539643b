"""What people see of a repeat: how many of its runs have ended."""

from collections.abc import Mapping
from typing import ClassVar

from tests.aggregates.repeat.state import Repeat
from trackside.domain.display.view import Listed, Progress, View
from trackside.domain.stream import Stream
from trackside.domain.table import ViewRow


class RepeatView(View[Repeat]):
    """What people see of a repeat."""

    id_column = "repeat_id"
    listing = (
        "SELECT repeat_id AS id, name, status, started_at, ended_at, duration_s, ended, times AS total, "
        "NULL AS best, '' AS tuner, name AS runs FROM repeats"
    )
    queries: ClassVar[Mapping[str, str]] = {
        "newest": "SELECT * FROM repeats ORDER BY started_at DESC, repeat_id LIMIT $1",
        "one": "SELECT * FROM repeats WHERE repeat_id = $1",
    }

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many runs have ended, and its name."""
        return Listed(f"{row['ended']}/{row['times']}", runs=row["name"])

    def progress(self, stream: Stream[Repeat]) -> Progress:
        """Returns how many runs have ended."""
        repeat = stream.root
        ended_ms = repeat.ended_ms if repeat.over else 0
        return Progress(repeat.status.value, repeat.started_ms, ended_ms, repeat.ended, repeat.times, "runs")
