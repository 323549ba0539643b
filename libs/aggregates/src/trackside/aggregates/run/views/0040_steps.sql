-- The steps of runs, in the order of their definitions. A step is queued when its first task or child is, and starts
-- when a worker has accepted that; it waits until then from when it is ready. All times are of its newest generation.
SELECT
    steps.run_id, steps.step, steps.number, steps.kind, steps.what, steps.state, steps.generation, steps.needs,
    steps.stage, steps.weight, steps.share_ended, steps.items, steps.begun, steps.open, steps.ends, steps.end_kind,
    steps.resolved, steps.parameters, steps.error, steps.reason,
    time_of(steps.ready_ms) AS ready_at,
    time_of(span.queued_ms) AS queued_at,
    time_of(span.started_ms) AS started_at,
    time_of(steps.ended_ms) AS ended_at,
    CASE WHEN steps.ready_ms IS NOT NULL THEN (steps.ended_ms - steps.ready_ms) / 1000.0 END AS duration_s,
    (span.started_ms - steps.ready_ms) / 1000.0 AS waited_s,
    (steps.ended_ms - span.started_ms) / 1000.0 AS took_s
FROM steps
LEFT JOIN (
    SELECT parts.run_id, parts.step, min(parts.queued_ms) AS queued_ms, min(parts.started_ms) AS started_ms
    FROM (
        SELECT steps.run_id, steps.step, tasks.queued_ms, attempts.accepted_ms AS started_ms
        FROM steps
        JOIN tasks ON
            tasks.stream_id = steps.run_id AND tasks.name = steps.step AND tasks.queued_ms >= steps.ready_ms
        LEFT JOIN attempts ON attempts.task_id = tasks.task_id AND attempts.stream_id = tasks.stream_id
        UNION ALL
        SELECT steps.run_id, steps.step, children.requested_ms, children.requested_ms
        FROM steps
        JOIN children ON
            children.stream_id = steps.run_id
            AND split_part(substr(children.child_id, length(steps.run_id) + 2), '.', 1) = steps.step
            AND children.requested_ms >= steps.ready_ms
        UNION ALL
        SELECT gates.run_id, gates.step, gates.opened_ms, gates.opened_ms
        FROM gates
    ) AS parts
    GROUP BY parts.run_id, parts.step
) AS span ON span.run_id = steps.run_id AND span.step = steps.step
