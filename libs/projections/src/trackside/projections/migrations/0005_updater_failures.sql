-- Which updaters of summaries have failed, with growing pauses between the rows of one that keeps failing.

CREATE TABLE updater_failures (
    name text COLLATE "C" NOT NULL,
    failed_ms bigint NOT NULL,
    failures bigint NOT NULL,
    error text NOT NULL,
    PRIMARY KEY (name, failed_ms)
);
