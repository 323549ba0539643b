"""The line of a search in a list."""

from trackside.domain.display.listing import Listed, StreamListing
from trackside.domain.rows.table import ViewRow


class SearchListing(StreamListing):
    """How searches are listed."""

    kind = "search"
    id_column = "search_id"
    listing = (
        "SELECT search_id AS id, name, status, started_at, ended_at, duration_s, ended_trials AS ended, "
        "max_trials AS total, best_value AS best, tuner, task_type AS runs FROM searches"
    )
    newest = "SELECT * FROM searches ORDER BY started_at DESC, search_id LIMIT $1"
    one = "SELECT * FROM searches WHERE search_id = $1"

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many trials have ended, the best value, the tuner and the task type."""
        ended = f"{row['ended_trials']}/{row['max_trials']}"
        return Listed(ended, row["best_value"], row["tuner"], row["task_type"])
