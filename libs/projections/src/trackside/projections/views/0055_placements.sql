-- Every assignment of an attempt; one that still runs has no ending.
SELECT
    task_id, stream_id, attempt, placement, worker_id, device_ids, ending, code, message, resumed_step, resumed_from,
    time_of(assigned_ms) AS assigned_at,
    time_of(accepted_ms) AS accepted_at,
    time_of(ended_ms) AS ended_at, assigned_ms, ended_ms
FROM placements
