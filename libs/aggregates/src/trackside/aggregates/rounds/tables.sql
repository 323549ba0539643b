-- Rows of incremental jobs: what each is and has, its rounds and stages, samples, deployments and services.
-- Times are ms since 1970 by the log's own clock.

CREATE TABLE incremental_jobs (
    job_id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    status text NOT NULL,
    reason text NOT NULL,
    dataset text NOT NULL,
    model text NOT NULL,
    round bigint NOT NULL,
    ended_rounds bigint NOT NULL,
    failed_rounds bigint NOT NULL,
    stage text NOT NULL,
    stage_state text NOT NULL,
    stage_since_ms bigint NOT NULL,
    blocked text NOT NULL,
    blocked_message text NOT NULL,
    samples bigint NOT NULL,
    waiting_samples bigint NOT NULL,
    round_samples bigint NOT NULL,
    evaluation_samples bigint NOT NULL,
    new_evaluation_samples bigint NOT NULL,
    waiting_range jsonb NOT NULL,
    evaluation_ranges jsonb NOT NULL,
    triggers jsonb NOT NULL,
    live_model text NOT NULL,
    live_version integer NOT NULL,
    live_sha256 text NOT NULL,
    trained_version integer,
    update_number bigint NOT NULL,
    update_version integer,
    update_open jsonb NOT NULL,
    was_live jsonb NOT NULL,
    waits_for_approval boolean NOT NULL,
    approval_due_ms bigint,
    services integer NOT NULL,
    inferences bigint NOT NULL,
    hard_examples bigint NOT NULL,
    new_hard_examples bigint NOT NULL,
    started_ms bigint NOT NULL,
    last_round_ms bigint,
    ended_ms bigint
);

CREATE TABLE job_definitions (
    job_id text COLLATE "C" NOT NULL,
    change bigint NOT NULL,
    command_id text NOT NULL,
    spec jsonb NOT NULL,
    defined_ms bigint NOT NULL,
    PRIMARY KEY (job_id, change)
);

CREATE TABLE rounds (
    job_id text COLLATE "C" NOT NULL,
    round bigint NOT NULL,
    status text NOT NULL,
    stage text NOT NULL,
    train_samples bigint,
    eval_samples bigint,
    base_model text,
    base_version integer,
    version integer,
    sha256 text,
    trained jsonb,
    deployed_metrics jsonb,
    deltas jsonb,
    deploy boolean,
    decision_reason text,
    conditions jsonb,
    asks boolean,
    approval text,
    actor text,
    deployed boolean,
    reason text,
    fired_ms bigint,
    started_ms bigint,
    decided_ms bigint,
    ended_ms bigint,
    PRIMARY KEY (job_id, round)
);

CREATE TABLE stages (
    job_id text COLLATE "C" NOT NULL,
    round bigint NOT NULL,
    stage text COLLATE "C" NOT NULL,
    waiting_ms bigint,
    ready_ms bigint,
    starting_ms bigint,
    running_ms bigint,
    ended_ms bigint,
    status text,
    reason text,
    message text,
    manifest_url text,
    manifest_sha256 text,
    manifest_bytes bigint,
    lines bigint,
    command_id text,
    blocked text NOT NULL,
    blocked_message text NOT NULL,
    PRIMARY KEY (job_id, round, stage)
);

CREATE TABLE sample_ranges (
    job_id text COLLATE "C" NOT NULL,
    round bigint NOT NULL,
    use text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    begin_sample bigint NOT NULL,
    end_sample bigint NOT NULL,
    samples bigint NOT NULL,
    PRIMARY KEY (job_id, round, use, number)
);

CREATE TABLE trigger_evaluations (
    job_id text COLLATE "C" NOT NULL,
    evaluation bigint NOT NULL,
    round bigint NOT NULL,
    stage text NOT NULL,
    result boolean NOT NULL,
    fired boolean NOT NULL,
    seen jsonb NOT NULL,
    command_id text NOT NULL,
    evaluated_ms bigint NOT NULL,
    PRIMARY KEY (job_id, evaluation)
);

CREATE TABLE deployments (
    job_id text COLLATE "C" NOT NULL,
    update_number bigint NOT NULL,
    status text NOT NULL,
    open jsonb NOT NULL,
    message text NOT NULL,
    cause text,
    round bigint,
    model text,
    version integer,
    sha256 text,
    targets jsonb,
    published_ms bigint,
    deployed_ms bigint,
    PRIMARY KEY (job_id, update_number)
);

CREATE TABLE inference_services (
    job_id text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    name text NOT NULL,
    replica integer NOT NULL,
    task_type text NOT NULL,
    task_id text NOT NULL,
    running boolean NOT NULL,
    retired boolean NOT NULL,
    update_number bigint NOT NULL,
    sha256 text NOT NULL,
    windows bigint NOT NULL,
    inferences bigint NOT NULL,
    hard_examples bigint NOT NULL,
    PRIMARY KEY (job_id, target)
);

CREATE TABLE hard_examples (
    job_id text COLLATE "C" NOT NULL,
    service text COLLATE "C" NOT NULL,
    window_number bigint NOT NULL,
    round bigint NOT NULL,
    inferences bigint NOT NULL,
    hard_examples bigint NOT NULL,
    uri text,
    sha256 text,
    reported_ms bigint NOT NULL,
    PRIMARY KEY (job_id, service, window_number)
);
