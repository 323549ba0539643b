-- Rows of tasks, attempts, workers and devices: all a function of the log.
-- Times are ms since 1970 by the log's own clock; ids sort by their bytes.

CREATE TABLE tasks (
    task_id text COLLATE "C" NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    task_type text NOT NULL,
    queue text NOT NULL,
    trial integer,
    group_number integer,
    name text,
    state text NOT NULL,
    attempts integer NOT NULL,
    worker_id text,
    device_ids text[] NOT NULL,
    ending text,
    objective double precision,
    result jsonb,
    stop_reason text NOT NULL,
    priority integer NOT NULL,
    preempt boolean NOT NULL,
    exclusive boolean NOT NULL,
    kind text NOT NULL,
    devices integer NOT NULL,
    fixed_device text,
    whole_device boolean NOT NULL,
    estimate_memory_bytes bigint,
    estimate_cuda_memory_bytes bigint,
    queue_timeout_s double precision,
    run_timeout_s double precision,
    unschedulable text,
    queued_ms bigint NOT NULL,
    not_before_ms bigint,
    ended_ms bigint,
    PRIMARY KEY (task_id, stream_id)
);

CREATE INDEX tasks_of_streams ON tasks (stream_id, group_number);

CREATE INDEX tasks_that_are_open ON tasks (state) WHERE state <> 'ended';

CREATE INDEX tasks_on_devices ON tasks (worker_id) WHERE state IN ('placed', 'active');

CREATE TABLE attempts (
    task_id text COLLATE "C" NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    placement integer NOT NULL,
    worker_id text,
    device_ids text[] NOT NULL,
    behind boolean NOT NULL,
    status text NOT NULL,
    ending text,
    assigned_ms bigint,
    accepted_ms bigint,
    ended_ms bigint,
    load_time_ms bigint,
    train_time_ms bigint,
    reserved_memory_bytes bigint NOT NULL,
    reserved_cuda_memory_bytes bigint NOT NULL,
    estimated_by text,
    peak_memory_bytes bigint,
    peak_cuda_memory_bytes bigint,
    interrupts integer NOT NULL,
    leftovers text[] NOT NULL,
    exit_code bigint,
    error_stage text,
    error_type text,
    error_message text,
    error_traceback text,
    PRIMARY KEY (task_id, stream_id, attempt)
);

CREATE TABLE placements (
    task_id text COLLATE "C" NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    placement integer NOT NULL,
    worker_id text NOT NULL,
    device_ids text[] NOT NULL,
    assigned_ms bigint NOT NULL,
    accepted_ms bigint,
    ended_ms bigint,
    ending text,
    code text,
    message text,
    PRIMARY KEY (task_id, stream_id, attempt, placement)
);

CREATE TABLE workers (
    worker_id text COLLATE "C" PRIMARY KEY,
    incarnation text NOT NULL,
    host text NOT NULL,
    status text NOT NULL,
    task_types text[] NOT NULL,
    queues text[] NOT NULL,
    memory_bytes bigint NOT NULL,
    max_tasks bigint NOT NULL,
    memory_pool text,
    joined_ms bigint NOT NULL,
    gone_ms bigint
);

CREATE TABLE devices (
    worker_id text COLLATE "C" NOT NULL,
    device_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    memory_bytes bigint NOT NULL,
    device_index bigint,
    uuid text,
    unhealthy text,
    PRIMARY KEY (worker_id, device_id)
);

CREATE INDEX devices_by_uuid ON devices (uuid) WHERE uuid IS NOT NULL;
