-- The attempts of each device over time; a placement that still runs has no end.
SELECT
    worker_id, device_id, task_id, stream_id, attempt, placement, ending,
    time_of(assigned_ms) AS began_at,
    time_of(ended_ms) AS ended_at,
    assigned_ms AS began_ms, ended_ms
FROM placements, unnest(device_ids) AS device_id
