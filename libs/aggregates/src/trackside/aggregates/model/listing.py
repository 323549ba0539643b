"""The line of a model in a list."""

from trackside.domain.display.listing import Listed, StreamListing
from trackside.domain.rows.table import ViewRow


class ModelListing(StreamListing):
    """How models are listed."""

    kind = "model"
    id_column = "model_id"
    listing = (
        "SELECT model_id AS id, name, status, started_at, ended_at, duration_s, versions AS ended, "
        "NULL AS total, NULL AS best, '' AS tuner, "
        "coalesce('version ' || production || ' in production', '') AS runs FROM models"
    )
    newest = "SELECT * FROM models ORDER BY started_at DESC, model_id LIMIT $1"
    one = "SELECT * FROM models WHERE model_id = $1"

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many versions it has, and which one is in production."""
        return Listed(str(row["versions"]), runs=production_text(row["production"]))


def production_text(version: int | None) -> str:
    """Returns which version is in production; an empty text for none."""
    return "" if version is None else f"version {version} in production"
