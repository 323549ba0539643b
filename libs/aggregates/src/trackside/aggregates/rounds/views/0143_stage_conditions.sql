-- What has become of each stage, as rows, and as Sedna writes a condition of a job.
SELECT
    stages.job_id, stages.round, stages.stage, reached.number, reached.type, reached.at,
    jsonb_strip_nulls(jsonb_build_object(
        'type', reached.type,
        'status', 'True',
        'stage', initcap(stages.stage),
        'lastHeartbeatTime', to_char(reached.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        'lastTransitionTime', to_char(reached.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        'reason', CASE WHEN reached.number = 5 THEN nullif(stages.reason, '') END,
        'message', CASE WHEN reached.number = 5 THEN nullif(stages.message, '') END
    )) AS condition
FROM dashboards.stages AS stages
CROSS JOIN LATERAL (
    VALUES
        (1, 'Waiting', stages.waiting_at), (2, 'Ready', stages.ready_at), (3, 'Starting', stages.starting_at),
        (4, 'Running', stages.running_at), (5, stages.state, stages.ended_at)
) AS reached (number, type, at)
WHERE reached.at IS NOT NULL
