-- A page of jobs, newest first: after time $1 and id $2, $3 of them but for the first $4; the deleted ones too if
-- $5. Most have values and are found by the index of their newest one; a directory may have none so far.
WITH deleted AS (
    SELECT coalesce(task_id, summary_id) AS job_id FROM summary_jobs WHERE status = 'DELETED'
),
valued AS MATERIALIZED (
    SELECT job_id, last_ms AS newest_ms
    FROM summary_briefs
    WHERE ($1::bigint IS NULL OR last_ms < $1::bigint OR (last_ms = $1::bigint AND job_id > $2))
        AND ($5::boolean OR job_id NOT IN (SELECT job_id FROM deleted))
    ORDER BY last_ms DESC, job_id
    LIMIT $3::bigint + $4::bigint
),
listed AS (
    SELECT job_id, newest_ms FROM valued
    UNION ALL
    (
        SELECT coalesce(task_id, summary_id) AS job_id, changed_ms AS newest_ms
        FROM summary_jobs
        WHERE ($5::boolean OR status <> 'DELETED')
            -- None that is older than a full page: then few are looked up, one by one.
            AND changed_ms >= coalesce(
                (SELECT min(newest_ms) FROM valued HAVING count(*) = $3::bigint + $4::bigint),
                -9223372036854775808
            )
            AND (
                SELECT summary_briefs.job_id FROM summary_briefs
                WHERE summary_briefs.job_id = coalesce(summary_jobs.task_id, summary_jobs.summary_id)
            ) IS NULL
            AND (
                $1::bigint IS NULL OR changed_ms < $1::bigint
                OR (changed_ms = $1::bigint AND coalesce(task_id, summary_id) > $2)
            )
        ORDER BY changed_ms DESC, coalesce(task_id, summary_id)
        LIMIT $3::bigint + $4::bigint
    )
),
page AS (
    SELECT job_id, newest_ms FROM listed ORDER BY newest_ms DESC, job_id LIMIT $3::bigint OFFSET $4::bigint
)
SELECT
    page.job_id, coalesce(briefs.stream_id, jobs.task_stream, page.job_id) AS stream_id,
    coalesce(jobs.base, '') AS base, coalesce(jobs.path, '') AS path,
    coalesce(jobs.status, 'ACTIVE') AS status,
    CASE WHEN jobs.status = 'DELETED' OR tasks.state IS NULL THEN lower(coalesce(jobs.status, 'ACTIVE'))
    ELSE tasks.state END AS state,
    jobs.tag, coalesce(jobs.remark, '') AS remark,
    coalesce(briefs.points, 0) AS points, coalesce(briefs.items, 0) AS items, briefs.last_step,
    briefs.first_ms, briefs.last_ms, page.newest_ms, coalesce(jobs.files, 0) AS files,
    coalesce(jobs.bytes, 0) AS bytes, coalesce(jobs.quarantined, 0) AS quarantined
FROM page
LEFT JOIN summary_briefs AS briefs ON briefs.job_id = page.job_id
LEFT JOIN LATERAL (
    SELECT * FROM summary_jobs
    WHERE summary_jobs.task_id = page.job_id
        OR (summary_jobs.summary_id = page.job_id AND summary_jobs.task_id IS NULL)
    LIMIT 1
) AS jobs ON true
LEFT JOIN LATERAL (
    SELECT state FROM tasks
    WHERE tasks.task_id = page.job_id AND tasks.stream_id = coalesce(briefs.stream_id, jobs.task_stream)
    LIMIT 1 -- looked up one by one, whatever the planner expects of the page
) AS tasks ON true
ORDER BY page.newest_ms DESC, page.job_id
