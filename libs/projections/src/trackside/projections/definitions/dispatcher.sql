-- Rows of streams, their labels, children and commands, of ignored reports, and snapshots: all a function of the log. The tables of aggregates
-- are defined in their folders.
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
    closed boolean NOT NULL,
    parked_at bigint,
    needs text
);

CREATE TABLE skipped_records (
    stream_id text COLLATE "C" NOT NULL,
    partition integer NOT NULL,
    log_offset bigint NOT NULL,
    needs text NOT NULL,
    reason text NOT NULL,
    command_id text NOT NULL,
    skipped_ms bigint NOT NULL,
    PRIMARY KEY (stream_id, partition, log_offset)
);

CREATE TABLE forgotten_streams (
    stream_id text COLLATE "C" PRIMARY KEY,
    log_offset bigint NOT NULL,
    forgotten_ms bigint NOT NULL,
    reason text NOT NULL,
    kind text NOT NULL,
    status text NOT NULL,
    unit text NOT NULL,
    ended bigint NOT NULL,
    total bigint,
    ends jsonb NOT NULL,
    started_ms bigint,
    ended_ms bigint
);

CREATE TABLE stream_labels (
    stream_id text COLLATE "C" PRIMARY KEY,
    kind text NOT NULL,
    tags text[] NOT NULL,
    note text NOT NULL,
    archived boolean NOT NULL,
    changed_ms bigint NOT NULL
);

CREATE TABLE children (
    stream_id text COLLATE "C" NOT NULL,
    child_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    status text NOT NULL,
    requested_ms bigint NOT NULL,
    ended_ms bigint,
    stop_reason text NOT NULL,
    result jsonb,
    PRIMARY KEY (stream_id, child_id)
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
