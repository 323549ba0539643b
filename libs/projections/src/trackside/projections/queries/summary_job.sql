SELECT job_id, stream_id, points, items, last_step, first_ms, last_ms FROM summary_briefs WHERE job_id = $1
