-- The attempts of each device over time; a placement that still runs has no end.
SELECT
    worker_id, device_id, task_id, stream_id, attempt, placement, ending,
    to_timestamp(assigned_ms / 1000.0::float8) AS began_at,
    to_timestamp(ended_ms / 1000.0::float8) AS ended_at,
    assigned_ms AS began_ms, ended_ms
FROM placements, unnest(device_ids) AS device_id
