SELECT
    task_id, stream_id, attempt, placement, worker_id, started_by, adopted_by, device_ids, behind, status, ending,
    time_of(assigned_ms) AS assigned_at,
    time_of(accepted_ms) AS accepted_at,
    time_of(ended_ms) AS ended_at,
    load_time_ms, train_time_ms, reserved_memory_bytes, reserved_cuda_memory_bytes, estimated_by,
    peak_memory_bytes, peak_cuda_memory_bytes, interrupts, resumed_step, resumed_from, leftovers,
    exit_code, error_stage, error_type, error_message, error_traceback, ended_ms
FROM attempts
