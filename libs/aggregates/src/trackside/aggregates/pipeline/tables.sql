-- Rows of pipelines, their versions, runs and schedules. Times are ms since 1970 by the log's own clock.

CREATE TABLE pipelines (
    pipeline_id text COLLATE "C" PRIMARY KEY,
    status text NOT NULL,
    version integer NOT NULL,
    max_runs integer NOT NULL,
    runs bigint NOT NULL,
    queued_runs integer NOT NULL,
    open_runs integer NOT NULL,
    defined_ms bigint NOT NULL,
    retired_ms bigint,
    retire_reason text NOT NULL
);

CREATE TABLE pipeline_versions (
    pipeline_id text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    sha256 text NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    steps integer NOT NULL,
    definition jsonb NOT NULL,
    defined_ms bigint NOT NULL,
    PRIMARY KEY (pipeline_id, version)
);

CREATE TABLE pipeline_runs (
    pipeline_id text COLLATE "C" NOT NULL,
    run_number bigint NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    status text NOT NULL,
    parameters jsonb NOT NULL,
    overrides jsonb NOT NULL,
    seed bigint NOT NULL,
    use_cache boolean NOT NULL,
    schedule text,
    numbered_ms bigint NOT NULL,
    requested_ms bigint,
    ended_ms bigint,
    reason text NOT NULL,
    PRIMARY KEY (pipeline_id, run_number)
);

CREATE TABLE schedules (
    pipeline_id text COLLATE "C" NOT NULL,
    schedule text COLLATE "C" NOT NULL,
    status text NOT NULL,
    cron text,
    timezone text NOT NULL,
    spec jsonb NOT NULL,
    fires bigint NOT NULL,
    skips bigint NOT NULL,
    next_ms bigint,
    fired_ms bigint,
    last_run text,
    last_skip text,
    last_message text,
    created_ms bigint NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (pipeline_id, schedule)
);
