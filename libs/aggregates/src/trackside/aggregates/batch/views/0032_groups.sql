-- The groups of batches, in order; the start and end of a group are those of its tasks and children.
SELECT
    groups.batch_id, groups.group_number, groups.name, groups.status, groups.device, groups.tasks, groups.children,
    groups.submitted, groups.open, groups.finished,
    groups.submitted - groups.open - groups.finished AS unfinished, groups.ends,
    time_of(span.began_ms) AS started_at,
    CASE WHEN groups.open = 0 AND span.children_ended THEN time_of(span.ended_ms) END AS ended_at
FROM groups
LEFT JOIN LATERAL (
    SELECT
        min(parts.began_ms) AS began_ms, max(parts.ended_ms) AS ended_ms,
        bool_and(parts.child_ended) AS children_ended
    FROM (
        SELECT tasks.queued_ms AS began_ms, tasks.ended_ms, true AS child_ended
        FROM tasks
        WHERE tasks.stream_id = groups.batch_id AND tasks.group_number = groups.group_number
        UNION ALL
        SELECT children.requested_ms, children.ended_ms, children.ended_ms IS NOT NULL
        FROM children
        WHERE
            children.stream_id = groups.batch_id
            AND starts_with(children.child_id, groups.batch_id || '.' || groups.group_number || '.')
    ) AS parts
) AS span ON true
