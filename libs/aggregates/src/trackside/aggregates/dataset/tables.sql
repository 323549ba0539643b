-- Rows of datasets. Times are ms since 1970 by the log's own clock.

CREATE TABLE datasets (
    dataset_id text COLLATE "C" PRIMARY KEY,
    url text NOT NULL,
    format text NOT NULL,
    status text NOT NULL,
    reason text NOT NULL,
    status_ms bigint NOT NULL,
    lines bigint NOT NULL,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    metrics jsonb NOT NULL,
    observed_ms bigint,
    watcher text COLLATE "C",
    credential text,
    queue text NOT NULL,
    look_s double precision NOT NULL,
    drift jsonb,
    description text NOT NULL,
    registered_ms bigint NOT NULL,
    deleted_ms bigint
);
