"""Events that boards draw over their graphs: of searches, workers, services and deployments."""

from boards.board import Annotation
from boards.queries import FROM_MS, TO_MS, promql, rows, within
from boards.style import BLUE, GREEN, ORANGE, PURPLE, RED, YELLOW

_RESTARTS = "changes(process_start_time_seconds[1m]) > 0"


def searches(where: str = "") -> Annotation:
    """Returns the starts and ends of searches; `where` is a condition on the view of searches."""
    condition = f" AND {where}" if where else ""
    return Annotation(
        "Searches",
        BLUE,
        rows(
            f"""SELECT started_at AS time, 'Search ' || search_id || ' starts' AS text, 'start' AS tags
            FROM searches WHERE $__timeFilter(started_at){condition}
            UNION ALL SELECT ended_at, 'Search ' || search_id || ' ends: ' || status, 'end'
            FROM searches WHERE $__timeFilter(ended_at){condition} ORDER BY time LIMIT 200"""
        ),
    )


def changes(stream: str) -> Annotation:
    """Returns the pauses, resumptions, changes of the space and limits, and stops of one stream."""
    return Annotation(
        "Changes",
        YELLOW,
        rows(
            f"""SELECT answered_at AS time, command_type || coalesce(' by ' || publisher, '') AS text,
            command_type AS tags FROM commands WHERE stream_id = {stream} AND status = 'accepted'
            AND command_type ~ '^(Pause|Resume|Update|Stop|Import|Add|Request|Abort|Retry|Approve|Reject)'
            AND $__timeFilter(answered_at) ORDER BY time LIMIT 200"""
        ),
    )


def workers() -> Annotation:
    """Returns the joins of workers, and when they left or were lost."""
    return Annotation(
        "Workers",
        PURPLE,
        rows(
            """SELECT joined_at AS time, 'Worker ' || worker_id || ' joins' AS text, 'join' AS tags
            FROM workers WHERE $__timeFilter(joined_at) UNION ALL
            SELECT gone_at, 'Worker ' || worker_id || ': ' || status, status FROM workers
            WHERE $__timeFilter(gone_at) ORDER BY time LIMIT 200"""
        ),
    )


def deployments(job: str) -> Annotation:
    """Returns when versions of models became live, of one job."""
    return Annotation(
        "Deployments",
        GREEN,
        rows(
            f"""SELECT deployed_at AS time, model || '@' || version || ' is live (' || cause || ')' AS text,
            'deployment' AS tags FROM deployments WHERE job_id = {job} AND $__timeFilter(deployed_at)
            ORDER BY time LIMIT 200"""
        ),
    )


def releases() -> Annotation:
    """Returns when versions of models of any job became live."""
    return Annotation(
        "Deployments",
        GREEN,
        rows(
            """SELECT deployed_at AS time, job_id || ': ' || model || '@' || version || ' is live' AS text,
            'deployment' AS tags FROM deployments WHERE $__timeFilter(deployed_at) ORDER BY time LIMIT 200"""
        ),
    )


def restarts() -> Annotation:
    """Returns when processes of services started again."""
    return Annotation("Restarts", RED, promql(_RESTARTS), _RESTARTS)


def failures(stream: str) -> Annotation:
    """Returns attempts of one stream that ended out of memory or with their worker.

    Those of each sixtieth of the range are one mark: of a large search there may be thousands.
    """
    part = f"(ended_ms - {FROM_MS}) / greatest(1, ({TO_MS} - {FROM_MS}) / 60)"
    return Annotation(
        "Out of memory and lost",
        ORANGE,
        rows(
            f"""SELECT min(ended_at) AS time, CASE count(*) WHEN 1 THEN min(task_id)
            ELSE count(*) || ' attempts' END || ': ' || ending AS text, ending AS tags FROM attempts
            WHERE stream_id = {stream} AND ending IN ('oom_host', 'oom_device', 'lost')
            AND {within("ended_ms")} GROUP BY {part}, ending ORDER BY time"""
        ),
    )
