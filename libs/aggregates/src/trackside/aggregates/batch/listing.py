"""The line of a batch in a list."""

from trackside.domain.display.listing import Listed, StreamListing
from trackside.domain.display.text import counted
from trackside.domain.rows.table import ViewRow


class BatchListing(StreamListing):
    """How batches are listed."""

    kind = "batch"
    id_column = "batch_id"
    listing = (
        "SELECT batch_id AS id, name, status, started_at, ended_at, duration_s, "
        "finished_tasks + unfinished_tasks AS ended, tasks AS total, NULL AS best, '' AS tuner, "
        "groups || CASE groups WHEN 1 THEN ' group' ELSE ' groups' END AS runs FROM batches"
    )
    newest = (
        "SELECT batch_id, name, status, groups, tasks, groups_over, submitted, open_tasks, "
        "finished_tasks, unfinished_tasks, concurrency, queue, started_at, ended_at, duration_s, "
        "stop_reason, "
        "(SELECT count(*) FROM services WHERE stream_id = batch_id AND state <> 'ended') AS services, "
        "(SELECT count(*) FROM services WHERE stream_id = batch_id AND state = 'ready') AS ready_services "
        "FROM batches ORDER BY started_at DESC, batch_id LIMIT $1"
    )
    one = "SELECT * FROM batches WHERE batch_id = $1"

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many tasks have ended, how many services are ready, and how many groups it has."""
        ended = row["finished_tasks"] + row["unfinished_tasks"]
        ready = f", {row['ready_services']}/{row['services']} ready" if row["services"] else ""
        return Listed(f"{ended}/{row['tasks']}{ready}", runs=counted(row["groups"], "group"))
