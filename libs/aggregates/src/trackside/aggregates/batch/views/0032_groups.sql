-- The groups of batches, in order; the start and end of a group are those of its tasks.
SELECT
    groups.batch_id, groups.group_number, groups.name, groups.status, groups.device, groups.tasks, groups.children,
    groups.submitted, groups.open, groups.finished,
    groups.submitted - groups.open - groups.finished AS unfinished, groups.ends,
    to_timestamp(span.began_ms / 1000.0) AS started_at,
    CASE WHEN groups.open = 0 THEN to_timestamp(span.ended_ms / 1000.0) END AS ended_at
FROM groups
LEFT JOIN LATERAL (
    SELECT min(tasks.queued_ms) AS began_ms, max(tasks.ended_ms) AS ended_ms
    FROM tasks
    WHERE tasks.stream_id = groups.batch_id AND tasks.group_number = groups.group_number
) AS span ON true
