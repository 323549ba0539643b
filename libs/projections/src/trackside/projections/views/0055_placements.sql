-- Every assignment of an attempt; one that still runs has no ending.
SELECT
    task_id, stream_id, attempt, placement, worker_id, device_ids, ending, code, message, resumed_step, resumed_from,
    to_timestamp(assigned_ms / 1000.0) AS assigned_at,
    to_timestamp(accepted_ms / 1000.0) AS accepted_at,
    to_timestamp(ended_ms / 1000.0) AS ended_at, assigned_ms, ended_ms
FROM placements
