-- All jobs that aren't deleted: the tasks of all streams, and the directories with event files. Times are in ms since
-- 1970; a directory begins with its first value.
SELECT
    tasks.task_id AS id, tasks.stream_id AS stream, 'task' AS kind, tasks.name, NULL::text AS base,
    NULL::text AS path, tasks.state, tasks.ending, tasks.task_type, tasks.queue, tasks.worker_id AS worker,
    tasks.trial, tasks.attempts, tasks.objective, tasks.queued_ms AS started_ms, tasks.ended_ms,
    tasks.parameters, said.tag, coalesce(said.remark, '') AS remark
FROM tasks
LEFT JOIN summary_jobs AS said ON said.task_id = tasks.task_id AND said.task_stream = tasks.stream_id
WHERE said.status IS DISTINCT FROM 'DELETED'
UNION ALL
SELECT
    summary_jobs.summary_id, summary_jobs.summary_id, 'directory', NULL, summary_jobs.base,
    summary_jobs.path, lower(summary_jobs.status), NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, coalesce(first.first_ms, summary_jobs.found_ms), NULL,
    NULL, summary_jobs.tag, summary_jobs.remark
FROM summary_jobs
LEFT JOIN summary_briefs AS first ON first.job_id = summary_jobs.summary_id
WHERE summary_jobs.task_id IS NULL AND summary_jobs.status <> 'DELETED'
