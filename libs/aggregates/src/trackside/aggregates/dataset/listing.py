"""The line of a dataset in a list."""

from trackside.domain.display.listing import Listed, StreamListing
from trackside.domain.rows.table import ViewRow


class DatasetListing(StreamListing):
    """How datasets are listed."""

    kind = "dataset"
    id_column = "dataset_id"
    listing = (
        "SELECT dataset_id AS id, name, status, started_at, ended_at, duration_s, lines AS ended, "
        "NULL AS total, NULL AS best, '' AS tuner, format || ' ' || url AS runs FROM datasets"
    )
    newest = "SELECT * FROM datasets ORDER BY started_at DESC, dataset_id LIMIT $1"
    one = "SELECT * FROM datasets WHERE dataset_id = $1"

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many samples it has, and where it is, or why nothing is taken from it."""
        where, why = f"{row['format']} {row['url']}", row["reason"] or row["waits_for"]
        return Listed(str(row["lines"]), runs=f"{where}: {why}" if why else where)
