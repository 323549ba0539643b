-- The stages of rounds with the names that users of Sedna know. A stage is ready when its trigger has fired, starts
-- when its task or child is submitted, and runs when a worker has accepted that; deploy, when a target has confirmed.
SELECT
    spans.job_id, spans.round, spans.stage,
    CASE
        WHEN spans.status IS NOT NULL THEN spans.status
        WHEN spans.running_ms IS NOT NULL THEN 'Running'
        WHEN spans.starting_ms IS NOT NULL THEN 'Starting'
        WHEN spans.ready_ms IS NOT NULL THEN 'Ready'
        ELSE 'Waiting'
    END AS state,
    time_of(spans.waiting_ms) AS waiting_at,
    time_of(spans.ready_ms) AS ready_at,
    time_of(spans.starting_ms) AS starting_at,
    time_of(spans.running_ms) AS running_at,
    time_of(spans.ended_ms) AS ended_at,
    (spans.ended_ms - spans.ready_ms) / 1000.0 AS duration_s,
    spans.task_id, spans.command_id, spans.reason, spans.message, spans.blocked, spans.blocked_message,
    spans.manifest_url, spans.manifest_sha256, spans.manifest_bytes, spans.lines
FROM (
    SELECT
        stages.job_id, stages.round, stages.stage, stages.status, stages.waiting_ms, stages.ready_ms, stages.ended_ms,
        coalesce(stages.starting_ms, tasks.queued_ms, children.requested_ms) AS starting_ms,
        coalesce(stages.running_ms, tried.accepted_ms, children.requested_ms) AS running_ms,
        coalesce(tasks.task_id, children.child_id) AS task_id,
        stages.command_id, stages.reason, stages.message, stages.blocked, stages.blocked_message,
        stages.manifest_url, stages.manifest_sha256, stages.manifest_bytes, stages.lines
    FROM stages
    LEFT JOIN tasks ON
        tasks.stream_id = stages.job_id
        AND tasks.task_id = stages.job_id || '.r' || stages.round || '.' || stages.stage || '.1'
    LEFT JOIN children ON
        children.stream_id = stages.job_id
        AND children.child_id = stages.job_id || '.r' || stages.round || '.' || stages.stage || '.1'
    LEFT JOIN LATERAL (
        SELECT min(attempts.accepted_ms) AS accepted_ms
        FROM attempts
        WHERE attempts.task_id = tasks.task_id AND attempts.stream_id = tasks.stream_id
    ) AS tried ON true
) AS spans
