-- How many jobs there are, the deleted ones too if $1. The briefs are read in the order of their index: an anti-join
-- of both tables takes three times as long.
SELECT
    (
        SELECT count(DISTINCT job_id)
        FROM (
            SELECT job_id FROM summary_briefs
            UNION ALL
            SELECT summary_id FROM summary_jobs WHERE task_id IS NULL
            UNION ALL
            SELECT task_id FROM summary_jobs WHERE task_id IS NOT NULL
        ) AS listed
    ) - (
        SELECT count(DISTINCT coalesce(task_id, summary_id))
        FROM summary_jobs
        WHERE status = 'DELETED' AND NOT $1::boolean
    )
