"""The line of a run in a list."""

from trackside.domain.display.listing import Listed, StreamListing
from trackside.domain.rows.table import ViewRow


class RunListing(StreamListing):
    """How runs are listed."""

    kind = "run"
    id_column = "run_id"
    listing = (
        "SELECT run_id AS id, name, status, started_at, ended_at, duration_s, ended_steps AS ended, "
        "steps AS total, NULL AS best, '' AS tuner, coalesce('pipeline ' || pipeline_id, 'pipeline') AS runs "
        "FROM runs"
    )
    newest = (
        "SELECT run_id, name, status, steps, ended_steps, progress, started_at, ended_at, "
        "duration_s, stop_reason FROM runs ORDER BY started_at DESC, run_id LIMIT $1"
    )
    one = "SELECT * FROM runs WHERE run_id = $1"

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many steps have ended."""
        return Listed(f"{row['ended_steps']}/{row['steps']}", runs="pipeline")
