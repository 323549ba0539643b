-- How many jobs there are, the deleted ones too if $1.
SELECT
    (
        SELECT count(*) FROM summary_briefs
        WHERE $1::boolean OR job_id NOT IN (
            SELECT coalesce(task_id, summary_id) FROM summary_jobs WHERE status = 'DELETED'
        )
    ) + (
        SELECT count(*) FROM summary_jobs
        WHERE ($1::boolean OR status <> 'DELETED') AND NOT EXISTS (
            SELECT FROM summary_briefs
            WHERE summary_briefs.job_id = coalesce(summary_jobs.task_id, summary_jobs.summary_id)
        )
    )
