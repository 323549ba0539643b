"""The line of a summary job in a list."""

from trackside.domain.display.listing import Listed, StreamListing
from trackside.domain.rows.table import ViewRow


class SummaryListing(StreamListing):
    """How summary jobs are listed."""

    kind = "summary"
    id_column = "summary_id"
    listing = (
        "SELECT summary_id AS id, name, status, started_at, ended_at, duration_s, files AS ended, "
        "NULL AS total, NULL AS best, '' AS tuner, trim(base || ' ' || path) AS runs FROM summary_jobs "
        "WHERE status <> 'DELETED'"
    )
    newest = (
        "SELECT * FROM summary_jobs WHERE status <> 'DELETED' ORDER BY started_at DESC, summary_id LIMIT $1"
    )
    one = "SELECT * FROM summary_jobs WHERE summary_id = $1"

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many files it has, and where they are."""
        return Listed(str(row["files"]), runs=f"{row['base']} {row['path']}".strip())
