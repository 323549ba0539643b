-- Rows of models and their versions. Times are ms since 1970 by the log's own clock.

CREATE TABLE models (
    model_id text COLLATE "C" PRIMARY KEY,
    status text NOT NULL,
    description text NOT NULL,
    tags jsonb NOT NULL,
    labels jsonb NOT NULL,
    versions integer NOT NULL,
    staging integer,
    production integer,
    registered_ms bigint NOT NULL,
    archived_ms bigint,
    archive_reason text NOT NULL
);

CREATE TABLE model_versions (
    model_id text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    stage text NOT NULL,
    uri text NOT NULL,
    sha256 text NOT NULL,
    size_bytes bigint NOT NULL,
    media_type text NOT NULL,
    credential text,
    source text,
    framework text NOT NULL,
    format text NOT NULL,
    devices jsonb NOT NULL,
    tags jsonb NOT NULL,
    labels jsonb NOT NULL,
    config jsonb NOT NULL,
    comment text NOT NULL,
    stream_id text,
    task_id text,
    attempt bigint,
    parameters jsonb NOT NULL,
    metrics jsonb NOT NULL,
    inputs jsonb NOT NULL,
    published_ms bigint NOT NULL,
    PRIMARY KEY (model_id, version)
);

CREATE INDEX model_versions_by_digest ON model_versions (sha256);
