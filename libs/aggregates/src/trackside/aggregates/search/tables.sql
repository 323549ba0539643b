-- Rows of searches and their trials. Times are ms since 1970 by the log's own clock.

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
    outside text[] NOT NULL DEFAULT '{}',
    parameters jsonb NOT NULL,
    suggested_ms bigint NOT NULL,
    ended_ms bigint,
    last_step bigint,
    last_value double precision,
    report_steps bigint[] NOT NULL,
    report_values double precision[] NOT NULL,
    PRIMARY KEY (search_id, trial)
);
