-- What the first release made, as it was when tasks had one device and searches one objective; with what it left behind.

CREATE SCHEMA trackside;
SET search_path TO trackside;

CREATE TABLE migrations (number integer PRIMARY KEY, name text NOT NULL, digest text NOT NULL);
INSERT INTO migrations VALUES (0, 'views', 'of the first release'), (1, '0001_read_models', 'of the first release');

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
    spec jsonb NOT NULL
);

CREATE TABLE trials (
    search_id text COLLATE "C" NOT NULL,
    trial integer NOT NULL,
    task_id text NOT NULL,
    status text NOT NULL,
    source text NOT NULL,
    space_version integer NOT NULL,
    value double precision,
    parameters jsonb NOT NULL,
    suggested_ms bigint NOT NULL,
    ended_ms bigint,
    last_step bigint,
    last_value double precision,
    report_steps bigint[] NOT NULL,
    report_values double precision[] NOT NULL,
    PRIMARY KEY (search_id, trial)
);

CREATE TABLE tasks (
    task_id text COLLATE "C" NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    task_type text NOT NULL,
    queue text NOT NULL,
    trial integer,
    state text NOT NULL,
    attempts integer NOT NULL,
    worker_id text,
    device_id text,
    ending text,
    result jsonb,
    stop_reason text NOT NULL,
    queued_ms bigint NOT NULL,
    ended_ms bigint,
    PRIMARY KEY (task_id, stream_id)
);

CREATE INDEX tasks_on_devices ON tasks (worker_id, device_id) WHERE state IN ('placed', 'active');

CREATE TABLE attempts (
    task_id text COLLATE "C" NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    placement integer NOT NULL,
    worker_id text,
    device_id text,
    status text NOT NULL,
    ending text,
    assigned_ms bigint,
    accepted_ms bigint,
    ended_ms bigint,
    load_time_ms bigint,
    train_time_ms bigint,
    exit_code bigint,
    error_stage text,
    error_type text,
    error_message text,
    error_traceback text,
    PRIMARY KEY (task_id, stream_id, attempt)
);

CREATE TABLE workers (
    worker_id text COLLATE "C" PRIMARY KEY,
    incarnation text NOT NULL,
    host text NOT NULL,
    status text NOT NULL,
    task_types text[] NOT NULL,
    queues text[] NOT NULL,
    joined_ms bigint NOT NULL,
    gone_ms bigint
);

CREATE TABLE devices (
    worker_id text COLLATE "C" NOT NULL,
    device_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    memory_bytes bigint NOT NULL,
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

CREATE SCHEMA dashboards;
CREATE VIEW dashboards.searches AS SELECT search_id, status FROM searches;
CREATE VIEW dashboards.trials AS
SELECT trials.trial, trials.value, searches.status AS search_status
FROM trials JOIN searches ON searches.search_id = trials.search_id;
CREATE VIEW dashboards.slots AS SELECT worker_id, device_id, state FROM tasks;

INSERT INTO tasks VALUES
    ('gone.0', 'gone', 't', 'default', 0, 'active', 1, 'w1', 'cpu0', NULL, NULL, '', 5, NULL);
INSERT INTO snapshots VALUES ('gone', 0, 7, '1.1.0123456789ab', false, '{"of": "another fold"}');
INSERT INTO snapshot_positions VALUES (0, 8, '1.1.0123456789ab');
INSERT INTO metric_series VALUES (42, 'gone', 'gone.0', 1, 'loss');
INSERT INTO metric_points VALUES (42, 1, 1000, 0.5);
INSERT INTO dead_letters VALUES (0, 3, 'trackside.commands', 0, 9, 'not_json', 'no', 'dispatcher', '', '', 1000);
RESET search_path;
