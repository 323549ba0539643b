SELECT coalesce(task_id, summary_id) FROM summary_jobs WHERE summary_id = $1
