"""The line of a pipeline in a list."""

from trackside.domain.display.listing import Listed, StreamListing
from trackside.domain.rows.table import ViewRow


class PipelineListing(StreamListing):
    """How pipelines are listed."""

    kind = "pipeline"
    id_column = "pipeline_id"
    listing = (
        "SELECT pipeline_id AS id, name, status, started_at, ended_at, duration_s, "
        "runs - queued_runs - open_runs AS ended, runs AS total, NULL AS best, '' AS tuner, "
        "'version ' || version AS runs FROM pipelines"
    )
    newest = "SELECT * FROM pipelines ORDER BY started_at DESC, pipeline_id LIMIT $1"
    one = "SELECT * FROM pipelines WHERE pipeline_id = $1"

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many of its runs have ended, and which version is the current one."""
        ended = row["runs"] - row["queued_runs"] - row["open_runs"]
        return Listed(f"{ended}/{row['runs']}", runs=f"version {row['version']}")
