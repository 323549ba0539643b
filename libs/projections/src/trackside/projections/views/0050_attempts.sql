SELECT
    task_id, stream_id, attempt, placement, worker_id, device_ids, status, ending,
    to_timestamp(assigned_ms / 1000.0) AS assigned_at,
    to_timestamp(accepted_ms / 1000.0) AS accepted_at,
    to_timestamp(ended_ms / 1000.0) AS ended_at,
    load_time_ms, train_time_ms, exit_code, error_stage, error_type, error_message, error_traceback
FROM attempts
