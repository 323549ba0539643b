-- One job, deleted or not.
WITH jobs AS (
    SELECT * FROM summary_jobs WHERE task_id = $1 OR (summary_id = $1 AND task_id IS NULL) LIMIT 1
),
briefs AS (
    SELECT * FROM summary_briefs WHERE job_id = $1
)
SELECT
    $1::text AS job_id, coalesce(briefs.stream_id, jobs.task_stream, $1::text) AS stream_id,
    coalesce(jobs.base, '') AS base, coalesce(jobs.path, '') AS path,
    coalesce(jobs.status, 'ACTIVE') AS status,
    CASE WHEN jobs.status = 'DELETED' OR tasks.state IS NULL THEN lower(coalesce(jobs.status, 'ACTIVE'))
    ELSE tasks.state END AS state,
    jobs.tag, coalesce(jobs.remark, '') AS remark,
    coalesce(briefs.points, 0) AS points, coalesce(briefs.items, 0) AS items, briefs.last_step,
    briefs.first_ms, briefs.last_ms, coalesce(briefs.last_ms, jobs.changed_ms) AS newest_ms,
    coalesce(jobs.files, 0) AS files, coalesce(jobs.bytes, 0) AS bytes,
    coalesce(jobs.quarantined, 0) AS quarantined
FROM briefs
FULL JOIN jobs ON true
LEFT JOIN tasks ON tasks.task_id = $1 AND tasks.stream_id = coalesce(briefs.stream_id, jobs.task_stream)
