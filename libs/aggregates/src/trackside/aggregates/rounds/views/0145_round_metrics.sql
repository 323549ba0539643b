-- The metrics of each round as numbers: of the trained model, of the one that was live, and the difference. Of a list
-- the mean counts.
SELECT
    rounds.job_id, rounds.round, names.metric, rounds.version,
    trained.value AS trained, live.value AS deployed, trained.value - live.value AS delta,
    coalesce(rounds.deployed, false) AS was_deployed,
    time_of(coalesce(rounds.decided_ms, rounds.ended_ms, rounds.started_ms)) AS at
FROM rounds
CROSS JOIN LATERAL (
    SELECT jsonb_object_keys(rounds.trained) AS metric
    UNION
    SELECT jsonb_object_keys(rounds.deployed_metrics)
) AS names
LEFT JOIN LATERAL (
    SELECT avg(item.value::text::double precision) AS value
    FROM jsonb_path_query(rounds.trained -> names.metric, 'lax $[*]') AS item (value)
    WHERE jsonb_typeof(item.value) = 'number'
) AS trained ON true
LEFT JOIN LATERAL (
    SELECT avg(item.value::text::double precision) AS value
    FROM jsonb_path_query(rounds.deployed_metrics -> names.metric, 'lax $[*]') AS item (value)
    WHERE jsonb_typeof(item.value) = 'number'
) AS live ON true
