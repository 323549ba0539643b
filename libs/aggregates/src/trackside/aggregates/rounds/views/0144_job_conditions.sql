-- The conditions of each job as one list, the newest last: what Sedna has under `status.conditions`.
SELECT
    stage_conditions.job_id,
    jsonb_agg(stage_conditions.condition ORDER BY
        stage_conditions.round,
        array_position(ARRAY['train', 'eval', 'deploy'], stage_conditions.stage::text),
        stage_conditions.number
    ) AS conditions
FROM dashboards.stage_conditions AS stage_conditions
GROUP BY stage_conditions.job_id
