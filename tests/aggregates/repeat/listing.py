"""The line of a repeat in a list."""

from trackside.domain.display.listing import Listed, StreamListing
from trackside.domain.rows.table import ViewRow


class RepeatListing(StreamListing):
    """How repeats are listed."""

    kind = "repeat"
    id_column = "repeat_id"
    listing = (
        "SELECT repeat_id AS id, name, status, started_at, ended_at, duration_s, ended, times AS total, "
        "NULL AS best, '' AS tuner, name AS runs FROM repeats"
    )
    newest = "SELECT * FROM repeats ORDER BY started_at DESC, repeat_id LIMIT $1"
    one = "SELECT * FROM repeats WHERE repeat_id = $1"

    def listed(self, row: ViewRow) -> Listed:
        return Listed(f"{row['ended']}/{row['times']}", runs=row["name"])
