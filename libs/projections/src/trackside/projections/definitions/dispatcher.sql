-- Rows of searches, trials, batches and commands, and snapshots of streams: all a function of the log.
-- Times are ms since 1970 by the log's own clock; ids sort by their bytes.

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
