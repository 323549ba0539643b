-- Rows of runs, their steps and their gates. Times are ms since 1970 by the log's own clock.

CREATE TABLE runs (
    run_id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    status text NOT NULL,
    pipeline_id text,
    version bigint,
    number bigint,
    steps integer NOT NULL,
    parameters jsonb NOT NULL,
    outputs jsonb NOT NULL,
    causes jsonb NOT NULL,
    revival integer NOT NULL,
    stop_reason text NOT NULL,
    started_ms bigint NOT NULL,
    due_ms bigint,
    ended_ms bigint,
    archived boolean NOT NULL,
    sha256 text NOT NULL,
    spec jsonb NOT NULL
);

CREATE TABLE steps (
    run_id text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    kind text NOT NULL,
    what text NOT NULL,
    state text NOT NULL,
    generation integer NOT NULL,
    needs jsonb NOT NULL,
    stage text NOT NULL,
    weight double precision NOT NULL,
    share_ended double precision NOT NULL,
    items integer NOT NULL,
    begun integer NOT NULL,
    open integer NOT NULL,
    ends jsonb NOT NULL,
    end_kind text NOT NULL,
    resolved jsonb,
    parameters jsonb,
    error jsonb,
    reason text NOT NULL,
    ready_ms bigint,
    ended_ms bigint,
    PRIMARY KEY (run_id, step)
);

CREATE TABLE gates (
    run_id text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    message text NOT NULL,
    form jsonb NOT NULL,
    state text NOT NULL,
    actor text NOT NULL,
    inputs jsonb NOT NULL,
    reason text NOT NULL,
    opened_ms bigint NOT NULL,
    due_ms bigint,
    decided_ms bigint,
    PRIMARY KEY (run_id, step)
);
