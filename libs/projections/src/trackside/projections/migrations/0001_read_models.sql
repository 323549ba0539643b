-- Read models of the log. Times are ms since 1970 by the log's own clock; ids sort by their bytes.
-- Every row is a function of the log: nothing here says when it was written.

CREATE TABLE positions (
    owner text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (owner, topic, partition)
);

CREATE TABLE snapshots (
    stream_id text PRIMARY KEY,
    partition integer NOT NULL,
    log_offset bigint NOT NULL,
    fold text NOT NULL,
    closed boolean NOT NULL,
    state text NOT NULL
);

CREATE TABLE snapshot_positions (
    partition integer PRIMARY KEY,
    position bigint NOT NULL,
    fold text NOT NULL
);

CREATE TABLE streams (
    stream_id text COLLATE "C" PRIMARY KEY,
    partition integer NOT NULL,
    rules integer NOT NULL,
    first_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    closed boolean NOT NULL
);

CREATE TABLE commands (
    stream_id text COLLATE "C" NOT NULL,
    command_id text COLLATE "C" NOT NULL,
    command_type text NOT NULL,
    status text NOT NULL,
    code text,
    path text,
    message text,
    publications integer NOT NULL,
    publisher text,
    log_offset bigint NOT NULL,
    received_ms bigint,
    answered_ms bigint,
    PRIMARY KEY (stream_id, command_id)
);

CREATE TABLE searches (
    search_id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    status text NOT NULL,
    task_type text NOT NULL,
    tuner text NOT NULL,
    assessor text,
    direction text NOT NULL,
    max_trials integer NOT NULL,
    concurrency integer NOT NULL,
    queue text NOT NULL,
    seed bigint NOT NULL,
    trials integer NOT NULL,
    ended_trials integer NOT NULL,
    best_trial integer,
    best_value double precision,
    best_parameters jsonb,
    started_ms bigint NOT NULL,
    ended_ms bigint,
    stop_reason text NOT NULL,
    failure text NOT NULL,
    spec jsonb NOT NULL,
    pareto_front integer[] NOT NULL DEFAULT '{}'
);

CREATE TABLE trials (
    search_id text COLLATE "C" NOT NULL,
    trial integer NOT NULL,
    task_id text NOT NULL,
    status text NOT NULL,
    source text NOT NULL,
    space_version integer NOT NULL,
    value double precision,
    non_finite text,
    objective_values double precision[],
    others jsonb,
    missing text[] NOT NULL DEFAULT '{}',
    parameters jsonb NOT NULL,
    suggested_ms bigint NOT NULL,
    ended_ms bigint,
    last_step bigint,
    last_value double precision,
    report_steps bigint[] NOT NULL,
    report_values double precision[] NOT NULL,
    PRIMARY KEY (search_id, trial)
);

CREATE TABLE batches (
    batch_id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    status text NOT NULL,
    groups integer NOT NULL,
    tasks integer NOT NULL,
    concurrency integer NOT NULL,
    queue text NOT NULL,
    started_ms bigint NOT NULL,
    ended_ms bigint,
    stop_reason text NOT NULL,
    spec jsonb NOT NULL
);

CREATE TABLE groups (
    batch_id text COLLATE "C" NOT NULL,
    group_number integer NOT NULL,
    name text NOT NULL,
    status text NOT NULL,
    device text,
    tasks integer NOT NULL,
    submitted integer NOT NULL,
    open integer NOT NULL,
    finished integer NOT NULL,
    ends jsonb NOT NULL,
    PRIMARY KEY (batch_id, group_number)
);

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

CREATE TABLE metric_series (
    series bigint PRIMARY KEY,
    stream_id text NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    tag text NOT NULL
);

CREATE INDEX metric_series_of_tasks ON metric_series (task_id, attempt);

CREATE TABLE metric_points (
    series bigint NOT NULL,
    step bigint NOT NULL,
    wall_time_ms bigint NOT NULL,
    value double precision,
    PRIMARY KEY (series, step)
);

CREATE TABLE dead_letters (
    letter_partition integer NOT NULL,
    letter_offset bigint NOT NULL,
    source_topic text NOT NULL,
    source_partition integer NOT NULL,
    source_offset bigint NOT NULL,
    code text NOT NULL,
    message text NOT NULL,
    reader text NOT NULL,
    sha256 text NOT NULL,
    head_base64 text NOT NULL,
    written_ms bigint NOT NULL,
    PRIMARY KEY (letter_partition, letter_offset)
);

CREATE TABLE uncounted_metrics (
    log_partition integer NOT NULL,
    log_offset bigint NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    placement bigint NOT NULL,
    kind text NOT NULL,
    step bigint NOT NULL,
    value double precision,
    non_finite text,
    reason text NOT NULL,
    reported_ms bigint NOT NULL,
    PRIMARY KEY (log_partition, log_offset)
);
