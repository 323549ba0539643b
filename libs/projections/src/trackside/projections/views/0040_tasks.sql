SELECT
    task_id, stream_id, task_type, queue, trial, group_number, name, state, attempts, worker_id, device_ids, ending,
    objective, result, stop_reason, priority, preempt, exclusive, kind, devices, fixed_device, whole_device,
    estimate_memory_bytes, estimate_cuda_memory_bytes, queue_timeout_s, run_timeout_s, unschedulable,
    to_timestamp(queued_ms / 1000.0) AS queued_at,
    to_timestamp(not_before_ms / 1000.0) AS not_before,
    to_timestamp(ended_ms / 1000.0) AS ended_at,
    service, to_timestamp(ready_ms / 1000.0) AS ready_at, ready,
    instruction_number, instruction_body, acknowledged_number, acknowledged_ok, acknowledged_detail,
    parameters, trace_id
FROM tasks
