-- Rows of summary jobs and the files of directories. Times are ms since 1970 by the log's own clock.

CREATE TABLE summary_jobs (
    summary_id text COLLATE "C" PRIMARY KEY,
    base text NOT NULL,
    path text NOT NULL,
    task_stream text,
    task_id text COLLATE "C",
    status text NOT NULL,
    tag smallint,
    remark text NOT NULL,
    purged boolean NOT NULL,
    files integer NOT NULL,
    bytes bigint NOT NULL,
    quarantined integer NOT NULL,
    found_ms bigint NOT NULL,
    changed_ms bigint NOT NULL
);

CREATE INDEX summary_jobs_of_tasks ON summary_jobs (task_id) WHERE task_id IS NOT NULL;

CREATE INDEX summary_jobs_purged ON summary_jobs (summary_id) WHERE purged;

CREATE TABLE summary_files (
    summary_id text COLLATE "C" NOT NULL,
    file text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    end_byte bigint NOT NULL,
    records bigint NOT NULL,
    status text NOT NULL,
    code text,
    message text NOT NULL,
    again_at_ms bigint,
    indexed_ms bigint,
    PRIMARY KEY (summary_id, file)
);
