-- Devices and the tasks that they run now: none if the worker is gone. The task shown is the one assigned last;
-- a GPU may have several, and one more that waits on it and reserves nothing yet. A GPU of several workers on one
-- host has the tasks of all of them; `shared_with` are its other names. A device that is draining gets no new
-- tasks, under any of its names; once it has none its state is `drained`.
SELECT
    devices.worker_id, devices.device_id, devices.kind, devices.name, devices.memory_bytes,
    devices.device_index, devices.uuid, devices.unhealthy,
    CASE
        WHEN workers.status <> 'here' THEN workers.status
        WHEN devices.unhealthy IS NOT NULL THEN 'failed'
        WHEN running.tasks > 0 THEN 'busy'
        WHEN drained.since_ms IS NOT NULL THEN 'drained'
        ELSE 'free'
    END AS state,
    coalesce(running.reserved_bytes, 0) AS reserved_bytes,
    coalesce(running.tasks, 0) AS tasks,
    coalesce(running.task_ids, '{}') AS task_ids,
    running.task_ids[1] AS task_id, running.stream_ids[1] AS stream_id, running.trials[1] AS trial,
    running.states[1] AS task_state, running.statuses[1] AS attempt_status,
    time_of(running.assigned[1]) AS since,
    coalesce(twins.names, '{}') AS shared_with, workers.memory_pool,
    drained.since_ms IS NOT NULL AS draining, drained.reason AS drain_reason,
    time_of(drained.since_ms) AS drained_at
FROM devices
JOIN workers ON workers.worker_id = devices.worker_id
LEFT JOIN LATERAL (
    SELECT
        count(*) AS tasks,
        sum(
            CASE
                WHEN attempts.behind AND attempts.status <> 'TRAINING' THEN 0
                WHEN devices.kind = 'gpu' THEN attempts.reserved_cuda_memory_bytes
                ELSE attempts.reserved_memory_bytes
            END
        )::bigint AS reserved_bytes,
        array_agg(tasks.task_id ORDER BY attempts.assigned_ms DESC, tasks.task_id) AS task_ids,
        array_agg(tasks.stream_id ORDER BY attempts.assigned_ms DESC, tasks.task_id) AS stream_ids,
        array_agg(tasks.trial ORDER BY attempts.assigned_ms DESC, tasks.task_id) AS trials,
        array_agg(tasks.state ORDER BY attempts.assigned_ms DESC, tasks.task_id) AS states,
        array_agg(attempts.status ORDER BY attempts.assigned_ms DESC, tasks.task_id) AS statuses,
        array_agg(attempts.assigned_ms ORDER BY attempts.assigned_ms DESC, tasks.task_id) AS assigned
    FROM devices AS names
    JOIN tasks
        ON tasks.worker_id = names.worker_id
        AND names.device_id = ANY (tasks.device_ids)
        AND tasks.state IN ('placed', 'active')
    JOIN attempts
        ON attempts.task_id = tasks.task_id
        AND attempts.stream_id = tasks.stream_id
        AND attempts.attempt = tasks.attempts
    WHERE (names.worker_id = devices.worker_id AND names.device_id = devices.device_id)
        OR names.uuid = devices.uuid
) AS running ON workers.status = 'here'
LEFT JOIN LATERAL (
    SELECT array_agg(others.worker_id || '/' || others.device_id ORDER BY others.worker_id) AS names
    FROM devices AS others
    JOIN workers AS owners ON owners.worker_id = others.worker_id AND owners.status = 'here'
    WHERE others.uuid = devices.uuid AND others.worker_id <> devices.worker_id
) AS twins ON workers.status = 'here'
LEFT JOIN LATERAL (
    SELECT drained_devices.reason, drained_devices.drained_ms AS since_ms
    FROM drained_devices
    LEFT JOIN devices AS named USING (worker_id, device_id)
    WHERE (drained_devices.worker_id = devices.worker_id AND drained_devices.device_id = devices.device_id)
        OR named.uuid = devices.uuid
    ORDER BY since_ms LIMIT 1
) AS drained ON true
