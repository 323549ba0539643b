-- Tables that are never dropped: how far the rows are, and rows of topics that may forget.
-- Later changes are numbered files of their own, and only add. Times are ms since 1970, ids sort by their bytes.

CREATE TABLE positions (
    owner text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (owner, topic, partition)
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
