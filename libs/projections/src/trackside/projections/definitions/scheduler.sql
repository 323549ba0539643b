-- Rows of tasks, attempts, artifacts, workers and devices: all a function of the log.
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
    service boolean NOT NULL,
    ready_ms bigint,
    ready jsonb,
    instruction_number bigint,
    instruction_body jsonb,
    acknowledged_number bigint,
    acknowledged_ok boolean,
    acknowledged_detail jsonb,
    parameters jsonb NOT NULL,
    trace_id text,
    PRIMARY KEY (task_id, stream_id)
);

CREATE INDEX tasks_of_streams ON tasks (stream_id, group_number);

CREATE INDEX tasks_that_are_open ON tasks (state) WHERE state <> 'ended';

CREATE INDEX tasks_on_devices ON tasks (worker_id) WHERE state IN ('placed', 'active');

CREATE INDEX services_of_streams ON tasks (stream_id) WHERE service;

-- The incarnation of the worker that started the newest placement, and those that adopted it, the newest last.
CREATE TABLE attempts (
    task_id text COLLATE "C" NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    placement integer NOT NULL,
    worker_id text,
    started_by text,
    adopted_by text[] NOT NULL,
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
    resumed_step bigint,
    resumed_from text,
    leftovers text[] NOT NULL,
    exit_code bigint,
    error_stage text,
    error_type text,
    error_message text,
    error_traceback text,
    PRIMARY KEY (task_id, stream_id, attempt)
);

CREATE INDEX attempts_that_failed ON attempts (ended_ms)
WHERE ending IN ('failed', 'oom_host', 'oom_device', 'lost', 'timed_out_queue', 'timed_out_run', 'refused');

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
    resumed_step bigint,
    resumed_from text,
    PRIMARY KEY (task_id, stream_id, attempt, placement)
);

CREATE INDEX placements_by_end ON placements (ended_ms);

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

-- Devices that get no new tasks; one of a worker that is gone stays drained.
CREATE TABLE drained_devices (
    worker_id text COLLATE "C" NOT NULL,
    device_id text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    drained_ms bigint NOT NULL,
    PRIMARY KEY (worker_id, device_id)
);

CREATE INDEX devices_by_uuid ON devices (uuid) WHERE uuid IS NOT NULL;

-- One row per ArtifactSaved that counts; the key is the place of its record in the log.
CREATE TABLE artifacts (
    log_partition integer NOT NULL,
    log_offset bigint NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    trial integer,
    attempt bigint NOT NULL,
    placement bigint NOT NULL,
    number bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    kind text NOT NULL,
    uri text NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    size_bytes bigint NOT NULL,
    media_type text NOT NULL,
    step bigint,
    metadata jsonb NOT NULL,
    saved_ms bigint NOT NULL,
    PRIMARY KEY (log_partition, log_offset)
);

CREATE INDEX artifacts_of_tasks ON artifacts (stream_id, task_id, name);

CREATE INDEX artifacts_by_digest ON artifacts (sha256);

CREATE TABLE artifact_uses (
    log_partition integer NOT NULL,
    log_offset bigint NOT NULL,
    use text NOT NULL,
    name text COLLATE "C" NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    uri text NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    size_bytes bigint NOT NULL,
    media_type text NOT NULL,
    source text NOT NULL,
    credential text,
    step bigint,
    submitted_ms bigint NOT NULL,
    PRIMARY KEY (log_partition, log_offset, use, name)
);

CREATE INDEX artifact_uses_of_tasks ON artifact_uses (stream_id, task_id);

CREATE INDEX artifact_uses_by_digest ON artifact_uses (sha256);

CREATE TABLE forgotten_artifacts (
    log_partition integer NOT NULL,
    log_offset bigint NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    command_id text NOT NULL,
    reason text NOT NULL,
    forgotten_ms bigint NOT NULL,
    PRIMARY KEY (log_partition, log_offset, sha256)
);

CREATE INDEX forgotten_artifacts_of_streams ON forgotten_artifacts (stream_id, sha256);
