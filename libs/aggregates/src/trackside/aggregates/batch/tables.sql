-- Rows of batches and their groups. Times are ms since 1970 by the log's own clock.

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
    children integer NOT NULL,
    submitted integer NOT NULL,
    open integer NOT NULL,
    finished integer NOT NULL,
    ends jsonb NOT NULL,
    PRIMARY KEY (batch_id, group_number)
);
