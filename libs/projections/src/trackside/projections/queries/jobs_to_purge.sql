SELECT summary_briefs.job_id, summary_briefs.stream_id
FROM summary_jobs
JOIN summary_briefs ON summary_briefs.job_id = coalesce(summary_jobs.task_id, summary_jobs.summary_id)
WHERE summary_jobs.purged
