-- Rows of repeats. Times are ms since 1970 by the log's own clock.

CREATE TABLE repeats (
    repeat_id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    status text NOT NULL,
    times integer NOT NULL,
    ended integer NOT NULL,
    finished integer NOT NULL,
    started_ms bigint NOT NULL,
    ended_ms bigint,
    spec jsonb NOT NULL
);
