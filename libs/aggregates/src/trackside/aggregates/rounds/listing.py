"""The line of an incremental job in a list."""

from trackside.domain.display.listing import Listed, StreamListing
from trackside.domain.rows.table import ViewRow


class IncrementalJobListing(StreamListing):
    """How incremental jobs are listed."""

    kind = "rounds"
    id_column = "job_id"
    listing = (
        "SELECT job_id AS id, coalesce(nullif(name, ''), dataset) AS name, status, started_at, ended_at, "
        "duration_s, ended_rounds AS ended, NULL AS total, NULL AS best, '' AS tuner, "
        "live_model || '@' || live_version || ' live' AS runs FROM incremental_jobs"
    )
    newest = (
        "SELECT job_id, coalesce(nullif(name, ''), dataset) AS name, status, ended_rounds, stage, "
        "stage_state, live_model, live_version, started_at, ended_at, duration_s FROM incremental_jobs "
        "ORDER BY started_at DESC, job_id LIMIT $1"
    )
    one = (
        "SELECT incremental_jobs.*, live.uri AS live_url, trained.uri AS trained_url "
        "FROM incremental_jobs "
        "LEFT JOIN model_versions live ON (live.model_id, live.version) = (live_model, live_version) "
        "LEFT JOIN model_versions trained ON (trained.model_id, trained.version) = (model, trained_version) "
        "WHERE job_id = $1"
    )

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many rounds have ended, and which version is live."""
        return Listed(str(row["ended_rounds"]), runs=f"{row['live_model']}@{row['live_version']} live")
