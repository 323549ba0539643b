SELECT
    task_id, stream_id, task_type, queue, trial, group_number, name, state, attempts, worker_id, device_ids, ending,
    objective, result, stop_reason, priority, preempt, exclusive, kind, devices, fixed_device, whole_device,
    estimate_memory_bytes, estimate_cuda_memory_bytes, queue_timeout_s, run_timeout_s, unschedulable,
    time_of(queued_ms) AS queued_at,
    time_of(not_before_ms) AS not_before,
    time_of(ended_ms) AS ended_at,
    service, time_of(ready_ms) AS ready_at, ready,
    instruction_number, instruction_body, acknowledged_number, acknowledged_ok, acknowledged_detail,
    parameters, trace_id
FROM tasks
