-- Summary jobs: directories with event files, and tasks of which people say something. `name` is the path or task.
SELECT
    summary_jobs.summary_id, coalesce(summary_jobs.task_id, summary_jobs.path) AS name,
    coalesce(summary_jobs.task_id, summary_jobs.summary_id) AS job_id,
    summary_jobs.base, summary_jobs.path, summary_jobs.task_stream AS stream_id, summary_jobs.task_id,
    summary_jobs.status, summary_jobs.tag, summary_jobs.remark, summary_jobs.purged, summary_jobs.files, summary_jobs.bytes,
    summary_jobs.quarantined,
    time_of(summary_jobs.found_ms) AS started_at,
    time_of(summary_jobs.changed_ms) AS changed_at,
    NULL::timestamptz AS ended_at,
    NULL::double precision AS duration_s
FROM summary_jobs
